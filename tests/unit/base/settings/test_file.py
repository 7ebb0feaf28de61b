"""kcl.base.settings.file: the user's settings file, and the caches of checkouts that it records."""

import os
import pathlib
import sys

import pytest

from kcl import option
from kcl.base import process, settings
from kcl.base.settings import file as settings_file

pytestmark = pytest.mark.faults  # what is read is compared with defaults
TOKEN = "0123456789abcdef" * 2


def write(text, mode=0o600):
    """Write the settings file of this test's user."""
    path = pathlib.Path(settings.settings_file())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    process.reset()
    return path


def make_cache(checkout, token=TOKEN):
    """Make the cache directory of a checkout, as `kcl init` does."""
    folder = checkout / settings.CHECKOUT_FOLDER
    folder.mkdir(mode=0o700, parents=True)
    (folder / "token").write_text(token)
    (folder / "token").chmod(0o600)
    return str(folder)


def recorded(checkout, token=TOKEN):
    """Make the cache directory of a checkout that is recorded."""
    folder = make_cache(checkout, token)
    settings_file.record(settings.settings_file(), str(checkout), TOKEN)
    process.reset()
    return folder


class TestSettings:
    def test_typed(self):
        """A setting is named as its variable in lower case, and its value is written in TOML's own types."""
        write(
            'strict = ["hit", "fault"]\nmax_size = 5000\npromote = "off"\nreport = true\nno_cache = "binary"\n'
        )
        chosen = settings.read()
        assert (chosen.strict, chosen.no_cache) == ({"hit", "fault"}, {"binary"})
        assert (chosen.max_size, chosen.promote, bool(chosen.report)) == (5000, "off", True)
        assert not chosen.rejected

    @pytest.mark.parametrize(
        "setting", [one for one in settings.SETTINGS if one.parser], ids=lambda one: one.key
    )
    def test_every_setting(self, setting):
        """Each setting can stand in the file; what is not understood is named by its place there."""
        path = write(f'{setting.key} = "x"\n')
        (said,) = {text for text in settings.read().rejected if setting.key in text}
        assert str(path) in said

    def test_a_variable_wins_over_the_file_also_where_it_is_empty(self, monkeypatch):
        write('no_cache = ["generator"]\ncache_dir = "/from/file"\n')
        assert "config.toml" in option.reason()
        for layer, place in (("binary", "/from/variable"), ("", "")):
            monkeypatch.setenv("KCL_NO_CACHE", layer)
            monkeypatch.setenv("KCL_CACHE_DIR", place)
            assert settings.read().no_cache == ({layer} if layer else set())
            assert settings.read().cache_dir == (place or None)
            assert (option.reason() == "KCL_CACHE_DIR") is bool(place)

    @pytest.mark.parametrize(
        "text",
        [
            *("no_cache = ", "no_cache = [1", "\x00", '"a" = 1\n"a" = 2', "a = " + "[" * 5000),
            "x" * (settings_file.SIZE_LIMIT + 1),
        ],
        ids=["torn", "open", "zero", "twice", "deep", "large"],
    )
    def test_a_file_that_is_no_toml_is_ignored_with_one_text_that_names_it(self, text):
        path = write(text)
        chosen = settings.read()
        assert (chosen.no_cache, chosen.cache_dir) == (frozenset(), None)
        (said,) = chosen.rejected
        assert str(path) in said

    def test_unknown(self):
        """A setting that there is not, and a value that none can have, are named; the others count."""
        write('no_cach = "1"\nstrict = "hit"\nmax_size = {much = 1}\n')
        chosen = settings.read()
        assert chosen.strict == {"hit"}
        assert "no_cach" in chosen.rejected[0]
        assert "max_size" in chosen.rejected[1]

    @pytest.mark.skipif(
        sys.platform == "win32", reason="modes say nothing there, and no FIFO is there"
    )
    def test_not_mine_alone(self):
        """A file that others can write is ignored with the cure; a link to mine is read; no FIFO is waited for."""
        path = write('strict = "hit"\n', mode=0o666)
        assert not settings.read().strict
        (said,) = settings.read().rejected
        assert "chmod go-w" in said
        path.chmod(0o600)
        path.rename(path.with_name("elsewhere"))
        path.symlink_to("elsewhere")
        process.reset()
        assert settings.read().strict == {"hit"}
        path.unlink()
        os.mkfifo(path, 0o600)
        process.reset()
        assert "ignored" in settings.read().rejected[0]

    def test_place(self, monkeypatch, tmp_path):
        """The file lies where XDG_CONFIG_HOME says; a relative one says nothing."""
        assert settings.settings_file() == str(tmp_path / "config" / "kcl" / "config.toml")
        monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
        monkeypatch.setenv("HOME", str(tmp_path))
        if sys.platform == "linux":
            assert settings.settings_file() == str(tmp_path / ".config" / "kcl" / "config.toml")


