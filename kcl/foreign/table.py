"""Facts about the foreign caches: one row each, sorted by name.

The comment of each row names the file of its owner's source that the facts were read from, as of the summer of 2026.
They were not tried on macOS or Windows, where some of these caches lie elsewhere and show as empty.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple

Parser = Callable[["str | None"], "str | None"]

_TRUE = frozenset({"y", "yes", "t", "true", "on", "1"})
_FALSE = frozenset({"n", "no", "f", "false", "off", "0"})
_REJECTED = "a value that its owner rejects counts as off; use 1 or 0"


class CacheRow(NamedTuple):
    """One foreign cache.

    `places` has templates of paths; the first one that can be filled in is the cache's place. `$NAME` is a variable that
    is set and not empty, a leading `~` is the home directory, `user:NAME` is the answer of platformdirs. The templates are
    those of Linux, and hold elsewhere if the owner uses the same variables.
    """

    title: str
    switches: dict[str, Parser]
    """The variables that switch it off, each with its owner's parser: None means "on", a text is a remark on "off"."""
    places: tuple[str, ...]
    own: str = ""
    """A regular expression for the names in the directory that belong to this cache."""
    inside: str = ".*"
    """A regular expression that every name inside such a directory must match."""
    entry: str = ""
    """A regular expression for the files that are one entry each; with `rows` each row of a database is one."""
    read: str = ""
    """When the owner reads its variables."""
    icd: str = ""
    """The beginning of the driver's library in ICD files."""
    platforms: tuple[str, ...] = ()
    """The names of the driver's OpenCL platforms."""
    package: str = ""
    """The distribution whose version is shown."""
    flag: tuple[str, str, object, str] | None = None
    """A switch inside a module: module, attribute, the value that means off, and the text that describes it."""
    code_variables: tuple[str, ...] = ()
    """Variables that change the driver's machine code while its OpenCL strings (name, version) stay the same."""
    neighbour: bool = False
    """True for a cache that other programs use too: `all` leaves it alone, only its own name selects it."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that say whether this cache is on and where it lies."""
        places = [
            "XDG_CACHE_HOME" if template.startswith("user:") else placed_by(template)
            for template in self.places
        ]
        return tuple(dict.fromkeys([*self.switches, *filter(None, places)]))


def placed_by(template: str) -> str:
    """Return the variable that a template of a place begins with; empty if there is none."""
    return template[1:].partition("/")[0] if template.startswith("$") else ""


def _strtobool(value: str | None) -> str | None:
    """Parse as pytools.strtobool does; a value that it rejects counts as off."""
    if value is None or value.lower() in _FALSE:
        return None
    return "" if value.lower() in _TRUE else _REJECTED


def _one_starts(value: str | None) -> str | None:
    """Parse as PoCL does: on only if the value starts with "1"; true turns it off."""
    return None if value is None or value.startswith("1") else "PoCL reads anything but 1 as off"


def _any_of(*words: str) -> Parser:
    """Return a parser that takes some words as off, in upper or lower case, and all others as on."""
    return lambda value: "" if value is not None and value.lower() in words else None


_mesa_true = _any_of("1", "y", "yes", "t", "true")


def _number_is_zero(value: str | None) -> str | None:
    """Parse as C's atoll: a text without digits in front is 0."""
    if value is None or re.match(r"\s*[+-]?0*[1-9]", value):
        return None
    return "" if value == "0" else "read as the number 0"


def _must_exist(value: str | None) -> str | None:
    return None if not value or os.path.isdir(value) else "there is no such directory"


