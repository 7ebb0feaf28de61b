"""Run kcl on the PoCL of Debian 12, 13 and sid, each in a root of its own, and say what held.

    python tools/compat_pocl.py [--root NAME] [--folder DIRECTORY] [--part NAME] [--pairs N] [--sample SHARE]
                                [--python PROGRAM] [--pyopencl VERSION] [--page]

A root is made once in DIRECTORY, `build/roots` by default: debootstrap fetches Debian from the mirror that apt uses
here, and apt adds PoCL and Python. The wheels are fetched outside, for the Python of the root. Then the working tree is
copied there, and `tools/pocls/inside.py` runs each part: the demo, a program of pyopencl, the tests of three rooms, the row
of the matrix of faults that damages PoCL's files, and the second run at once. The outcome is kept in
doc/explanation/measured/pocls.json. A run of everything, and `--page`, write it into doc/reference/compatibility.md.

Status 1: a part failed. Status 2: nothing ran, because this needs root, debootstrap, unshare and apt.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
from importlib import metadata
from typing import Any

import compat_unchanged
from packaging.requirements import Requirement

HERE = pathlib.Path(__file__).resolve().parent.parent
STATE = HERE / "doc" / "explanation" / "measured" / "pocls.json"
# the name of a root, and Debian's for that release
ROOTS = {"debian-12": "bookworm", "debian-13": "trixie", "debian-sid": "sid"}
PACKAGES = ("python3", "python3-venv", "pocl-opencl-icd", "gcc", "libc6-dev")
ROOMS = ("drivers", "programs", "integrations")  # whose tests run
PARTS = ("demo", "program", *ROOMS, "faults", "at once")
OF_TESTS = {"pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "attrs"}
# releases without a wheel, pure Python
FROM_SOURCE = ("genpy", "cgen")
MOUNTS = (
    'mount -t proc proc "$0/proc" && mount -t sysfs sys "$0/sys" && mount -t tmpfs shm "$0/dev/shm" '
    '&& exec chroot "$0" "$@"'
)
BEGIN, END = (
    "<!-- pocls, made by make compat-pocl: begin -->",
    "<!-- pocls, made by make compat-pocl: end -->",
)
HEAD = (
    "PoCL",
    "from",
    "Python, pyopencl",
    "demo",
    "program of pyopencl",
    "tests of rooms",
    "damaged files: bad, without kcl",
    "second run at once, `KCL_STRICT=hit`",
    "second run at once, with / without",
    "completed after",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", action="append", choices=ROOTS, help="only this one")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE / "build" / "roots")
    parser.add_argument("--pairs", type=int, default=30, metavar="N", help="pairs of second runs")
    parser.add_argument("--sample", type=float, default=1.0, help="the part of the damaged files")
    parser.add_argument("--pyopencl", default="", metavar="VERSION", help="not the newest one")
    parser.add_argument("--python", default="python3", help="the interpreter in the root")
    parser.add_argument("--page", action="store_true", help="write the page from what ran")
    options = parser.parse_args()
    if not options.page:
        if lacking := missing():
            print(f"compat-pocl: nothing ran: this needs {lacking}", file=sys.stderr)
            sys.exit(2)
        for name in options.root or ROOTS:
            note(name, tried(made(name, options.folder.resolve()), options))
    known = load()
    rows = [row(one) for one in known.values()]
    print("\n".join(rows))
    if options.page or not (options.root or options.part):
        compat_unchanged.write(
            compat_unchanged.PAGE, compat_unchanged.headed(HEAD, rows), (BEGIN, END)
        )
    sys.exit(any(any(one["bad"].values()) for one in known.values()))


def load() -> dict[str, Any]:
    """Return what ran, by root and Python."""
    found: dict[str, Any] = json.loads(STATE.read_text()) if STATE.exists() else {}
    return found


def note(name: str, said: dict[str, Any]) -> None:
    """Write down what came of the parts that ran in a root; parts that ran before stay."""
    known = load()
    version = said["about"]["python"].rpartition(".")[0]
    which = f"{name}, Python {version}, pyopencl {said['about']['pyopencl']}"
    one = known.setdefault(which, {"bad": {}})
    bad = {**one["bad"], **said.pop("bad")}
    tests = {room: said.pop(room) for room in ROOMS if room in said}
    said["tests"] = one.get("tests", {}) | tests
    one.update(said, bad=bad, root=name, date=datetime.date.today().isoformat())
    STATE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def missing() -> str:
    """Name what a root cannot be made without; empty where all is there."""
    programs = [
        name for name in ("debootstrap", "unshare", "apt-get", "git") if not shutil.which(name)
    ]
    return ", ".join([*(["root"] if os.geteuid() else []), *programs])


def made(name: str, folder: pathlib.Path) -> pathlib.Path:
    """Return a root with PoCL and Python, which is made if it is not there."""
    root = folder / name
    done = root / "made-by-kcl"
    if not done.exists():
        print(f"{name}: making {root}", flush=True)
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        command = ["debootstrap", "--variant=minbase", ROOTS[name], str(root), mirror()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
        # a mirror may stand still for weeks
        (root / "etc" / "apt" / "apt.conf.d" / "90-kcl").write_text(
            "Acquire::Check-Valid-Until false;\n"
        )
        install = "apt-get -q update && apt-get -qy --no-install-recommends install"
        inside(root, f"{install} {' '.join(PACKAGES)}", stdout=subprocess.DEVNULL)
        done.touch()
    return root


def mirror() -> str:
    """Return the address from which apt here takes Debian."""
    command = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0]


def inside(root: pathlib.Path, command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of the shell in a root, whose mounts end with it; raise if it fails."""
    given = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    words = ["unshare", "--mount", "sh", "-c", MOUNTS, str(root), "sh", "-c", command]
    return subprocess.run(words, env=given, check=True, text=True, **options)


