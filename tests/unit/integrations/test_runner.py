"""kcl.integrations.runner: what a command line of `kcl run` asks for, and how a program runs."""

import json
import os
import sys
import zipfile

import pytest

from kcl.integrations import runner

SHOW = """
import sys, json
import __main__
print(json.dumps({
    "argv": sys.argv,
    "path": sys.path[:2],
    "file": vars().get("__file__"),
    "name": __name__,
    "package": __package__,
    "spec": getattr(__spec__, "name", None) if "__spec__" in vars() else "missing",
    "loader": getattr(__loader__, "__name__", type(__loader__).__name__),
    "main": __main__.__dict__ is globals(),
    "names": sorted(vars()),
    "optimize": sys.flags.optimize,
    "dev": sys.flags.dev_mode,
    "doc": __doc__,
}))
"""


class TestParsed:
    @pytest.mark.parametrize(
        ("line", "kind", "name", "arguments"),
        [
            ("driver.py -x --off a", "script", "driver.py", ("-x", "--off", "a")),
            ("-m package.module -h", "module", "package.module", ("-h",)),
            ("-c pass 1", "text", "pass", ("1",)),
            ("- a", "script", "-", ("a",)),
            ("-- -odd.py", "script", "-odd.py", ()),
            ("--report driver.py --report", "script", "driver.py", ("--report",)),
        ],
    )
    def test_program(self, line, kind, name, arguments):
        assert runner.parse(line.split())[0] == (kind, name, arguments)

    def test_options(self):
        words = "--off generator,pocl --off=binary --strict hit --report --explain --fresh x"
        assert runner.parse(words.split())[1] == {
            "off": ["generator", "pocl", "binary"],
            "strict": ["hit"],
            "report": ["1", "explain"],
            "fresh": ["1"],
        }
        # The last one counts, and a name may have a comma.
        traces = runner.parse(["--trace=a, b", "--trace", "", "x"])[1]["trace"]
        assert traces == ["a, b", ""]

    @pytest.mark.parametrize(
        "line", ["", "--help", "-h", "--off", "-m", "--wobble x", "--report", "--off generator"]
    )
    def test_needs_an_answer(self, line):
        """Help, and what names no program, are for the command line."""
        assert runner.parse(line.split()) is None


@pytest.fixture
def places(child):
    """A script, a module, a package, a folder and an archive that say how they were run."""
    folder = child.directory
    (folder / "here").mkdir()
    (folder / "here" / "__init__.py").write_text("")
    for file in ("script.py", "here/__main__.py", "here/part.py"):
        (folder / file).write_text(SHOW)
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW)
    return child


def both(child, *arguments, options=(), standard_input=None):
    """Run a program by Python and by kcl; return status, output and complaints of both."""
    runs = [
        child.python(*options, *command, *arguments, stdin=standard_input)
        for command in ([], ["-m", "kcl", "run"])
    ]
    return [(done.returncode, done.stdout, done.stderr) for done in runs]


