"""A program is tuned, and then edited: each run gives the numbers of the edited program, and says what is not served.

The numbers of a run without a cache are right: that runs the defaults.
"""

from __future__ import annotations

import shutil

import pytest
from harness import PLATFORMS
from tuned_edits import EDITS, PROGRAMS, Edit

SAMPLE = (
    "nothing",
    "the branch of the winner",
    "a header of a header",
    "a parameter that acts in the others",
    "another float",
)
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
        """Write the files of an edit."""
        for one in self.child.directory.iterdir():
            if one.is_file():
                one.unlink()
        for name, text in edit.texts().items():
            (self.child.directory / name).write_text(text)

    def run(self, *words, **variables):
        """Run the program; no text is taken from compiled modules, which an edit may be too young for."""
        beside = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "always", **variables}
        return self.child.python(*words, "driver.py", self.platform, **beside)

    def both(self, edit):
        """Return the edited run with the cache of the tuning, and that without a cache."""
        self.write(edit)
        shutil.copytree(self.child.directory / "tuned", self.child.cache)
        try:
            variables = dict(edit.variables)
            return self.run(**variables), self.run(KCL_NO_CACHE="1", **variables)
        finally:
            shutil.rmtree(self.child.cache)


def faults(edit, found, plain):
    """Describe what is wrong with a run beside one without a cache."""
    served = "tuning: n = 1000: turns=1, measured" in found.stderr
    if (found.returncode, found.stdout) != (plain.returncode, plain.stdout):
        return f"prints {found.stdout[:99]} and not {plain.stdout[:99]}: {found.stderr[-900:]}"
    if edit.row == "served" and "turns=1, measured" not in found.stderr:
        return f"does not serve the row: {found.stderr[-900:]}"
    if edit.row == "dropped" and (served or "kcl tune" not in found.stderr):
        return f"drops the row without a word, or serves it: {found.stderr[-900:]}"
    if edit.row in ("served", "other") and "kcl tune" in found.stderr:
        return f"complains of a row that is no fault: {found.stderr[-900:]}"
    return ""


@pytest.mark.one_platform
@pytest.mark.parametrize("of", PROGRAMS)
@pytest.mark.parametrize(
    "titles",
    [
        pytest.param(SAMPLE, id="sample"),
        pytest.param([one.title for one in EDITS], id="all", marks=pytest.mark.slow),
    ],
)
def test_edits(child, platform_name, of, titles):
    """No edit gives a number of the code that was measured, and each row that no longer counts is named."""
    tuned = Tuned(child, platform_name, of)
    wrong = {}
    for edit in EDITS:
        if edit.of == of and edit.title in titles:
            wrong[edit.title] = faults(edit, *tuned.both(edit))
    assert wrong
    assert not any(wrong.values()), "\n".join(
        f"{name}: {said}" for name, said in wrong.items() if said
    )


def test_enough_edits():
    """There are more than thirty edits, each with a title of its own."""
    assert len({one.title for one in EDITS}) == len(EDITS) > 30
    assert set(SAMPLE) <= {one.title for one in EDITS}
    assert all(one.texts() for one in EDITS)
