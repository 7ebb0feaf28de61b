"""Facts about the caches below kcl and beside it: one row each, sorted by name.

Each fact was read in its owner's source as of the summer of 2026, in the file that the comment of its row names. The
facts of Numba 0.68, JAX 0.10, torch 2.15, Triton 3.9, Taichi 1.7, Warp 1.19 and tinygrad 0.14 were also compared with
the packages (tests/behaviour/test_neighbours.py). No fact was tried on macOS or Windows.
A row is data: the code for all rows stands once, in `kcl.caches` and the modules beside this one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

Parser = Callable[["str | None"], "str | None"]

_TRUE = frozenset({"y", "yes", "t", "true", "on", "1"})
_FALSE = frozenset({"n", "no", "f", "false", "off", "0"})
_REJECTED = "a value that its owner rejects counts as off; use 1 or 0"


class CacheSwitch(NamedTuple):
    """A variable that turns a cache off, and its owner's parser: it returns None for "on", else words on the value."""

    variable: str
    parse: Parser


class Places(NamedTuple):
    """The possible places of a cache: templates; the first template that can be filled in decides.

    `$NAME` is a variable that is set and not empty, `$NAME?` a set variable that may be empty, a leading `~` the home
    directory as `os.path.expanduser` finds it, and `user:NAME` the answer of platformdirs. Without a template the cache
    does not exist there; `None` stands for the templates of Linux.
    """

    linux: tuple[str, ...]
    macos: tuple[str, ...] | None = None
    windows: tuple[str, ...] | None = None

    @property
    def here(self) -> tuple[str, ...]:
        """The templates of this operating system."""
        chosen = {"darwin": self.macos, "win32": self.windows}.get(sys.platform)
        return self.linux if chosen is None else chosen


class CacheRow(NamedTuple):
    """One foreign cache."""

    title: str
    switches: tuple[CacheSwitch, ...]
    places: Places
    own: str = ""
    """A regular expression for the names, in the directory, that are this cache's and nobody else's."""
    inside: str = ""
    """A regular expression for all names in those of them that are directories; any name where it is empty."""
    entry: str = ""
    """A regular expression for the names of files that stand for one entry each; `rows` counts rows of SQLite."""
    read: str = ""
    """When the owner reads its variables."""
    module: str = ""
    """The module that reads them while it is imported."""
    library: str = ""
    """What the name of the driver's library begins with, which is loaded by the first platform query."""
    icd: str = ""
    """What ICD files call the driver, where that is another library."""
    platforms: tuple[str, ...] = ()
    """The names of the driver's OpenCL platforms."""
    makes: bool = False
    """Whether the directory is made when the driver starts."""
    package: str = ""
    """The distribution whose version is shown."""
    version_file: str = ""
    """Where the system says the version of the driver."""
    flag: tuple[str, str, object, str] | None = None
    """Module, attribute, the value that means off, and the words for it."""
    held: tuple[str, str] = ("", "")
    """Module, and its PersistentDict, which knows the directory that it was opened in."""
    code_variables: tuple[str, ...] = ()
    """Variables that change the code that is generated under unchanged OpenCL strings."""
    limits: tuple[str, ...] = ()
    """Variables that bound the size."""
    remark: str = ""
    """What else there is to know about the place."""
    neighbour: bool = False
    """Shown, and never touched unless it is named."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that say whether this cache is on and where it lies."""
        named = [part for template in self.places.here for part in template.replace("?", "").split("/")]
        places = [part[1:] for part in named if part.startswith("$")]
        if any(template.startswith("user:") for template in self.places.here):
            places.append("XDG_CACHE_HOME")
        return tuple(dict.fromkeys([*(switch.variable for switch in self.switches), *places]))


def _strtobool(value: str | None) -> str | None:
    """Parse as pytools.strtobool does; a word for which it raises ValueError counts as off."""
    if value is None or value.lower() in _FALSE:
        return None
    return "" if value.lower() in _TRUE else _REJECTED


def _enabled(value: str | None) -> str | None:
    """Parse a switch with the opposite sense: its false words mean off, and its parser raises for unknown words."""
    if value is None or value.lower() in _TRUE:
        return None
    return "" if value.lower() in _FALSE else _REJECTED


def _one_starts(value: str | None) -> str | None:
    """Parse as PoCL does: on only if the value starts with "1"; true turns it off."""
    return None if value is None or value.startswith("1") else "PoCL reads anything but 1 as off"


