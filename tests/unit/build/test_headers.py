"""kcl.build.headers: which files a program includes, and what is in them."""

import itertools
import os

import pytest

from kcl.build import headers
from kcl.build.headers import ABSENT, header_parts
from kcl.build.options import BuildOptions
from kcl.build.program_key import may_read
from kcl.cache import places
from kcl.errors import RecipeError, UnknownInput


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


def parts(source, *directories, definitions=(), untaken=()):
    """Return the parts of a source."""
    directories, untaken = tuple(map(str, directories)), tuple(map(str, untaken))
    options = BuildOptions("", directories=directories, definitions=definitions, untaken=untaken)
    return header_parts(source, options)


def names(source, *directories, **keywords):
    """Name the parts of a source."""
    return [part.name for part in parts(source, *directories, **keywords)]


def values(source, *directories, **keywords):
    """Return the answers to what a source asks for."""
    return [part.value for part in parts(source, *directories, **keywords)]


class TestParts:
    def test_none(self):
        """A source without an include has no part, whatever it says in comments and strings."""
        assert names("kernel void f() {}") == []
        assert names('// #include "a.h"\n/*\n#include <b.h>\n*/ kernel void f() { printf("#include c"); }') == []

    def test_named_as_written(self, tree):
        """A part is named as the source names the header, in both spellings; no path is in it."""
        root = tree(one__a_h="1", one__sub__b_h="2")
        found = parts('#include "a.h"\n  #  include  <sub/b.h> // why\n', root / "one")
        assert [part.name for part in found] == ["header a.h", "header sub/b.h"]
        assert not any(str(root) in part.value for part in found)

    def test_nested(self, tree):
        """What a header includes counts too, found beside it first."""
        root = tree(one__a_h='#include "b.h"\n', one__b_h='#include "c.h"\n', one__c_h="3", two__b_h="other")
        assert names('#include "a.h"', root / "two", root / "one") == ["header a.h", "header b.h", "header c.h"]

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
        ids=["import", "quote", "character", "inactive", "spliced", "word", "blank", "return", "odd", "windows"],
    )
    def test_as_the_preprocessor(self, tree, source):
        """An include is found that the preprocessor reads as one, in a branch that it may not take too.

        An `#import` is one; no quote, no line that is continued and no white space hides it.
        """
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
        files = {"one__p__a_h": '#include "b.h"', "one__q__a_h": '#include "b.h"', "one__r__a_h": '#include "b.h"'}
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
        root = tree(one__a_h='#include "b.h"', one__b_h="1", two__a_h='#include "b.h"', two__b_h="1")
        assert values('#include "a.h"', root / "one") == values('#include "a.h"', root / "two")


