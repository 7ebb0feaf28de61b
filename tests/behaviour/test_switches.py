"""Switches: each stops exactly its own layer, by its owner's rules; off touches no file of that layer."""

import itertools
import json
import os

import pytest
from project import NUMBERS

from conftest import PLATFORMS

pytestmark = pytest.mark.slow_platforms

LAYERS = ("generator", "binary")
PAIR = {name: NUMBERS[name] for name in ("typed", "control")}
KCL = ("", "generator", "binary", "generator,binary", "1")
LOOPY = ("", "LOOPY_NO_CACHE", "CG_NO_CACHE")

# Runs the pair of a loopy recipe and a Source under each combination in one process, with every file operation seen.
TABLE = """
import json, os, sys
from loopys_own import loopy  # before the variables: loopy reads them while it is imported
import driver
import kcl
from kcl.cache import layers
from opened import queue_on

seen = []
EVENTS = {"open", "sqlite3.connect", "os.mkdir", "os.rename", "os.remove", "os.listdir", "os.scandir", "os.link"}
sys.addaudithook(lambda event, values: event in EVENTS and seen.append(os.fsdecode(str(values[0]))))
events = []
kcl.add_hook(lambda event: events.append([event.layer, event.kernel, event.outcome, event.reason]))
answers = []
for variables in json.loads(os.environ["COMBINATIONS"]):
    os.environ.update(variables)
    layers.reset()
    del events[:], seen[:]
    queue = queue_on(sys.argv[1])
    numbers = {name: float(result[1][0].sum()) for name, result in driver.launches(queue, "pair")}
    # the journal of the earlier combinations is written by a thread, at any moment
    own = [path for path in seen if os.environ["XDG_CACHE_HOME"] in path]
    seen[:] = [path for path in own if "/kcl/journal" not in path]
    touched = [path for path in seen if "/kcl-" in path or "pdict-v5-kcl" in path or "/kcl/" in path]
    answers.append([numbers, list(events), [path for path in touched if not path.endswith((".py", ".pyc"))]])
    for name in variables:
        del os.environ[name]
print(json.dumps(answers))
"""


def expected(variables):
    """Return the outcomes of the pair under these variables: {(layer, kernel): outcome}."""
    named = variables.get("KCL_NO_CACHE", "")
    off = set(LAYERS) if named == "1" else set(named.split(","))
    loopy = "1" in (variables.get("LOOPY_NO_CACHE"), variables.get("CG_NO_CACHE"))
    pyopencl = variables.get("PYOPENCL_NO_CACHE") == "1"
    is_off = {
        ("generator", "typed"): "generator" in off or loopy,
        ("generator", "control"): "generator" in off or pyopencl,
        ("binary", "typed"): "binary" in off or pyopencl,
        ("binary", "control"): "binary" in off or pyopencl,
    }
    return {place: "bypass" if switched else "hit" for place, switched in is_off.items()}


class TestTable:
    def test_all_combinations(self, warm):
        """Under each combination a layer that is off bypasses and touches no file, and the other one still hits."""
        combinations = []
        for kcl, loopy, pyopencl in itertools.product(KCL, LOOPY, ("", "PYOPENCL_NO_CACHE")):
            ones = {name: "1" for name in (loopy, pyopencl) if name}
            combinations.append({"KCL_NO_CACHE": kcl, **ones} if kcl else ones)
        before = self.files(warm)
        run = warm.start(
            command=("-c", TABLE), COMBINATIONS=json.dumps(combinations), PYTHONPATH=warm.path
        )
        assert run.code == 0, run.stderr
        for variables, (numbers, events, touched) in zip(combinations, run.said, strict=True):
            outcomes = {(layer, kernel): outcome for layer, kernel, outcome, _reason in events}
            assert outcomes == expected(variables), variables
            reasons = [reason for _l, _k, outcome, reason in events if outcome == "bypass"]
            assert all(reason.startswith("off: ") for reason in reasons)
            assert numbers == PAIR, variables
            hits = {layer for (layer, _kernel), outcome in outcomes.items() if outcome == "hit"}
            for layer, mark in (("generator", "pdict-v5-kcl"), ("binary", "/kcl-binary")):
                is_touched = any(mark in path for path in touched)
                assert is_touched == (layer in hits), (variables, touched)
            assert hits or not touched, variables
        assert self.files(warm) == before

    def files(self, project):
        """Return kcl's files but those that tell of runs: the journal, and what one leaves for the next."""
        found = project.own_files(journal=False)
        return {path: facts for path, facts in found.items() if "orders" not in path.split(os.sep)}