def _any_of(*words: str) -> Parser:
    """Return a parser that takes some words as off, in upper or lower case, and all others as on."""
    return lambda value: "" if value is not None and value.lower() in words else None


_is_true = _any_of("1", "y", "yes", "on", "true")
_mesa_true = _any_of("1", "y", "yes", "t", "true")


def _set_unless_zero(value: str | None) -> str | None:
    return "" if value not in (None, "", "0") else None


def _number_is_zero(value: str | None) -> str | None:
    """Parse as C's atoll: a text without digits in front is 0."""
    digits = (value or "").strip().lstrip("+-")
    if value is None or (digits[:1].isdigit() and digits.lstrip("0")[:1].isdigit()):
        return None
    return "" if value == "0" else "read as the number 0"


def _integer_is_one(value: str | None) -> str | None:
    try:
        return "" if value and int(value) == 1 else None
    except ValueError:
        return None


def _integer_is_zero(value: str | None) -> str | None:
    try:
        return None if not value or int(value) else ""
    except ValueError:
        return _REJECTED


def _integer_below_one(value: str | None) -> str | None:
    try:
        return None if value is None or int(value) >= 1 else ""
    except ValueError:
        return _REJECTED


def _must_exist(value: str | None) -> str | None:
    return None if not value or os.path.isdir(value) else "there is no such directory"


def _must_be_set(value: str | None) -> str | None:
    return None if value else "not set, and there is no default place"


