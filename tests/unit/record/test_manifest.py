"""Tests of kcl.record.manifest: places that hold in a copy of the project, and contents as of now."""

from __future__ import annotations

import os

import pytest

from kcl.record import manifest


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project directory with a file in it, one beside it, and a working directory elsewhere."""
    directory = tmp_path / "project"
    (directory / "data").mkdir(parents=True)
    for path in (directory / "data" / "a", tmp_path / "b"):
        path.write_text("1")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return directory


class TestPlace:
    def test_seen_from_the_module(self, project, tmp_path):
        """A file counts from the recipe's module, below its directory and beside it."""
        assert manifest.place(str(project / "data" / "a"), str(project), ()) == ("module", os.path.join("data", "a"))
        assert manifest.place(str(tmp_path / "b"), str(project), ()) == ("module", os.path.join("..", "b"))

    def test_as_it_is_written(self, project, tmp_path):
        """A relative path counts from the working directory; one that the key's texts name is what it is."""
        path = str(tmp_path / "b")
        assert manifest.place("b", str(project), ()) == ("cwd", "b")
        assert manifest.place(path, str(project), [f"open({path!r})"]) == ("absolute", path)
        assert manifest.place(path, str(project), [f"FOLDER = {str(tmp_path)!r}"]) == ("absolute", path)
        assert manifest.place(path, "", ()) == ("absolute", path)

    def test_located_where_it_was(self, project, tmp_path):
        """What `place` describes, `locate` finds again."""
        for path in (str(project / "data" / "a"), str(tmp_path / "b"), "b"):
            assert manifest.locate(*manifest.place(path, str(project), ()), str(project)) == path

    def test_copied(self, tmp_path):
        """The file of a copied project is looked for in the copy."""
        placed = manifest.place(str(tmp_path / "one" / "a"), str(tmp_path / "one"), ())
        assert manifest.locate(*placed, str(tmp_path / "two")) == str(tmp_path / "two" / "a")

    def test_module_behind_a_link(self, project, tmp_path):
        """A recipe that resolves its own path finds the file in the copy, also where links lead to both."""
        copy = tmp_path / "other" / "copy"
        copy.mkdir(parents=True)
        for name, target in (("link", project), ("link2", copy)):
            (tmp_path / name).symlink_to(target)
        placed = manifest.place(str(project / "data" / "a"), str(tmp_path / "link"), ())
        assert manifest.locate(*placed, str(tmp_path / "link2")) == str(copy / "data" / "a")


class TestContent:
    def test_files(self, project):
        """Another content is another digest; a file that is not there, or is none, has its own."""
        (read,) = manifest.files([str(project / "data" / "a")], str(project), ())
        assert manifest.content(read, str(project)) == read.digest
        (project / "data" / "a").write_text("2")
        assert manifest.content(read, str(project)) != read.digest
        (project / "data" / "a").unlink()
        assert manifest.content(read, str(project)) == manifest.ABSENT
        assert manifest.content(read._replace(path="data"), str(project)) == manifest.ABSENT

    def test_variables(self, monkeypatch):
        """A variable counts by its value, unset and empty are two."""
        digests = set()
        for value in ("1", "2", ""):
            monkeypatch.setenv("KCL_TEST_FACTOR", value)
            digests |= {read.digest for read in manifest.variables(["KCL_TEST_FACTOR"])}
        monkeypatch.delenv("KCL_TEST_FACTOR")
        digests |= {read.digest for read in manifest.variables(["KCL_TEST_FACTOR"])}
        assert len(digests) == 4

    def test_links(self, project):
        """A symbolic link counts by where it points to."""
        link = project / "link"
        link.symlink_to("data")
        (read,) = manifest.links([str(link)], str(project), ())
        assert manifest.content(read, str(project)) == read.digest
        link.unlink()
        link.symlink_to("..")
        assert manifest.content(read, str(project)) != read.digest

    def test_working_directory(self, tmp_path, monkeypatch):
        """A recipe that asks for the working directory has another content in another."""
        before = manifest.working_directory()
        monkeypatch.chdir(tmp_path)
        assert manifest.working_directory() != before


class TestWords:
    def test_names(self):
        """A reason names the file, the variable or the directory."""
        names = [
            manifest.in_words(manifest.ReadFact(*row, ""))
            for row in [("module", "a/b.cl"), ("variable", "X"), ("directory", "")]
        ]
        assert names == ["file b.cl", "variable X", "working directory"]
