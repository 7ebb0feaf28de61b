"""Who gets the face: recipes and the program's own modules, however they import loopy, and nobody else."""

import builtins
import sys
import textwrap
import zipfile

import pytest
from reaching import Project, Site

import kcl.loopy  # noqa: F401
from kcl.frontends.loopy import imports

HEAD = """
import kcl.loopy, sys, json, importlib
from kcl.frontends.loopy import face
is_face = lambda it: isinstance(it, face.Face)
"""


@pytest.fixture
def run(child):
    """Run code in a child that has imported kcl, and return what it prints as JSON."""
    return lambda code, head=HEAD: child.json(head + textwrap.dedent(code))


class TestForms:
    def test_of_a_program(self, run):
        """All forms of the import statement give the face, and leave `sys.modules` to loopy; none imports loopy."""
        found = run("""
            import loopy, loopy as lp, loopy.kernel.data, loopy.kernel.data as data, loopy.version
            from loopy import make_kernel, AddressSpace, kernel
            from loopy.kernel.data import AddressSpace as again, auto
            from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2
            from loopy.kernel import LoopKernel
            from loopy.transform import iname
            print(json.dumps([
                loopy is lp is face.face, is_face(data), loopy.kernel.data is data, kernel is loopy.kernel,
                type(make_kernel) is face.Function, AddressSpace is again is data.AddressSpace,
                type(auto).__name__ == "Kind",
                LOOPY_USE_LANGUAGE_VERSION_2018_2 == (2018, 2), is_face(iname), "loopy" not in sys.modules,
            ]))
            """)
        assert found == [True] * 10

    def test_what_only_loopy_has(self, run):
        """Names and modules without a face, and pickles, come from loopy; errors are Python's; `importlib` gives loopy."""
        found = run("""
            import loopy, pickle
            pickled = pickle.loads(b"cloopy.translation_unit\\nTranslationUnit\\n.")
            from loopy import cli, schedule, CACHING_ENABLED, make_kernel
            import loopy.library.random123
            import loopy.schedule as scheduling
            from loopy.schedule import Barrier
            said = []
            for line in ("from loopy import nonexistent", "import loopy.nonexistent", "from loopy.nonexistent import a",
                         "from loopy.kernel.data import nonexistent", "from loopy.schedule import nonexistent"):
                try:
                    exec(line, {"__name__": "__main__"})
                except ImportError as error:
                    said.append([type(error).__name__, str(error).split(" (")[0]])
            own = sys.modules["loopy"]
            print(json.dumps({
                "face": is_face(loopy) and loopy.make_kernel is make_kernel,
                "own": [cli is sys.modules["loopy.cli"], schedule is own.schedule is scheduling,
                        Barrier is own.schedule.Barrier, not is_face(own), importlib.import_module("loopy") is own,
                        importlib.import_module("loopy.kernel.data") is own.kernel.data, __import__("loopy") is own,
                        pickled is own.TranslationUnit],
                "said": said,
            }))
            """)
        assert found == {
            "face": True,
            "own": [True] * 8,
            "said": [
                ["ImportError", "cannot import name 'nonexistent' from 'loopy'"],
                ["ModuleNotFoundError", "No module named 'loopy.nonexistent'"],
                ["ModuleNotFoundError", "No module named 'loopy.nonexistent'"],
                ["ImportError", "cannot import name 'nonexistent' from 'loopy.kernel.data'"],
                ["ImportError", "cannot import name 'nonexistent' from 'loopy.schedule'"],
            ],
        }


