"""kcl.inspect: what a process does as it ends, and while it runs for that."""

import re

import pytest


@pytest.mark.one_platform
class TestAtExit:
    def test_asked_for(self, project):
        """KCL_REPORT=1 prints the table on stderr at exit, whatever the driver is; without it there is nothing."""
        run = project.run("warned", KCL_REPORT="1")
        first = re.findall(r"^(?:layer|generator:?|binary:?)(?= )", run.stderr, re.MULTILINE)
        assert first == ["layer", "generator", "binary", "generator:", "binary:"]
        assert "/pyopencl/kcl-binary-v1" in run.stderr
        assert "generator" not in project.run("warned").stderr


class TestWriteSoon:
    def test_fork(self, child):
        """A thread that forks lets the writer of the record end: the child has all modules whole."""
        program = """
            import os, signal, sys, threading
            from kcl.base import events
            from kcl import inspect

            inspect._SOON = 0.01
            imports, forks = threading.Event(), threading.Event()

            class Slow:
                def find_spec(self, name, *_):
                    if name == "kcl.inspect.history.records":
                        imports.set()
                        assert forks.wait(60)

            sys.meta_path.insert(0, Slow())
            os.register_at_fork(before=forks.set)
            events.emit(events.Event("binary", "any", "", "miss", "not in the cache", 0.0, 0))
            assert imports.wait(60)
            inspect._SOON = 60.0
            if not os.fork():
                signal.alarm(20)
                from kcl.inspect.history import records
                os._exit(3)
            print(os.waitstatus_to_exitcode(os.wait()[1]))
            """
        assert child.json(program) == 3
