"""kcl.programs.headers: which files a program includes, and what is in them."""

import itertools
import os

import pytest

from kcl.errors import UnknownInput
from kcl.programs import headers
from kcl.programs.headers import ABSENT, header_parts
from kcl.programs.program_key import may_read


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Write files by relative path below a directory that is the working directory's child."""
    monkeypatch.chdir(tmp_path)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_h", ".h")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def parts(source, *directories):
    """Return the parts of a source."""
    return header_parts(source, tuple(map(str, directories)))


def names(source, *directories):
    """Name the parts of a source."""
    return [part.name for part in parts(source, *directories)]


def values(source, *directories):
    """Return the answers to what a source asks for."""
    return [part.value for part in parts(source, *directories)]


class TestParts:
    @pytest.mark.parametrize(
        ("source", "files", "found"),
        [
            ("kernel void f() {}", {}, ""),
            ('// #include "a.h"\n/*\n#include <b.h>\n*/ constant char s[] = "#include c";', {}, ""),
            ('kernel void f() { printf("ERROR"); g("FOR", (1)); }', {}, ""),
            (
                '#include "a.h"',
                {"one__a_h": '#include "b.h"\n', "one__b_h": '#include "c.h"\n', "two__b_h": ""},
                "a.h b.h c.h",
            ),
            ('#include "b.h"', {"one__b_h": '#include "gone.h"'}, "b.h gone.h"),
            (
                '#include "a.h"',
                {"one__a_h": '#include "b.h"', "one__b_h": "", "b_h": ""},
                "a.h b.h",
            ),
        ],
        ids=["none", "comments", "text", "nested", "absent", "working directory"],
    )
    def test_names(self, tree, source, files, found):
        """What a program includes counts, and what headers include, from beside them first; no comment or text does."""
        root = tree(two__c_h="", **files)
        assert names(source, root / "two", root / "one") == [f"header {n}" for n in found.split()]

    def test_named_as_written(self, tree):
        """A part is named as the source names the header, in both spellings; no path is in it."""
        root = tree(one__a_h="1", one__sub__b_h="2")
        found = parts('#include "a.h"\n  #  include  <sub/b.h> // why\n', root / "one")
        assert [part.name for part in found] == ["header a.h", "header sub/b.h"]
        assert not any(str(root) in part.value for part in found)

    def test_circle(self, tree):
        """Headers that include each other are each read once; that it is the same file is told."""
        root = tree(one__a_h='#include "b.h"\n', one__b_h='#include "a.h"\n')
        assert names('#include "a.h"', root / "one") == ["header a.h", "header b.h", "header a.h"]
        assert values('#include "a.h"', root / "one")[2] == "as number 0"

    @pytest.mark.parametrize(
        "source",
        [
            '#import "a.h"',
            "#error don't\n#include \"a.h\"\n#error isn't\n",
            """constant char c = '"', *s = "/*";\n#include "a.h"\n/* */""",
            '#if 0\n#include "a.h"\n#endif',
            '#include \\\n"a.h"',
            '#inc\\\nlude "a.h"',
            '#inc\\ \nlude "a.h"',
            '//\r#include "a.h"',
            '\f#\vinclude "a.h"',
            '#include "a.h"\r\n',
        ],
        ids=[
            *("import", "quote", "character", "inactive", "spliced", "word", "blank", "return"),
            *("odd", "windows"),
        ],
    )
    def test_as_the_preprocessor(self, tree, source):
        """An include is found that the preprocessor reads as one, in a branch that it may not take too.

        An `#import` is one; no quote, no line that is continued and no white space hides it.
        """
        assert may_read(source)
        assert names(source, tree(one__a_h="") / "one") == ["header a.h"]


