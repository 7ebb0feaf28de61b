"""kcl.inspect: what a process does as it ends, and while it runs for that."""


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

    def test_forked_worker(self, child):
        """A forked child writes its record at its first look-up: a signal may end it."""
        program = """
            import os, signal
            from kcl import inspect
            from kcl.base import events
            from kcl.inspect.history import journal

            inspect._SOON = 3600.0
            if not os.fork():
                events.emit(events.Event("binary", "any", "", "hit", "", 0.0, 0))
                os.kill(os.getpid(), signal.SIGKILL)
            os.wait()
            print(sum(row["hits"] for row in journal.count_by_day().values()))
            """
        assert child.json(program) == 1
