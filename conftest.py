"""A fresh cache directory and a scrubbed environment for every test; devices; child processes."""

import gc
import os
import resource
import shutil
import sys
import threading

import browser
import hypothesis
import pytest
import slow
from harness import PLATFORMS, SCRUBBED, SESSION, STRICT, Child, once, platforms

pytest_plugins = ["slow"]
# What loopy 2025.2 says with islpy 2026, for example of the bounds of a loop that is split and not parallel.
OF_ISLPY = "'islpy._isl.Aff' object has no attribute 'is_equal'"
# How fast examples are made is a matter of what else the machine does.
hypothesis.settings.register_profile(
    "kcl", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("kcl")


def pytest_generate_tests(metafunc):
    if "platform_name" in metafunc.fixturenames:
        names = platforms()
        if any(metafunc.definition.iter_markers("one_platform")):
            names = names[-1:]  # Intel's, where it is there: see harness.Child.environment
        metafunc.parametrize("platform_name", names, scope="session")


def pytest_collection_modifyitems(items):
    import pyopencl as cl
    import pyopencl.invoker  # opens its dictionary as it is imported: that of the session, not of a test

    gpus = [
        device
        for p in cl.get_platforms()
        for device in p.get_devices()
        if device.type & cl.device_type.GPU
    ]
    for item in items:
        if "gpu" in item.keywords and not gpus:
            item.add_marker(pytest.mark.skip(reason="no OpenCL GPU device here"))
        if "browser" in item.keywords and browser.command() is None:
            item.add_marker(pytest.mark.skip(reason="no headless browser here, such as chromium"))


def pytest_collection():
    """Spare Python's collector the tests: a collection of all that they are takes a second."""
    gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Skip a test that fails since loopy itself does, where it has an islpy that it cannot work with."""
    report = (yield).get_result()
    if report.failed and OF_ISLPY in report.longreprtext:
        report.outcome = "skipped"
        reason = "loopy 2025.2 needs islpy before 2026, of which Python 3.14 has no wheel"
        report.longrepr = (str(item.path), item.location[1], reason)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Return two workers more than processors: tests wait for their children, and for helpers."""
    return (os.cpu_count() or 1) + 2


def pytest_sessionfinish(session, exitstatus):
    if not hasattr(session.config, "workerinput") and hasattr(session.config, "cache"):
        session.config.cache.set("kcl/status", int(exitstatus))  # for tools/again.py


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch, request):
    """Give the test a cache directory of its own, and kcl a state as of its import."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in (*SCRUBBED, *slow.VARIABLES):
        monkeypatch.delenv(name, raising=False)
    if STRICT and not request.node.get_closest_marker("faults"):
        monkeypatch.setenv("KCL_STRICT", STRICT)
    # Where this process's PoCL looks, whatever XDG_CACHE_HOME says now; child processes have their own.
    monkeypatch.setenv("POCL_CACHE_DIR", os.path.join(SESSION.name, "cache", "pocl", "kcache"))
    _forget()
    space = resource.getrlimit(resource.RLIMIT_AS)
    yield
    resource.setrlimit(
        resource.RLIMIT_AS, space
    )  # a child of a tuning that a test plays bounds itself
    _forget()


def _forget():
    from kcl.base import process

    # A timer of kcl that outlives its test would write into the cache of the next one.
    for timer in [
        thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)
    ]:
        timer.cancel()
        timer.join()
    process.reset()
    recorder = sys.modules.get("kcl.frontends.loopy.recorder")
    if recorder is not None:
        recorder.thread.asked = False  # each test is a program that has asked loopy nothing


@pytest.fixture(scope="session")
def device(platform_name):
    """A device of each platform that is present."""
    import pyopencl as cl

    (platform,) = [p for p in cl.get_platforms() if p.name == PLATFORMS[platform_name]]
    return platform.get_devices()[0]


@pytest.fixture
def context(device):
    """A new context on each platform that is present."""
    import pyopencl as cl

    return cl.Context([device])


@pytest.fixture
def queue(context):
    """A new queue on a new context."""
    import pyopencl as cl

    return cl.CommandQueue(context)


@pytest.fixture
def looks():
    """The events of all look-ups."""
    import kcl

    found = []
    remove = kcl.add_hook(found.append)
    yield found
    remove()


@pytest.fixture
def installed():
    """Have kcl's integrations installed."""
    import kcl
    from kcl import integrations

    kcl.install()
    yield
    while integrations.is_installed():
        kcl.uninstall()


@pytest.fixture
def no_switches(monkeypatch):
    """An environment without what any owner of a foreign cache reads, but for the root of a fresh cache."""
    from kcl.foreign.table import ROWS

    for variable in {variable for row in ROWS.values() for variable in row.variables}:
        if variable not in ("HOME", "XDG_CACHE_HOME"):
            monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def child(tmp_path):
    """Child processes with a fresh home and cache directory."""
    directory = tmp_path / "child"
    directory.mkdir(mode=0o700)
    return Child(directory)


@pytest.fixture
def under(monkeypatch):
    """Set variables and let every layer read them."""
    from kcl.cache import layers

    def under(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        layers.reset()

    return under


@pytest.fixture
def project(child, platform_name):
    """A project of a user with an empty cache; see tests/support/project.py."""
    from project import Project

    return Project(child, PLATFORMS[platform_name])


class Filled:
    """A project with what its first two runs said."""

    def __init__(self, project, cold, second) -> None:
        self.project = project
        self.cold = cold
        self.second = second


# pytest makes a fixture of the session anew whenever the platform of the next test is another one.
_made = {}


@pytest.fixture(scope="session")
def filled(platform_name, tmp_path_factory):
    """A project that was run cold and, as that ended, a second time with compilation and loopy forbidden."""
    if platform_name not in _made:
        _made[platform_name] = Filled(
            *once(tmp_path_factory, f"filled-{platform_name}", _fill, platform_name)
        )
    return _made[platform_name]


def _fill(directory, platform_name):
    from project import Project

    project = Project(Child(directory), PLATFORMS[platform_name])
    cold = project.run()
    second = project.start(
        warm=True
    )  # waits for the helper as long as a loaded machine makes it need
    project.finish()
    return project, cold, second


@pytest.fixture
def cache(filled):
    """The cache of a cold and a warm run; only to be read."""
    from kcl import option

    option.cache_dir(filled.project.child.cache)
    return filled.project


@pytest.fixture
def copy(warm):
    """A copy of that cache."""
    from kcl import option

    option.cache_dir(warm.child.cache)
    return warm


@pytest.fixture
def warm(filled, project):
    """A project with a copy of the filled caches."""
    shutil.copytree(filled.project.child.cache, project.child.cache, symlinks=True)
    return project
