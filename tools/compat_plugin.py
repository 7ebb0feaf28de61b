"""A pytest plugin: each test in a forked child of its own, and one JSON line for each.

The parent imports the module of the tests and asks no OpenCL platform anything: PoCL starts threads then, and they
would be missing in the children. Children end as processes do, so that what is written at exit is written.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import pathlib
import select
import signal
import sys
import threading
import time
from typing import Any

import compat_watch
import pytest
from _pytest.runner import runtestprotocol


class FirstDevice:
    """A factory of contexts on the first device: what pyopencl's own hook would find, found in the child."""

    def __call__(self) -> Any:
        import pyopencl as cl

        gc.collect()
        return cl.Context(cl.get_platforms()[0].get_devices()[:1])


def generate(metafunc: Any) -> None:
    """Stand for pyopencl.tools.pytest_generate_tests_for_pyopencl."""
    if "ctx_factory" in metafunc.fixturenames:
        metafunc.parametrize("ctx_factory", [FirstDevice()], ids=["device"])


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("compat")
    group.addoption("--compat-out", required=True)
    group.addoption("--compat-timeout", type=float, required=True)
    group.addoption("--compat-limit", type=int, required=True)
    group.addoption("--compat-ask", action="store_true")


def pytest_configure(config: Any) -> None:
    import pyopencl.tools

    pyopencl.tools.pytest_generate_tests_for_pyopencl = generate
    out = pathlib.Path(config.option.compat_out)
    done = {json.loads(line)["test"] for line in out.read_text().splitlines()} if out.exists() else set()
    config.pluginmanager.register(Forking(config.option, out, done, compat_watch.install()))


class Forking:
    """Runs the tests that have no record yet."""

    def __init__(self, option: Any, out: pathlib.Path, done: set[str], watch: compat_watch.ImportWatch) -> None:
        self.option, self.out, self.done, self.watch = option, out, done, watch

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.option.compat_limit:
            del items[self.option.compat_limit :]
        items[:] = [item for item in items if named(item) not in self.done]
        if "/face/" in str(items[0].path if items else "") and "loopy" in sys.modules:
            print(f"\nThe head of the module imports loopy, so nothing is known of its tests: {self.watch.found()}")
        if self.option.compat_ask:
            compat_watch.ask()
            compat_watch.asked.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool:  # noqa: ARG002  (names of the hook)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        sent, reports = self.in_child(item)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        with self.out.open("a") as file:
            file.write(json.dumps(sent) + "\n")
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def in_child(self, item: Any) -> tuple[dict[str, Any], list[Any]]:
        """Run one test in a child; return its record and its reports."""
        reading, writing = os.pipe()
        begun = time.monotonic()
        pid = os.fork()
        if not pid:
            os.close(reading)
            self.child(item, writing)
        os.close(writing)
        data = read(reading, begun + self.option.compat_timeout)
        if data is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        seconds = round(time.monotonic() - begun, 3)
        if not data:
            how = "timeout" if data is None else f"crashed ({ending(status)})"
            return failed_record(item, how, seconds), [failed_report(item, how, seconds)]
        sent = json.loads(data)
        found = [
            item.config.hook.pytest_report_from_serializable(config=item.config, data=one) for one in sent["reports"]
        ]
        return sent["record"] | {"seconds": seconds}, found

    def child(self, item: Any, writing: int) -> None:
        """Run one test, send what is known of it, end as a process ends."""
        try:
            loaded = "loopy" in sys.modules
            compat_watch.hear()
            reports = runtestprotocol(item, log=False, nextitem=None)
            record = {"test": named(item), **outcome(reports), "loopy": "loopy" in sys.modules and not loaded}
            record |= {"by": self.watch.found(), "made": compat_watch.made(), "events": compat_watch.events()}
            record |= {"reasons": compat_watch.reason_rows()}
            record |= {"asked": compat_watch.asked_rows()} if self.option.compat_ask else {}
            hook = item.config.hook
            plain = [hook.pytest_report_to_serializable(config=item.config, report=one) for one in reports]
            threading._shutdown()  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                atexit._run_exitfuncs()
            with os.fdopen(writing, "w") as pipe:
                json.dump({"record": record, "reports": plain}, pipe)
            os._exit(0)
        finally:
            os._exit(70)


def named(item: Any) -> str:
    """Return the name of a test, with its parameters, without the file."""
    return item.name


def outcome(reports: list[Any]) -> dict[str, str]:
    """Return passed, failed, skipped or xfailed, and the last line of what failed."""
    for report in reports:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = str(crash.message if crash else report.longrepr).strip()
            return {"outcome": "failed", "error": message.splitlines()[0][:300], "trace": report.longreprtext[-4000:]}
    if any(report.skipped for report in reports):
        return {"outcome": "xfailed" if any(hasattr(report, "wasxfail") for report in reports) else "skipped"}
    return {"outcome": "passed"}


def failed_record(item: Any, how: str, seconds: float) -> dict[str, Any]:
    """Return the record of a test whose child did not come to its end."""
    return {"test": named(item), "outcome": how, "error": how, "loopy": None, "by": {}, "made": [], "seconds": seconds}


def failed_report(item: Any, how: str, seconds: float) -> Any:
    """Return the report of such a test."""
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", how, "call", duration=seconds)


def read(descriptor: int, until: float) -> bytes | None:
    """Read to the end; None if that does not come in time."""
    parts = []
    with os.fdopen(descriptor, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            part = pipe.read(1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)


def ending(status: int) -> str:
    """Name a signal, or a status of exit."""
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"status {os.WEXITSTATUS(status)}"