class TestModules:
    def test_whose_they_are(self, run, child):
        """Own modules, packages, zips, editable packages and run-time modules get the face; libraries get loopy."""
        here = child.directory
        text = "import loopy\nfrom loopy import make_kernel\n"
        files = {
            "mine.py": text,
            "pack/__init__.py": "",
            "pack/inner/__init__.py": "",
            "pack/inner/deep.py": f"{text}from . import *\nfrom ..inner import deep\n",
            "src/editable/__init__.py": text,
        }
        Project(here, files)
        with zipfile.ZipFile(here / "zipped.zip", "w") as archive:
            archive.writestr("in_zip.py", text)
        site, source = Site(here / "venv"), here / "src"
        for name in ("installed", "loopy_helpers"):
            site.install({f"{name}/__init__.py": text}, name=name)
        site.install({"__editable__.editable-1.0.pth": f"{source}\n"}, name="editable")
        found = run(f"""
            sys.path += [{str(here / "zipped.zip")!r}, {str(site.root)!r}, {str(source)!r}]
            import mine, pack.inner.deep, in_zip, editable, installed, loopy_helpers, types
            made = types.ModuleType("made_here")
            sys.modules["made_here"] = made
            exec({text!r}, made.__dict__)
            bare = {{}}
            exec({text!r}, bare)
            named = {{"__name__": "nowhere"}}
            exec({text!r}, named)
            kinds = {{module.__name__: is_face(module.loopy) for module in
                     (mine, pack.inner.deep, in_zip, editable, installed, loopy_helpers, made)}}
            own = sys.modules["loopy"]
            assert installed.loopy is loopy_helpers.loopy is own and installed.make_kernel is own.make_kernel
            assert type(mine.make_kernel) is face.Function
            kinds["bare"], kinds["named"] = is_face(bare["loopy"]), is_face(named["loopy"])
            import inspect
            own_users = [name for name, module in list(sys.modules.items())
                         if name.partition(".")[0] in ("loopy", "pytools", "pymbolic", "pyopencl")
                         and "__kcl_faced__" in vars(module) and vars(module)["__kcl_faced__"]]
            print(json.dumps([sorted(name for name in kinds if kinds[name]), own_users]))
            """)
        assert found == [["editable", "in_zip", "made_here", "mine", "pack.inner.deep"], []]

    def test_recipes_in_installed_packages(self, run, child):
        site = Site(child.directory / "venv")
        text = """
import kcl

@kcl.kernel
def recipe():
    import loopy
    return loopy

def other():
    import loopy
    return loopy
"""
        site.install({"installed/__init__.py": text}, name="installed")
        found = run(f"""
            sys.path.append({str(site.root)!r})
            import installed
            print(json.dumps([is_face(installed.recipe.function()), is_face(installed.other())]))
            """)
        assert found == [True, True]


class TestThreads:
    def test_that_import_at_once(self, run):
        """Threads that import loopy, the face and ask questions at the same time all get what they are to get."""
        found = run("""
            from at_once import at_once
            found = []
            def by_statement():
                import loopy
                return is_face(loopy) and loopy.schedule is sys.modules["loopy.schedule"]
            def by_name():
                return hasattr(importlib.import_module("loopy"), "untag_inames")
            def by_question():
                import loopy as lp
                unit = lp.make_kernel("{[i]: 0<=i<16}", "a[i] = i", lang_version=(2018, 2), name="made")
                return len(unit["made"].instructions) == 1 and lp.AddressSpace.LOCAL == 1
            functions = (by_statement, by_name, by_question) * 3
            at_once(lambda number: found.append(functions[number]()), 9)
            print(json.dumps([found, is_face(sys.modules["loopy"])]))
            """)
        assert found == [[True] * 9, False]


