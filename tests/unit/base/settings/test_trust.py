"""kcl.base.settings.trust: whose directories a cache may lie in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import ROOT

from kcl.base import process, settings
from kcl.base.settings import trust
from kcl.errors import UnusableDirectory

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with an ancestor between it and what pytest made."""
    directory = tmp_path / "ancestor" / "cache"
    directory.mkdir(parents=True, mode=0o700)
    (tmp_path / "ancestor").chmod(0o755)
    return directory


class TestCheck:
    def test_own_directory(self, place: Path) -> None:
        """A directory that only I can write is trusted, below such ones or sticky ones; a missing one is not made."""
        for mode in (0o755, 0o1777):
            place.parent.chmod(mode)
            assert trust.check(str(place)) is True
            assert trust.check(str(place / "a" / "b")) is False
        assert list(place.iterdir()) == []

    def test_in_a_removed_directory(
        self, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The directory in which a program works may be gone: what an absolute path names is checked all the same."""
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        try:
            assert trust.check(str(place)) is True
            place.chmod(0o777)
            with pytest.raises(UnusableDirectory, match="chmod go-w"):
                trust.check(str(place))
        finally:
            os.chdir(tmp_path)

    def test_loose_ancestor(self, place: Path) -> None:
        """An ancestor that others can write is named, with the command that mends it."""
        place.parent.chmod(0o777)
        for path in (place, place / "missing"):
            words = f"write {place.parent} \\(mode 0777\\).*chmod go-w {place.parent}"
            with pytest.raises(UnusableDirectory, match=words):
                trust.check(str(path))

    def test_sticky_directory(self, place: Path) -> None:
        """The cache directory itself must not be open to others, sticky or not."""
        place.chmod(0o1777)
        with pytest.raises(UnusableDirectory, match="chmod go-w"):
            trust.check(str(place))

    @AS_ROOT
    def test_foreign(self, place: Path) -> None:
        """A foreign directory on the way is named with its owner, sticky or not."""
        os.chown(place.parent, 12345, 12345)
        for mode in (0o755, 0o1755):
            place.parent.chmod(mode)
            words = f"{place.parent} belongs to uid 12345.*KCL_CACHE_DIR"
            with pytest.raises(UnusableDirectory, match=words):
                trust.check(str(place))

    @AS_ROOT
    def test_owner_of_home(
        self, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Root accepts the directories of HOME's owner, as under sudo."""
        os.chown(place, 12345, 12345)
        home = tmp_path / "home"
        home.mkdir()
        monkeypatch.setenv("HOME", str(home))
        with pytest.raises(UnusableDirectory):
            trust.check(str(place))
        os.chown(home, 12345, 12345)
        assert trust.check(str(place)) is True

    @AS_ROOT
    def test_other_user(self, place: Path) -> None:
        """Another user than root is refused root's writable group only where the group has other users."""
        outside = (
            Path("/tmp") / f"kcl-trust-{os.getpid()}"
        )  # tmp_path's ancestors are closed to others
        outside.mkdir(0o755)
        try:
            os.chown(outside, 12345, 12345)
            code = (
                "import os, sys; os.setgid(12345); os.setuid(12345); from kcl.base.settings import trust\n"
                "print(trust.check(sys.argv[1]), trust.my_uids())\n"
                "try: trust.check(sys.argv[2])\n"
                "except Exception as error: print(type(error).__name__)"
            )
            output = subprocess.check_output(
                [
                    sys.executable,
                    "-c",
                    "import kcl.base.settings.trust\n" + code,
                    str(outside),
                    str(place),
                ],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                text=True,
            )
            assert output.splitlines() == ["True frozenset({12345})", "UnusableDirectory"]
        finally:
            outside.rmdir()

    def test_file_on_the_way(self, tmp_path: Path) -> None:
        """A file where a directory should be is named."""
        (tmp_path / "file").write_text("precious")
        for path in (tmp_path / "file", tmp_path / "file" / "cache"):
            with pytest.raises(UnusableDirectory, match=f"{tmp_path}/file is not a directory"):
                trust.check(str(path))

    @pytest.mark.parametrize("path", ["nul\0", "x" * 300, "/" + "a/" * 3000])
    def test_impossible_paths(self, path: str) -> None:
        """A path that no system accepts is unusable or missing, never another error."""
        try:
            assert trust.check(path) is False
        except UnusableDirectory as error:
            assert "KCL_CACHE_DIR" in str(error)  # noqa: PT017


class TestLinks:
    def test_followed(self, place: Path, tmp_path: Path) -> None:
        """A link to a trusted directory is as good as the directory."""
        for target in (str(place), "ancestor/cache"):
            link = tmp_path / "link"
            link.symlink_to(target)
            assert trust.check(str(link)) is True
            assert trust.check(str(link / "missing")) is False
            link.unlink()

    @pytest.mark.parametrize("path", ["link", "link/.."])
    def test_target_is_checked(self, place: Path, tmp_path: Path, path: str) -> None:
        """What a link leads through is under the same rule; two dots after it lead to the parent of its target."""
        (tmp_path / "link").symlink_to(place)
        place.parent.chmod(0o777)
        with pytest.raises(UnusableDirectory, match=str(place.parent)):
            trust.check(f"{tmp_path}/{path}")

    @AS_ROOT
    def test_foreign_link(self, place: Path, tmp_path: Path) -> None:
        """A link that somebody else put into a sticky directory is refused, wherever it leads."""
        shared = tmp_path / "shared"
        shared.mkdir()
        shared.chmod(0o1777)
        (shared / "link").symlink_to(place)
        os.chown(shared / "link", 12345, 12345, follow_symlinks=False)
        with pytest.raises(UnusableDirectory, match="link belongs to uid 12345"):
            trust.check(str(shared / "link"))

    def test_loop(self, tmp_path: Path) -> None:
        """A loop of links is refused."""
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(UnusableDirectory, match="symbolic links"):
            trust.check(str(tmp_path / "a"))


class TestGroups:
    def test_private_group(self, place: Path) -> None:
        """A directory that my private group can write is mine (umask 002)."""
        if not trust._is_group_of(os.getegid(), os.geteuid()):
            pytest.skip("the group that runs the tests has other members")
        os.chown(place, -1, os.getegid())
        place.chmod(0o775)
        assert trust.check(str(place)) is True
        place.chmod(0o777)
        with pytest.raises(UnusableDirectory):
            trust.check(str(place))

    @AS_ROOT
    def test_other_group(self, place: Path) -> None:
        """A group with other users, or with another number and name than its user, is not private."""
        for gid in (12345, 100):
            os.chown(place, -1, gid)
            place.chmod(0o770)
            with pytest.raises(UnusableDirectory, match="chmod g-w"):
                trust.check(str(place))


@AS_ROOT
class TestNamespace:
    def test_unmapped_root(self) -> None:
        """Where root is not mapped its directories are accepted as ancestors, not below a directory open to all."""
        code = (
            "import ctypes, os, shlex, sys; from kcl.base.settings import trust\n"
            "os.setgid(12345); os.setuid(12345); os.chdir('/')\n"
            "print(ctypes.CDLL(None).unshare(0x10000000), flush=True); sys.stdin.readline()\n"
            "print(os.geteuid(), os.stat('/').st_uid)\n"
            "for path in sys.argv[1:]:\n"
            "    try: print(trust.check(path))\n"
            "    except Exception as error: print('belongs to uid 65534' in str(error))\n"
        )
        outside = Path("/tmp") / f"kcl-namespace-{os.getpid()}"
        outside.mkdir(0o755)
        command = [sys.executable, "-c", code, "/usr/kcl-missing", "/usr", str(outside / "missing")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        try:
            with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
                assert process.stdout is not None
                if process.stdout.readline() != "0\n":
                    pytest.skip("no user namespaces here")
                for table in ("uid_map", "gid_map"):
                    Path(f"/proc/{process.pid}/{table}").write_text("12345 12345 1")
                # missing below root's directory: fine; root's own directory as the cache: no; below /tmp: no
                assert process.communicate("go\n")[0].split() == [
                    "12345",
                    "65534",
                    "False",
                    "True",
                    "True",
                ]
        finally:
            outside.rmdir()


class TestMaking:
    def test_dangling_link(self, tmp_path: Path) -> None:
        """A link that leads nowhere is an error, and nothing is made."""
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        with pytest.raises(OSError, match="exists"):
            trust.make_trusted(str(tmp_path / "link"))
        assert not (tmp_path / "nowhere").exists()


@AS_ROOT
class TestServed:
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The directory that KCL_CACHE_DIR names, of a user without an entry in the list of users."""
        place = tmp_path / "cache"
        place.mkdir()
        os.chown(place, 47110, 47111)
        monkeypatch.setenv("KCL_CACHE_DIR", str(place))
        monkeypatch.setenv("HOME", str(tmp_path))
        return place

    @pytest.mark.parametrize(
        ("named", "served"),
        [("47110", 47110), (" 1 ", 1), ("", 0), ("0", 0), ("65534", 0), ("x", 0)],
    )
    def test_named(self, monkeypatch: pytest.MonkeyPatch, named: str, served: int) -> None:
        """KCL_TRUST_UID names one user; root is none, nor is the number that stands for unmapped users."""
        monkeypatch.setenv("KCL_TRUST_UID", named)
        assert trust.served() == served
        assert bool(settings.read().rejected) is (named == "x")
        monkeypatch.delenv("KCL_CACHE_DIR")
        assert trust.served() == 0

    @pytest.mark.parametrize(("owner", "served"), [(47110, 47110), (1, 0), (0, 0), (65534, 0)])
    def test_owner_of_home(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, served: int
    ) -> None:
        """HOME's owner is served if the list of users has no entry for it, and if no other user is named."""
        os.chown(tmp_path, owner, owner)
        assert trust.served() == served
        monkeypatch.setenv("KCL_TRUST_UID", "2")
        assert trust.served() == 2

    def test_given(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What root makes gets owner and group of its folder; what was there, and what lies elsewhere, stays."""
        monkeypatch.setenv("KCL_TRUST_UID", "47110")
        (place / "old").touch()
        trust.make_directory(str(place / "new" / "folder"))
        for path in (place / "new" / "folder" / "file", place.parent / "file"):
            os.close(trust.open_file(str(path), trust.LOCK))
        made = (place / "new", place / "new" / "folder", place / "new" / "folder" / "file")
        assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(47110, 47111)}
        assert (place / "old").stat().st_uid == (place.parent / "file").stat().st_uid == 0

    def test_not_in_the_settings_file(self) -> None:
        """The settings file cannot name a user: it would decide who may write it."""
        file = Path(settings.settings_file())
        file.parent.mkdir(parents=True)
        file.write_text("trust_uid = 47110\n")
        assert trust.served() == 0
        assert "there is no setting 'trust_uid'" in " ".join(settings.read().rejected)


class TestNetwork:
    @pytest.mark.parametrize(("kind", "expected"), [("nfs4", True), ("ext4", False)])
    def test_kind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, expected: bool
    ) -> None:
        """The mount with the device of the path decides, also of a path that does not exist yet."""
        number = os.stat(tmp_path).st_dev
        device = f"{os.major(number)}:{os.minor(number)}"
        monkeypatch.setattr(process, "PROC", str(tmp_path))
        mounts = tmp_path / "self" / "mountinfo"
        mounts.parent.mkdir()
        mounts.write_text(
            f"what\n1 0 0:99999 / /x rw - lustre x rw\n2 1 {device} / /y rw shared:1 - {kind} y rw\n"
        )
        for path in (tmp_path, tmp_path / "missing" / "deep"):
            assert trust.is_network(str(path)) is expected

    def test_unknown(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a list of mounts nothing is known."""
        monkeypatch.setattr(process, "PROC", str(tmp_path))
        assert not trust.is_network(str(tmp_path))
