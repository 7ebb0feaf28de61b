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


def write(text: str, mode: int = 0o600) -> pathlib.Path:
    """Write the settings file of this test's user."""
    path = pathlib.Path(settings.settings_file())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    process.reset()
    return path


def make_cache(checkout: pathlib.Path, token: str = TOKEN) -> str:
    """Make the cache directory of a checkout, as `kcl init` does."""
    folder = checkout / settings.CHECKOUT_FOLDER
    folder.mkdir(mode=0o700, parents=True)
    (folder / "token").write_text(token)
    (folder / "token").chmod(0o600)
    return str(folder)


def recorded(checkout: pathlib.Path, token: str = TOKEN) -> str:
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
        assert chosen.strict == {"hit", "fault"}
        assert chosen.max_size == 5000
        assert chosen.promote == "off"
        assert chosen.report
        assert chosen.no_cache == {"binary"}
        assert not chosen.rejected

    @pytest.mark.parametrize(
        "setting",
        [one for one in settings.SETTINGS if one.parser],
        ids=lambda setting: setting.variable,
    )
    def test_every_setting(self, setting):
        """Each setting can stand in the file; what is not understood is named by its place there."""
        path = write(f'{setting.key} = "x"\n')
        (said,) = {text for text in settings.read().rejected if setting.key in text}
        assert str(path) in said

    def test_variable_wins(self, monkeypatch):
        """A variable wins over the file, also where it is empty."""
        write('no_cache = ["generator"]\ncache_dir = "/from/file"\n')
        assert settings.read().no_cache == {"generator"}
        assert option.get_cache_dir() == "/from/file"
        assert "config.toml" in option.reason()
        monkeypatch.setenv("KCL_NO_CACHE", "binary")
        monkeypatch.setenv("KCL_CACHE_DIR", "/from/variable")
        assert settings.read().no_cache == {"binary"}
        assert (option.get_cache_dir(), option.reason()) == ("/from/variable", "KCL_CACHE_DIR")
        monkeypatch.setenv("KCL_NO_CACHE", "")
        monkeypatch.setenv("KCL_CACHE_DIR", "")
        assert settings.read().no_cache == frozenset()
        assert settings.read().cache_dir is None

    @pytest.mark.parametrize(
        "text",
        [
            "no_cache = ",
            "no_cache = [1",
            "\x00",
            '"a" = 1\n"a" = 2',
            "a = " + "[" * 5000,
            "x" * (settings_file.SIZE_LIMIT + 1),
        ],
        ids=["torn", "open", "zero", "twice", "deep", "large"],
    )
    def test_malformed(self, text):
        """A file that is no TOML is ignored with one text that names it."""
        path = write(text)
        chosen = settings.read()
        assert chosen == settings.Settings(
            **(chosen._asdict() | {"no_cache": frozenset(), "cache_dir": None})
        )
        (said,) = chosen.rejected
        assert str(path) in said

    def test_unknown(self):
        """A setting that there is not, and a value that none can have, are named; the others count."""
        write('no_cach = "1"\nstrict = "hit"\nmax_size = {much = 1}\n')
        chosen = settings.read()
        assert chosen.strict == {"hit"}
        assert ["no_cach" in chosen.rejected[0], "max_size" in chosen.rejected[1]] == [True, True]

    @pytest.mark.skipif(sys.platform == "win32", reason="modes say nothing there")
    def test_writable_by_others(self):
        """A file that others can write is ignored, and the text names the cure."""
        write('strict = "hit"\n', mode=0o666)
        assert not settings.read().strict
        (said,) = settings.read().rejected
        assert "chmod go-w" in said

    @pytest.mark.skipif(sys.platform == "win32", reason="no FIFO there")
    def test_no_file(self):
        """What is no regular file is not waited for; a link to one of mine is read."""
        path = write('strict = "hit"\n')
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

    def test_precedence(self, checkout, monkeypatch):
        """A call wins over KCL_CACHE_DIR, that over the checkout, that over the settings file."""
        write('cache_dir = "/from/file"\n')
        assert option.get_cache_dir() == "/from/file"
        folder = recorded(checkout)
        assert option.get_cache_dir() == folder
        monkeypatch.setenv("KCL_CACHE_DIR", "/from/variable")
        assert option.get_cache_dir() == "/from/variable"
        option.cache_dir("/from/call")
        assert (option.get_cache_dir(), option.reason()) == ("/from/call", "kcl.option.cache_dir()")

    def test_another_clone_at_the_place(self, checkout):
        """A clone that took the place of a recorded checkout does not know the token."""
        recorded(checkout, token="f" * 32)
        assert settings.read().cache_dir is None
        assert "token" in settings.read().rejected[0]

    def test_link(self, checkout, tmp_path):
        """A token that is a link is nobody's."""
        folder = pathlib.Path(make_cache(checkout))
        (folder / "token").rename(tmp_path / "token")
        (folder / "token").symlink_to(tmp_path / "token")
        settings_file.record(settings.settings_file(), str(checkout), TOKEN)
        process.reset()
        assert settings.read().cache_dir is None

    def test_stranger_inside(self, checkout):
        """A clone inside of a recorded checkout does not hide that one's cache."""
        stranger = make_cache(checkout / "deep")
        folder = recorded(checkout)
        assert settings.read().cache_dir == folder
        assert stranger in settings.read().rejected[0]

    def test_found_once(self, checkout, monkeypatch, tmp_path):
        """A process that changes its working directory goes on with the cache that it found first."""
        folder = recorded(checkout)
        assert option.get_cache_dir() == folder
        monkeypatch.chdir(tmp_path)
        assert option.get_cache_dir() == folder

    @pytest.mark.usefixtures("checkout")
    @pytest.mark.skipif(
        sys.platform == "win32", reason="a working directory cannot be removed there"
    )
    def test_no_working_directory(self):
        """A working directory that was removed is no fault."""
        os.rmdir(os.getcwd())
        assert settings.read().cache_dir is None


