"""kcl.programs.headers: which files a program includes, and what is in them."""

import itertools
import os

import pyopencl as cl
import pytest

from kcl.errors import UnknownInput
from kcl.programs import headers
from kcl.programs.headers import ABSENT, header_parts
from kcl.programs.program_key import may_read


def path_of(root, name):
    return root / name.replace("__", "/").replace("_h", ".h")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Write files by relative path below a directory that is the working directory's child."""
    monkeypatch.chdir(tmp_path)

    def write(**files):
        for name, text in files.items():
            path = path_of(tmp_path, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            os.utime(path, (1e9, 1e9))
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


A, B = '#include "a.h"\n', '#include "b.h"\n'


class TestParts:
    @pytest.mark.parametrize(
        ("source", "files", "found"),
        [
            ("kernel void f() {}", {}, ""),
            (f'// {A}/*\n#include <b.h>\n*/ constant char s[] = "#include c";', {}, ""),
            ('kernel void f() { printf("ERROR"); g("FOR", (1)); }', {}, ""),
            (
                A + "  #  include  <s/b.h> // why\n",
                {"one__a_h": "", "one__s__b_h": ""},
                "a.h s/b.h",
            ),
            (A, {"one__a_h": B, "one__b_h": '#include "c.h"', "two__b_h": ""}, "a.h b.h c.h"),
            (B, {"one__b_h": '#include "gone.h"'}, "b.h gone.h"),
            (A, {"one__a_h": B, "one__b_h": "", "b_h": ""}, "a.h b.h"),
            (A, {"one__a_h": B, "one__b_h": A}, "a.h b.h a.h"),
        ],
        ids=[
            *("none", "comments", "text", "spelled", "nested", "absent"),
            *("working directory", "circle"),
        ],
    )
    def test_names(self, tree, source, files, found):
        """What a program includes counts, and what headers include, from beside them first; no comment or text does.

        A part is named as the source names the header, and has no path. The same file is told by its number.
        """
        root = tree(two__c_h="", **files)
        read = parts(source, root / "two", root / "one")
        assert [part.name for part in read] == [f"header {name}" for name in found.split()]
        assert not any(str(root) in part.value for part in read)
        assert [part.value for part in read[2:]] == ["as number 0"] or found != "a.h b.h a.h"

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
            '\ufeff#include "a.h"',
            '#define A 1 /* one\n*/\n#include "a.h"',
            '#pragma OPENCL EXTENSION cl_khr_fp64 : enable /* one\n*/\n#include "a.h"',
            '#pragma unroll /* one\n*/\n#include "a.h"',
        ],
    )
    def test_as_the_preprocessor(self, tree, source):
        """An include is found that the preprocessor reads as one, in a branch that it may not take too.

        An `#import` is one; no quote, no line that is continued, no white space and no byte order mark hides it.
        """
        assert may_read(source)
        assert names(source, tree(one__a_h="") / "one") == ["header a.h"]