@pytest.mark.one_platform
def test_call_of_loopy(warm):
    """loopy.set_caching_enabled(False) before the first use is the user's wish: off for loopy recipes alone."""
    code = "import sys, loopy; loopy.set_caching_enabled(False); import driver; driver.main(*sys.argv[1:])"
    run = warm.run("pair", command=("-c", code), PYTHONPATH=warm.path)
    assert run.outcomes("generator") == {"typed": ["bypass"], "control": ["hit"]}
    assert "set_caching_enabled" in run.reasons("generator")["typed"]
    assert run.set("binary") == {"hit"}


MADE = """
    knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang_version=(2018, 2))
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")

import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
"""
UNIT = "def doubled():" + MADE + "doubled().executor(context)(queue, x=np.ones(100))\n"
RECIPE = (
    "import kcl\n\n@kcl.kernel\ndef doubled():\n    import loopy as lp\n"
    + MADE
    + "doubled()(queue, x=np.ones(100))\n"
)
FORMS = {
    "one import": ((), "import kcl.loopy as lp\n" + UNIT),
    "recipe": ((), RECIPE),
    "kcl run": (("-m", "kcl", "run"), "import loopy as lp\n" + UNIT),
}


@pytest.fixture
def run(child, platform_name):
    def run(form, *options, **variables):
        by, text = FORMS[form]
        (child.directory / "program.py").write_text(text, encoding="utf-8")
        words = (*options, *by, "program.py")
        return child.finished(*words, PYOPENCL_CTX=PLATFORMS[platform_name], **variables)

    return run


def rows(done):
    """Return the first words of the lines of a report, beside what a driver says as it builds."""
    return [line.split()[:4] for line in done.stderr.splitlines()]


@pytest.mark.one_platform
class TestForms:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("variable", ["KCL_NO_CACHE=generator", "LOOPY_NO_CACHE=1"])
    @pytest.mark.slow_cases(6)
    def test_binary_layer_goes_on(self, run, form, variable):
        """With the generator layer off a program of each form looks its programs up: strict raises, then hits."""
        off = {"KCL_STRICT": "hit", **dict([variable.split("=")])}
        refused = run(form, status=1, **off)
        assert "CacheMiss: binary layer" in refused.stderr, refused.stderr
        run(form)
        said = rows(run(form, POCL_KERNEL_CACHE="0", KCL_REPORT="1", **off))
        assert ["generator", "0", "0", "0" if form == "kcl run" else "1"] in said
        assert ["binary", "1", "0", "0"] in said

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.slow_cases(3)
    def test_no_loopy(self, run, form):
        """With the binary layer off by pyopencl's switch a warm program of each form imports no loopy."""
        off = {"PYOPENCL_NO_CACHE": "1", "KCL_STRICT": "hit", "KCL_REPORT": "1"}
        assert "| loopy" in run(form, "-X", "importtime").stderr
        said = run(form, "-X", "importtime", **off).stderr
        assert "off for opencl recipes: PYOPENCL_NO_CACHE=1" in said
        assert "| loopy" not in said

    @pytest.mark.parametrize("value", ["1", "generator"])
    def test_report(self, run, child, value):
        """A program with one import reports its look-ups where layers are off, and which."""
        done = run("one import", KCL_NO_CACHE=value, KCL_REPORT="1")
        assert f"generator: off: KCL_NO_CACHE={value}" in done.stderr
        assert (f"binary: off: KCL_NO_CACHE={value}" in done.stderr) is (value == "1")
        assert ["generator", "0", "0", "1"] in rows(done)
        assert bool([*child.cache.rglob("*kcl*")]) is (value != "1")


@pytest.mark.one_platform
class TestStrict:
    def test_bypass(self, project):
        """A recipe whose outcome cannot be known raises with the reason and its cure."""
        assert project.run("unknowable").outcomes("generator") == {"unknowable": ["bypass"]}
        run = project.start("unknowable", KCL_STRICT="hit")
        assert run.code == 1
        assert "CacheMiss: generator layer, kernel 'unknowable': bypass: " in run.stderr
        assert "pass a plain value" in run.stderr

    def test_damaged(self, warm):
        """A damaged entry raises: under `hit` an error is no hit, under `fault` the fault itself. A plain miss is none."""
        warm.binaries.delete(warm.binary_of("typed")[0])
        assert warm.run("pair", KCL_STRICT="fault").outcomes("binary")["typed"] == ["miss"]
        warm.finish()
        address, entry = warm.binary_of("control")
        raised = {
            "hit": "CacheMiss: binary layer, kernel 'control': error: damaged entry set aside",
            "fault": "kcl.errors.DamagedEntry",
        }
        for strict, words in raised.items():
            warm.binaries.put(address, entry.pack() + b"x")
            run = warm.start("pair", KCL_STRICT=strict)
            assert run.code == 1
            assert words in run.stderr
        address, entry = warm.row_of("control")
        warm.rows.put(address, entry.pack() + b"x")
        run = warm.start("pair", KCL_STRICT="hit")
        assert "CacheMiss: generator layer, kernel 'control': error: damaged" in run.stderr
