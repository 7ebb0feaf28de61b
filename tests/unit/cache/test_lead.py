"""kcl.cache.lead: who makes something for a launch, and when others may go on."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections import deque

import crowd
import numpy as np
import pyopencl as cl
import pytest
from lead_model import CODE, PROGRAM, Program, Rules, launch

from kcl.cache import layer, layers, lookup, patience, places, process_leads, thread_leads
from kcl.cache.lead import Lead
from kcl.cache.stores import directory
from kcl.drivers.pocl import client
from kcl.generate.stage import CallValues

DIGEST = "a" * 64


def test_ends_with_the_block():
    """A lead is over when its block ends, and another one is taken at once."""
    for _ in range(2):
        with Lead("add") as lead:
            lead.take(layers.binary(), DIGEST)
        assert lead.take(layers.binary(), "b" * 64) is not None
        lead.release()


def test_a_second_release():
    """A second release is no error."""
    with Lead("add") as lead:
        lead.take(layers.binary(), DIGEST)
        lead.release()
        lead.release()


def test_another_thread_waits():
    """A thread that wants the same waits until the first one releases."""
    order, layer, wants = [], layers.binary(), threading.Event()

    def second():
        wants.set()
        with Lead("add") as lead:
            lead.take(layer, DIGEST)
            order.append("second")

    with Lead("add") as lead:
        lead.take(layer, DIGEST)
        thread = threading.Thread(target=second)
        thread.start()
        wants.wait()
        thread.join(0.2)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]


class Recorder:
    """The operations of the model (tests/support/lead_model.py) that the threads of this process carry out."""

    def __init__(self, monkeypatch):
        self.steps = []
        self._names = {}
        self._patch = monkeypatch.setattr
        self._released = set()
        self._around(lookup, "find", lambda look, stage, _job: ("find", _key(stage.layer), _found(look)))
        self._around(layer.Layer, "publish", lambda _size, self, *_: ("publish", _key(self), None))
        self._around(lookup, "_made", lambda _made, stage, *_: ("make", _key(stage.layer), None), before=True)
        self._around(client, "request", lambda *_: ("request", PROGRAM, None), before=True)
        self._around(
            thread_leads.ThreadLeads, "lead", lambda maker, _self, key: ("lead", self._name(key)[0], maker is not None)
        )
        self._around(thread_leads.ThreadLeads, "wait", self._aimed, before=True)
        self._around(
            thread_leads.ThreadLeads,
            "wait",
            lambda done, _, key, *_what: ("await", self._name(key)[0], _released(done)),
        )
        self._around(thread_leads.ThreadLead, "release", self._releases, before=True)
        self._around(os, "open", lambda _done, path, *_: self._file("open", path))
        self._around(os, "unlink", lambda _done, path: self._file("unlink", path), before=True)
        self._around(process_leads, "_is_at", lambda found, path, _descriptor: (*self._file("at", path)[:-1], found))
        self._around(process_leads, "_close", self._closes, before=True)
        self._patch(fcntl, "flock", self._flock)

    def _around(self, owner, name, said, before=False):
        real = getattr(owner, name)

        def noted(*arguments, **named):
            if before:
                self._note(said(None, *arguments))
            result = real(*arguments, **named)
            if not before:
                self._note(said(result, *arguments))
            return result

        self._patch(owner, name, noted)

    def _note(self, step):
        if step is not None:
            self.steps.append(step)

    def _name(self, path):
        """Return the key of a lock file or of a program's turn, and the number of the successor."""
        folder, _, name = path.rpartition("/")
        if not folder:
            return f"turn {PROGRAM}", 0
        digest, _, successor = name.partition(".")
        return self._names.setdefault(digest, [CODE, PROGRAM, "another"][len(self._names)]), int(successor or 0)

    def _file(self, name, path):
        path = str(path).removesuffix(" (deleted)")
        return (name, *self._name(path), None) if os.path.dirname(path) == places.own(places.FLIGHT) else None

    def _aimed(self, _done, table, key, _what):
        return "aim", self._name(key)[0], "wait" if key in table._table else "gone"

    def _releases(self, _done, maker):
        return None if maker._released else ("released", self._name(maker._key)[0], None)

    def _closes(self, _done, descriptor):
        if descriptor in self._released:
            return self._released.discard(descriptor)
        return self._file("close", os.readlink(f"/proc/self/fd/{descriptor}"))

    def _flock(self, descriptor, how, real=fcntl.flock):
        place = self._file("lock", os.readlink(f"/proc/self/fd/{descriptor}"))
        if place is None:  # the lock of PoCL's helper
            return real(descriptor, how)
        try:
            real(descriptor, how)
        except BlockingIOError:
            self._note((*place[:-1], False))
            raise
        if how & fcntl.LOCK_UN:
            self._released.add(descriptor)
        return self._note(("unlock", *place[1:]) if how & fcntl.LOCK_UN else (*place[:-1], True))


def _key(layer):
    return CODE if layer.name == "generator" else PROGRAM


def _found(look):
    return "hit" if look.outcome == "hit" else "miss"


def _released(done):
    return "released" if done else "left"


