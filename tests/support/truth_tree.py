"""The folder `truth` copied, with installed distributions beside it, and its recipes launched in child processes.

A change is something done to the copy or to a process; `Tree.restore` undoes all of them.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile
from typing import NamedTuple

import numpy as np

SUPPORT = pathlib.Path(__file__).parent
ROOT = SUPPORT.parents[1]
LATER = 1_000_000_000  # nanoseconds; bytecode is fresh as long as its source's second and size are the same

# Cold and in every row: what a row changes must have been there before.
VARIABLES = {
    "TRUTH_ITEM": "2",
    "TRUTH_HELPER": "4",
    "TRUTH_OTHER": "5",
    "TRUTH_EXPANDED": "a/b",
    "PYOPENCL_BUILD_OPTIONS": "-DUNRELATED=1",
    "LC_ALL": "C.UTF-8",
}

SITE = {
    "truth_installed/__init__.py": """\
import truth_lower

TABLE = {"n": 5}


def factor():
    return 2


def below():
    return truth_lower.factor()
""",
    "truth_single.py": "FACTOR = 2\n",
    "truth_lower.py": "def factor():\n    return 2\n",
    "truth_lazy/__init__.py": "from truth_lazy.inside import factor\n",
    "truth_lazy/inside.py": "def factor():\n    return 2\n",
}
EDITABLE = """\
import truth_single


def factor():
    return 2


def through():
    return truth_single.FACTOR + 1
