"""kcl.generate.requirements: what a distribution requires counts, and leads to a generator."""

from reaching import Project, Site

from kcl.generate import distributions, requirements

RECIPE = "import thing\ndef build(n):\n    return thing.make(n)"
MODULE = "def make(n):\n    return n + 1\n"


class TestRequired:
    def test_requirements(self, tmp_path):
        """What a distribution requires, and what that requires, counts: a function may import it as it runs."""
        project = Project(tmp_path / "project", {"recipes.py": RECIPE})
        found = []
        for change in ("", "near", "far", "other"):
            site = Site(tmp_path / (change or "before"))
            site.install({"thing/__init__.py": MODULE})
            for name, required in (("near", "Far.Pack (>=1)"), ("far_pack", ""), ("other", "")):
                more = "# more\n" if change == name.partition("_")[0] else ""
                site.install({f"{name}.py": f"N = 1\n{more}"}, name=name)
                about = f"Name: {name}\n" + f"Requires-Dist: {required}\n" * bool(required)
                (site.root / f"{name}-1.0.dist-info" / "METADATA").write_text(about)
            about = "Name: thing\nRequires-Dist: near; extra == 'fast'\nRequires-Dist: absent\n"
            (site.root / "thing-1.0.dist-info" / "METADATA").write_text(about)
            found.append(site.content(project).get("requirements thing"))
        assert found[0] == found[3]
        assert len({*found}) == 3

    def test_requirement_that_is_there_later(self, tmp_path, monkeypatch):
        installed, required = distributions.InstallationMemos(), requirements.RequirementMemos()
        monkeypatch.setattr(distributions, "_state", lambda: installed)
        monkeypatch.setattr(requirements, "_state", lambda: required)
        thing, later = Site(tmp_path / "1"), Site(tmp_path / "2")
        thing.install({"thing.py": MODULE})
        (thing.root / "thing-1.0.dist-info" / "METADATA").write_text("Requires-Dist: later\n")
        later.install({"later.py": MODULE}, name="later")
        monkeypatch.syspath_prepend(thing.root)
        assert not requirements.leads("thing")
        monkeypatch.syspath_prepend(later.root)
        assert requirements.all_required("thing") == ["later"]