ROWS: dict[str, CacheRow] = {
    # ROCm/llvm-project: amd/comgr/src/comgr-env.cpp (getCacheDirectory: "0" alone is off; read once, at the first
    # use), comgr-cache.cpp (localCache); llvm/lib/Support/Caching.cpp (the names), Unix/Path.inc (cache_directory)
    "comgr": CacheRow(
        "AMD comgr",
        {"AMD_COMGR_CACHE": _any_of("0")},
        ("$AMD_COMGR_CACHE_DIR", "$XDG_CACHE_HOME/comgr", "~/.cache/comgr"),
        own=r"llvmcache-.*|llvmcache\.timestamp|amdgpu-compiler-.*\.tmp.*",
        entry=r"llvmcache-.*",
        read="at its first use",
        icd="libamdocl",
        platforms=("AMD Accelerated Parallel Processing",),
    ),
    # CUDA programming guide, appendix on environment variables. The driver's source is not public: the names below the
    # directory are from listings of users, and were not verified.
    "cuda": CacheRow(
        "NVIDIA ComputeCache",
        {"CUDA_CACHE_DISABLE": _any_of("1")},
        ("$CUDA_CACHE_PATH", "~/.nv/ComputeCache"),
        own=r"index|[0-9a-f]",
        inside=r"[0-9a-f]",
        entry=r"[0-9a-f]{8,}",
        read="when the driver starts",
        icd="libnvidia-opencl",
        platforms=("NVIDIA CUDA",),
    ),
    # The runtime's source is not public: runs of the named package left no file of it.
    "intel": CacheRow(
        "Intel CPU runtime",
        {},
        (),
        icd="libintelocl",
        package="intel-opencl-rt",
        code_variables=("CL_CONFIG_CPU_TARGET_ARCH",),
    ),
    # inducer/loopy: loopy/__init__.py (CACHING_ENABLED); inducer/pytools: pytools/persistent_dict.py (the files)
    "loopy": CacheRow(
        "loopy's PersistentDict cache",
        {"LOOPY_NO_CACHE": _strtobool, "CG_NO_CACHE": _strtobool},
        ("user:pytools",),
        own=r"pdict-v\d+-loopy-.*",
        entry="rows",
        read="at `import loopy`",
        package="loopy",
        flag=("loopy", "CACHING_ENABLED", False, "loopy.set_caching_enabled(False)"),
    ),
    # Mesa: src/util/disk_cache_os.c (disk_cache_generate_cache_dir, disk_cache_enabled; nothing on Windows),
    # src/util/u_debug.c (debug_parse_bool_option); MESA_GLSL_* are the old names, read where the new ones are unset
    "mesa": CacheRow(
        "Mesa",
        {"MESA_SHADER_CACHE_DISABLE": _mesa_true, "MESA_GLSL_CACHE_DISABLE": _mesa_true},
        ("$MESA_SHADER_CACHE_DIR", "$MESA_GLSL_CACHE_DIR", "$XDG_CACHE_HOME", "~/.cache"),
        own=r"mesa_shader_cache(_db|_sf)?",
        entry=r"[0-9a-f]{30,}|foz_cache\.foz|mesa_cache\.db",
        read="when the driver starts",
        icd="libRusticlOpenCL",
        neighbour=True,
    ),
    # intel/compute-runtime: shared/source/compiler_interface/default_cache_config.cpp,
    # {linux,windows}/os_compiler_cache_helper.cpp; shared/source/os_interface/debug_env_reader.cpp (atoll)
    "neo": CacheRow(
        "Intel NEO",
        {"NEO_CACHE_PERSISTENT": _number_is_zero, "NEO_CACHE_DIR": _must_exist},
        ("$NEO_CACHE_DIR", "$XDG_CACHE_HOME/neo_compiler_cache", "$HOME/.cache/neo_compiler_cache"),
        own=r".*\.(cl_cache|l0_cache)|config\.file|tmp\.\w+",
        entry=r".*\.(cl_cache|l0_cache)",
        read="when the driver starts",
        icd="libigdrcl",
        platforms=("Intel(R) OpenCL Graphics", "Intel(R) OpenCL HD Graphics"),
    ),
    # pocl/pocl: lib/CL/pocl_cache.c (pocl_cache_init_topdir), lib/CL/pocl_runtime_config.c (pocl_get_bool_option);
    # every path is taken as it is, relative ones included
    "pocl": CacheRow(
        "PoCL's kernel cache",
        {"POCL_KERNEL_CACHE": _one_starts},
        (
            "$POCL_CACHE_DIR",
            "$XDG_CACHE_HOME/pocl/kcache",
            "$HOME/.cache/pocl/kcache",
            "/tmp/pocl/kcache",
        ),
        own=r"[A-P]{2}|tempfile_\w+(\.\w+)?|tempdir_\w+",
        inside=r"[A-P]{30,}|tempfile.*|[\w.]+\.(bc|so|cl|o|ll)",
        entry=r"program\.bc",
        read="at the first platform query",
        icd="libpocl",
        platforms=("Portable Computing Language",),
        package="pocl-binary-distribution",
        code_variables=(
            "POCL_BITCODE_FINALIZER",
            "POCL_EXTRA_BUILD_FLAGS",
            "POCL_VECTORIZER_REMARKS",
            "POCL_WORK_GROUP_METHOD",
            "POCL_WORK_GROUP_SPECIALIZATION",
        ),
    ),
    # inducer/pyopencl: pyopencl/__init__.py (_PYOPENCL_NO_CACHE), pyopencl/invoker.py, pyopencl/scan.py
    "pyopencl": CacheRow(
        "pyopencl's PersistentDict cache",
        {"PYOPENCL_NO_CACHE": _strtobool},
        ("user:pytools",),
        own=r"pdict-v\d+-pyopencl-.*",
        entry="rows",
        read="at `import pyopencl`",
        package="pyopencl",
        flag=("pyopencl", "_PYOPENCL_NO_CACHE", True, "pyopencl's own flag"),
    ),
    # inducer/pyopencl: pyopencl/cache.py (_create_built_program_from_source_cached), pyopencl/__init__.py (build: not
    # used where the driver has a cache of its own, PoCL's and NVIDIA's)
    "pyopencl-binary": CacheRow(
        "pyopencl's binary cache",
        {"PYOPENCL_NO_CACHE": _strtobool},
        ("user:pyopencl",),
        own=r"pyopencl-compiler-cache-v\d+-.*",
        inside=r"[0-9a-f]{32}|lock",
        entry=r"binary",
        read="at `import pyopencl`",
        package="pyopencl",
        flag=("pyopencl", "_PYOPENCL_NO_CACHE", True, "pyopencl's own flag"),
    ),
}
