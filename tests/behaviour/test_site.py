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


def drive(child, platform_name, mode, file, **variables):
    """Run the driver; return its exit status, what it said and its last words."""
    done = child.python(str(DRIVER), PLATFORMS[platform_name], mode, str(file), **variables)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def load_into(child, file, site):
    """Fill a site directory by the command."""
    command = [sys.executable, "-m", "kcl", "load", str(file), "--into", str(site)]
    variables = child.environment(XDG_CACHE_HOME=str(child.directory / "never"))
    subprocess.run(command, env=variables, check=True, capture_output=True, umask=0o077)
    assert {path.name for path in (child.directory / "never").glob("*")} <= {
        "pocl",
        "kcl",
    }  # kcl notes which files of packages it has read


@pytest.fixture(scope="module")
def bundle(platform_name, tmp_path_factory):
    """A bundle of the driver."""
    folder = tmp_path_factory.mktemp("saved")
    file = folder / "saved.kclb"
    status, _said, words = drive(Child(folder), platform_name, "save", file)
    assert status == 0, words
    return file


@pytest.fixture(scope="module")
def loaded(bundle, tmp_path_factory):
    """A site directory that the command filled."""
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
    """Return the files of the entries."""
    return [path for path in site.rglob("*") if path.is_file()]


class TestReading:
    def test_modes(self, site):
        """Everyone may read, whatever the mask of the one who fills it."""
        assert {path.stat().st_mode & 0o777 for path in entries(site)} == {0o644}
        assert {path.stat().st_mode & 0o777 for path in site.rglob("*") if path.is_dir()} == {0o755}

    def test_hits(self, site, child, platform_name):
        """An empty own cache: every look-up hits, loopy is not imported, and nothing is written or copied."""
        before = state_of(site)
        status, said, words = drive(
            child, platform_name, "run", "", KCL_SITE=str(site), KCL_STRICT="hit"
        )
        assert status == 0, words
        assert {tuple(look) for look in said["looks"]} == {("generator", "hit"), ("binary", "hit")}
        assert not said["loopy"]
        assert state_of(site) == before
        written = [
            path
            for folder in ("pytools", "pyopencl")
            for path in (child.cache / folder).rglob("*kcl*")
        ]
        assert not [path for path in written if path.is_file()]

    def test_settings_file(self, site, child, platform_name):
        """The settings file names it; the variable takes it away."""
        file = child.directory / "config" / "kcl" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(f"site = [{str(site)!r}]\n")
        given = {"XDG_CONFIG_HOME": str(child.directory / "config")}
        assert drive(child, platform_name, "run", "", KCL_STRICT="hit", **given)[0] == 0
        assert (
            drive(child, platform_name, "run", "", KCL_STRICT="hit", KCL_SITE="off", **given)[0]
            == 1
        )

    def test_own_cache_comes_first(self, site, child, platform_name):
        """What is missing is made, and stored in the own cache only."""
        next(path for path in entries(site) if "halved" in path.name).unlink()
        before = state_of(site)
        for outcome in ("miss", "hit"):
            status, said, words = drive(child, platform_name, "run", "", KCL_SITE=str(site))
            assert status == 0, words
            assert said["looks"].count(["binary", outcome]) == (1 if outcome == "miss" else 3)
            subprocess.run(
                [sys.executable, "-m", "kcl", "flush"], env=child.environment(), check=True
            )
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

    def run(self, child, site, *command, status=0):
        """Run a command for a user with an empty cache; return what it printed."""
        done = child.python("-m", "kcl", *command, KCL_SITE=str(site))
        assert done.returncode == status, done.stderr
        return done.stdout

    def test_listed(self, site, child):
        """`ls`, `show` and `verify` know them, and `status` has a line for the directory."""
        listed = json.loads(self.run(child, site, "ls", "--json"))
        assert {one["kernel"] for one in listed} == {"added", "halved"}
        assert str(site) in self.run(child, site, "show", "halved", "--file")
        checked = json.loads(self.run(child, site, "verify", "--json"))
        assert sum(checked["checked"].values()) == len(entries(site))
        assert f"site {site}: {len(listed)} entries" in self.run(child, site, "status")

    def test_left_alone(self, site, child):
        """`purge` and `gc` leave them alone."""
        before = state_of(site)
        self.run(child, site, "purge", "--all", "--yes")
        self.run(child, site, "gc", "--max-size", "1k")
        assert state_of(site) == before

    def test_bound(self, site, child):
        """The owner of a site bounds it by the command; the own cache stays as it is."""
        before = len(entries(site))
        said = self.run(child, site, "gc", "--site", str(site), "--max-size", "1k", "--dry-run")
        assert "would be removed" in said
        assert len(entries(site)) == before
        assert "removed" in self.run(child, site, "gc", "--site", str(site), "--max-size", "1k")
        assert len(entries(site)) < before

    def test_missing(self, site, child):
        """A site that is not there is said to be missing."""
        assert f"site {site}/none: it is missing" in self.run(child, site / "none", "status")

    def test_fault(self, site, child):
        """`status` names what is wrong with it."""
        os.chmod(site, 0o777)
        assert f"site {site}: others can write" in " ".join(self.run(child, site, "status").split())


