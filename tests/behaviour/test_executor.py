"""kcl.Kernel answers every call as loopy's executor does: cold, and warm in a process without loopy and compilers."""

import pathlib

import executor_cases
import pytest
from harness import PLATFORMS, Child

pytestmark = pytest.mark.slow_platforms

SCRIPT = pathlib.Path(executor_cases.__file__)
# How many generator entries a case makes: each choice of dtypes that matters its own, all others shared.
ENTRIES = {
    "open_dtypes": 5,
    "open_sizes_given_or_not": 1,
    "open_outputs_given_or_not": 1,
    "open_output_of_another_dtype": 3,
    "partly_open_dtypes": 3,
}


# Cases whose calls are the invoker's, however often they are made: numpy arrays, events to wait for, temporaries.
NEVER_PLAYED = {
    *("numpy_in_and_out", "scalars_of_every_type", "events_to_wait_for", "several_device_kernels"),
    *("open_dtypes", "open_scalars_without_dtype", "open_sizes_given_or_not"),
    *("open_output_of_another_dtype", "partly_open_dtypes", "errors_of_a_first_open_call"),
}


@pytest.fixture(scope="module")
def runs(platform_name, tmp_path_factory):
    """Run every case in two processes on one cache directory; return (cold, warm) by the name of the case."""
    child = Child(tmp_path_factory.mktemp(platform_name))
    return [child.script(SCRIPT, PLATFORMS[platform_name], mode) for mode in ("cold", "warm")]


def differences(expected, found, place=""):
    """List where two JSON values differ, with the place in words; of errors the classes count: kcl words them."""
    if isinstance(expected, dict) and isinstance(found, dict):
        names = sorted({*expected, *found} - {"message"})
        pairs = [(name, expected.get(name), found.get(name)) for name in names]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = zip(range(len(found)), expected, found, strict=True)
    else:
        same = expected == found
        return [] if same else [f"{place or 'all'}: loopy {expected!r}, kcl {found!r}"]
    return [one for name, a, b in pairs for one in differences(a, b, f"{place}/{name}")]


def one_event(outcome, is_events=False):
    """Take the number of events on an array as none or some, wherever an outcome tells it."""
    if isinstance(outcome, dict):
        inside = {name: is_events or name == "events" for name in outcome}
        return {name: one_event(value, inside[name]) for name, value in outcome.items()}
    if isinstance(outcome, list) and is_events:
        number, among = outcome
        return [number > 0, among]
    return [one_event(value) for value in outcome] if isinstance(outcome, list) else outcome


def seen(outcome):
    """Return the outcome of a case; fail with its traceback where it raised."""
    assert not (isinstance(outcome, dict) and "failed" in outcome), outcome["traceback"]
    return outcome


@pytest.mark.parametrize("name", executor_cases.CASES)
class TestEveryCase:
    def test_cold(self, runs, name):
        """On an empty cache the same comes back, container, types, dtypes, values, identities and events included."""
        cold, _warm = runs
        assert differences(seen(cold[name]["loopy"]), seen(cold[name]["kcl"])) == []

    def test_warm(self, runs, name):
        """A new process without loopy, source builds, compile and link answers the same from hits alone."""
        cold, warm = runs
        assert differences(seen(cold[name]["loopy"]), seen(warm[name]["kcl"])) == []
        if name not in executor_cases.LOOPYS_OWN:
            assert {outcome for _layer, _kernel, outcome, _reason in warm[name]["looks"]} == {"hit"}

    def test_hot(self, runs, name):
        """Called again and again the same comes back; of several events of one queue in order the last one is left."""
        cold, warm = runs
        expected, found = seen(cold[name]["loopy"]), seen(warm[name]["hot"])
        assert differences(one_event(expected), one_event(found)) == []
        assert (warm[name]["played"] > 0) == (name not in NEVER_PLAYED), warm[name]["played"]


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_of_open_dtypes(runs, name):
    """Each choice of open dtypes is its own entry; what follows from the others makes none."""
    cold, _warm = runs
    looks = [(layer, outcome) for layer, _kernel, outcome, _reason in cold[name]["looks"]]
    assert looks.count(("generator", "miss")) == ENTRIES[name], looks


def test_wrong_hits_are_possible_to_see(runs):
    cold, _warm = runs
    assert differences(cold["numpy_in_and_out"]["loopy"], cold["device_in_and_out"]["kcl"])
