"""The line end to end: real processes, compilation and loopy forbidden where a warm start is claimed."""

import os
import shutil
import sys

import pytest
import warm_modules
from project import NUMBERS, PROGRAMS, X

GENERATORS = {"loopy", "islpy", "pymbolic", "genpy", "cgen"}
# kernel -> file, text, other text, the number that follows
CHANGES = {
    "typed": ("driver.py", '"y[i] = 2*x[i] + 1"', '"y[i] = 3*x[i] + 1"', 3 * X + 100),
    "body": ("driver.py", 'scaled("body", 2)', 'scaled("body", 20)', 20 * X),
    "helped": ("driver.py", "return 3\n", "return 30\n", 30 * X),
    "elsewhere": ("factors.py", "return 4\n", "return 40\n", 40 * X),
    "closed": ("driver.py", "closing(5)", "closing(50)", 50 * X),
    "defaulted": ("driver.py", "factor=6", "factor=60", 60 * X),
    "from_global": ("driver.py", "GLOBAL = 7", "GLOBAL = 70", 70 * X),
    "from_class": ("driver.py", "factor = 8", "factor = 80", 80 * X),
    "parameter": ("driver.py", "parameter(9)", "parameter(90)", 90 * X),
    "from_file": ("factor.txt", "12", "13", 13 * X),
    "optioned": ("driver.py", "-DFACTOR=11", "-DFACTOR=14", 14 * X),
    "included": ("kernels/factor.h", "FACTOR 10", "FACTOR 15", 15 * X + 100),
}


NOISES = {
    "    import loopy as lp\n": '    """Say something new."""\n\n    # why\n    import loopy as lp\n',
    'scaled("body", 2)': 'scaled(\n        "body",  # a comment\n        2,\n    )',
    "def helper():\n": "def helper():\n    # the helper\n",
    "    with open(": "    # reads\n\n    with open(",
}


class TestRuns:
    def test_cold(self, filled):
        """The first run generates and compiles everything, once, and computes what numpy would."""
        assert filled.cold.numbers == NUMBERS
        assert filled.cold.set("generator") == filled.cold.set("binary") == {"miss"}
        assert filled.cold.said["stats"]["binary"]["misses"] == PROGRAMS

    def test_second_run_at_once(self, filled):
        """A run that starts as the first one ends compiles nothing and imports no loopy: shown by forbidding both."""
        assert filled.second.code == 0, filled.second.stderr
        assert filled.second.numbers == NUMBERS
        assert filled.second.set("generator") == filled.second.set("binary") == {"hit"}

    def test_writes_nothing(self, warm):
        """A later run hits alone, and changes no file of the cache; it adds one record to the journal."""
        before, records = warm.own_files(journal=False), set(warm.own_files())
        run = warm.run(warm=True)
        assert run.numbers == NUMBERS
        assert run.said["stats"]["binary"]["hits"] == PROGRAMS
        assert run.said["stats"]["generator"]["misses"] == 0
        assert warm.own_files(journal=False) == before
        (record,) = set(warm.own_files()) - records
        assert record.startswith(os.path.join("kcl", "journal", "run-"))


