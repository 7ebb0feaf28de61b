"""Whatever is called, by loopy's executor, the invoker, a played call or a bound kernel: the same comes of it.

Kernels and calls are made up from seeds, good and bad, on queues of every kind; `KCL_TRUTH_CALLS` says how many kernels
(of 60 calls each), `KCL_TRUTH_SEED` the first seed.
"""

import os
import random

import pyopencl as cl
import pytest
import truth_calls

from kcl import launch
from kcl.line import bindings_of

KERNELS = int(os.environ.get("KCL_TRUTH_CALLS", "6"))
SEED = int(os.environ.get("KCL_TRUTH_SEED", "1"))
CALLS = 60
OUT_OF_ORDER = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
NEVER = 10**9


@pytest.fixture(scope="module")
def contexts(device):
    """Two contexts, so that there is memory of another one."""
    return cl.Context([device]), cl.Context([device])


class Sides:
    """One kernel by every way to call it, each with a queue of its own."""

    def __init__(self, contexts, form, order) -> None:
        import loopy as lp

        context, elsewhere = contexts
        self.kernel = truth_calls.made_up(form)
        with lp.CacheMode(False):
            self.executor = truth_calls.made_up.function(form).executor(context)
        self.queues = [cl.CommandQueue(context, properties=order) for _ in range(4)]
        self.elsewhere = cl.CommandQueue(elsewhere)
        self.bound = {}

    def outcomes(self, call, monkeypatch):
        """Return what comes of a call: by loopy, by the invoker, played, and bound (None where it cannot be)."""
        made = [truth_calls.Made(queue, self.elsewhere, call) for queue in self.queues]
        by_loopy, cold, hot, _ = made
        with_loopy = truth_calls.outcome(by_loopy, self.executor)
        monkeypatch.setattr(launch, "HOT", NEVER)
        with_invoker = truth_calls.outcome(cold, self.kernel)
        monkeypatch.setattr(launch, "HOT", 0)
        played = truth_calls.outcome(hot, self.kernel)
        return with_loopy, with_invoker, played, self._bound(call)

    def plays(self):
        launchers = bindings_of(self.queues[2]).launchers.values()
        return any(play is not None for launcher in launchers for play in launcher.plays.values())

    def _bound(self, call):
        names = frozenset(call.arguments)
        if call.beside:
            return None
        made = truth_calls.Made(self.queues[3], self.elsewhere, call)
        if names not in self.bound:
            try:
                self.bound[names] = self.kernel.bind(made.queue, **made.keywords)
            except Exception:
                return None
        return truth_calls.outcome(made, self.bound[names], only_event=True)


def differences(expected, found, what):
    """Compare parts of an outcome, or the kinds of the errors."""
    if "error" in expected or "error" in found:
        what = ("error", "memory")
    pairs = {part: (expected.get(part), found.get(part)) for part in what}
    return {part: pair for part, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.one_platform
@pytest.mark.parametrize("seed", range(SEED, SEED + KERNELS))
@pytest.mark.slow_cases(3)
def test_calls(contexts, monkeypatch, seed):
    """A call has one outcome, whoever makes it: results, memory, identities, events, kinds of errors."""
    draw = random.Random(seed)
    form = truth_calls.form(draw)
    # Without an order and without events nobody, loopy included, copies to the host what a kernel has written.
    unmanaged = ("cl_exec_manage_array_events", False) in form.options
    sides = Sides(contexts, form, draw.choice((0, 0, 0 if unmanaged else OUT_OF_ORDER)))
    good = [truth_calls.call(draw, form, wild=False) for _ in range(12)]
    if form.longer:
        good += [truth_calls.twin(call) for call in good]
    for number in range(CALLS):
        wild = number > 4 and draw.random() < 0.5
        call = truth_calls.call(draw, form, wild=True) if wild else draw.choice(good)
        by_loopy, cold, hot, bound = sides.outcomes(call, monkeypatch)
        say = f"seed {seed}, call {number}: {form}\n{call}"
        everything = ("container", "outputs", "memory", "asked", "events")
        assert differences(by_loopy, cold, everything) == {}, f"the invoker: {say}"
        assert differences(by_loopy, hot, everything) == {}, f"played: {say}"
        if bound is not None:
            assert differences(by_loopy, bound, ("memory",)) == {}, f"bound: {say}"
    if not form.two_steps:
        assert sides.plays(), f"nothing was played: seed {seed}, {form}"
