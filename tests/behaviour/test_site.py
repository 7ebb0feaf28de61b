"""A site directory: what the own cache lacks is read there, nothing is written there, and no stranger's is believed."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import bundled
import pytest
from harness import PLATFORMS, Child, run_command

DRIVER = pathlib.Path(bundled.__file__)
OTHER = 65533
pytestmark = [
    pytest.mark.one_platform,
    pytest.mark.skipif(
        os.name != "posix" or os.geteuid() != 0, reason="only root can make a site directory"
    ),
]


def drive(child, platform_name, mode="run", file="", status=0, **variables):
    words = (DRIVER, PLATFORMS[platform_name], mode, file)
    done = child.finished(*words, status=status, **variables)
    return json.loads(done.stdout or "{}"), done.stderr


def configured(child, text):
    """Write the user's settings file; return the variables of a run that reads it."""
    file = child.directory / "config" / "kcl" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return {"XDG_CONFIG_HOME": str(child.directory / "config"), "KCL_STRICT": "hit"}


def load_into(child, file, site):
    command = [sys.executable, "-m", "kcl", "load", str(file), "--into", str(site)]
    variables = child.environment(XDG_CACHE_HOME=str(child.directory / "never"))
    subprocess.run(command, env=variables, check=True, capture_output=True, umask=0o077)
    written = {path.name for path in (child.directory / "never").glob("*")}
    assert written <= {"pocl", "kcl"}  # kcl notes which files of packages it has read


