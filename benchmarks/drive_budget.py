"""Run the driver of a side with a stopwatch at the boundaries of its stages.

python drive_budget.py STARTED SIDE ARGUMENT...

STARTED is what `time.monotonic` said in the parent as it started this process, the rest is for the driver. The last
line printed is JSON: milliseconds by stage, each without the stages inside of it, and under "left" what the clock says
in the end. Only the main thread is timed. Some hundred boundaries of less than a microsecond each are what the
stopwatch itself costs.
"""

import sys
import time

_LOADED = time.monotonic()

import importlib  # noqa: E402
import importlib._bootstrap as bootstrap  # noqa: E402
import json  # noqa: E402
import threading  # noqa: E402
from typing import Any  # noqa: E402

START, EXIT, DRIVER = "interpreter starts", "exit", "the driver itself"
NUMPY, PYOPENCL, OTHER = "import numpy", "import pyopencl", "import kcl and more of the standard library"
IMPORTS = {"numpy": NUMPY, "pyopencl": PYOPENCL, "pytools": PYOPENCL, "kcl": OTHER}

# The functions whose calls are a stage: where they are, and what they do.
STAGES = (
    ("pyopencl", "create_some_context", "platform, device, context"),
    ("kernels", "Arguments.__init__", "arrays"),
    ("kernels", "Arguments.of", "arrays"),
    ("kernels", "Arguments.checksum", "wait, read results"),
    ("pyopencl", "Program.__init__", "program from binary"),
    ("pyopencl", "Program.build", "program from binary"),
    ("kcl.build.compiler", "finish", "program from binary"),
    ("pyopencl", "Kernel.set_arg", "arguments and launch"),
    ("pyopencl", "Kernel", "kernel object"),
    ("pyopencl", "enqueue_nd_range_kernel", "arguments and launch"),
    ("drive_floor", "open", "read the binary"),
    ("kcl.recipe", "kernel", "kcl: handles"),
    ("kcl.recipe", "Recipe.__call__", "kcl: handles"),
    ("kcl.handle", "Kernel.__call__", "kcl: the rest of a first call"),
    ("kcl.generate.stage", "Generate.key", "kcl: run the recipe, key"),
    ("kcl.drivers.pocl.prebuild", "Prebuilder.__init__", "kcl: read entries ahead"),
    ("kcl.drivers.pocl.prebuild", "Prebuilder.take", "kcl: read entries ahead"),
    ("kcl.drivers.pocl.prebuild", "PrebuiltProgram.is_usable", "kcl: wait for the second thread"),
    ("kcl.cache.layers", "Layer.look_up", "kcl: read and verify entries"),
    ("kcl.generate.rows", "ready", "kcl: invoker from its code"),
    ("kcl.build.stage", "Build.slots", "kcl: program key, device identity"),
    ("kcl.launch", "Launcher.__call__", "arguments and launch"),
)


class Stopwatch:
    """Seconds of the main thread by stage; a stage inside another interrupts it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stages = [DRIVER]
        self._last = time.monotonic()

    def enter(self, stage: str) -> None:
        """Begin a stage."""
        if _is_main():
            self.count()
            self._stages.append(stage)

    def leave(self) -> None:
        """Return to the stage before."""
        if _is_main():
            self.count()
            self._stages.pop()

    @property
    def stage(self) -> str:
        """The stage that runs."""
        return self._stages[-1]

    def count(self) -> None:
        """Add the time since the last boundary to the stage that runs."""
        now = time.monotonic()
        self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + now - self._last
        self._last = now


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def place(module: Any, path: str) -> tuple[Any, str]:
    """Return the object that holds a function, and the function's name in it."""
    *owners, name = path.split(".")
    for owner in owners:
        module = getattr(module, owner)
    return module, name


def watch(stopwatch: Stopwatch) -> None:
    """From now on let imports, and the stages of each module that is imported, be timed."""
    find_and_load = bootstrap._find_and_load  # type: ignore[attr-defined]

    def timed_import(name: str, import_: Any) -> Any:
        stage = IMPORTS.get(name.partition(".")[0])
        stopwatch.enter(stage or (stopwatch.stage if stopwatch.stage.startswith("import") else OTHER))
        try:
            known = name in sys.modules
            module = find_and_load(name, import_)
            if not known:
                _time_stages(stopwatch, name, module)
            return module
        finally:
            stopwatch.leave()

    bootstrap._find_and_load = timed_import  # type: ignore[attr-defined]


def _time_stages(stopwatch: Stopwatch, name: str, module: Any) -> None:
    for module_name, path, stage in STAGES:
        if module_name == name:
            owner, attribute = place(module, path)
            function = getattr(owner, attribute, None) or getattr(__builtins__, attribute)
            setattr(owner, attribute, _timed(stopwatch, function, stage))


def _timed(stopwatch: Stopwatch, function: Any, stage: str) -> Any:
    if isinstance(function, type):  # of an extension module: it does not look at an __init__ that was put there
        return type(function.__name__, (function,), {"__init__": _timed(stopwatch, vars(function)["__init__"], stage)})

    def timed(*arguments: Any, **keywords: Any) -> Any:
        stopwatch.enter(stage)
        try:
            return function(*arguments, **keywords)
        finally:
            stopwatch.leave()

    return timed


def main() -> None:
    started, side = float(sys.argv[1]), sys.argv[2]
    del sys.argv[1:3]
    stopwatch = Stopwatch()
    stopwatch.seconds[START] = _LOADED - started
    watch(stopwatch)
    driver = importlib.import_module(f"drive_{side}")
    driver.main()
    stopwatch.count()  # and goes on: at exit there are imports too
    print(json.dumps({"seconds": stopwatch.seconds, "left": time.monotonic()}), flush=True)


if __name__ == "__main__":
    main()
