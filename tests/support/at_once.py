"""What the tests with threads share: several at once, which take turns as often as can be."""

import sys
import threading
import time


def at_once(work, count=8):
    """Run `work(number)` in threads that start together; raise the first error."""
    barrier, errors = threading.Barrier(count), []

    def body(number):
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]


def wait_until(is_so, seconds=20.0):
    """Wait until a function returns something true; it must before the seconds are over."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


def at_each_line(function, work):
    """Call a function, and `work()` before each line of it and of all that it calls: there another thread may work."""

    def trace(_frame, event, _argument):
        if event == "line":
            work()
        return trace

    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(None)