@pytest.fixture(scope="module")
def bundle(platform_name, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    file = folder / "saved.kclb"
    drive(Child(folder), platform_name, "save", file)
    return file


@pytest.fixture(scope="module")
def loaded(bundle, tmp_path_factory):
    folder = tmp_path_factory.mktemp("loaded")
    load_into(Child(folder), bundle, folder / "opt")
    return folder / "opt"


@pytest.fixture
def site(loaded):
    """A site directory with the entries of the bundle, below directories that all users may enter."""
    with tempfile.TemporaryDirectory(prefix="kcl-site-") as name:
        os.chmod(name, 0o755)
        yield shutil.copytree(loaded, pathlib.Path(name, "opt"))


def state_of(folder):
    """Return what tells a write below a folder: names, modes, sizes and times."""
    stats = {str(path.relative_to(folder)): path.lstat() for path in sorted(folder.rglob("*"))}
    return {
        name: (one.st_mode, one.st_uid, one.st_size, one.st_mtime_ns) for name, one in stats.items()
    }


def entries(site):
    return [path for path in site.rglob("*") if path.is_file()]


class TestReading:
    def test_modes(self, site):
        """Everyone may read, whatever the mask of the one who fills it."""
        assert {path.stat().st_mode & 0o777 for path in entries(site)} == {0o644}
        assert {path.stat().st_mode & 0o777 for path in site.rglob("*") if path.is_dir()} == {0o755}

    def test_hits(self, site, child, platform_name):
        """An empty own cache: every look-up hits, loopy is not imported, and nothing is written or copied."""
        before = state_of(site)
        said, _words = drive(child, platform_name, KCL_SITE=str(site), KCL_STRICT="hit")
        assert {tuple(look) for look in said["looks"]} == {("generator", "hit"), ("binary", "hit")}
        assert not said["loopy"]
        assert state_of(site) == before
        assert not [path for path in child.cache.glob("py*/**/*kcl*") if path.is_file()]

    def test_settings_file(self, site, child, platform_name):
        """The settings file names it; the variable takes it away."""
        given = configured(child, f"site = [{str(site)!r}]\n")
        drive(child, platform_name, **given)
        drive(child, platform_name, status=1, KCL_SITE="off", **given)

    def test_own_cache_comes_first(self, site, child, platform_name):
        """What is missing is made, and stored in the own cache only."""
        next(path for path in entries(site) if "halved" in path.name).unlink()
        before = state_of(site)
        for outcome in ("miss", "hit"):
            said, _words = drive(child, platform_name, KCL_SITE=str(site))
            assert said["looks"].count(["binary", outcome]) == (1 if outcome == "miss" else 3)
            child.finished("-m", "kcl", "flush")
        assert state_of(site) == before

    def test_mended(self, site, bundle, child):
        """A second load replaces an entry that is damaged there."""
        path = entries(site)[0]
        good = path.read_bytes()
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        load_into(child, bundle, site)
        assert path.read_bytes() == good


class TestCommands:
    """Commands list the entries of a site, and change none."""

    @pytest.fixture
    def run(self, child, site):
        """Return what runs a command for a user with an empty cache, and returns what it printed."""
        return lambda *words: child.finished("-m", "kcl", *words, KCL_SITE=str(site)).stdout

    def test_listed(self, site, run):
        """`ls`, `show` and `verify` know them, and `status` has a line for the directory."""
        listed = json.loads(run("ls", "--json"))
        assert {one["kernel"] for one in listed} == {"added", "halved"}
        assert str(site) in run("show", "halved", "--file")
        checked = json.loads(run("verify", "--json"))
        assert sum(checked["checked"].values()) == len(entries(site))
        assert f"site {site}: {len(listed)} entries" in run("status")

    def test_left_alone(self, site, run):
        before = state_of(site)
        run("purge", "--all", "--yes")
        run("gc", "--max-size", "1k")
        assert state_of(site) == before

    def test_bound(self, site, run):
        """The owner of a site bounds it by the command; the own cache stays as it is."""
        before = len(entries(site))
        said = run("gc", "--site", str(site), "--max-size", "1k", "--dry-run")
        assert "would be removed" in said
        assert len(entries(site)) == before
        assert "removed" in run("gc", "--site", str(site), "--max-size", "1k")
        assert len(entries(site)) < before

    def test_fault(self, site, run):
        os.chmod(site, 0o777)
        assert f"site {site}: others can write" in " ".join(run("status").split())
        shutil.rmtree(site)
        assert f"site {site}: it is missing" in run("status")


def belongs_to_another(site):
    for path in (site, *site.rglob("*")):
        os.chown(path, OTHER, OTHER)


def open_to_a_group(site):
    os.chmod(site, 0o775)
    os.chown(site, 0, 12345)


def damaged(site):
    for path in entries(site):
        blob = path.read_bytes()
        path.write_bytes(blob[:-1] + bytes([blob[-1] ^ 1]))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (belongs_to_another, f"belongs to uid {OTHER}"),
        (open_to_a_group, "others can write"),
        (damaged, "tell the owner of the site"),
        (shutil.rmtree, ""),
    ],
)
def test_refused(site, child, platform_name, spoil, words):
    """The run is right, misses, and says why in one line; nothing is changed there."""
    spoil(site)
    before = state_of(site)
    said, printed = drive(child, platform_name, KCL_SITE=str(site))
    outcomes = {outcome for _layer, outcome in said["looks"]}
    assert outcomes == {"miss"}
    assert words in printed
    assert state_of(site) == before


def test_owners(site, child, platform_name):
    """The settings file may name the user to whom a site belongs; a variable may not."""
    belongs_to_another(site)
    given = configured(child, f"site = [{str(site)!r}]\nsite_owners = [{OTHER}]\n")
    drive(child, platform_name, **given)
    given = {"KCL_SITE": str(site), "KCL_SITE_OWNERS": str(OTHER), "KCL_STRICT": "hit"}
    drive(child, platform_name, status=1, **given)


IDENTITY = """
import os, shlex, sys  # which the other user may be unable to read
from kcl.cache.stores.directory import Directory
from kcl.errors import UnusableDirectory

os.setgid(12345)
os.setuid(12345)
try:
    next(Directory(sys.argv[1]).scan(), None)
except UnusableDirectory as error:
    print(error)
site = Directory(sys.argv[1], others=frozenset({0}))
print(all(site.get(address) for address in site.scan()), site.writable)
"""


def test_another_user(site):
    """Another user reads root's directory as a site; in the place of the own cache it is refused with that variable."""
    place = next(path for path in site.rglob("kcl-binary-v1"))
    done = run_command([sys.executable, "-c", IDENTITY, place])
    refused = f"belongs to root and is no cache of yours: read it by KCL_SITE={site}"
    assert refused in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "True False"