def unlike(program, steps):
    """Return the first step that the model would not take, with what the model would do; None where it takes all."""
    state, left = program.start, deque(steps)
    while state >= 0:
        op, result = program.ops[state], None
        if op[0] == "living":
            result = False  # a thread that is alone in its context
        elif op[0] == "wait":
            result = "left"
            while left and left[0][0] == "lock" and result is not True:
                result = left.popleft()[-1] or result
        elif op[0] == "create":
            op = ("publish", op[1])
        if op[0] not in ("living", "lives", "wait", "write", "rename"):
            if not left or left[0][:-1] != op:
                return left[0] if left else None, op
            result = left.popleft()[-1]
        if op[0] == "publish":
            while left and left[0] == (*op, None):  # a row that leads to the code
                left.popleft()
        state = program.after(state, result)
    return (left[0], "the end") if left else None


@pytest.fixture
def recorder(monkeypatch):
    """Record what is done from now on."""
    return Recorder(monkeypatch)


class TestModel:
    """Real launches take the steps of the model, which is explored in tests/truth/test_lead_model.py."""

    KERNEL = staticmethod(lambda: crowd.added(7))

    def model(self, helper=False):
        rules = Rules(successors=3, helper=helper)
        return Program(lambda: launch(rules, ("",)))

    def launched(self, context):
        _event, (out,) = self.KERNEL()(cl.CommandQueue(context), x=np.zeros(8, np.float32))
        assert out.tolist() == [7.0] * 8

    def in_thread(self, recorder, context, until):
        """Launch in a thread, and return the thread when it has taken a step."""
        thread = threading.Thread(target=self.launched, args=(context,))
        thread.start()
        end = time.monotonic() + 30
        while not any(step[: len(until)] == until for step in recorder.steps):
            assert time.monotonic() < end, recorder.steps
            time.sleep(0.005)
        return thread

    def digest(self):
        """Return the digest under which the code is waited for."""
        kernel = self.KERNEL()
        assert kernel._line.generate.key() is not None
        return kernel._line.generate.together(CallValues({"x": np.zeros(8, np.float32)}), None)

    def test_cold_and_warm(self, context, recorder, platform_name):
        """A launch that makes code and program, on PoCL with a job for its helper; and one that finds them."""
        self.launched(context)
        steps, recorder.steps = recorder.steps, []
        assert unlike(self.model(platform_name == "pocl"), steps) is None
        assert {"make", "publish", "lock", "at", "unlink", "unlock"} <= {step[0] for step in steps}
        if platform_name != "pocl":
            self.launched(cl.Context(context.devices))
            assert [step for step in recorder.steps if step[0] == "find"] == [
                ("find", key, "hit") for key in (CODE, PROGRAM)
            ]
            assert unlike(self.model(), recorder.steps) is None

    @pytest.mark.one_platform
    @pytest.mark.parametrize("end", ["released", "killed", "left"])
    def test_another_process(self, context, recorder, monkeypatch, end, platform_name):
        """A launch that waits for the holder of a lock file: it releases, is killed, or is left behind."""
        if end == "left":
            monkeypatch.setattr(patience, "LONGEST_SECONDS", 0.1)
        path = os.path.join(places.own(places.FLIGHT), self.digest())
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "wb") as held:
            fcntl.flock(held.fileno(), fcntl.LOCK_EX)
            recorder.steps.clear()
            thread = self.in_thread(recorder, context, ("lock", CODE, 0, False))
            if end == "released":
                os.unlink(path)
                recorder.steps.remove(("unlink", CODE, 0, None))
            if end == "left":
                thread.join(60)
        thread.join(60)
        assert unlike(self.model(platform_name == "pocl"), recorder.steps) is None
        assert (("lock", CODE, 1, True) in recorder.steps) == (end == "left")
        assert (("at", CODE, 0, True) in recorder.steps) == (end == "killed")

    @pytest.mark.one_platform
    def test_another_thread(self, context, recorder, platform_name):
        """A launch that waits for a thread of its own process."""
        held = process_leads.join(self.digest(), "added")
        recorder.steps.clear()
        thread = self.in_thread(recorder, context, ("aim", CODE))
        recorder.steps, mine = [], recorder.steps
        held.release()
        thread.join(60)
        others = [("unlink", CODE, 0, None), ("unlock", CODE, 0, None), ("released", CODE, None)]
        assert recorder.steps[:3] == others
        steps = mine + recorder.steps[3:]
        assert ("await", CODE, "released") in steps
        assert unlike(self.model(platform_name == "pocl"), steps) is None

    @pytest.mark.one_platform
    def test_other_orders_are_seen(self, context, recorder, platform_name):
        """Without any one of its steps, or with two of them in turn, a launch is none of the model's."""
        self.launched(context)
        program, steps = self.model(platform_name == "pocl"), recorder.steps
        for number, step in enumerate(steps):
            assert step[0] == "publish" or unlike(program, steps[:number] + steps[number + 1 :]), step

    def test_publish(self, tmp_path, monkeypatch):
        """An entry is written to a file of its own, whole, before it has its name."""
        steps = []
        for name in ("open", "write", "close", "replace"):
            real = getattr(os, name)
            monkeypatch.setattr(os, name, lambda *given, real=real, name=name: (steps.append(name), real(*given))[1])
        directory.publish(str(tmp_path / "entry"), b"whole")
        assert steps == ["open", "write", "close", "replace"]
        assert (tmp_path / "entry").read_bytes() == b"whole"