class TestMacros:
    """An include that names a macro stands for every header that the macro may be."""

    @pytest.mark.parametrize(
        ("source", "definitions"),
        [
            ('#define H "a.h"\n#include H\n', ()),
            ("#include H // late\n#define H <a.h> // early\n", ()),
            ("#define G H\n#define H <a.h>\n#include G\n", ()),
            ("#include H\n", ('H="a.h"',)),
            ("#include H\n", ('H=\\"a.h\\"',)),
            ("#include H\n", ("H=<a.h>",)),
            ("#include H\n#define FILE <a.h>\n", ("H=FILE",)),
            ('#include "names.h"\n#include NAME\n', ()),
        ],
    )
    def test_name(self, tree, source, definitions):
        """Defined in the source, through another macro, by a build option or by a header."""
        root = tree(one__a_h="1", one__names_h='#define NAME "a.h"\n')
        before = parts(source, root / "one", definitions=definitions)
        assert before[-1].name == "header a.h"
        tree(one__a_h="2")
        assert parts(source, root / "one", definitions=definitions) != before

    def test_either(self, tree):
        """Of several definitions each counts; one that is not there counts as such."""
        source = '#ifdef X\n#define H "a.h"\n#else\n#define H "b.h"\n#endif\n#include H\n'
        root = tree(one__a_h="1")
        before = parts(source, root / "one")
        assert [part.name for part in before] == ["header a.h", "header b.h"]
        assert before[1].value == ABSENT
        tree(one__b_h="2")
        assert parts(source, root / "one")[1].value not in ("", ABSENT)

    def test_default(self, tree):
        """A build option beside a default in the source."""
        source = '#ifndef H\n#define H "a.h"\n#endif\n#include H\n'
        root = tree(one__a_h="1", one__b_h="2")
        assert sorted(names(source, root / "one", definitions=('H="b.h"',))) == ["header a.h", "header b.h"]

    def test_defined_by_what_it_includes(self, tree):
        """A header that a macro leads to may define it anew."""
        root = tree(one__a_h='#undef H\n#define H "b.h"\n#include H\n', one__b_h="2")
        assert {"header a.h", "header b.h"} <= {*names('#define H "a.h"\n#include H\n', root / "one")}

    @pytest.mark.parametrize(
        "source",
        [
            "#include H\n",
            "#include __FILE__\n",
            "#define H\n#include H\n",
            "#define H H\n#include H\n",
            "#define S(x) #x\n#include S(a.h)\n",
            '#define H(x) "a.h"\n#include H\n',
            "#define a b\n#define H <a.h>\n#include H\n",
            '#define H "a" ".h"\n#include H\n',
            '#ifdef X\n#define H "a.h"\n#else\n#define H G(b)\n#endif\n#include H\n',
        ],
    )
    def test_unknown(self, tree, source):
        """A macro that is defined nowhere, or put together, is refused with the line."""
        root = tree(one__a_h="")
        line = source[: source.index("#include")].count("\n") + 1
        with pytest.raises(UnknownInput, match=f"^the source, line {line}, .*write the name"):
            names(source, root / "one")


class TestProbes:
    """`__has_include` asks whether a header is there."""

    SOURCE = '#if __has_include("a.h")\n#include "a.h"\n#endif\n'

    def test_absent_and_there(self, tree):
        """Absent, there, and what is in it are three answers."""
        root = tree(one__other_h="")
        seen = [values(self.SOURCE, root / "one")]
        for text in "1", "2":
            tree(one__a_h=text)
            seen.append(values(self.SOURCE, root / "one"))
        assert seen[0] == [ABSENT, ABSENT]
        assert seen[1][0] == seen[2][0] == "there"
        assert seen[1][1] != seen[2][1]

    def test_asked_alone(self, tree):
        """What is in a header that is only asked for does not count."""
        source = "#if __has_include(<a.h>) && __has_include( <b.h> )\n#endif\n"
        root = tree(one__a_h="1")
        assert values(source, root / "one") == ["there", ABSENT]
        tree(one__a_h="2")
        assert values(source, root / "one") == ["there", ABSENT]

    def test_by_macro(self, tree):
        """A macro may name it too."""
        root = tree(one__a_h="1")
        assert values('#define H "a.h"\n#if __has_include(H)\n#endif\n', root / "one") == ["there"]

    @pytest.mark.parametrize(
        "line",
        ["#ifdef __has_include", "#if defined(__has_include)", "#if !defined __has_include", "#elifdef __has_include"],
    )
    def test_compiler_knows_it(self, tree, line):
        """Whether the compiler has it is the compiler's to know."""
        assert names(f"{line}\n{self.SOURCE}#endif\n", tree(one__a_h="1") / "one") == ["header a.h"] * 2

    def test_in_a_header(self, tree):
        """A header asks from where it lies."""
        root = tree(one__sub__b_h='#if __has_include("a.h")\n#endif', one__sub__a_h="1")
        assert values('#include "sub/b.h"', root / "one")[1:] == ["there"]

    def test_system(self, tree, monkeypatch):
        """A header that only the system's directories hold is there for some drivers: the answer names the path."""
        root = tree(system__a_h="1")
        monkeypatch.setattr(headers, "_SYSTEM", (str(root / "system"), str(root / "gone")))
        source = "#if __has_include(<a.h>)\n#endif"
        assert values(source, root / "one") == [f"{ABSENT} {root}/system/a.h"]
        tree(system__a_h="2")
        assert values(source, root / "one") == [f"{ABSENT} {root}/system/a.h"]