class TestTheHook:
    def test_others_in_front_and_behind(self, child):
        """Functions that others put in place of `__import__`, before kcl and after it, see every import."""
        found = child.json("""
            seen = []
            def wrapping(name, before):
                def importing(module, *rest, **more):
                    seen.append((name, module))
                    return before(module, *rest, **more)
                return importing
            import builtins
            builtins.__import__ = wrapping("first", builtins.__import__)
            import kcl.loopy, sys, json
            builtins.__import__ = wrapping("second", builtins.__import__)
            from kcl.frontends.loopy import face
            import colorsys, loopy
            builtins.__import__ = builtins.__import__
            print(json.dumps([loopy is face.face, ("first", "colorsys") in seen, ("second", "loopy") in seen,
                              ("first", "loopy") in seen]))
            """)
        assert found == [True, True, True, False]

    def test_put_back_by_others(self, child):
        """Where somebody puts Python's own function back, recipes get loopy, and are recorded there."""
        found = child.json("""
            import builtins
            before = builtins.__import__
            import json, sys, kcl, kcl.loopy
            builtins.__import__ = before
            @kcl.kernel
            def recipe():
                import loopy as lp
                return lp.make_kernel("{[i]: 0<=i<16}", "a[i] = i", lang_version=(2018, 2))
            import pyopencl as cl
            context = cl.Context([cl.get_platforms()[0].get_devices()[0]])  # Intel's queues do not hold theirs
            queue = cl.CommandQueue(context)
            print(json.dumps(recipe()(queue)[1][0].get().tolist()))
            """)
        assert found == [*range(16)]

    def test_warnings_name_the_line_of_the_import(self, run, child):
        (child.directory / "old.py").write_text(
            "import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)\n"
        )
        found = run("""
            import warnings
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                exec(compile("\\n\\nimport old", "users.py", "exec"), {"__name__": "users"})
            print(json.dumps([[one.filename, one.lineno] for one in heard]))
            """)
        assert found == [["users.py", 3]]

    def test_an_ordinary_import(self):
        """For an import that has nothing to do with loopy the hook calls Python's own import and nothing else."""
        called = []

        def note(frame, event, argument):
            if event in ("call", "c_call"):
                called.append(frame.f_code.co_name if event == "call" else argument.__name__)

        sys.setprofile(note)
        try:
            imports._faced_import("sys", {}, None, (), 0)
        finally:
            sys.setprofile(None)
        assert called == ["_faced_import", "__import__", "setprofile"]

    def test_it_stands_once(self):
        before = builtins.__import__
        imports.install()
        assert builtins.__import__ is before

    def test_a_thread_that_is_keyed_while_another_imports_a_generator(self, run):
        """No finder of kcl's imports: it would wait for the other thread, which waits for Python's lock."""
        found = run(
            """
            import os, threading
            from kcl.frontends.loopy import moment
            ready, found = threading.Event(), []
            class Slow:
                def find_spec(self, name, path=None, target=None):
                    if name == "kcl.frontends.loopy.baseline":
                        ready.set()
            sys.meta_path.insert(0, Slow())
            def by_import():
                ready.wait()
                import islpy
                found.append(True)
            def by_key():
                moment.now()
                found.append(True)
            threads = [threading.Thread(target=one, daemon=True) for one in (by_import, by_key)]
            [one.start() for one in threads]
            [one.join(30) for one in threads]
            print(json.dumps(found), flush=True)
            os._exit(0)
            """,
            head=f"import pymbolic{HEAD}",
        )
        assert found == [True, True]

    def test_threads_that_install_it(self, child):
        """What a thread imports once it is installed is heard, also if another thread was the first to install it."""
        found = child.json("""
            import kcl, sys, json
            import builtins, threading
            from kcl.base import attended
            from kcl.frontends.loopy import imports
            began, goes_on, real = threading.Event(), threading.Event(), attended.Listener.install
            before, found = builtins.__import__, []
            def install(listener):
                began.set()
                goes_on.wait()
                found.append(builtins.__import__ is before)
                real(listener)
            def second():
                imports.install()
                found.append(any(isinstance(one, attended.Listener) for one in sys.meta_path))
            attended.Listener.install = install
            imports._import = None
            sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, attended.Listener)]
            threads = [threading.Thread(target=imports.install)]
            threads[0].start()
            began.wait()
            threads.append(threading.Thread(target=second))
            threads[1].start()
            threads[1].join(0.5)
            goes_on.set()
            [one.join() for one in threads]
            print(json.dumps(found))
            """)
        assert found == [True, True]


class TestWatched:
    def test_the_language_version_of_the_caller(self, child):
        """Once a recipe has run, a module with loopy itself still chooses its language version by its globals."""
        found = child.json("""
            import json
            import warnings, kcl, numpy as np, pyopencl as cl, loopy as lp
            from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2
            @kcl.kernel
            def recipe():
                import loopy as lp
                return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang_version=(2018, 2))
            context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
            recipe()(cl.CommandQueue(context), x=np.ones(3))
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                made = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*x[i]")
            print(json.dumps([type(made).__module__.partition(".")[0], [str(one.message) for one in heard]]))
            """)
        assert found == ["loopy", []]


class TestAttention:
    def test_a_switch(self, child):
        """With the generator layer off an import asks for no distribution, and imports nothing of kcl for that."""
        code = """
            import sys, json, kcl
            kcl.install()
            import pytools
            print(json.dumps("kcl.generate.distributions" in sys.modules))
            """
        assert child.json(code)
        assert not child.json(code, KCL_NO_CACHE="generator")