class TestImports:
    def test_warm_start(self, warm, platform_name):
        """A warm start imports this list of kcl's modules, and of the generators nothing."""
        modules = warm.run(warm=True).said["modules"]
        assert not GENERATORS & {name.partition(".")[0] for name in modules}
        # Where pyopencl builds programs of its own, a line of the program is noted.
        drivers = {
            "pocl": warm_modules.POCL,
            "nvidia": ["kcl.drivers.nvidia"],
            "intel": ["kcl.cache.faults"],
        }
        strict = ["kcl.base.settings.parsers"]  # of the text in KCL_STRICT
        expected = sorted(warm_modules.MODULES + strict + drivers.get(platform_name, []))
        assert [name for name in modules if name.partition(".")[0] == "kcl"] == expected
        needless = {"click", "rich", "asyncio", "subprocess", "importlib.metadata"}
        assert not needless & set(modules) - _own(warm)

    def test_import_of_kcl(self, child):
        """`import kcl` imports neither pyopencl, numpy, loopy nor pytools, opens no file but code, and creates none."""
        modules, opened = child.json(
            """
            import json, sys
            before, opened = set(sys.modules), []
            events = ("open", "os.mkdir", "os.listdir", "os.scandir", "sqlite3.connect", "subprocess.Popen")
            sys.addaudithook(lambda event, values: event in events and opened.append((event, str(values[0]))))
            import kcl
            dir(kcl)
            print(json.dumps([sorted(set(sys.modules) - before), opened]))
            """
        )
        assert {name.partition(".")[0] for name in modules} - sys.stdlib_module_names == {"kcl"}
        assert [name for name in modules if name.startswith("kcl")] == ["kcl"]
        assert all(path.endswith((".py", ".pyc")) for event, path in opened if event == "open")
        assert not [path for event, path in opened if event != "open" and str(child.cache) in path]
        assert not os.listdir(child.home)
        assert not child.cache.exists()


@pytest.mark.slow_platforms
class TestChanges:
    def test_each_input(self, warm):
        """A changed body, helper, module, closure, default, global, class, parameter, file, header or option is a miss.

        Each changes its own kernel only, with the numbers of the change; changed back, everything hits again.
        """
        for file, before, after, _number in CHANGES.values():
            warm.edit(file, before, after)
        run = warm.run()
        expected = {**NUMBERS, **{kernel: change[3] for kernel, change in CHANGES.items()}}
        assert run.numbers == expected
        unchanged = {"control": ["hit"], "untyped": ["hit", "hit"]}
        missed = {kernel: ["miss"] for kernel in CHANGES}
        assert run.outcomes("generator") == {**missed, **unchanged, "included": ["hit"]}
        assert run.outcomes("binary") == {**missed, **unchanged}
        warm.edit("kernels/included.cl", "FACTOR + 1", "FACTOR + 2")
        warm.finish()
        run = warm.run("loopy")
        assert run.numbers["included"] == 15 * X + 200
        for layer in ("generator", "binary"):
            assert run.outcomes(layer)["included"] == ["miss"]
        warm.edit("kernels/included.cl", "FACTOR + 2", "FACTOR + 1")
        for file, before, after, _number in CHANGES.values():
            warm.edit(file, after, before)
        assert warm.run(warm=True).numbers == NUMBERS


@pytest.mark.slow_platforms
class TestNoise:
    def test_text_and_place(self, warm, tmp_path):
        """Comments, docstrings, broken lines, the folder, working directory and hash seed change no key."""
        text = (warm.folder / "driver.py").read_text()
        for before, after in NOISES.items():
            text = text.replace(before, after)
        (warm.folder / "driver.py").write_text("# first\n\n\n" + text)
        elsewhere = tmp_path / "a-copy" / "deep"
        shutil.copytree(warm.folder, elsewhere)
        shutil.rmtree(warm.folder)
        command = (str(elsewhere / "driver.py"),)
        run = warm.run(warm=True, command=command, cwd="/", PYTHONHASHSEED="77")
        assert run.numbers == NUMBERS


@pytest.mark.slow_platforms
def test_replayed(project):
    """A build log that is not empty warns on a warm start as pyopencl warned on the cold one."""
    how, shown = {"options": ("-W", "always")}, {"PYOPENCL_COMPILER_OUTPUT": "1"}
    said = [project.start("warned", **how, **shown)]
    project.finish()
    said.append(project.start("warned", **how, **shown, warm=True))
    said.append(project.start("warned", **how, warm=True))
    assert [run.code for run in said] == [0, 0, 0], said
    assert [run.stderr.count("look here") > 0 for run in said] == [True, True, False]
    assert all("CompilerWarning" in run.stderr for run in said)
    assert "Non-empty compiler output" in said[2].stderr


def _own(project) -> set[str]:
    """Name the modules that pyopencl and numpy import on their own."""
    done = project.child.json(
        "import json, sys, numpy, pyopencl.array, pytools.persistent_dict; print(json.dumps(list(sys.modules)))"
    )
    return set(done)