def tried(root: pathlib.Path, options: argparse.Namespace) -> dict[str, Any]:
    """Install the working tree in a root, run the parts there, and return what came of them."""
    asked = f"{options.python} -c 'import sys; print(*sys.version_info[:2], sep=\".\")'"
    version = inside(root, asked, stdout=subprocess.PIPE).stdout.strip()
    shutil.rmtree(root / "kcl", ignore_errors=True)
    (root / "kcl").mkdir()
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=HERE,
        check=True,
        capture_output=True,
    ).stdout
    for name in filter(None, files.decode().split("\0")):
        if (HERE / name).is_file():
            (root / "kcl" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HERE / name, root / "kcl" / name)
    own = f"/python-{version}{options.pyopencl and f'-{options.pyopencl}'}"
    bin_ = f"{own}/bin"
    wheels = f"/wheels-{version}"
    if not (root / bin_[1:] / "pytest").exists():
        needed = fetched(version, root / wheels[1:], options.pyopencl)
        pip = f"{bin_}/python -m pip install -q --no-index --find-links {wheels}"
        quoted = " ".join(f"'{one}'" for one in needed)
        inside(
            root,
            f"{options.python} -m venv --clear {own} && {pip} --upgrade setuptools && "
            f"{pip} {quoted} && {pip} --no-deps --no-build-isolation --editable /kcl",
        )
    parts = " ".join(f"--part '{part}'" for part in options.part or PARTS)
    run = f"cd /kcl && {bin_}/python tools/with_pocl.py {bin_}/python tools/pocls/inside.py"
    inside(root, f"{run} --pairs {options.pairs} --sample {options.sample} {parts}")
    said: dict[str, Any] = json.loads((root / "kcl" / "build" / "pocls.json").read_text())
    return said


def fetched(version: str, folder: pathlib.Path, pyopencl: str) -> list[str]:
    """Fetch the wheels of all that kcl and its tests need, for a version of Python; return what was asked for."""
    pip = [sys.executable, "-m", "pip"]
    here = ["--find-links", str(folder)]
    folder.mkdir(exist_ok=True)
    made = [*pip, "wheel", "-q", "--no-deps", *here, "--wheel-dir", str(folder)]
    subprocess.run([*made, *FROM_SOURCE], check=True)
    chosen = [f"pyopencl=={pyopencl}"] if pyopencl else []
    needed = ["setuptools", *requirements(version), *chosen]
    found = [*pip, "download", "-q", "--only-binary=:all:", "--python-version", version]
    subprocess.run([*found, *here, "--dest", str(folder), *needed], check=True)
    return needed


def requirements(version: str) -> list[str]:
    """Return what kcl, installed here, needs with loopy under a version of Python, and what its tests need."""
    found = []
    for text in metadata.requires("kcl") or ():
        one = Requirement(text)
        extras = {
            extra
            for extra in ("", "loopy", "test")
            if not one.marker or one.marker.evaluate({"extra": extra, "python_version": version})
        }
        if extras & {"", "loopy"} or (extras and one.name in OF_TESTS):
            one.marker = None
            found.append(str(one))
    return found


def row(one: dict[str, Any]) -> str:
    """Write the row of a root."""
    about, ran = one["about"], one
    faults, at_once = ran.get("faults"), ran.get("at once")
    cells = [
        about["pocl"],
        f"{one['root'].replace('-', ' ').title()}, LLVM {about['llvm']}",
        f"{about['python']}, {about['pyopencl']}",
        ran.get("demo", "not run"),
        ran.get("program", "not run"),
        "; ".join([f"{room}: {found}" for room, found in ran["tests"].items()]) or "not run",
        faults or "not run",
        at_once["strict"] if at_once else "not run",
        at_once["ratio"] if at_once else "not run",
        at_once["completed"] if at_once else "not run",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