class TestChanges:
    def test_content(self, tree):
        """Changed content, of a nested header too, within the same second and at the same length, is another digest."""
        root = tree(one__a_h='#include "b.h"\n', one__b_h="1")
        before = values('#include "a.h"', root / "one")
        status = os.stat(root / "one" / "b.h")
        tree(one__b_h="2")
        os.utime(root / "one" / "b.h", ns=(status.st_atime_ns, status.st_mtime_ns))
        after = values('#include "a.h"', root / "one")
        assert before[0] == after[0]
        assert before[1] != after[1]

    def test_order_of_directories(self, tree):
        """The order of the search path decides between two headers of one name."""
        root = tree(one__a_h="1", two__a_h="2")
        assert values('#include "a.h"', root / "one", root / "two") != values(
            '#include "a.h"', root / "two", root / "one"
        )

    def test_shadowing(self, tree):
        """A header that appears earlier on the search path is seen."""
        root = tree(two__a_h="2", one__other_h="")
        before = values('#include "a.h"', root / "one", root / "two")
        tree(one__a_h="1")
        assert values('#include "a.h"', root / "one", root / "two") != before

    def test_one_name_for_two_files(self, tree):
        """Which of two headers of one name a third file gets is seen."""
        files = {
            "one__p__a_h": '#include "b.h"',
            "one__q__a_h": '#include "b.h"',
            "one__r__a_h": '#include "b.h"',
        }
        source = '#include "p/a.h"\n#include "q/a.h"\n#include "r/a.h"\n'
        root = tree(**files, one__b_h="1", one__q__b_h="2")
        before = values(source, root / "one")
        tree(one__p__b_h="1", one__b_h="2")
        (root / "one" / "q" / "b.h").unlink()
        assert values(source, root / "one") != before

    def test_path_that_is_used(self, tree):
        """Where a header uses its own path, the directories count."""
        root = tree(one__a_h="__FILE__", two__a_h="__FILE__")
        assert values('#include "a.h"', root / "one") != values('#include "a.h"', root / "two")

    def test_place_is_noise(self, tree):
        """The same headers in another directory are the same parts."""
        root = tree(
            one__a_h='#include "b.h"', one__b_h="1", two__a_h='#include "b.h"', two__b_h="1"
        )
        assert values('#include "a.h"', root / "one") == values('#include "a.h"', root / "two")


class TestAbsent:
    """A header that no include directory holds is absent: a program that builds does not need it."""

    SOURCE = "#define OPENCL\n#ifdef OPENCL\n#else\n#include <a.h>\n#endif\n"

    def test_appears(self, tree):
        """A header that appears later, in any directory, changes the parts, and so does its content."""
        root = tree(one__other_h="", two__other_h="")
        seen = [parts(self.SOURCE, root / "one", root / "two")]
        for file in (
            {"two__a_h": "1"},
            {"two__a_h": "2"},
            {"one__a_h": "1"},
            {"one__a_h": '#include "gone.h"'},
        ):
            tree(**file)
            seen.append(parts(self.SOURCE, root / "one", root / "two"))
        assert seen[0][0].value == ABSENT
        assert all(one != other for one, other in itertools.pairwise(seen))

    def test_system(self, tree, monkeypatch):
        """The content in the system's directories counts, and what it includes there: some drivers look there."""
        root = tree(
            system__a_h="#include <bits/b.h>", system__x86_gnu__bits__b_h="1", one__other_h=""
        )
        (root / "system" / "x86_gnu").rename(root / "system" / "x86-gnu")
        monkeypatch.setattr(headers, "_SYSTEM", (str(root / "gone"), str(root / "system")))
        before = parts(self.SOURCE, root / "one")
        assert [part.name for part in before] == ["header a.h"] * 2 + ["header bits/b.h"] * 2
        (root / "system" / "x86-gnu" / "bits" / "b.h").write_text("2")
        after = parts(self.SOURCE, root / "one")
        assert [one == other for one, other in zip(before, after, strict=True)] == [
            True,
            True,
            True,
            False,
        ]
        tree(one__a_h="3")
        assert names(self.SOURCE, root / "one") == ["header a.h"]

    def test_system_pastes(self, tree, monkeypatch):
        """The C library pastes names in its headers, and is not refused for it; another header is."""
        pastes = "#define CONCAT(a, b) a##b\n#define ASKED(a) CONCAT(__has, a)\n"
        root = tree(system__a_h=pastes, one__b_h=pastes)
        monkeypatch.setattr(headers, "_SYSTEM", (str(root / "system"),))
        assert names(self.SOURCE, root / "one") == ["header a.h"] * 2
        with pytest.raises(UnknownInput, match=r"b\.h"):
            names('#include "b.h"', root / "one")