ROWS: dict[str, CacheRow] = {
    # ROCm/llvm-project: amd/comgr/src/comgr-env.cpp (getCacheDirectory: "0" alone is off; read once, at the first
    # use), comgr-cache.cpp (localCache); llvm/lib/Support/Caching.cpp (the names), Unix/Path.inc (cache_directory)
    "comgr": CacheRow(
        "AMD comgr",
        (CacheSwitch("AMD_COMGR_CACHE", _any_of("0")),),
        Places(
            ("$AMD_COMGR_CACHE_DIR", "$XDG_CACHE_HOME/comgr", "~/.cache/comgr"),
            (),
            ("$AMD_COMGR_CACHE_DIR", "$LOCALAPPDATA/comgr"),
        ),
        own=r"llvmcache-.*|llvmcache\.timestamp|amdgpu-compiler-.*\.tmp.*",
        entry=r"llvmcache-.*",
        read="at its first use",
        library="libamd_comgr",
        icd="libamdocl",
        platforms=("AMD Accelerated Parallel Processing",),
        limits=("AMD_COMGR_CACHE_POLICY",),
    ),
    # CUDA programming guide, appendix on environment variables. The driver's source is not public: the names below the
    # directory are from listings of users, and were not verified.
    "cuda": CacheRow(
        "NVIDIA ComputeCache",
        (CacheSwitch("CUDA_CACHE_DISABLE", _any_of("1")),),
        Places(
            ("$CUDA_CACHE_PATH", "~/.nv/ComputeCache"),
            ("$CUDA_CACHE_PATH", "~/Library/Application Support/NVIDIA/ComputeCache"),
            ("$CUDA_CACHE_PATH", "$APPDATA/NVIDIA/ComputeCache"),
        ),
        own=r"index|[0-9a-f]",
        inside=r"[0-9a-f]",
        entry=r"[0-9a-f]{8,}",
        read="when the driver starts",
        library="libnvidia-opencl",
        platforms=("NVIDIA CUDA",),
        version_file="/sys/module/nvidia/version",
        limits=("CUDA_CACHE_MAXSIZE",),
    ),
    # cupy/cupy: cupy/cuda/_compiler_cache.py (DiskKernelCacheBackend), compiler.py (_get_bool_env_variable)
    "cupy": CacheRow(
        "CuPy",
        (CacheSwitch("CUPY_CACHE_IN_MEMORY", _integer_is_one),),
        Places(("$CUPY_CACHE_DIR?", "~/.cupy/kernel_cache")),
        own=r"[0-9a-f]{32,}(_2)?\.(cubin|hsaco|ltoir)(\.cu)?",
        entry=r".*\.(cubin|hsaco|ltoir)",
        read="at `import cupy`",
        module="cupy",
        package="cupy",
        neighbour=True,
    ),
    # hidet-org/hidet: python/hidet/option.py (cache_dir; no variable, a table in ~/.config/hidet/hidet.toml; in a
    # checkout of its own .hidet_cache there), drivers/build_task.py (ops), ir/module.py (ir_modules)
    "hidet": CacheRow(
        "Hidet",
        (),
        Places(("~/.cache/hidet",)),
        own=r"ops|graphs|ir_modules|tuning|download|testing|onnx|.*\.lock",
        entry=r"lib\.so|lib\.dll",
        read="at `import hidet`",
        module="hidet",
        package="hidet",
        remark="unless `~/.config/hidet/hidet.toml` says otherwise",
        neighbour=True,
    ),
    # The runtime's source is not public: runs of the named package left no file of it.
    "intel": CacheRow(
        "Intel CPU runtime",
        (),
        Places(()),
        library="libintelocl",
        package="intel-opencl-rt",
        remark="no cache of its own",
        code_variables=("CL_CONFIG_CPU_TARGET_ARCH",),
    ),
    # jax-ml/jax: jax/_src/config.py (bool_env, compilation_cache_dir), jax/_src/lru_cache.py (the names)
    "jax": CacheRow(
        "JAX compilation cache",
        (
            CacheSwitch("JAX_ENABLE_COMPILATION_CACHE", _enabled),
            CacheSwitch("JAX_COMPILATION_CACHE_DIR", _must_be_set),
        ),
        Places(("$JAX_COMPILATION_CACHE_DIR",)),
        own=r".*-(cache|atime)|\.lockfile|xla_gpu_.*",
        entry=r".*-cache",
        read="at `import jax`",
        module="jax",
        package="jax",
        limits=("JAX_COMPILATION_CACHE_MAX_SIZE",),
        neighbour=True,
    ),
    # inducer/loopy: loopy/__init__.py (CACHING_ENABLED); inducer/pytools: pytools/persistent_dict.py (the files)
    "loopy": CacheRow(
        "loopy's PersistentDict cache",
        (CacheSwitch("LOOPY_NO_CACHE", _strtobool), CacheSwitch("CG_NO_CACHE", _strtobool)),
        Places(("user:pytools",)),
        own=r"pdict-v\d+-loopy-.*",
        entry="rows",
        read="at `import loopy`",
        module="loopy",
        package="loopy",
        flag=("loopy", "CACHING_ENABLED", False, "loopy.set_caching_enabled(False)"),
        held=("loopy.target.execution", "invoker_cache"),
    ),
    # Mesa: src/util/disk_cache_os.c (disk_cache_generate_cache_dir, disk_cache_enabled; nothing on Windows),
    # src/util/u_debug.c (debug_parse_bool_option); MESA_GLSL_* are the old names, read where the new ones are unset
    "mesa": CacheRow(
        "Mesa",
        (CacheSwitch("MESA_SHADER_CACHE_DISABLE", _mesa_true), CacheSwitch("MESA_GLSL_CACHE_DISABLE", _mesa_true)),
        Places(("$MESA_SHADER_CACHE_DIR", "$MESA_GLSL_CACHE_DIR", "$XDG_CACHE_HOME", "~/.cache"), windows=()),
        own=r"mesa_shader_cache(_db|_sf)?",
        entry=r"[0-9a-f]{30,}|foz_cache\.foz|mesa_cache\.db",
        read="when the driver starts",
        library="libRusticlOpenCL",
        limits=("MESA_SHADER_CACHE_MAX_SIZE",),
        neighbour=True,
    ),
    # intel/compute-runtime: shared/source/compiler_interface/default_cache_config.cpp,
    # {linux,windows}/os_compiler_cache_helper.cpp; shared/source/os_interface/debug_env_reader.cpp (atoll)
    "neo": CacheRow(
        "Intel NEO",
        (CacheSwitch("NEO_CACHE_PERSISTENT", _number_is_zero), CacheSwitch("NEO_CACHE_DIR", _must_exist)),
        Places(
            ("$NEO_CACHE_DIR", "$XDG_CACHE_HOME/neo_compiler_cache", "$HOME/.cache/neo_compiler_cache"),
            (),
            ("$NEO_CACHE_DIR", "$LOCALAPPDATA/NEO/neo_compiler_cache"),
        ),
        own=r".*\.(cl_cache|l0_cache)|config\.file|tmp\.\w+",
        entry=r".*\.(cl_cache|l0_cache)",
        read="when the driver starts",
        library="libigdrcl",
        platforms=("Intel(R) OpenCL Graphics", "Intel(R) OpenCL HD Graphics"),
        limits=("NEO_CACHE_MAX_SIZE",),
    ),
    # numba/numba: numba/core/caching.py (the locators: __pycache__ beside the source comes before the user's
    # directory, and is its module's own), numba/core/config.py (CACHE_DIR), numba/misc/appdirs.py
    "numba": CacheRow(
        "Numba",
        (),
        Places(
            ("$NUMBA_CACHE_DIR", "$XDG_CACHE_HOME?/numba", "~/.cache/numba"),
            ("$NUMBA_CACHE_DIR", "~/Library/Caches/numba"),
            ("$NUMBA_CACHE_DIR", "$LOCALAPPDATA/numba/Cache"),
        ),
        own=r".*_[0-9a-f]{40}",
        inside=r".*\.nb[ic]|.*\.tmp\..*",
        entry=r".*\.nbc",
        read="at `import numba`",
        module="numba",
        package="numba",
        remark="mostly not here but beside the sources, in `__pycache__`",
        neighbour=True,
    ),
    # pocl/pocl: lib/CL/pocl_cache.c (pocl_cache_init_topdir), lib/CL/pocl_runtime_config.c (pocl_get_bool_option);
    # every path is taken as it is, relative ones included
    "pocl": CacheRow(
        "PoCL's kernel cache",
        (CacheSwitch("POCL_KERNEL_CACHE", _one_starts),),
        Places(
            ("$POCL_CACHE_DIR", "$XDG_CACHE_HOME/pocl/kcache", "$HOME/.cache/pocl/kcache", "/tmp/pocl/kcache"),
            windows=("$POCL_CACHE_DIR", "$LOCALAPPDATA/pocl", "$TEMP/pocl"),
        ),
        own=r"[A-P]{2}|tempfile_\w+(\.\w+)?|tempdir_\w+",
        inside=r"[A-P]{30,}|tempfile.*|[\w.]+\.(bc|so|cl|o|ll)",
        entry=r"program\.bc",
        read="at the first platform query",
        library="libpocl",
        platforms=("Portable Computing Language",),
        makes=True,
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
        (CacheSwitch("PYOPENCL_NO_CACHE", _strtobool),),
        Places(("user:pytools",)),
        own=r"pdict-v\d+-pyopencl-.*",
        entry="rows",
        read="at `import pyopencl`",
        module="pyopencl",
        package="pyopencl",
        flag=("pyopencl", "_PYOPENCL_NO_CACHE", True, "pyopencl's own flag"),
        held=("pyopencl.invoker", "invoker_cache"),
    ),
    # inducer/pyopencl: pyopencl/cache.py (_create_built_program_from_source_cached), pyopencl/__init__.py (build: not
    # used where the driver has a cache of its own, PoCL's and NVIDIA's)
    "pyopencl-binary": CacheRow(
        "pyopencl's binary cache",
        (CacheSwitch("PYOPENCL_NO_CACHE", _strtobool),),
        Places(("user:pyopencl",)),
        own=r"pyopencl-compiler-cache-v\d+-.*",
        inside=r"[0-9a-f]{32}|lock",
        entry=r"binary",
        read="at `import pyopencl`",
        module="pyopencl",
        package="pyopencl",
        flag=("pyopencl", "_PYOPENCL_NO_CACHE", True, "pyopencl's own flag"),
    ),
    # taichi-dev/taichi: python/taichi/lang/misc.py (_EnvironmentConfigurator), taichi/common/core.cpp (get_repo_dir),
    # taichi/util/offline_cache.h
    "taichi": CacheRow(
        "Taichi offline cache",
        (CacheSwitch("TI_OFFLINE_CACHE", _integer_is_zero),),
        Places(
            ("$TI_OFFLINE_CACHE_FILE_PATH", "$XDG_CACHE_HOME?/taichi/ticache", "$HOME/.cache/taichi/ticache"),
            windows=("$TI_OFFLINE_CACHE_FILE_PATH", "C:/taichi_cache/ticache"),
        ),
        own=r"llvm|gfx|metal|kernel_compilation_manager|.*\.(tic|tcb|lock)",
        entry=r".*\.tic",
        read="at `taichi.init`",
        module="taichi",
        package="taichi",
        neighbour=True,
    ),
    # tile-ai/tilelang: tilelang/env.py (EnvVar reads the variable at each use), tilelang/cache/kernel_cache.py
    "tilelang": CacheRow(
        "tilelang",
        (CacheSwitch("TILELANG_DISABLE_CACHE", _is_true),),
        Places(("$TILELANG_CACHE_DIR?", "~/.tilelang/cache")),
        own=r"\d.*|tmp|autotuner|[0-9a-f]{64}",
        entry=r"params\.pkl",
        read="at each use",
        package="tilelang",
        neighbour=True,
    ),
    # NVIDIA/tilus: python/tilus/option.py (in a checkout of its own .cache there), python/tilus/drivers.py
    "tilus": CacheRow(
        "Tilus",
        (),
        Places(("$TILUS_CACHE_DIR?", "~/.cache/tilus")),
        own=r"programs|scripts|.*\.lock",
        entry=r"program\.txt",
        read="at each use",
        package="tilus",
        neighbour=True,
    ),
    # tinygrad/tinygrad: tinygrad/helpers.py (CACHEDB, CACHELEVEL, CCACHE, cache_dir); tinygrad/device.py (Compiler)
    "tinygrad": CacheRow(
        "tinygrad",
        (CacheSwitch("CACHELEVEL", _integer_below_one), CacheSwitch("CCACHE", _integer_is_zero)),
        Places(
            ("$CACHEDB", "$XDG_CACHE_HOME?/tinygrad/cache.db", "~/.cache/tinygrad/cache.db"),
            ("$CACHEDB", "$XDG_CACHE_HOME?/tinygrad/cache.db", "~/Library/Caches/tinygrad/cache.db"),
        ),
        own="file",
        entry="rows",
        read="at `import tinygrad`",
        module="tinygrad",
        package="tinygrad",
        neighbour=True,
    ),
    # pytorch/pytorch: torch/_inductor/runtime/cache_dir_utils.py, torch/_inductor/config.py (fx_graph_cache,
    # force_disable_caches), torch/_inductor/codecache.py (_HEADER_DIR), torch/utils/_config_module.py
    "torch": CacheRow(
        "torch inductor",
        (
            CacheSwitch("TORCHINDUCTOR_FORCE_DISABLE_CACHES", _set_unless_zero),
            CacheSwitch("TORCHINDUCTOR_FX_GRAPH_CACHE", _any_of("0")),
        ),
        Places(("$TORCHINDUCTOR_CACHE_DIR?", "tmp:torchinductor_")),
        own=r"[a-z0-9]{2}|fxgraph|aotautograd|triton|locks|autotune|.*\.lock|precompiled_headers|tmp\w+",
        entry=r".*\.(py|cpp|cubin|hsaco)",
        read="at `import torch`",
        module="torch._inductor.config",
        package="torch",
        remark="precompiled headers lie among the temporary files whatever the variable says",
        neighbour=True,
    ),
    # triton-lang/triton: python/triton/knobs.py (cache_knobs, compilation_knobs; read at each use),
    # python/triton/runtime/cache.py (the names)
    "triton": CacheRow(
        "Triton",
        (CacheSwitch("TRITON_ALWAYS_COMPILE", _is_true),),
        Places(("$TRITON_CACHE_DIR", "$TRITON_HOME/.triton/cache", "~/.triton/cache")),
        own=r"[A-Z2-7]{40,}|[0-9a-f]{32,}",
        entry=r"__grp__.*\.json",
        read="at each use",
        package="triton",
        neighbour=True,
    ),
    # NVIDIA/warp: warp/_src/build.py (init_kernel_cache: a directory per version), warp/_src/thirdparty/appdirs.py
    "warp": CacheRow(
        "Warp",
        (),
        Places(
            ("$WARP_CACHE_PATH?", "$XDG_CACHE_HOME?/warp", "~/.cache/warp"),
            ("$WARP_CACHE_PATH?", "~/Library/Caches/warp"),
            ("$WARP_CACHE_PATH?", "$LOCALAPPDATA/NVIDIA/warp/Cache"),
        ),
        own=r"\d+\.\d+.*|wp_.*|lto",
        entry=r".*\.meta",
        read="at `warp.init`",
        module="warp",
        package="warp-lang",
        neighbour=True,
    ),
}