class TestAbsent:
    """A header that no include directory holds is absent: a program that builds does not need it."""

    SOURCE = "#define OPENCL\n#ifdef OPENCL\n#else\n#include <a.h>\n#endif\n"

    def test_appears(self, tree):
        """A header that appears later, in any directory, changes the parts, and so does its content."""
        root = tree(one__other_h="", two__other_h="")
        seen = [parts(self.SOURCE, root / "one", root / "two")]
        for file in ({"two__a_h": "1"}, {"two__a_h": "2"}, {"one__a_h": "1"}, {"one__a_h": '#include "gone.h"'}):
            tree(**file)
            seen.append(parts(self.SOURCE, root / "one", root / "two"))
        assert seen[0][0].value == ABSENT
        assert all(one != other for one, other in itertools.pairwise(seen))

    def test_in_a_header(self, tree):
        """A header may ask for one that is not there."""
        root = tree(one__b_h='#include "gone.h"')
        assert names('#include "b.h"', root / "one") == ["header b.h", "header gone.h"]

    def test_system(self, tree, monkeypatch):
        """The content in the system's directories counts, and what it includes there: some drivers look there."""
        root = tree(system__a_h="#include <bits/b.h>", system__x86_gnu__bits__b_h="1", one__other_h="")
        (root / "system" / "x86_gnu").rename(root / "system" / "x86-gnu")
        monkeypatch.setattr(headers, "_SYSTEM", (str(root / "gone"), str(root / "system")))
        before = parts(self.SOURCE, root / "one")
        assert [part.name for part in before] == ["header a.h"] * 2 + ["header bits/b.h"] * 2
        (root / "system" / "x86-gnu" / "bits" / "b.h").write_text("2")
        after = parts(self.SOURCE, root / "one")
        assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, True, False]
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


class TestMemo:
    """A long source is scanned once: later runs ask its questions again."""

    LONG = '#include "a.h"\n#if __has_include("gone.h")\n#endif\n' + "// line\n" * 4000

    @pytest.fixture
    def scans(self, monkeypatch):
        """Count the texts that are scanned."""
        seen = []
        scan = headers._code
        monkeypatch.setattr(headers, "_code", lambda text: seen.append(text.name) or scan(text))
        return seen

    def look(self, root):
        """Return the parts of the long source."""
        return header_parts(self.LONG, BuildOptions("", directories=(str(root / "one"), str(root / "two"))), True)

    def test_once(self, tree, scans):
        """A source whose headers are as before is not scanned, and has the same parts."""
        root = tree(one__a_h='#include "b.h"\n#include "no.h"\nconstant char *s = __FILE__;', one__b_h="1")
        first = self.look(root)
        assert sorted(scans) == ["a.h", "b.h", "the source"]
        scans.clear()
        assert self.look(root) == first
        assert scans == []
        assert first == header_parts(self.LONG, BuildOptions("", directories=(f"{root}/one", f"{root}/two")))

    @pytest.mark.parametrize(
        "change",
        [
            {"one__a_h": '#include "c.h"'},
            {"one__b_h": "2"},
            {"two__no_h": "3"},
            {"one__gone_h": "4"},
            {"two__gone_h": ""},
            {"one__no_h": '#include "c.h"'},
        ],
    )
    def test_change(self, tree, scans, change):
        """A header that is edited, or appears, changes the parts to those of a new scan."""
        root = tree(one__a_h='#include "b.h"\n#include "no.h"', one__b_h="1", one__c_h="5", two__other_h="")
        first = self.look(root)
        tree(**change)
        scans.clear()
        found = self.look(root)
        assert found != first
        assert scans
        assert found == header_parts(self.LONG, BuildOptions("", directories=(f"{root}/one", f"{root}/two")))

    def test_place(self, tree):
        """A header of the same content in another directory asks for the files beside it there."""
        root = tree(one__a_h='#include "b.h"', one__b_h="1", two__a_h='#include "b.h"', two__b_h="2")
        first = self.look(root)
        (root / "one" / "a.h").unlink()
        found = self.look(root)
        assert found != first
        assert found == header_parts(self.LONG, BuildOptions("", directories=(f"{root}/one", f"{root}/two")))

    def test_short(self, tree, scans):
        """A short source has no memo; nor has any source if the layer is off."""
        root = tree(one__a_h="1")
        short = BuildOptions("", directories=(str(root / "one"),))
        for _ in range(2):
            header_parts('#include "a.h"', short, True)
            header_parts(self.LONG, short)
        assert scans == ["the source", "a.h"] * 4
        assert not os.path.exists(places.own(places.HEADERS))


