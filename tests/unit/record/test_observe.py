"""kcl.record.observe: what a recipe does while it runs."""

from __future__ import annotations

import _thread
import concurrent.futures
import importlib.resources
import linecache
import os
import pathlib
import pkgutil
import shutil
import socket
import subprocess
import sys
import threading
import types
import warnings

import pytest

from kcl.record import observe


def refused(observed):
    """Return the first thing that no key can hold."""
    return next(iter(observed.refusals)).what


def seen(function, *arguments):
    """Run a function under observation and return what was observed."""
    with observe.observing() as observed:
        function(*arguments)
    return observed


class TestFiles:
    def test_every_way_of_reading(self, tmp_path):
        """A file counts however it is opened."""
        ways = [
            lambda path: open(path).read(),  # noqa: SIM115
            lambda path: pathlib.Path(path).read_bytes(),
            lambda path: os.close(os.open(path, os.O_RDONLY)),
            lambda path: open(os.fsencode(path), "rb").close(),
        ]
        path = tmp_path / "table.txt"
        path.write_text("1")
        for way in ways:
            observed = seen(way, str(path))
            assert list(observed.files) == [str(path)]
            assert not observed.refusals

    def test_missing(self, tmp_path):
        """A file that was looked for in vain counts: it may be there next time."""

        def look():
            with pytest.raises(FileNotFoundError):
                open(tmp_path / "absent")  # noqa: SIM115

        assert list(seen(look).files) == [str(tmp_path / "absent")]

    def test_python_text(self, tmp_path):
        """A file of Python code that is read as text counts as any other."""
        path = tmp_path / "template.py"
        path.write_text("x = 1")
        assert list(seen(path.read_text).files) == [str(path)]

    def test_imports(self, tmp_path, monkeypatch):
        """What the import system reads does not: imported code counts by what is reached of it."""
        (tmp_path / "observed_module.py").write_text("import json.tool\nvalue = 1\n")
        monkeypatch.syspath_prepend(tmp_path)

        def load():
            import observed_module

            assert observed_module.value == 1

        observed = seen(load)
        assert not observed.files
        assert not observed.refusals

    def test_shown_source(self, tmp_path):
        """Source text that is read for a traceback does not count."""
        path = tmp_path / "shown.py"
        path.write_text("raise ValueError\n")
        linecache.checkcache()
        observed = seen(linecache.getlines, str(path))
        assert not observed.files

    def test_other_threads(self, tmp_path):
        """What a thread does that was started before is not the recipe's."""
        path = tmp_path / "other.txt"
        path.write_text("1")
        begin, end = threading.Event(), threading.Event()

        def other():
            begin.wait()
            path.read_text()
            end.set()

        thread = threading.Thread(target=other)
        thread.start()
        observed = seen(lambda: (begin.set(), end.wait()))
        thread.join()
        assert not observed.files

    def test_own_threads(self, tmp_path):
        """What a thread does that the recipe starts is the recipe's, and so is what the threads of that one do."""
        (tmp_path / "outer.txt").write_text("1")
        (tmp_path / "inner.txt").write_text("1")

        def outer():
            (tmp_path / "outer.txt").read_text()
            _in_thread((tmp_path / "inner.txt").read_text)
            _in_thread(os.getcwd)
            os.environ.get("HOME")

        observed = seen(_in_thread, outer)
        assert sorted(observed.files) == [str(tmp_path / "inner.txt"), str(tmp_path / "outer.txt")]
        assert list(observed.variables) == ["HOME"]
        assert observed.working_directory
        assert not observed.refusals

    def test_many_times(self):
        """A variable is seen however many recipes were observed before in the same process."""

        def read():
            return os.environ["HOME"], os.environb[b"HOME"]

        for _ in range(400):
            read()
            assert list(seen(read).variables) == ["HOME"]
        assert type(os.environ).__name__ == type(os.environb).__name__ == "_Environ"

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="no audit event; the walk refuses the function by its name")
    def test_thread_that_is_not_watched(self):
        """A thread that is started by a function that was kept before is refused."""
        done = threading.Event()
        observed = seen(lambda start=_thread.start_new_thread: (start(done.set, ()), done.wait()))
        assert refused(observed) == "started a thread in a way that kcl does not watch"

    def test_threads_of_kcl(self, tmp_path):
        """What a thread does that kcl starts meanwhile is not the recipe's."""
        (tmp_path / "table.txt").write_text("1")
        by_kcl = types.FunctionType(
            _in_thread.__code__, {"__name__": "kcl.drivers.pocl.prebuild", "threading": threading}
        )
        observed = seen(by_kcl, (tmp_path / "table.txt").read_text)
        assert not observed.files

    def test_pool(self, tmp_path):
        """A pool of threads that the recipe makes is observed; what is refused there is refused."""
        (tmp_path / "table.txt").write_text("1")

        def work():
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                pool.submit((tmp_path / "table.txt").read_text).result()
                pool.submit(os.path.exists, tmp_path / "table.txt").result()

        observed = seen(work)
        assert list(observed.files) == [str(tmp_path / "table.txt")]
        assert refused(observed) == "looked whether a file is there"

    def test_thread_that_goes_on(self, tmp_path):
        """A thread that outlives the recipe leaves what was observed as it is, and starts others as ever."""
        (tmp_path / "late.txt").write_text("1")
        begin, end = threading.Event(), threading.Event()

        def late():
            begin.wait()
            _in_thread((tmp_path / "late.txt").read_text)
            end.set()

        observed = seen(threading.Thread(target=late).start)
        begin.set()
        end.wait()
        assert not observed.files

    @pytest.mark.parametrize("way", ["pkgutil", "loader", "resources", "open_text"])
    @pytest.mark.parametrize("zipped", [False, True], ids=["folder", "zip"])
    def test_loaders(self, tmp_path, monkeypatch, way, zipped):
        """A file that is read through the loader of a package counts; of a zipped package the archive counts."""
        name = f"observed_package_{way}_{zipped}"
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "table.txt").write_text("1")
        place = tmp_path
        if zipped:
            place = pathlib.Path(shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, name))
        monkeypatch.syspath_prepend(str(place))
        package = importlib.import_module(name)
        ways = {
            "pkgutil": lambda: pkgutil.get_data(name, "table.txt"),
            "loader": lambda: package.__loader__.get_data(os.path.join(package.__path__[0], "table.txt")),
            "resources": lambda: importlib.resources.files(package).joinpath("table.txt").read_bytes(),
            "open_text": lambda: importlib.resources.open_text(name, "table.txt").close(),
        }
        if way == "open_text":
            warnings.simplefilter("ignore")
        expected = str(place) if zipped else str(tmp_path / name / "table.txt")
        observed = seen(ways[way])
        assert expected in [os.path.normpath(path) for path in observed.files]

    def test_after(self, tmp_path):
        """Nothing is observed after the block, nor inside of `unobserved`."""
        path = tmp_path / "table.txt"
        path.write_text("1")

        def inside():
            with observe.unobserved():
                path.read_text()

        observed = seen(inside)
        path.read_text()
        assert not observed.files

    def test_nested(self, tmp_path):
        """A recipe that calls another one's Kernel keeps its own observation."""
        (tmp_path / "outer").write_text("")
        (tmp_path / "inner").write_text("")

        def outer():
            assert list(seen((tmp_path / "inner").read_text).files) == [str(tmp_path / "inner")]
            (tmp_path / "outer").read_text()

        assert list(seen(outer).files) == [str(tmp_path / "outer")]


