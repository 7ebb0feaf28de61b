"""Memo dictionaries, counters, logs, lazily set globals: state that grows while recipes run, and every kernel hits."""

from __future__ import annotations

import textwrap

import pytest
from family import LOOPY, SOURCE, Case, Edit, Variables, Write, check, ran, rows

THREE = "\n\ndef drive(launch):\n    return [launch(NAME(k)) for k in (1, 2, 3)]\n"

CASES = [
    Case(
        "a dictionary remembers what was computed for each kernel",
        """
        MEMO = {}


        def factor(k):
            if k not in MEMO:
                MEMO[k] = 2 * k
            return MEMO[k]


        @kcl.kernel
        def NAME(k):
            return KERNEL(factor(k))
        """,
        [2, 4, 6],
        [3, 6, 9],
        Edit("2 * k", "3 * k"),
        SOURCE,
    ),
    Case(
        "a dictionary remembers what was read for each kernel",
        """
        MEMO = {}


        def factor(k):
            if k not in MEMO:
                MEMO[k] = int((pathlib.Path(__file__).parent / f"{k}.txt").read_text())
            return MEMO[k]


        @kcl.kernel
        def NAME(k):
            return KERNEL(sum(factor(i) for i in range(1, k + 1)))
        """,
        [2, 4, 6],
        [2, 5, 7],
        Write({"2.txt": "3"}),
        LOOPY,
        files={f"{k}.txt": "2" for k in (1, 2, 3)},
    ),
    Case(
        "a counter counts the kernels",
        """
        COUNT = 0


        @kcl.kernel
        def NAME(k):
            global COUNT
            COUNT += 1
            return KERNEL(2 * k)
        """,
        [2, 4, 6],
        [3, 6, 9],
        Edit("2 * k", "3 * k"),
        LOOPY,
    ),
    Case(
        "a counter decides",
        """
        import itertools

        COUNT = itertools.count(2)


        @kcl.kernel
        def NAME(k):
            return KERNEL(next(COUNT))
        """,
        [2, 3, 4],
        [3, 4, 5],
        Edit("count(2)", "count(3)"),
        SOURCE,
    ),
    Case(
        "a log lists the kernels",
        """
        LOG = []


        @kcl.kernel
        def NAME(k):
            LOG.append(f"making kernel {k}")
            return KERNEL(2 * k)
        """,
        [2, 4, 6],
        [3, 6, 9],
        Edit("2 * k", "3 * k"),
        SOURCE,
    ),
    Case(
        "a log is written to a file",
        """
        def note(text):
            with open(pathlib.Path(__file__).parent / "log.txt", "a") as stream:
                stream.write(text)


        @kcl.kernel
        def NAME(k):
            note(f"making kernel {k}")
            return KERNEL(2 * k)
        """,
        [2, 4, 6],
        [3, 6, 9],
        Edit("2 * k", "3 * k"),
        LOOPY,
    ),
    Case(
        "the logging module has a handler that keeps records",
        """
        import logging
        import logging.handlers

        LOGGER = logging.getLogger("NAME")
        LOGGER.addHandler(logging.handlers.MemoryHandler(1000))
        LOGGER.setLevel(logging.DEBUG)


        @kcl.kernel
        def NAME(k):
            LOGGER.info("making kernel %s", k)
            return KERNEL(2 * k)
        """,
        [2, 4, 6],
        [3, 6, 9],
        Edit("2 * k", "3 * k"),
        LOOPY,
    ),
    Case(
        "a global is set when it is first needed",
        """
        STEP = None


        def step():
            global STEP
            if STEP is None:
                STEP = int(os.environ["NAME_STEP"])
            return STEP


        @kcl.kernel
        def NAME(k):
            return KERNEL(step() * k)
        """,
        [2, 4, 6],
        [3, 6, 9],
        Variables(NAME_STEP="3"),
        SOURCE,
        variables={"NAME_STEP": "2"},
    ),
    Case(
        "a function keeps the time of its last call",
        """
        import time


        def step():
            step.last = time.perf_counter()
            step.calls = getattr(step, "calls", 0) + 1
            return 2


        @kcl.kernel
        def NAME(k):
            return KERNEL(step() * k)
        """,
        [2, 4, 6],
        [3, 6, 9],
        Edit("return 2", "return 3"),
        LOOPY,
    ),
    Case(
        "a module is imported when it is first needed",
        """
        @functools.cache
        def settings():
            return importlib.import_module("NAME_settings")


        @kcl.kernel
        def NAME(k):
            return KERNEL(settings().STEP * k)
        """,
        [2, 4, 6],
        [3, 6, 9],
        Write({"NAME_settings.py": "STEP = 3\n"}),
        SOURCE,
        files={"NAME_settings.py": "STEP = 2\n"},
    ),
    Case(
        "kernels are made in another order",
        """
        MEMO = []


        @kcl.kernel
        def NAME(k):
            MEMO.append(k)
            return KERNEL(2 * k)


        def drive(launch):
            return sorted(launch(NAME(k)) for k in (1, 2, 3))
        """,
        [2, 4, 6],
        [2, 4, 6],
        Edit("(1, 2, 3)", "(3, 2, 1)"),
        LOOPY,
        still=True,
    ),
]
ROWS = rows(
    case if "def drive(" in case.text else case._replace(text=textwrap.dedent(case.text) + THREE) for case in CASES
)
told = ran(ROWS)


@pytest.mark.one_platform
@pytest.mark.slow_cases(20)
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_memos(case, told):
    """The numbers are those of a process without a cache, and every kernel of the second run hits."""
    check(case, told[str(case)])
