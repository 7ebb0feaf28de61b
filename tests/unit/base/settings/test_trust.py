"""kcl.base.settings.trust: whose directories a cache may lie in."""

import os
import tempfile
from pathlib import Path

import pytest
from harness import python

from kcl.base import process, settings
from kcl.base.settings import trust
from kcl.errors import UnusableDirectory

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")


@pytest.fixture
def place(tmp_path):
    """A directory with an ancestor between it and what pytest made."""
    directory = tmp_path / "ancestor" / "cache"
    directory.mkdir(parents=True, mode=0o700)
    (tmp_path / "ancestor").chmod(0o755)
    return directory


@pytest.fixture
def outside():
    """A directory that other users may reach, as they may not reach `tmp_path`."""
    with tempfile.TemporaryDirectory(prefix="kcl-trust-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield folder


def check_refused(path, words):
    """Check that a directory is refused with these words."""
    with pytest.raises(UnusableDirectory, match=words):
        trust.check(str(path))


class TestCheck:
    def test_own_directory(self, place):
        """A directory that only I can write is trusted, below such ones or sticky ones; a missing one is not made."""
        for mode in (0o755, 0o1777):
            place.parent.chmod(mode)
            assert trust.check(str(place)) is True
            assert trust.check(str(place / "a" / "b")) is False
        assert list(place.iterdir()) == []

    def test_in_a_removed_directory(self, place, tmp_path, monkeypatch):
        """The directory in which a program works may be gone: what an absolute path names is checked all the same."""
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        try:
            assert trust.check(str(place)) is True
            place.chmod(0o777)
            check_refused(place, "chmod go-w")
        finally:
            os.chdir(tmp_path)

    def test_loose(self, place):
        """An ancestor that others can write is named with the cure, and so is a cache directory, sticky or not."""
        place.parent.chmod(0o777)
        for path in (place, place / "missing"):
            check_refused(path, f"write {place.parent} \\(mode 0777\\).*chmod go-w {place.parent}")
        place.parent.chmod(0o755)
        place.chmod(0o1777)
        check_refused(place, "chmod go-w")

    @AS_ROOT
    @pytest.mark.parametrize("mode", [0o755, 0o1755])
    def test_a_foreign_ancestor_is_named_with_its_owner(self, place, mode):
        os.chown(place.parent, 12345, 12345)
        place.parent.chmod(mode)
        check_refused(place, f"{place.parent} belongs to uid 12345.*KCL_CACHE_DIR")

    @AS_ROOT
    def test_root_accepts_the_directories_of_homes_owner_as_under_sudo(
        self, place, tmp_path, monkeypatch
    ):
        os.chown(place, 12345, 12345)
        home = tmp_path / "home"
        home.mkdir()
        monkeypatch.setenv("HOME", str(home))
        check_refused(place, "12345")
        os.chown(home, 12345, 12345)
        assert trust.check(str(place)) is True

    @AS_ROOT
    def test_other_user(self, place, outside):
        """Another user trusts its own directory, and not those of root that it cannot read."""
        os.chown(outside, 12345, 12345)
        code = (
            "import os, sys; from kcl.base.settings import trust; os.setgid(12345); os.setuid(12345)\n"
            "print(trust.check(sys.argv[1]), trust.my_uids())\n"
            "try: trust.check(sys.argv[2])\n"
            "except Exception as error: print(type(error).__name__)"
        )
        said = python(code, outside, str(place)).communicate()[0]
        assert said.splitlines() == ["True frozenset({12345})", "UnusableDirectory"]

    def test_file_on_the_way(self, tmp_path):
        (tmp_path / "file").write_text("precious")
        for path in (tmp_path / "file", tmp_path / "file" / "cache"):
            check_refused(path, f"{tmp_path}/file is not a directory")

    @pytest.mark.parametrize("path", ["nul\0", "x" * 300, "/" + "a/" * 3000])
    def test_impossible_paths(self, path):
        """A path that no system accepts is unusable or missing, never another error."""
        try:
            assert trust.check(path) is False
        except UnusableDirectory as error:
            assert "KCL_CACHE_DIR" in str(error)  # noqa: PT017


class TestLinks:
    @pytest.mark.parametrize("target", ["{}", "ancestor/cache"])
    def test_followed(self, place, tmp_path, target):
        """A link to a directory is as good as what it leads through; two dots after it lead to its target's parent."""
        link = tmp_path / "link"
        link.symlink_to(target.format(place))
        assert trust.check(str(link)) is True
        assert trust.check(str(link / "missing")) is False
        place.parent.chmod(0o777)
        for path in (link, f"{link}/.."):
            check_refused(path, str(place.parent))

    @AS_ROOT
    def test_foreign_link(self, place, tmp_path):
        """A link that somebody else put into a sticky directory is refused, wherever it leads."""
        shared = tmp_path / "shared"
        shared.mkdir()
        shared.chmod(0o1777)
        (shared / "link").symlink_to(place)
        os.chown(shared / "link", 12345, 12345, follow_symlinks=False)
        check_refused(shared / "link", "link belongs to uid 12345")

    def test_loop(self, tmp_path):
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        check_refused(tmp_path / "a", "symbolic links")

    def test_nothing_is_made_where_a_link_leads_nowhere(self, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        with pytest.raises(OSError, match="exists"):
            trust.make_trusted(str(tmp_path / "link"))
        assert not (tmp_path / "nowhere").exists()


class TestGroups:
    def test_private_group(self, place):
        """A directory that my private group can write is mine (umask 002)."""
        if not trust._is_group_of(os.getegid(), os.geteuid()):
            pytest.skip("the group that runs the tests has other members")
        os.chown(place, -1, os.getegid())
        place.chmod(0o775)
        assert trust.check(str(place)) is True
        place.chmod(0o777)
        check_refused(place, "chmod")

    @AS_ROOT
    @pytest.mark.parametrize("gid", [12345, 100])
    def test_other_group(self, place, gid):
        """A group with other users, or with another number and name than its user, is not private."""
        os.chown(place, -1, gid)
        place.chmod(0o770)
        check_refused(place, "chmod g-w")


@AS_ROOT
def test_unmapped_root(outside):
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
    # Missing below root's directory: fine. Root's own directory as the cache, and one below /tmp: no.
    with python(code, "/usr/kcl-missing", "/usr", f"{outside}/missing") as child:
        if child.stdout.readline() != "0\n":
            pytest.skip("no user namespaces here")
        for table in ("uid_map", "gid_map"):
            Path(f"/proc/{child.pid}/{table}").write_text("12345 12345 1")
        said = child.communicate("go\n")[0].split()
    assert said == ["12345", "65534", "False", "True", "True"]


@AS_ROOT
class TestServed:
    @pytest.fixture(autouse=True)
    def place(self, tmp_path, monkeypatch):
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
    def test_named(self, monkeypatch, named, served):
        """KCL_TRUST_UID names one user; root is none, nor is the number that stands for unmapped users."""
        monkeypatch.setenv("KCL_TRUST_UID", named)
        assert trust.served() == served
        assert bool(settings.read().rejected) is (named == "x")
        monkeypatch.delenv("KCL_CACHE_DIR")
        assert trust.served() == 0

    @pytest.mark.parametrize(("owner", "served"), [(47110, 47110), (1, 0), (0, 0), (65534, 0)])
    def test_owner_of_home(self, tmp_path, monkeypatch, owner, served):
        """HOME's owner is served if the list of users has no entry for it, and if no other user is named."""
        os.chown(tmp_path, owner, owner)
        assert trust.served() == served
        monkeypatch.setenv("KCL_TRUST_UID", "2")
        assert trust.served() == 2

    def test_given(self, place, monkeypatch):
        """What root makes gets owner and group of its folder; what was there, and what lies elsewhere, stays."""
        monkeypatch.setenv("KCL_TRUST_UID", "47110")
        (place / "old").touch()
        trust.make_directory(str(place / "new" / "folder"))
        for path in (place / "new" / "folder" / "file", place.parent / "file"):
            os.close(trust.open_file(str(path), trust.LOCK))
        made = (place / "new", place / "new" / "folder", place / "new" / "folder" / "file")
        assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(47110, 47111)}
        assert (place / "old").stat().st_uid == (place.parent / "file").stat().st_uid == 0

    def test_not_in_the_settings_file(self):
        """The settings file cannot name a user: it would decide who may write it."""
        file = Path(settings.settings_file())
        file.parent.mkdir(parents=True)
        file.write_text("trust_uid = 47110\n")
        assert trust.served() == 0
        assert "there is no setting 'trust_uid'" in " ".join(settings.read().rejected)


@pytest.mark.parametrize(("kind", "expected"), [("nfs4", True), ("ext4", False), ("", False)])
def test_network(tmp_path, monkeypatch, kind, expected):
    """The mount with the device of the path decides, also of a missing path; without a list nothing is known."""
    number = os.stat(tmp_path).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    monkeypatch.setattr(process, "PROC", str(tmp_path))
    if kind:
        (tmp_path / "self").mkdir()
        (tmp_path / "self" / "mountinfo").write_text(
            f"what\n1 0 0:99999 / /x rw - lustre x rw\n2 1 {device} / /y rw shared:1 - {kind} y rw\n"
        )
    for path in (tmp_path, tmp_path / "missing" / "deep"):
        assert trust.is_network(str(path)) is expected
