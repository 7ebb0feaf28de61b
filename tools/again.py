"""Run the tests that failed last again, each alone, and name as FLAKY those that then pass.

The status is 0 if each test passes alone. More than 20 failures are no matter of luck, and a session that was
interrupted has tests that did not run: nothing runs again then.
"""

import json
import pathlib
import subprocess
import sys

KEPT = pathlib.Path(__file__).parents[1] / ".pytest_cache" / "v"
FAILED = KEPT / "cache" / "lastfailed"
STATUS = KEPT / "kcl" / "status"
MOST = 20


def main() -> int:
    """Return 0 if each test that failed last passes alone, else 1."""
    tests = list(json.loads(FAILED.read_text())) if FAILED.exists() else []
    complete = (
        STATUS.exists() and STATUS.read_text() == "1"
    )  # pytest's status if it ran all tests and some failed
    if not complete or not 0 < len(tests) <= MOST:
        print(f"{len(tests)} tests failed, {'all' if complete else 'not all'} ran: none runs again")
        return 1
    failing = [test for test in tests if not passes(test)]
    for test in tests:
        print("FAILS AGAIN" if test in failing else "FLAKY", test)
    return 1 if failing else 0


def passes(test: str) -> bool:
    """Return True if the test passes in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", test]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
