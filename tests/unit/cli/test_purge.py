"""`kcl purge`: what it shows, asks and removes, beside caches that real runs have filled."""

import pytest
from commands import kcl, run
from project import files

from kcl import option


def left(project) -> list[str]:
    below = [*project.child.cache.rglob("*"), *project.child.home.rglob("*")]
    return [str(path) for path in below if path.is_file() or path.is_symlink()]


class TestAll:
    def test_leaves_nothing(self, warm):
        """After loopy, pyopencl, the driver and kcl ran in an otherwise empty home, --all leaves no file."""
        assert len(left(warm)) > 20
        done = kcl(warm, "purge", "--all", "--yes")
        assert done.returncode == 0, done.stderr
        assert left(warm) == []
        assert done.stdout.endswith("B are removed\n")

    def test_nothing_reappears(self, project):
        """Right after a run, while the helper works, --all ends it first: nothing is left, and nothing comes back."""
        project.run("warned")
        done = kcl(project, "purge", "--all", "--yes")
        assert done.returncode == 0, done.stderr
        assert not project.helpers
        assert left(project) == []

    @pytest.mark.one_platform
    def test_dry_run_and_own_by_default(self, warm):
        """A dry run removes nothing. Without a name kcl's own go, and nothing of anybody else."""
        before = files(warm.child.cache)
        done = kcl(warm, "purge", "--all", "--dry-run")
        assert done.returncode == 0, done.stderr
        assert files(warm.child.cache) == before
        for name in ("generator", "binary", "kcl", "loopy", "pyopencl", "all"):
            assert f"\n{name} " in f"\n{done.stdout}"
        assert warm.rows.location in done.stdout
        assert warm.binaries.location in done.stdout
        others = files(warm.child.cache).keys() - warm.own_files().keys()
        done = kcl(warm, "purge", "--yes")
        assert done.returncode == 0, done.stderr
        assert not [path for path in warm.own_files() if "kcl" in path]
        assert others <= files(warm.child.cache).keys()

    @pytest.mark.one_platform
    def test_neighbours_stay(self, project):
        """Mesa's cache, which serves the whole desktop, is left alone unless it is named."""
        mesa = project.child.cache / "mesa_shader_cache" / "ab" / ("0" * 38)
        mesa.parent.mkdir(parents=True)
        mesa.write_text("{}")
        assert kcl(project, "purge", "--all", "--yes").returncode == 0
        assert mesa.exists()
        assert kcl(project, "purge", "mesa", "--yes").returncode == 0
        assert left(project) == []


@pytest.mark.one_platform
class TestAsking:
    @pytest.fixture
    def place(self, tmp_path):
        option.cache_dir(tmp_path / "own")
        found = tmp_path / "own" / "pyopencl" / "kcl-binary-v1"
        found.mkdir(parents=True)
        (found / "something").write_text("x")
        return found

    def test_no(self, place):
        for text in ("n\n", ""):
            assert str(place) in run("purge", text=text, code=1).stdout
            assert place.exists()
        run("purge", text="y\n")
        assert not place.exists()

    def test_nothing(self, project):
        done = kcl(project, "purge", "--all")
        assert (done.returncode, done.stdout) == (0, "there is nothing to remove\n")
        assert not project.child.cache.exists()

    @pytest.mark.parametrize(
        "words", ["nonsense", "--older soon", "--kernel x pocl", "--kernel x --all", "--older 1"]
    )
    def test_wrong_use(self, place, words):
        said = run("purge", "--yes", *words.split(), code=2).stderr
        assert "--older" not in words or "write 90min, 12h, 30d or 4w" in said
        assert place.exists()

    def test_refused(self, place, tmp_path):
        treasure = tmp_path / "treasure"
        treasure.write_text("kept")
        (tmp_path / "own" / "pytools").mkdir()
        (tmp_path / "own/pytools/pdict-v5-kcl-generated-v1-x.sqlite").symlink_to(treasure)
        assert "link" in run("purge", "--yes", code=1).stderr
        assert treasure.read_text() == "kept"
        assert not place.exists()