class TestRefused:
    def misses(self, site, child, platform_name, words):
        """The run is right, misses, and says why in one line."""
        before = state_of(site)
        status, said, printed = drive(child, platform_name, "run", "", KCL_SITE=str(site))
        assert status == 0, printed
        assert {outcome for _layer, outcome in said["looks"]} >= {"miss"}
        assert "error" not in {outcome for _layer, outcome in said["looks"]}
        assert sum(words in line for line in printed.splitlines()) >= 1, printed
        assert state_of(site) == before

    def test_stranger(self, site, child, platform_name):
        """A directory of another user is not believed."""
        for path in (site, *site.rglob("*")):
            os.chown(path, OTHER, OTHER)
        self.misses(site, child, platform_name, f"belongs to uid {OTHER}")

    def test_owners(self, site, child, platform_name):
        """The settings file may name that user; a variable may not."""
        for path in (site, *site.rglob("*")):
            os.chown(path, OTHER, OTHER)
        file = child.directory / "config" / "kcl" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(f"site = [{str(site)!r}]\nsite_owners = [{OTHER}]\n")
        strict = {"KCL_STRICT": "hit"}
        assert (
            drive(
                child,
                platform_name,
                "run",
                "",
                XDG_CONFIG_HOME=str(child.directory / "config"),
                **strict,
            )[0]
            == 0
        )
        given = {"KCL_SITE": str(site), "KCL_SITE_OWNERS": str(OTHER)}
        assert drive(child, platform_name, "run", "", **given, **strict)[0] == 1

    def test_group_may_write(self, site, child, platform_name):
        os.chmod(site, 0o775)
        os.chown(site, 0, 12345)
        self.misses(site, child, platform_name, "others can write")

    def test_flipped(self, site, child, platform_name):
        """A damaged entry is a miss, and stays where it is; the warning names the file."""
        for path in entries(site):
            blob = bytearray(path.read_bytes())
            blob[-1] ^= 1
            path.write_bytes(blob)
        self.misses(site, child, platform_name, "tell the owner of the site")

    def test_missing(self, child, platform_name, tmp_path):
        """A directory that is not there is a miss."""
        status, said, words = drive(
            child, platform_name, "run", "", KCL_SITE=str(tmp_path / "gone")
        )
        assert status == 0, words
        assert {outcome for _layer, outcome in said["looks"]} == {"miss"}


def test_another_user(site):
    """Another user reads root's directory as a site; in the place of the own cache it is refused with that variable."""
    code = "import os, shlex, sys\nfrom kcl.cache.stores.directory import Directory\n"
    code += "from kcl.errors import UnusableDirectory\nos.setgid(12345)\nos.setuid(12345)\n"
    code += "try: next(Directory(sys.argv[1]).scan(), None)\nexcept UnusableDirectory as error: print(error)\n"
    code += "site = Directory(sys.argv[1], others=frozenset({0}))\n"
    code += "print(all(site.get(address) for address in site.scan()), site.writable)"
    place = next(path for path in site.rglob("kcl-binary-v1"))
    done = run_command([sys.executable, "-c", code, str(place)])
    assert f"belongs to root and is no cache of yours: read it by KCL_SITE={site}" in done.stdout, (
        done.stderr
    )
    assert done.stdout.splitlines()[-1] == "True False"
