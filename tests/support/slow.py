"""Which tests are slow, and a sample of them: in an order that a seed decides, until a number of seconds is over.

A test with the mark `slow` runs in `make test-slow` alone. Of one with the mark `slow_cases(n)` one case in n runs in
`make test` too. Of one with the mark `slow_platforms` the cases of one platform do, Intel's where it is there.

`KCL_SLOW_SECONDS` is that number; without it all tests run in their own order. `KCL_SLOW_SEED` is the seed, which is
made up and printed where it is not given; tests of made-up programs, calls and chains begin with it too. Tests that are
not chosen are reported as skipped.
"""

import os
import random
import time

import pytest
from harness import PLATFORMS

# The files that take longest begin first, so that no worker is busy long after the others.
LONGEST = (
    "frontends/pytato/test_program.py",
    "choices/tuning/test_tuner.py",
    "cli/test_tune.py",
    "choices/tuning/test_bench.py",
    "behaviour/test_bundle.py",
    "behaviour/test_remote.py",
    "pocl/test_helper.py",
    "pocl/test_asking.py",
    "behaviour/test_loopy_places.py",
    "families/test_edits_after_tuning.py",
    "remote/test_ask.py",
    "tuning/test_chooser.py",
)
CHUNK = 8  # tests of one file and one platform that run after each other, since they share what is made for them


VARIABLES = ("KCL_SLOW_SECONDS", "KCL_SLOW_SEED", "KCL_SLOW_END")
_given: dict[str, str] = {}  # tests do not see the variables


def seed(default: int = 0) -> int:
    """Return the seed of this run, or the default where nobody gave one."""
    return int(_given.get("KCL_SLOW_SEED", default))


def together(item: pytest.Item) -> list[pytest.Item]:
    """Return the tests that share what is made for a test: those of its chunk in a sample, else those of its file."""
    here = [one for one in item.session.items if one.path == item.path]
    return [one for one in here if _group(one) == _group(item)]


def _group(item: pytest.Item) -> tuple[object, ...]:
    found = item.get_closest_marker("xdist_group")
    return found.args if found else ()


def _seconds() -> float:
    return float(os.environ.get("KCL_SLOW_SECONDS", "0"))


def pytest_configure(config: pytest.Config) -> None:
    """Fix seed and end for this process and for the workers, which inherit the environment."""
    if _seconds() or (config.option.markexpr or "").split()[:1] == ["slow"]:
        os.environ.setdefault("KCL_SLOW_SEED", str(random.SystemRandom().randrange(1, 10**6)))
    if _seconds():
        os.environ.setdefault("KCL_SLOW_END", str(time.time() + _seconds()))
    _given.update({name: os.environ[name] for name in VARIABLES if name in os.environ})


def pytest_report_header() -> list[str]:
    """Say how the run can be repeated."""
    if "KCL_SLOW_SEED" not in os.environ:
        return []
    sample = f"KCL_SLOW_SECONDS={_seconds():g} " if _seconds() else ""
    return [f"slow tests: {sample}KCL_SLOW_SEED={seed()}"]


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]):
    """Shuffle slow tests by chunks, and keep a chunk in one worker; of other tests the longest files come first."""
    _mark(items)
    if not _seconds():
        result = yield
        items.sort(key=_place)
        return result
    order = {}
    for place, (name, chunk) in enumerate(
        _chunks([item for item in items if item.get_closest_marker("slow")])
    ):
        for number, item in enumerate(chunk):
            item.add_marker(pytest.mark.xdist_group(name))
            order[item] = (place, number)
    result = yield
    items.sort(key=lambda item: order.get(item, (-1, 0)))
    return result


def _place(item: pytest.Item) -> int:
    """Return the place of a test's file among the longest ones."""
    path = item.path.as_posix()
    return next((at for at, file in enumerate(LONGEST) if path.endswith(file)), len(LONGEST))


def _mark(items: list[pytest.Item]) -> None:
    """Mark the cases that are slow by their number or by their platform."""
    counted: dict[tuple[str, str], int] = {}
    for item in items:
        few = item.get_closest_marker("slow_cases")
        if few is not None:
            place = (item.path.as_posix(), item.nodeid.partition("[")[0])
            counted[place] = counted.get(place, -1) + 1
            if counted[place] % few.args[0]:
                item.add_marker(pytest.mark.slow)
    platforms = {
        item: item.callspec.params.get("platform_name", "")
        for item in items
        if hasattr(item, "callspec")
    }
    last = max(platforms.values(), key=["", *PLATFORMS].index, default="")
    for item, platform in platforms.items():
        if platform not in ("", last) and item.get_closest_marker("slow_platforms") is not None:
            item.add_marker(pytest.mark.slow)


def _chunks(items: list[pytest.Item]) -> list[tuple[str, list[pytest.Item]]]:
    dice = random.Random(seed())
    groups: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        platform = (
            item.callspec.params.get("platform_name", "") if hasattr(item, "callspec") else ""
        )
        groups.setdefault((item.path.name, platform), []).append(item)
    found = []
    for (file, platform), group in groups.items():
        dice.shuffle(group)
        for begin in range(0, len(group), CHUNK):
            found.append((f"{file} {platform} {begin}", group[begin : begin + CHUNK]))
    dice.shuffle(found)
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what is slow as soon as the seconds are over."""
    end = _given.get("KCL_SLOW_END")
    if end and item.get_closest_marker("slow") and time.time() > float(end):
        pytest.skip("slow, and not chosen for this run's sample")