class TestUnknown:
    @pytest.mark.parametrize(
        "source",
        [
            '#include_next "a.h"\n',
            "#embed <a.bin>\n",
            '#if __has_include_next("a.h")\n#endif\n',
            '#if __has_embed("a.h")\n#endif\n',
            '#if __has_include("a.h")\n#endif\n',
            '#define H "a.h"\n#include H\n',
            "#include H\n",
            "#include __FILE__\n",
            '#define HAS __has_include\n#if HAS("a.h")\n#endif\n',
            '#define C(a, b) a##b\n#if C(__has_, include)("a.h")\n#endif\n',
            '#define C(a, b) a##b\n#if C(_, _has_include)("a.h")\n#endif\n',
            *(
                f"#define C(a, b) a##b\nconstant char now[] = C({pieces});"
                for pieces in ("__TI, ME__", "__T, IME__", "_, _TIME__")
            ),
            "%:define C(a, b) a%:%:b\nconstant char now[] = C(__T, IME__);",
            '%:include "a.h"\n',
            '??=include "a.h"\n',
            '#inc??/\nlude "a.h"\n',
            'constant char *s = R"(" /* )";\n#include "a.h"\n/* */',
            '#error don\'t /* do\n#include "a.h"\n/* */',
            "constant char now[] = __TIME__;",
            "constant char today[] = __DATE__;",
            "constant char then[] = __TIMESTAMP__;",
            '__asm__(".incbin \\"a.h\\"");',
            '__asm__(".inc"  "bin \\"a.h\\"");',
            'void f(void) { asm(".in" /* */\n "clude \\"a.h\\""); }',
        ],
    )
    def test_preprocessor_needed(self, tree, source):
        """What cannot be resolved is refused."""
        root = tree(one__a_h="")
        assert may_read(source)
        with pytest.raises(UnknownInput, match="the source"):
            names(source, root / "one")

    def test_directive(self, tree):
        """The reason names the file and the directive."""
        root = tree(one__a_h="/*\n*/ #define X \\\n  1\n#inc\\\nlude_next <b.h>\n")
        with pytest.raises(UnknownInput, match=r"^a\.h has `#include_next <b.h>`"):
            names('#include "a.h"', root / "one")

    def test_unreadable(self, tree):
        """A header that cannot be read is refused by name."""
        root = tree(one__a_h="")
        (root / "one" / "a.h").chmod(0)
        if os.access(root / "one" / "a.h", os.R_OK):
            pytest.skip("this user may read everything")
        with pytest.raises(UnknownInput, match="cannot be read"):
            names('#include "a.h"', root / "one")

    @pytest.mark.parametrize("source", ['#include "a.h"', '#include "b.h"'])
    def test_working_directory(self, tree, source):
        """A header that the working directory holds too is refused, nested too: drivers differ there."""
        root = tree(one__a_h="1", one__b_h='#include "d.h"', two__d_h="2", a_h="3", d_h="3")
        with pytest.raises(UnknownInput, match="working directory"):
            names(source, root / "one", root / "two")

    def test_working_directory_alone(self, tree):
        """A header that nothing but the working directory holds is refused with the cure."""
        root = tree(a_h="1")
        words = "only the working directory holds: .*; add it as an include directory"
        with pytest.raises(UnknownInput, match=words):
            names('#include "a.h"', root / "one")

    def test_of_a_macro(self, tree):
        """A header that a macro names is refused with the cure."""
        root = tree(one__a_h="")
        words = r"^the source names a header by `H`; write the name"
        with pytest.raises(UnknownInput, match=words):
            names('#define H "a.h"\n#include H // of the macro\n', root / "one")

    def test_quoted_directory(self, tree):
        """A header in a directory that is written with quotes is refused: drivers differ. Others are as ever."""
        root = tree(one__a_h="", two__b_h="")
        quoted = f'"{root}/one"'
        assert names('#include "b.h"', quoted, root / "two") == ["header b.h"]
        with pytest.raises(UnknownInput, match="symbolic link without a blank"):
            names('#include "a.h"', quoted, root / "two")


class TestFiles:
    def test_changed(self, tmp_path):
        """The files of a program are those that are read, and the places where an earlier one would be found."""
        first, second = tmp_path / "first", tmp_path / "second"
        for folder in (first, second):
            folder.mkdir()
        (second / "a.h").write_text('#include "b.h"')
        (second / "b.h").write_text("int b;")
        files = headers.header_files('#include "a.h"', [str(first), str(second)])
        assert {path for path, digest in files.items() if digest} == {
            str(second / "a.h"),
            str(second / "b.h"),
        }
        assert headers.changed_file(files) == ""
        (second / "b.h").write_text("int c;")
        assert headers.changed_file(files) == str(second / "b.h")
        (second / "b.h").write_text("int b;")
        (first / "a.h").write_text("")
        assert headers.changed_file(files) == str(first / "a.h")