class TestRecord:
    PATHS = (
        "/home/me/project",
        '/odd "quoted" \\ # [x]',
        "/tab\tand\nline",
        "/umlaut ä/\U0001f600",
        "/no utf-8 \udcff",
    )

    @pytest.mark.parametrize("path", PATHS)
    def test_round_trip(self, path):
        """What is recorded is read again, whatever characters a path has; recording twice is recording once."""
        file = settings.settings_file()
        settings_file.record(file, "/other", TOKEN)
        for token in ("1" * 32, "2" * 32):
            settings_file.record(file, path, token)
        assert settings_file.checkouts(file) == {"/other": TOKEN, path: "2" * 32}
        for _ in range(2):
            settings_file.forget(file, path)
        assert settings_file.checkouts(file) == {"/other": TOKEN}

    @pytest.mark.skipif(sys.platform == "win32", reason="modes say nothing there")
    def test_owner_only(self, tmp_path, monkeypatch):
        """Records are the user's alone; those that others can write are not read, and the reason is said."""
        file = settings.settings_file()
        settings_file.record(file, str(tmp_path / "project"), TOKEN)
        folder = pathlib.Path(file).parent / "checkouts"
        assert (folder / TOKEN).stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
        make_cache(tmp_path / "project")
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
        chosen = settings.read()
        assert (chosen.promote, chosen.report) == ("exit", frozenset({"table"}))

    def test_others_can_write(self, site):
        """A file that others can write, or that is not root's, is ignored with the reason."""
        site.write_text('promote = "off"\n')
        for owner, mode in ((0, 0o666), (1234, 0o644)):
            site.chmod(mode)
            os.chown(site, owner, 0)
            process.reset()
            chosen = settings.read()
            assert chosen.promote == "background"
            assert "; run chown root and chmod go-w on it" in chosen.rejected[0]