class TestUnknowable:
    @pytest.mark.parametrize(
        ("act", "reason"),
        [
            (lambda: os.listdir("."), "listed a directory"),
            (lambda: list(pathlib.Path().iterdir()), "listed a directory"),
            # Python 3.13 lists at once, earlier ones look first.
            (lambda: list(pathlib.Path().glob("*")), "listed a directory or looked whether a file is there"),
            (lambda: os.path.exists("x"), "looked whether a file is there"),
            (lambda: pathlib.Path("x").is_file(), "looked whether a file is there"),
            (lambda: pathlib.Path().lstat(), "looked whether a file is there"),
            (lambda: dict(os.environ), "listed the environment"),
            (lambda: subprocess.run([sys.executable, "-c", ""]), "started a process"),
            (lambda: os.system("true"), "started a process"),
            (lambda: socket.socket(socket.AF_UNIX).connect_ex("nowhere"), "connected to a network address"),
            (lambda: socket.getaddrinfo("127.0.0.1", 80), "looked up a network address"),
            (lambda: open(os.devnull, "w").close(), "wrote null"),
            (lambda: os.chdir("."), "changed the working directory"),
            (lambda: _in_thread(os.listdir), "listed a directory"),
            (lambda: _in_thread(os.chdir, "."), "changed the working directory"),
        ],
    )
    def test_reason(self, tmp_path, monkeypatch, act, reason):
        """What no key can hold is named."""
        monkeypatch.chdir(tmp_path)
        assert refused(seen(act)) in reason.split(" or ")

    def test_working_directory(self):
        """That a recipe asks where it runs is seen, also where pathlib asks."""
        assert not seen(os.path.basename, os.curdir).working_directory
        assert seen(os.path.abspath, os.curdir).working_directory
        assert seen(pathlib.Path.cwd).working_directory

    def test_interrupted(self, monkeypatch):
        """Whoever is interrupted as the watch begins leaves the next recipe watched, and all as it was at the end."""
        before, replace = os.stat, observe._replace

        def interrupted(*arguments):
            monkeypatch.setattr(observe, "_replace", replace)
            replace(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(observe, "_replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            seen(lambda: None)
        assert refused(seen(lambda: os.path.exists("x"))) == "looked whether a file is there"
        assert os.stat is before
        assert observe._patches().watchers == 0

    def test_kept_by_a_class(self):
        """A class that is made meanwhile and keeps a function of os calls it as ever, like any function in C."""

        kept = []

        def make():
            kept.append(type("Keeper", (), {"stat": os.stat}))
            assert kept[0]().stat(os.curdir)

        seen(make)
        assert kept[0]().stat(os.curdir)

    def test_written_and_read(self, tmp_path):
        """A recipe that writes does something that a hit would not do."""
        assert refused(seen((tmp_path / "log.txt").write_text, "x")) == "wrote log.txt"


class TestHook:
    def test_not_before_the_first_miss(self, child):
        """A process without a miss has no audit hook of kcl."""
        done = child.json(
            """
            import json, kcl, kcl.record.observe
            before = kcl.record.observe._patches().installed
            with kcl.record.observe.observing():
                pass
            print(json.dumps([before, kcl.record.observe._patches().installed]))
            """
        )
        assert done == [False, True]


def _in_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()
