"""Facts about the caches below kcl: one row each, sorted by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcl.config import user_cache_dir

Environment = Mapping[str, str]


class Switch(NamedTuple):
    """A variable that turns a cache off, and its owner's parser: None is "on", else words about the value."""

    variable: str
    parse: Callable[[str | None], str | None]


class Row(NamedTuple):
    """One foreign cache."""

    title: str
    switches: tuple[Switch, ...]
    directory: Callable[[Environment], str]
    flag: tuple[str, str, object, str] | None = None
    """Module, attribute, the value that means off, and the words for it."""
    code_variables: tuple[str, ...] = ()
    """Variables that change the code that is generated under unchanged OpenCL strings."""


def _strtobool(value: str | None) -> str | None:
    """Parse as pytools.strtobool does, which raises ValueError for anything else: counted as off."""
    if value is None or value.lower() in {"n", "no", "f", "false", "off", "0"}:
        return None
    if value.lower() in {"y", "yes", "t", "true", "on", "1"}:
        return ""
    return "a value that its owner rejects counts as off; use 1 or 0"


def _pocl_kernel_cache(value: str | None) -> str | None:
    """Parse as PoCL does: on only if the value starts with "1"; true turns it off."""
    return None if value is None or value.startswith("1") else "PoCL reads anything but 1 as off"


def _cuda_cache_disable(value: str | None) -> str | None:
    return "" if value == "1" else None


def _pytools_directory(_environment: Environment) -> str:
    return user_cache_dir("pytools")


def _pocl_directory(environment: Environment) -> str:
    # PoCL takes both variables as they are, relative paths included, and falls back to /tmp without HOME.
    if environment.get("POCL_CACHE_DIR"):
        return environment["POCL_CACHE_DIR"]
    if environment.get("XDG_CACHE_HOME"):
        return os.path.join(environment["XDG_CACHE_HOME"], "pocl", "kcache")
    if environment.get("HOME"):
        return os.path.join(environment["HOME"], ".cache", "pocl", "kcache")
    return os.path.join("/tmp", "pocl", "kcache")


def _cuda_directory(environment: Environment) -> str:
    return environment.get("CUDA_CACHE_PATH") or os.path.join(os.path.expanduser("~"), ".nv", "ComputeCache")


ROWS: dict[str, Row] = {
    "cuda": Row(
        "NVIDIA ComputeCache",
        (Switch("CUDA_CACHE_DISABLE", _cuda_cache_disable),),
        _cuda_directory,
    ),
    "intel": Row(
        "Intel CPU runtime (no cache of its own)",
        (),
        lambda _environment: "",
        code_variables=("CL_CONFIG_CPU_TARGET_ARCH",),
    ),
    "loopy": Row(
        "loopy's PersistentDicts",
        (Switch("LOOPY_NO_CACHE", _strtobool), Switch("CG_NO_CACHE", _strtobool)),
        _pytools_directory,
        flag=("loopy", "CACHING_ENABLED", False, "loopy.set_caching_enabled(False)"),
    ),
    "pocl": Row(
        "PoCL's kernel cache",
        (Switch("POCL_KERNEL_CACHE", _pocl_kernel_cache),),
        _pocl_directory,
        code_variables=(
            "POCL_BITCODE_FINALIZER",
            "POCL_EXTRA_BUILD_FLAGS",
            "POCL_VECTORIZER_REMARKS",
            "POCL_WORK_GROUP_METHOD",
            "POCL_WORK_GROUP_SPECIALIZATION",
        ),
    ),
    "pyopencl": Row(
        "pyopencl's invoker and binary caches",
        (Switch("PYOPENCL_NO_CACHE", _strtobool),),
        _pytools_directory,
        flag=("pyopencl", "_PYOPENCL_NO_CACHE", True, "pyopencl's own flag"),
    ),
}