class TestUnknown:
    @pytest.mark.parametrize(
        "source",
        [
            '#include_next "a.h"\n',
            "#embed <a.bin>\n",
            '#if __has_include_next("a.h")\n#endif\n',
            '#if __has_embed("a.h")\n#endif\n',
            "#if __has_include(H)\n#endif\n",
            '#define HAS __has_include\n#if HAS("a.h")\n#endif\n',
            '#define C(a, b) a##b\n#if C(__has_, include)("a.h")\n#endif\n',
            '#define C(a, b) a##b\n#if C(_, _has_include)("a.h")\n#endif\n',
            "#define C(a, b) a##b\nconstant char now[] = C(__TI, ME__);",
            '%:include "a.h"\n',
            '??=include "a.h"\n',
            '#inc??/\nlude "a.h"\n',
            'constant char *s = R"(" /* )";\n#include "a.h"\n/* */',
            '#error don\'t /* do\n#include "a.h"\n/* */',
            "constant char now[] = __TIME__;",
            "constant char today[] = __DATE__;",
            "constant char then[] = __TIMESTAMP__;",
            '__asm__(".incbin \\"a.h\\"");',
        ],
    )
    def test_preprocessor_needed(self, tree, source):
        """What cannot be resolved is refused."""
        root = tree(one__a_h="")
        assert may_read(source)
        with pytest.raises(UnknownInput, match="the source"):
            names(source, root / "one")

    def test_line(self, tree):
        """The reason names the line as it is written, continued lines and comments counted."""
        root = tree(one__a_h="/*\n*/ #define X \\\n  1\n#inc\\\nlude_next <b.h>\n")
        with pytest.raises(UnknownInput, match=r"^a\.h, line 4, `#include_next <b.h>`"):
            names('#include "a.h"', root / "one")

    def test_unreadable(self, tree):
        """A header that cannot be read is refused by name."""
        root = tree(one__a_h="")
        (root / "one" / "a.h").chmod(0)
        if os.access(root / "one" / "a.h", os.R_OK):
            pytest.skip("this user may read everything")
        with pytest.raises(UnknownInput, match="cannot be read"):
            names('#include "a.h"', root / "one")

    @pytest.mark.parametrize("source", ['#include "a.h"', '#include "b.h"', '#if __has_include("c.h")\n#endif'])
    def test_working_directory(self, tree, source):
        """A header that the working directory holds too is refused, nested or asked for: drivers differ there."""
        root = tree(one__a_h="1", one__b_h='#include "d.h"', two__d_h="2", a_h="3", d_h="3", c_h="3")
        with pytest.raises(UnknownInput, match="working directory"):
            names(source, root / "one", root / "two")

    def test_working_directory_alone(self, tree):
        """A header that nothing but the working directory holds is refused with the cure."""
        root = tree(a_h="1")
        words = "only the working directory holds: .*; add it as an include directory"
        with pytest.raises(UnknownInput, match=words):
            names('#include "a.h"', root / "one")

    def test_beside(self, tree):
        """A header beside the one that includes it is taken whatever the working directory holds."""
        root = tree(one__a_h='#include "b.h"', one__b_h="1", b_h="2")
        assert names('#include "a.h"', root / "one") == ["header a.h", "header b.h"]

    def test_untaken(self, tree):
        """A header in a directory that the driver cannot be told of is an error that says so."""
        root = tree(one__a_h="")
        with pytest.raises(RecipeError, match="no include directory with a blank"):
            names('#include "a.h"', untaken=[root / "one"])