class TestChanges:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ({"one__a_h": "2"}, {"one__a_h": "1"}),
            ({"two__a_h": "2", "one__other_h": ""}, {"one__a_h": "1"}),
            ({"two__a_h": "2", "one__a_h": ""}, {"one__a_h": '#include "gone.h"'}),
            ({"one__a_h": '#include "b.h"', "two__b_h": "2"}, {"two__b_h": "1"}),
            ({"one__a_h": '#include "b.h"', "two__b_h": "2"}, {"one__b_h": "1"}),
        ],
        ids=["content", "earlier", "absent", "nested", "beside"],
    )
    def test_seen(self, tree, before, after):
        """Changed content, of a nested header too, at the same length, and a header that appears earlier is seen."""
        root = tree(**before)
        found = parts('#include "a.h"', root / "one", root / "two")
        tree(**after)
        assert parts('#include "a.h"', root / "one", root / "two") != found

    def test_order_of_directories(self, tree):
        """The order of the search path decides between two headers of one name."""
        root = tree(one__a_h="1", two__a_h="2")
        found = values('#include "a.h"', root / "one", root / "two")
        assert found != values('#include "a.h"', root / "two", root / "one")

    def test_which_of_two_headers_of_one_name_a_third_file_gets_is_seen(self, tree):
        files = {f"one__{folder}__a_h": '#include "b.h"' for folder in "pqr"}
        source = "".join(f'#include "{folder}/a.h"\n' for folder in "pqr")
        root = tree(**files, one__b_h="1", one__q__b_h="2")
        before = values(source, root / "one")
        tree(one__p__b_h="1", one__b_h="2")
        (root / "one" / "q" / "b.h").unlink()
        assert values(source, root / "one") != before

    @pytest.mark.parametrize(
        ("source", "text", "flags", "counts"),
        [
            ("", '#include "b.h"', (), False),
            ("", "__FILE__", (), True),
            ("", "__builtin_FILE()", (), True),
            ("#define HERE __FILE__\n", "HERE", (), True),
            ("", "HERE", ("-DHERE=__FILE__",), True),
            ("", "HERE", ("/DHERE=__FILE__",), True),
            ("#define HERE __FILE__\n", "THERE", ("-DX=1", "-DTHERE=HERE"), True),
            ("#define THERE HERE\n", "THERE", ("", " -DX -D HERE=__FILE__"), True),
            ("#define J(a) HE##a\n#define HERE __FILE__\n", "J(RE)", (), True),
            ("#define $H __FILE__\n", "$H", (), True),
            ("#define \u00e4H __FILE__\n", "\u00e4H", (), True),
            ("#define HERE __FILE__\nkernel void f() { HERE; }\n", "", (), False),
            ("#define NONE 1\n", "NONE __LINE__", ("-DHERE=__FILE__",), False),
        ],
        ids=[
            *("plain", "path", "function", "macro", "option", "slash", "chain", "beside", "pasted"),
            *("dollar", "letter", "in the source", "another"),
        ],
    )
    def test_place(self, tree, source, text, flags, counts):
        """The same headers in another directory are the same parts, unless one uses its own path."""
        root = tree(one__a_h=text, one__b_h="1", two__a_h=text, two__b_h="1")
        one, other = (
            header_parts(f'{source}#include "a.h"', [str(root / folder)], flags)
            for folder in ("one", "two")
        )
        assert (one != other) is counts

    def test_one_file_by_two_names(self, tree):
        """A link to a header is the same file, which `#pragma once` skips; a copy is none."""
        root = tree(one__a_h="#pragma once\n", one__b_h="#pragma once\n")
        source, other = '#include "a.h"\n#include "b.h"\n', root / "one" / "b.h"
        found = [values(source, root / "one")]
        for link in (os.link, os.symlink):
            other.unlink()
            link(root / "one" / "a.h", other)
            found.append(values(source, root / "one"))
        assert found[0] != found[1] == found[2]

    def test_one_number_of_two_files(self, tree, monkeypatch):
        """The content of a header counts on a file system that gives two files one number."""
        status = os.stat(tree(one__a_h="1", one__b_h="2") / "one" / "a.h")
        monkeypatch.setattr(os, "fstat", lambda _file: status)
        before = values(A + B, "one")
        tree(one__b_h="3")
        assert values(A + B, "one") != before


