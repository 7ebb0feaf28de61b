"""A program is tuned, and then edited: each run gives the numbers of the edited program, and says what is not served.

The numbers of a run without a cache are right: that runs the defaults.
"""

import shutil

import pytest
from harness import PLATFORMS, platforms
from tuned_edits import EDITS, PROGRAMS, Edit

SAMPLE = {"nothing", "the branch of the winner", "a header of a header"}
SAMPLE |= {"a parameter that acts in the others", "nothing with loopy", "another float"}
TUNE = ("-m", "kcl", "tune", "--level", "2", "--seconds", "300")


class Tuned:
    """A program that was tuned, in a folder; each run begins with the cache as the tuning left it."""

    def __init__(self, child, platform_name, of):
        self.child, self.platform, self.of = child, PLATFORMS[platform_name], of
        self.write(Edit("", of=of))
        done = self.run(*TUNE)
        assert done.returncode == 0, done.stderr
        assert "turns=1 takes" in done.stderr, done.stderr
        shutil.move(child.cache, child.directory / "tuned")

    def write(self, edit):
        for one in self.child.directory.iterdir():
            if one.is_file():
                one.unlink()
        for name, text in edit.texts().items():
            (self.child.directory / name).write_text(text)

    def run(self, *words, **variables):
        """Run the program; no text is taken from compiled modules, which an edit may be too young for."""
        beside = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "always", "KCL_PROMOTE": "off"}
        return self.child.python(*words, "driver.py", self.platform, **beside, **variables)

    def both(self, edit, cache="tuned"):
        """Return the edited run with the cache of the tuning, and that without a cache."""
        self.write(edit)
        shutil.copytree(self.child.directory / cache, self.child.cache)
        try:
            variables = dict(edit.variables)
            return self.run(**variables), self.run(KCL_NO_CACHE="1", **variables)
        finally:
            shutil.rmtree(self.child.cache)

    def move(self):
        """Carry the tuning by a bundle to another machine, whose cache is `moved`."""
        shutil.copytree(self.child.directory / "tuned", self.child.cache)
        bundle = self.child.directory / "bundle"
        bundle.mkdir()
        self.child.finished("-m", "kcl", "save", bundle / "tuned.kclb", KCL_PROMOTE="off")
        shutil.rmtree(self.child.cache)
        self.child.finished("-m", "kcl", "load", bundle / "tuned.kclb", KCL_PROMOTE="off")
        shutil.move(self.child.cache, self.child.directory / "moved")


def faults(edit, found, plain):
    """Describe what is wrong with a run beside one without a cache."""
    served = "tuning: n = 1000: turns=1, measured" in found.stderr
    if (found.returncode, found.stdout) != (plain.returncode, plain.stdout):
        return f"prints {found.stdout[:99]} and not {plain.stdout[:99]}: {found.stderr[-900:]}"
    if edit.row == "served" and "turns=1, measured" not in found.stderr:
        return f"does not serve the row: {found.stderr[-900:]}"
    is_said = "kcl tune" in found.stderr or "no longer runs" in found.stderr
    if edit.row == "dropped" and (served or not is_said):
        return f"drops the row without a word, or serves it: {found.stderr[-900:]}"
    if edit.row in ("served", "other") and "kcl tune" in found.stderr:
        return f"complains of a row that is no fault: {found.stderr[-900:]}"
    return ""


@pytest.mark.one_platform
@pytest.mark.parametrize("of", PROGRAMS)
@pytest.mark.parametrize(
    "part", [pytest.param("sample"), pytest.param("all", marks=pytest.mark.slow)]
)
def test_edits(child, platform_name, of, part):
    """No edit gives a number of the code that was measured, and each row that no longer counts is named."""
    tuned = Tuned(child, platform_name, of)
    wrong = {}
    for edit in EDITS:
        if edit.of == of and (part == "all" or edit.title in SAMPLE):
            wrong[edit.title] = faults(edit, *tuned.both(edit))
    assert wrong
    assert not any(wrong.values()), {name: said for name, said in wrong.items() if said}


@pytest.mark.slow
@pytest.mark.one_platform
def test_elsewhere(child, platform_name):
    """On another machine the row serves the same code only, and on another device it is not asked."""
    tuned = Tuned(child, platform_name, "source")
    tuned.move()
    for title in ("nothing", "the branch of the winner", "a helper of all"):
        (edit,) = (one for one in EDITS if one.title == title)
        assert not faults(edit, *tuned.both(edit, "moved"))
    for name in platforms():
        if name != platform_name:
            tuned.platform, other = PLATFORMS[name], Edit("another device", row="other")
            assert not faults(other, *tuned.both(other))