"""


class Change:
    """Something to be done before a child starts, or in it."""

    variables: dict[str, str | None] = {}  # noqa: RUF012
    options: tuple[str, ...] = ()
    before = after = ""
    arguments: str | None = None
    folder = "work"

    def apply(self, tree: Tree) -> None:
        """Change files."""


class Edit(Change):
    """Replace a text that occurs once in a file."""

    def __init__(self, file: str, before: str, after: str, same_second: bool = False) -> None:
        self.file, self.old, self.new, self.same_second = file, before, after, same_second

    def apply(self, tree):
        path = tree.find(self.file)
        text = path.read_text()
        assert text.count(self.old) == 1, f"{self.old!r} occurs {text.count(self.old)} times in {self.file}"
        before = path.stat()
        path.write_text(text.replace(self.old, self.new))
        later = 0 if self.same_second else 5 * LATER
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + later))
        assert not self.same_second or path.stat().st_size == before.st_size


class Write(Change):
    """Write a file, new or not."""

    def __init__(self, file: str, content: str | bytes) -> None:
        self.file, self.content = file, content if isinstance(content, bytes) else content.encode()

    def apply(self, tree):
        path = tree.find(self.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.content)


class Zip(Change):
    """Write the archive that the project imports from anew, with another line in it."""

    def __init__(self, line: str) -> None:
        self.line = line

    def apply(self, tree):
        with zipfile.ZipFile(tree.archive, "w") as stream:
            for name, text in {"__init__": "", "far": "from truth_archived.deep import factor\n"}.items():
                stream.writestr(f"truth_archived/{name}.py", text)
            stream.writestr("truth_archived/deep.py", f"def factor():\n    {self.line}\n")


class Remove(Change):
    """Remove a file."""

    def __init__(self, file: str) -> None:
        self.file = file

    def apply(self, tree):
        tree.find(self.file).unlink()


class Link(Change):
    """Let a symbolic link point to something else."""

    def __init__(self, file: str, target: str) -> None:
        self.file, self.target = file, target

    def apply(self, tree):
        path = tree.find(self.file)
        if path.is_symlink() or path.exists():
            path.unlink()
        path.symlink_to(self.target)


class Install(Change):
    """Install a distribution over what is there: new code with a new record, of another version or the same."""

    def __init__(self, name: str, file: str, before: str, after: str, version: str = "1.0") -> None:
        self.name, self.file, self.old, self.new, self.version = name, file, before, after, version

    def apply(self, tree):
        Edit(f"../site/{self.file}", self.old, self.new).apply(tree)
        shutil.rmtree(tree.site / f"{self.name}-1.0.dist-info")
        tree.record(self.name, self.version)


class Env(Change):
    """Set variables; None takes one away."""

    def __init__(self, **variables: str | None) -> None:
        self.variables = variables


class Call(Change):
    """Do something in the process: `before` the first launch, `after` it and before a second, other `arguments`."""

    def __init__(self, arguments: str | None = None, before: str = "", after: str = "") -> None:
        self.arguments, self.before, self.after = arguments, before, after


class Python(Change):
    """Start the interpreter with other options or in another folder beside the project."""

    def __init__(self, *options: str, folder: str = "work") -> None:
        self.options, self.folder = options, folder


class Several(Change):
    """Change several files."""

    def __init__(self, *changes: Change) -> None:
        self.changes = changes

    def apply(self, tree):
        for change in self.changes:
            change.apply(tree)


class Said(NamedTuple):
    """What a child said."""

    numbers: dict[str, list[float]]
    errors: dict[str, str]
    ran: list[str]  # recipes whose body was entered
    built: int  # programs made from source
    events: list[list[str]]

    def outcomes(self, layer: str) -> list[str]:
        """Return the outcomes of a layer in order."""
        return [outcome for name, _kernel, outcome, _reason in self.events if name == layer]

    def reason(self, layer: str) -> str:
        """Return the last reason of a layer."""
        return [reason for name, _kernel, _outcome, reason in self.events if name == layer][-1]


class Tree:
    """A copy of the project, its caches, and a pristine copy to restore it from."""

    def __init__(self, child) -> None:
        self.child = child
        self.root = child.directory / "tree"
        self.project = self.root / "project"
        self.site = self.root / "site"
        self.archive = self.root / "archive.zip"
        self.pristine = child.directory / "pristine"
        self.servers: dict[bool, Server] = {}
        shutil.copytree(
            SUPPORT / "projects" / "truth", self.project / "truth", ignore=shutil.ignore_patterns("__pycache__")
        )
        self._data()
        for name, text in SITE.items():
            self._write(self.site / name, text)
        for name in ("truth_installed", "truth_single", "truth_lower", "truth_lazy", "truth_editable"):
            self.record(name, "1.0")
        Zip("return 2").apply(self)
        self._write(self.site / "truth_editable.pth", str(self.root / "editable") + "\n")
        self._write(self.root / "editable" / "truth_editable.py", EDITABLE)
        for path in [*self.root.rglob("*")]:
            if path.is_file() and not path.is_symlink():
                os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 3600 * LATER))
        shutil.copytree(self.root, self.pristine, symlinks=True)

    def _write(self, path: pathlib.Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _data(self) -> None:
        """Make what does not lie well in a repository: links, arrays, folders that have a role."""
        data, kernels = self.project / "truth" / "data", self.project / "truth" / "kernels"
        np.save(data / "array.npy", np.array([1, 2]))
        for name, text in {"one.txt": "2", "two.txt": "3", "one/inside.txt": "2", "two/inside.txt": "3"}.items():
            self._write(data / "targets" / name, text)
        for name in ("link.txt", "resolved.txt"):
            (data / name).symlink_to("targets/one.txt")
        (data / "pointer").symlink_to("nowhere-1")
        (data / "folder").symlink_to("targets/one")
        self._write(self.project / "truth" / "first" / "order.h", "#define FACTOR 5\n")
        self._write(kernels / "targets" / "one.h", "#define FACTOR 2\n")
        self._write(kernels / "targets" / "two.h", "#define FACTOR 3\n")
        (kernels / "link.h").symlink_to("targets/one.h")
        for folder, text in {"work": "2", "other": "3"}.items():
            self._write(self.root / folder / "relative.txt", text)

    def record(self, name: str, version: str) -> None:
        """Write the record of an installed distribution, as an installer does."""
        folder = self.site / f"{name}-{version}.dist-info"
        listed = [
            path
            for path in sorted(self.site.rglob("*.py"))
            if path.relative_to(self.site).parts[0] in (name, name + ".py")
        ]
        lines = []
        for path in listed:
            digest = __import__("hashlib").sha256(path.read_bytes()).hexdigest()
            lines.append(f"{path.relative_to(self.site)},sha256={digest},{path.stat().st_size}\n")
        if name == "truth_editable":
            lines = ["truth_editable.pth,sha256=x,1\n"]
        requires = "Requires-Dist: truth-lower\n" if name == "truth_installed" else ""
        self._write(folder / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}")
        self._write(folder / "RECORD", "".join(lines) + f"{folder.name}/METADATA,,\n{folder.name}/RECORD,,\n")

    def find(self, file: str) -> pathlib.Path:
        """Return the path of a file of the project's package; `../site/` and the like begin at the project."""
        return self.root / file[3:] if file.startswith("../") else self.project / "truth" / file

    def restore(self) -> None:
        """Undo every change of files; bytecode stays."""
        kept = {path.relative_to(self.pristine) for path in self.pristine.rglob("*")}
        for path in sorted(self.root.rglob("*"), reverse=True):
            if path.relative_to(self.root) not in kept and "__pycache__" not in path.parts:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for relative in sorted(kept):
            now, then = self.root / relative, self.pristine / relative
            if then.is_symlink():
                if not now.is_symlink() or os.readlink(now) != os.readlink(then):
                    now.unlink(missing_ok=True)
                    now.symlink_to(os.readlink(then))
            elif then.is_dir():
                now.mkdir(exist_ok=True)
            elif (
                not now.is_file()
                or now.stat().st_mtime_ns != then.stat().st_mtime_ns
                or now.read_bytes() != then.read_bytes()
            ):
                shutil.copy2(then, now)

    def environment(self, change: Change, cached: bool, variables: dict[str, str]) -> dict[str, str]:
        """Return the environment of a child with kcl's caches, or without any cache."""
        home = self.child.directory / ("with" if cached else "without") / "home"
        home.mkdir(parents=True, exist_ok=True)
        own: dict[str, str | None] = {
            "PYTHONPATH": os.pathsep.join([str(self.project), str(ROOT), str(SUPPORT), str(self.archive)]),
            "TRUTH_SITE": str(self.site),
            "HOME": str(home),
            # Files change within a second and keep their size, which Python's own compiled files do not notice.
            "PYTHONDONTWRITEBYTECODE": "1",
            **VARIABLES,
        }
        if not cached:
            own["XDG_CACHE_HOME"] = str(self.child.directory / "cache-without")
            own |= {"KCL_NO_CACHE": "1", "LOOPY_NO_CACHE": "1", "PYOPENCL_NO_CACHE": "1"}
        environment = self.child.environment()
        for name, value in (own | variables | change.variables).items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        return environment

    def start(self, recipes, change: Change, *, cached: bool, quick: bool = False, **variables: str) -> Started:
        """Start a child that launches `recipes`; a `quick` one is forked where nothing forbids it."""
        environment = self.environment(change, cached, variables)
        job, folder = json.dumps({"recipes": recipes}), self.root / change.folder
        if quick and not change.options:
            return self._server(cached).start(job, environment, folder)
        command = [sys.executable, *change.options, "-m", "truth.driver", job]
        process = subprocess.Popen(
            command, env=environment, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        return Spawned(process)

    def ask(self, recipes, change: Change | None = None, *, cached: bool = True, **variables: str) -> Said:
        """Run a child to its end."""
        return self.start(recipes, change or Change(), cached=cached, **variables).said()

    def _server(self, cached: bool) -> Server:
        if cached not in self.servers:
            environment = self.environment(Change(), cached, {"OPENBLAS_NUM_THREADS": "1"})
            modules = () if cached else ("loopy",)
            self.servers[cached] = Server(environment, self.child.directory / f"server-{cached}", modules)
        return self.servers[cached]

    def close(self) -> None:
        """End the servers."""
        for server in self.servers.values():
            server.close()


class Started:
    """A child that runs."""

    def end(self) -> tuple[int, str, str]:
        """Wait for its end: exit status, standard output, errors."""
        raise NotImplementedError

    def said(self) -> Said:
        """Return what it says; it must end well."""
        code, out, err = self.end()
        assert code == 0, f"the child ended with {code}:\n{out}\n{err}"
        return Said(**json.loads(out.splitlines()[-1]))


class Spawned(Started):
    """A child that was started as a program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def end(self):
        out, err = self.process.communicate(timeout=300)
        return self.process.returncode, out, err


class Server(Started):
    """A child that was forked by truth_server.py; one at a time."""

    def __init__(self, environment: dict[str, str], folder: pathlib.Path, modules: tuple[str, ...]) -> None:
        folder.mkdir()
        self.out, self.err = folder / "out", folder / "err"
        command = [sys.executable, str(SUPPORT / "truth_server.py"), *modules]
        self.process = subprocess.Popen(
            command, env=environment, cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def start(
        self, job: str, environment: dict[str, str], folder: pathlib.Path, module: str = "truth.driver"
    ) -> Server:
        """Let it fork a child."""
        order = {"module": module, "argument": job, "environment": environment, "folder": str(folder)}
        self._send(order | {"out": str(self.out), "err": str(self.err)})
        return self

    def _send(self, order: dict[str, object]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def end(self):
        assert self.process.stdout is not None
        return int(self.process.stdout.readline()), self.out.read_text(), self.err.read_text()

    def close(self) -> None:
        """End the server."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)