# Executes what stands behind it in a directory that has been removed.
GONE = """
import os, sys
os.mkdir("gone")
os.chdir("gone")
os.rmdir("../gone")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class TestProgram:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("script.py", "a", "--off"),
            ("./here/../script.py",),
            ("-m", "here.part", "b"),
            ("-m", "here"),
            ("here",),
            ("archive.zip", "c"),
            ("-c", SHOW, "d"),
            ("-", "x"),
        ],
    )
    def test_like_python(self, places, arguments):
        python, mine = both(places, *arguments, standard_input=SHOW)
        assert python[0] == mine[0] == 0, python[2]
        assert json.loads(mine[1]) == json.loads(python[1])

    @pytest.mark.skipif(os.name != "posix", reason="no directory in use can be removed here")
    @pytest.mark.parametrize(
        "arguments", [("{}/hello.py",), ("-m", "platform"), ("-c", "print(1)"), ("hello.py",)]
    )
    def test_directory_that_is_gone(self, child, arguments):
        (child.directory / "hello.py").write_text("print('hello')\n")
        words = [word.format(child.directory) for word in arguments]
        python, mine = both(child, *words, options=("-c", GONE))
        assert mine[:2] == python[:2]

    @pytest.mark.parametrize(
        "arguments", [("nowhere.py",), ("-m", "no_such_module"), ("-c", "1/0")]
    )
    def test_cannot_be_run(self, child, arguments):
        python, mine = both(child, *arguments)
        assert mine[0] == python[0] != 0
        assert mine[2] == python[2]

    def test_options_of_python(self, places):
        options = ("-O", "-X", "dev", *(("-P",) if sys.version_info >= (3, 11) else ()))
        python, mine = both(places, "script.py", options=("-W", "ignore", *options))
        assert json.loads(mine[1]) == json.loads(python[1])

    @pytest.mark.parametrize(
        ("code", "status"),
        [
            ("def f():\n    1/0\nf()\n", 1),
            ("import sys\nsys.exit(7)\n", 7),
            ("import sys\nsys.exit('sorry')\n", 1),
            ("raise KeyboardInterrupt\n", -2),
            ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n", -15),
            ("x = \n", 1),
            ("import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\n1/0\n", 1),
            ("import atexit\natexit.register(print, 'bye')\nraise ValueError(3)\n", 1),
            ("import threading\nthreading.Thread(target=lambda: 1/0).start()\n", 0),
            ("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError(4) from e\n", 1),
        ],
    )
    def test_ends(self, child, code, status):
        """A program ends with its own status, and its traceback shows nothing of kcl."""
        (child.directory / "ends.py").write_text(code)
        python, mine = both(child, "ends.py")
        assert python[0] == status
        strip = [(one[0], one[1], _plain(one[2])) for one in (python, mine)]
        assert strip[1] == strip[0]

    def test_interactive(self, places):
        """`python -i` is left with the names of the program, whose classes pickle under `__main__`."""
        (places.directory / "names.py").write_text("class A: pass\n")
        text = "import pickle; print(type(pickle.loads(pickle.dumps(A()))) is A, A.__module__)\n"
        python, mine = both(places, "names.py", options=("-i",), standard_input=text)
        assert python[1] == mine[1] == "True __main__\n"

    @pytest.mark.parametrize("word", ["generator,binary", "generater,binary"])
    def test_a_misspelt_switch_is_told(self, child, word):
        """A program with every layer off runs as without kcl; a word that is none is told before that."""
        code = (
            "import pyopencl as cl\n"
            "context = cl.create_some_context(interactive=False)\n"
            "cl.Program(context, 'kernel void f() {}').build()\n"
        )
        (child.directory / "builds.py").write_text(code)
        done = child.python("-m", "kcl", "run", "builds.py", KCL_NO_CACHE=word)
        assert done.returncode == 0
        assert ("generater is no layer" in done.stderr) is ("generater" in word)

    def test_profiler(self, places):
        """A profiler runs the program, and the program may run a profiler."""
        (places.directory / "work.py").write_text("def work():\n    return 1\nprint(work())\n")
        done = both(places, "-m", "cProfile", "work.py")[1]
        assert done[0] == 0
        assert "1\n" in done[1]
        assert "work.py:1(work)" in done[1]
        whole = both(places, "-m", "kcl", "run", "work.py", options=("-m", "cProfile"))[0]
        assert "work.py:1(work)" in whole[1]


def _plain(text):
    import re

    return re.sub(r"Thread-\d+|0x[0-9a-f]+", "", text)


class TestCost:
    def test_imports(self, child):
        """A program that uses neither package pays for a few modules of kcl, and for no other package."""
        code = "import sys\nprint(*sorted(sys.modules))\n"
        (child.directory / "lists.py").write_text(code)
        python, mine = both(child, "lists.py")
        more = set(mine[1].split()) - set(python[1].split())
        kcls = {name for name in more if name.partition(".")[0] == "kcl"}
        assert not {"click", "rich", "numpy", "pyopencl", "loopy"} & more
        assert kcls == {
            *("kcl", "kcl.__main__", "kcl.errors"),
            *("kcl.base", "kcl.base.process", "kcl.base.settings"),
            *("kcl.integrations", "kcl.base.attended"),
            *("kcl.integrations.runner", "kcl.frontends.loopy", "kcl.frontends.loopy.imports"),
            *("kcl.frontends", "kcl.generate"),
        } - ({"kcl.errors", "kcl.__main__"} - more)
