"""The folder `truth` copied, and its recipes launched in child processes.

A change is something done to the copy or to a process; `Tree.restore` undoes all of them.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import NamedTuple

SUPPORT = pathlib.Path(__file__).parent
ROOT = SUPPORT.parents[1]
LATER = 1_000_000_000  # nanoseconds; bytecode is fresh as long as its source's second and size are the same

# Cold and in every row: what a row changes must have been there before.
VARIABLES = {
    "PYOPENCL_BUILD_OPTIONS": "-DUNRELATED=1",
    "LC_ALL": "C.UTF-8",
}


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
        self.pristine = child.directory / "pristine"
        shutil.copytree(
            SUPPORT / "projects" / "truth", self.project / "truth", ignore=shutil.ignore_patterns("__pycache__")
        )
        self._data()
        for path in [*self.root.rglob("*")]:
            if path.is_file() and not path.is_symlink():
                os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 3600 * LATER))
        shutil.copytree(self.root, self.pristine, symlinks=True)

    def _write(self, path: pathlib.Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _data(self) -> None:
        """Make what does not lie well in a repository: links, arrays, folders that have a role."""
        kernels = self.project / "truth" / "kernels"
        self._write(self.project / "truth" / "first" / "order.h", "#define FACTOR 5\n")
        self._write(kernels / "targets" / "one.h", "#define FACTOR 2\n")
        self._write(kernels / "targets" / "two.h", "#define FACTOR 3\n")
        (kernels / "link.h").symlink_to("targets/one.h")
        (self.root / "work").mkdir()

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
            "PYTHONPATH": os.pathsep.join([str(self.project), str(ROOT), str(SUPPORT)]),
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

    def start(self, recipes, change: Change, *, cached: bool, **variables: str) -> Started:
        """Start a child that launches `recipes`."""
        environment = self.environment(change, cached, variables)
        job, folder = json.dumps({"recipes": recipes}), self.root / change.folder
        command = [sys.executable, *change.options, "-m", "truth.driver", job]
        process = subprocess.Popen(
            command, env=environment, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        return Started(process)

    def ask(self, recipes, change: Change | None = None, *, cached: bool = True, **variables: str) -> Said:
        """Run a child to its end."""
        return self.start(recipes, change or Change(), cached=cached, **variables).said()


class Started:
    """A child that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def said(self) -> Said:
        """Return what it says; it must end well."""
        out, err = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, f"the child ended with {self.process.returncode}:\n{out}\n{err}"
        return Said(**json.loads(out.splitlines()[-1]))