class TestAbsent:
    """A header that no include directory holds is absent: a program that builds does not need it."""

    SOURCE = "#define OPENCL\n#ifdef OPENCL\n#else\n#include <a.h>\n#endif\n"

    def test_appears(self, tree):
        """A header that appears later, in any directory, changes the parts, and so does its content."""
        root = tree(one__other_h="", two__other_h="")
        seen = [parts(self.SOURCE, root / "one", root / "two")]
        for folder, text in (
            ("two", "1"),
            ("two", "2"),
            ("one", "1"),
            ("one", '#include "gone.h"'),
        ):
            tree(**{f"{folder}__a_h": text})
            seen.append(parts(self.SOURCE, root / "one", root / "two"))
        assert seen[0][0].value == ABSENT
        assert all(one != other for one, other in itertools.pairwise(seen))

    def test_system(self, tree, monkeypatch):
        """The content in the system's directories counts, and what it includes there: some drivers look there."""
        nested = {"system__x86-gnu__bits__b_h": "1"}
        root = tree(system__a_h="#include <bits/b.h>", one__other_h="", **nested)
        monkeypatch.setattr(headers, "_SYSTEM", (str(root / "gone"), str(root / "system")))
        before = parts(self.SOURCE, root / "one")
        assert [part.name for part in before] == ["header a.h"] * 2 + ["header bits/b.h"] * 2
        tree(**{"system__x86-gnu__bits__b_h": "2"})
        after = parts(self.SOURCE, root / "one")
        assert (before[:3], before[3] != after[3]) == (after[:3], True)
        tree(one__a_h="3")
        assert names(self.SOURCE, root / "one") == ["header a.h"]

    def test_system_asm(self, tree, monkeypatch):
        """A directive in the system's headers counts as the system's; one in another text is refused beside them."""
        root = tree(system__a_h='int f(void) asm(".f\\x20");', one__b_h='#define DOT "."')
        monkeypatch.setattr(headers, "_SYSTEM", (str(root / "system"),))
        assert names(self.SOURCE, root / "one") == ["header a.h"] * 2
        with pytest.raises(UnknownInput, match=r"b\.h may let the assembler"):
            names(self.SOURCE + '#include "b.h"', root / "one")
        tree(system_mine__b_h='#define DOT "."')
        with pytest.raises(UnknownInput, match=r"b\.h may let the assembler"):
            names(self.SOURCE + '#include "b.h"', root / "system_mine")

    def test_system_pastes(self, tree, monkeypatch):
        """The C library pastes names in its headers, and is not refused for it; another header is."""
        pastes = "#define CONCAT(a, b) a##b\n#define ASKED CONCAT(__has, _include)\n"
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
                for pieces in ("__TI, ME__", "__T, IME__", "_, _TIME__", "__, C(TI, ME__)")
            ),
            "%:define C(a, b) a%:%:b\nconstant char now[] = C(__T, IME__);",
            '%:include "a.h"\n',
            '??=include "a.h"\n',
            '#inc??/\nlude "a.h"\n',
            'constant char *s = R"(" /* )";\n#include "a.h"\n/* */',
            '#error don\'t /* do\n#include "a.h"\n/* */',
            '#warning see /* below\n#include "a.h"\n// */',
            '#pragma mark see /* below\n/**/#include "a.h"\n// */',
            '// \\\n\r/*\n#include "a.h"\n// */',
            '// \\\0\n/*\n#include "a.h"\n// */',
            '#inc\\\0\nlude "a.h"',
            '\0#include "a.h"',
            """#include <a'b> '"' "/*"\n#include "a.h"\n/* */""",
            """int i = 1'2, c = '"'; char *s = "/*";\n#include "a.h"\n/* */""",
            "constant char now[] = __TIME__;",
            "constant char today[] = __DATE__;",
            "constant char then[] = __TIMESTAMP__;",
            '__asm__(".incbin \\"a.h\\"");',
            '__asm__(".inc"  "bin \\"a.h\\"");',
            'void f(void) { asm(".in" /* */\n "clude \\"a.h\\""); }',
            *(
                f'#define D {dot}\nvoid f(void) {{ asm("nop\\n" D "incbin \\"a.h\\""); }}'
                for dot in (r'"."', r'"\x2e"', r'"\056"', r'"\u002e"', '".in" "c"')
            ),
            *(
                f'#define J(a, b) a##b\nvoid f(void) {{ J({asm})(".inc" "bin \\"a.h\\""); }}'
                for asm in ("__as, m__", "a, J(s, m)", "asm, __")
            ),
            *(
                f"#define J(a, b) a##b\nconstant char *at = J({pieces})();"
                for pieces in ("__builtin_, FILE", "__builtin_source, _location")
            ),
            'void f(void) { asm("nop{|;.}incbin \\"a.h\\"" :); }',
            'void f(void) { asm("nop\\n.{incbin|} \\"a.h\\"" :); }',
            'asm(".macro m x\\n.\\\\x \\"a.h\\"\\n.endm\\nm incbin");',
        ],
    )
    def test_what_cannot_be_resolved_is_refused(self, tree, source):
        root = tree(one__a_h="")
        assert may_read(source)
        with pytest.raises(UnknownInput, match="the source"):
            names(source, root / "one")

    @pytest.mark.parametrize(
        ("source", "header", "flags"),
        [
            ('#include "a.h"\nconstant char now[] = C(__TI, ME__);', "#define C(a, b) a##b", ()),
            ("#define C(a, b) a##b\n#define D C(A, B)\n", "", ("-DA=__TI", "-DB=ME__")),
        ],
        ids=["header", "options"],
    )
    def test_pasted_from_apart(self, tree, source, header, flags):
        """A name is refused that is put together with words or macros of different texts."""
        root = tree(one__a_h=header)
        with pytest.raises(UnknownInput, match="together with ##"):
            header_parts(source, [str(root / "one")], flags)

    def test_pieces_of_a_directive(self, tree):
        """A piece of a directive counts in each text, and in a definition, if one of the texts has asm."""
        asm, piece = "void f(void) { asm(DOT); }\n", '#define DOT "."\n'
        root = tree(one__asm_h=asm, one__dot_h=piece)
        for source in (f'{piece}#include "asm.h"', f'{asm}#include "dot.h"'):
            with pytest.raises(UnknownInput, match="let the assembler read a file"):
                names(source, root / "one")
        with pytest.raises(UnknownInput, match="build option"):
            headers.header_parts(asm, [], ['-DDOT="."'])
        for option in (r'-D"DOT=\".\""', "-DA=' -DDOT=\".\" -DB='"):
            with pytest.raises(UnknownInput, match="build option"):
                headers.header_parts(asm, [], [option])
        assert names('#include "dot.h"', root / "one") == ["header dot.h"]

    @pytest.mark.parametrize(
        "source",
        [
            '#define ADD(T) asm("{ .reg .u32 t;\\n\\t" T " %0, %1, 0.5; }" : "=r"(a) : "r"(b))',
            '__asm__ volatile ("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(a) : "r"(b));',
            "#include <pyopencl-random123/philox.cl>",
            'int plasma; constant char *s = "\\x2e";',
            *(
                f'void f(char *c) {{ asm("mov.u32 %0, %%clock;" : "=r"(x)); {beside}; }}'
                for beside in (
                    r'printf("x: %d...\n", x)',
                    r'printf("(%d).\n", x)',
                    r'printf("\x1b[31mp[%d].x\x1b[0m", x)',
                    'printf("%.*f", 3, x)',
                    r"c[0] = '\0'",
                    r"c[0] = '\x2e'",
                    r'printf("\a\t\0\033[0m")',
                )
            ),
        ],
    )
    def test_instructions(self, source):
        """Instructions stay cached: those of PTX, with types and registers, and those that macros put together."""
        folder = os.path.join(os.path.dirname(cl.__file__), "cl")
        headers.header_parts(source, [folder])

    def test_a_header_that_cannot_be_read_is_refused_by_name(self, tree):
        root = tree(one__a_h="")
        (root / "one" / "a.h").chmod(0)
        if os.access(root / "one" / "a.h", os.R_OK):
            pytest.skip("this user may read everything")
        with pytest.raises(UnknownInput, match="cannot be read"):
            names('#include "a.h"', root / "one")

    @pytest.mark.parametrize(
        ("source", "files", "words"),
        [
            ('#include "a.h"', {"one__a_h": "1", "a_h": "3"}, "working directory"),
            (
                '#include "b.h"',
                {"one__b_h": '#include "d.h"', "two__d_h": "", "d_h": ""},
                "working directory",
            ),
            (
                '#include "a.h"',
                {"a_h": "1"},
                "only the working directory holds: .*; add it as an include directory",
            ),
            (
                '#define H "a.h"\n#include H // x\n',
                {},
                "^the source names a header by `H`; write the name",
            ),
            (
                '#include "a.h"',
                {"one__a_h": "#inc\\\nlude_next <b.h>\n"},
                r"^a\.h has `#include_next <b.h>`",
            ),
        ],
        ids=["twice", "nested", "alone", "macro", "directive"],
    )
    def test_refused(self, tree, source, files, words):
        """What drivers take in different ways is refused with file, directive and cure: see the rows."""
        root = tree(**files)
        with pytest.raises(UnknownInput, match=words):
            names(source, root / "one", root / "two")

    def test_quoted_directory(self, tree):
        """A header in a directory that is written with quotes is refused: drivers differ. Others are as ever."""
        root = tree(one__a_h="", two__b_h="")
        folders = f'"{root}/one"', root / "two"
        assert names('#include "b.h"', *folders) == ["header b.h"]
        with pytest.raises(UnknownInput, match="symbolic link without a blank"):
            names('#include "a.h"', *folders)


def test_files(tree):
    """The files of a program are those that are read, and the places where an earlier one would be found."""
    root = tree(two__a_h='#include "b.h"', two__b_h="int b;", one__other_h="")
    files = headers.header_files('#include "a.h"', [str(root / "one"), str(root / "two")])
    read = {path for path, digest in files.items() if digest}
    assert read == {str(root / "two" / "a.h"), str(root / "two" / "b.h")}
    for name, text, changed in (
        ("two__b_h", "int b;", ""),
        ("two__b_h", "int c;", "two/b.h"),
        ("two__b_h", "int b;", ""),
        ("one__a_h", "", "one/a.h"),
    ):
        tree(**{name: text})
        assert headers.changed_file(files) == (str(root / changed) if changed else "")