class TestCheckout:
    @pytest.fixture
    def checkout(self, tmp_path, monkeypatch):
        """The working directory: a folder some levels below a checkout."""
        below = tmp_path / "checkout" / "deep" / "er"
        below.mkdir(parents=True, mode=0o700)
        monkeypatch.chdir(below)
        return pathlib.Path(os.path.realpath(tmp_path / "checkout"))

    def test_precedence(self, checkout, monkeypatch, tmp_path):
        """A call wins over KCL_CACHE_DIR, that over the checkout, that over the settings file, that over the user's."""
        assert option.get_cache_dir() == str(tmp_path / "cache")
        write('cache_dir = "/from/file"\n')
        assert option.get_cache_dir() == "/from/file"
        folder = recorded(checkout)
        assert option.get_cache_dir() == folder
        monkeypatch.chdir(tmp_path)
        assert option.get_cache_dir() == folder  # found once
        monkeypatch.setenv("KCL_CACHE_DIR", "/from/variable")
        assert option.get_cache_dir() == "/from/variable"
        option.cache_dir("/from/call")
        assert (option.get_cache_dir(), option.reason()) == ("/from/call", "kcl.option.cache_dir()")

    @pytest.mark.parametrize("is_link", [True, False])
    def test_token(self, checkout, tmp_path, is_link):
        """A clone that took the place of a recorded checkout does not know the token; one that is a link is nobody's."""
        token = pathlib.Path(recorded(checkout, token=TOKEN if is_link else "f" * 32), "token")
        if is_link:
            token.rename(tmp_path / "token")
            token.symlink_to(tmp_path / "token")
        assert settings.read().cache_dir is None
        assert "token" in settings.read().rejected[0]

    def test_stranger_inside(self, checkout):
        """A clone inside of a recorded checkout does not hide that one's cache."""
        stranger = make_cache(checkout / "deep")
        folder = recorded(checkout)
        assert settings.read().cache_dir == folder
        assert stranger in settings.read().rejected[0]

    @pytest.mark.usefixtures("checkout")
    @pytest.mark.skipif(sys.platform == "win32", reason="a working directory stays there")
    def test_a_removed_working_directory_is_no_fault(self):
        os.rmdir(os.getcwd())
        assert settings.read().cache_dir is None


@pytest.mark.parametrize(
    "path",
    [
        *("/home/me/project", '/odd "quoted" \\ # [x]', "/tab\tand\nline"),
        *("/umlaut ä/\U0001f600", "/no utf-8 \udcff"),
    ],
)
def test_recorded(path):
    """What is recorded is read again, whatever characters a path has; recording twice is recording once."""
    file = settings.settings_file()
    for other, token in (("/other", TOKEN), (path, "1" * 32), (path, "2" * 32)):
        settings_file.record(file, other, token)
    assert settings_file.checkouts(file) == {"/other": TOKEN, path: "2" * 32}
    for _ in range(2):
        settings_file.forget(file, path)
    assert settings_file.checkouts(file) == {"/other": TOKEN}


@pytest.mark.skipif(sys.platform == "win32", reason="modes say nothing there")
def test_records_are_the_users_alone(tmp_path, monkeypatch):
    """Those that others can write are not read, and the reason is said."""
    recorded(tmp_path / "project")
    folder = pathlib.Path(settings.settings_file()).parent / "checkouts"
    assert (folder / TOKEN).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
    monkeypatch.chdir(tmp_path / "project")
    folder.chmod(0o777)
    assert settings.read().cache_dir is None
    assert "others can write" in settings.read().rejected[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write a file of root's")
class TestSite:
    """Root's file for all users."""

    @pytest.fixture
    def site(self, tmp_path, monkeypatch):
        """Return the path of the file in place of the system's."""
        monkeypatch.setattr("kcl.base.settings.SITE_FILE", str(tmp_path / "site.toml"))
        return tmp_path / "site.toml"

    def test_below_the_user(self, site):
        """A setting of root's file counts if neither the user's file nor a variable says otherwise."""
        site.write_text('promote = "off"\nreport = true\n')
        write('promote = "exit"\n')
        assert (settings.read().promote, settings.read().report) == ("exit", {"table"})

    @pytest.mark.parametrize(("owner", "mode"), [(0, 0o666), (1234, 0o644)])
    def test_others_can_write(self, site, owner, mode):
        """A file that others can write, or that is not root's, is ignored with the reason."""
        site.write_text('promote = "off"\n')
        site.chmod(mode)
        os.chown(site, owner, 0)
        assert settings.read().promote == "background"
        assert "; run chown root and chmod go-w on it" in settings.read().rejected[0]
