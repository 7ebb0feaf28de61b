"""Rows of neighbours against the neighbours themselves: an optional run, skipped where a package is not installed.

    pip install numba jax torch taichi warp-lang tinygrad        (on Linux torch brings Triton)
    python -m pytest -m neighbours -rs

Each compiles something in a process of its own and tells where its cache is; the row must find what it wrote.
"""

from __future__ import annotations

import importlib.util
import os

import pytest

from kcl import caches
from kcl.caches import contents
from kcl.caches.table import ROWS

pytestmark = pytest.mark.neighbours

NUMBA = """
import json, sys, numba
import compiled
compiled.doubled(2)
print(json.dumps([numba.config.CACHE_DIR, compiled.doubled._cache.cache_path, numba.__version__]))
"""
NUMBA_MODULE = """
import numba

@numba.njit(cache=True)
def doubled(x):
    return 2 * x
"""
JAX = """
import json, jax, jax.numpy as jnp
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x))(jnp.ones((8, 8))).block_until_ready()
print(json.dumps([jax.config.jax_compilation_cache_dir, jax.config.jax_enable_compilation_cache, jax.__version__]))
"""
TORCH = """
import json, torch
from torch._inductor import config
from torch._inductor.runtime.cache_dir_utils import cache_dir
torch.compile(lambda x: torch.sin(x) + 1)(torch.ones(8))
print(json.dumps([cache_dir(), bool(config.force_disable_caches), torch.__version__]))
"""
TRITON = """
import json, triton
from triton import knobs
print(json.dumps([knobs.cache.dir, bool(knobs.compilation.always_compile), triton.__version__]))
"""

TAICHI = """
import json, compiled, taichi
taichi.init(arch=taichi.cpu)
compiled.doubled(2)
found = taichi.lang.impl.current_cfg()
print(json.dumps([found.offline_cache_file_path, bool(found.offline_cache), taichi.__version__]))
"""
TAICHI_MODULE = """
import taichi

@taichi.kernel
def doubled(x: taichi.i32) -> taichi.i32:
    return 2 * x
"""
WARP = """
import json, compiled, warp
warp.init()
warp.launch(compiled.doubled, 4, inputs=[warp.zeros(4, dtype=float, device="cpu")], device="cpu")
print(json.dumps([warp.config.kernel_cache_dir, warp.config.version]))
"""
WARP_MODULE = """
import warp

@warp.kernel
def doubled(x: warp.array(dtype=float)):
    x[warp.tid()] *= 2.0
"""
TINYGRAD = """
import json
from tinygrad.helpers import CACHEDB, CACHELEVEL, CCACHE, diskcache_put
diskcache_put("table", "key", 1)
print(json.dumps([CACHEDB, CACHELEVEL.value >= 1 and bool(CCACHE)]))
"""


@pytest.fixture
def neighbour(child, monkeypatch):
    """Run code with a package, under variables that hold in this process too; skip where it is not installed."""

    def run(name, code, **variables):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed here: pip install {ROWS[name].package}")
        monkeypatch.setenv("HOME", str(child.home))
        monkeypatch.setenv("XDG_CACHE_HOME", str(child.cache))
        variables.setdefault("TMPDIR", str(child.directory))
        for variable in ROWS[name].variables:
            if variable not in ("HOME", "XDG_CACHE_HOME"):
                monkeypatch.delenv(variable, raising=False)
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        return child.json(code, **variables)

    return run


class TestNumba:
    @pytest.fixture
    def source(self, child):
        """A module whose function Numba caches."""
        (child.directory / "compiled.py").write_text(NUMBA_MODULE)

    @pytest.mark.usefixtures("source")
    def test_named(self, neighbour, child):
        """Numba keeps its files below NUMBA_CACHE_DIR, in a directory that the row knows, and they are counted."""
        place, written, version = neighbour("numba", NUMBA, NUMBA_CACHE_DIR=str(child.directory / "numba"))
        assert caches.place("numba") == (place, "NUMBA_CACHE_DIR")
        assert contents.files("numba") == (written,)
        assert contents.measure("numba").entries == 1
        assert contents.looks_like("numba", place)
        assert contents.version("numba") == version

    @pytest.mark.usefixtures("source")
    def test_beside_the_source(self, neighbour):
        """Without it they lie in the module's __pycache__, and the user's directory, which the row names, is empty."""
        _place, written, _version = neighbour("numba", NUMBA)
        assert os.path.basename(written) == "__pycache__"
        assert contents.files("numba") == ()

    def test_of_the_user(self, neighbour):
        """The user's directory is where Numba's own locator puts it, also where XDG_CACHE_HOME is empty."""
        code = """
            import json
            from numba.misc.appdirs import AppDirs
            print(json.dumps(AppDirs(appname="numba", appauthor=False).user_cache_dir))
            """
        assert neighbour("numba", code) == caches.place("numba").path
        assert neighbour("numba", code, XDG_CACHE_HOME="") == caches.place("numba").path


class TestJax:
    def test_named(self, neighbour, child):
        """JAX keeps its files in JAX_COMPILATION_CACHE_DIR; the row finds and counts them."""
        place, on, version = neighbour("jax", JAX, JAX_COMPILATION_CACHE_DIR=str(child.directory / "jax"))
        assert caches.place("jax") == (place, "JAX_COMPILATION_CACHE_DIR")
        assert caches.state("jax").on is on is True
        measured = contents.measure("jax")
        written = os.listdir(place)
        assert measured.entries == sum(name.endswith("-cache") for name in written) > 0
        assert len(contents.files("jax")) == len(written)
        assert contents.looks_like("jax", place)
        assert contents.version("jax") == version

    @pytest.mark.parametrize("value", ["0", "false", "1", "True"])
    def test_switch(self, neighbour, child, value):
        """JAX_ENABLE_COMPILATION_CACHE means to JAX what the row says."""
        place = str(child.directory / "jax")
        named = {"JAX_COMPILATION_CACHE_DIR": place, "JAX_ENABLE_COMPILATION_CACHE": value}
        _place, on, _version = neighbour("jax", JAX, **named)
        assert caches.state("jax").on is on
        assert bool(contents.files("jax")) is on

    def test_refused_word(self, neighbour, child):
        """A word that JAX does not know makes its import fail; the row counts it as off."""
        code = "import json\ntry:\n    import jax\nexcept ValueError as error:\n    print(json.dumps(str(error)))"
        named = {"JAX_COMPILATION_CACHE_DIR": str(child.directory / "jax"), "JAX_ENABLE_COMPILATION_CACHE": "x"}
        assert "invalid truth value" in neighbour("jax", code, **named)
        assert "rejects" in caches.state("jax").reason

    def test_unset(self, neighbour):
        """Without a directory JAX keeps no cache."""
        place, _on, _version = neighbour("jax", JAX)
        assert place is None
        assert not caches.state("jax").on


class TestTorch:
    def test_named(self, neighbour, child):
        """Inductor keeps its files in TORCHINDUCTOR_CACHE_DIR; the row finds all of them."""
        place, off, version = neighbour("torch", TORCH, TORCHINDUCTOR_CACHE_DIR=str(child.directory / "torch"))
        assert caches.place("torch") == (place, "TORCHINDUCTOR_CACHE_DIR")
        assert caches.state("torch").on is not off
        assert len(contents.files("torch")) == len(os.listdir(place))
        assert contents.measure("torch").entries > 0
        assert contents.version("torch") == version.partition("+")[0]

    @pytest.mark.parametrize("value", ["0", "1"])
    def test_switch(self, neighbour, child, value):
        """TORCHINDUCTOR_FORCE_DISABLE_CACHES means to inductor what the row says."""
        named = {"TORCHINDUCTOR_CACHE_DIR": str(child.directory / "torch"), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": value}
        _place, off, _version = neighbour("torch", TORCH, **named)
        assert caches.state("torch").on is not off

    def test_default(self, neighbour):
        """The default is a directory of the user among those for temporary files."""
        code = """
            import json
            from torch._inductor.runtime.cache_dir_utils import default_cache_dir
            print(json.dumps(default_cache_dir()))
            """
        assert neighbour("torch", code) == caches.place("torch").path


class TestTriton:
    """Without a device Triton compiles nothing, but says what it would do."""

    @pytest.mark.parametrize("name", ["", "TRITON_HOME", "TRITON_CACHE_DIR"])
    def test_place(self, neighbour, child, name):
        """Its directory is where the row says, whichever variable decides."""
        place, _compiles, version = neighbour("triton", TRITON, **({name: str(child.directory)} if name else {}))
        assert caches.place("triton") == (place, name or "default")
        assert contents.version("triton") == version

    @pytest.mark.parametrize("value", ["0", "1", "false", "on", "yes", "x", ""])
    def test_switch(self, neighbour, value):
        """TRITON_ALWAYS_COMPILE means to Triton what the row says."""
        _place, compiles, _version = neighbour("triton", TRITON, TRITON_ALWAYS_COMPILE=value)
        assert caches.state("triton").on is not compiles


class TestTaichi:
    @pytest.fixture(autouse=True)
    def source(self, child):
        """A module with a kernel."""
        (child.directory / "compiled.py").write_text(TAICHI_MODULE)

    @pytest.mark.parametrize("name", ["", "TI_OFFLINE_CACHE_FILE_PATH"])
    def test_place(self, neighbour, child, name):
        """Its files are where the row says, and counted."""
        named = {name: str(child.directory / "named")} if name else {}
        place, on, version = neighbour("taichi", TAICHI, **named)
        assert caches.place("taichi") == (place, name or "XDG_CACHE_HOME")
        assert caches.state("taichi").on is on is True
        assert contents.measure("taichi").entries == 1
        assert len(contents.files("taichi")) == len(os.listdir(place))
        assert contents.version("taichi") == ".".join(map(str, version))

    @pytest.mark.parametrize("value", ["0", "1", "2"])
    def test_switch(self, neighbour, value):
        """TI_OFFLINE_CACHE means to Taichi what the row says."""
        _place, on, _version = neighbour("taichi", TAICHI, TI_OFFLINE_CACHE=value)
        assert caches.state("taichi").on is on


class TestWarp:
    @pytest.mark.parametrize("name", ["", "WARP_CACHE_PATH"])
    def test_place(self, neighbour, child, name):
        """Its directory, with one for each version in it, is where the row says."""
        (child.directory / "compiled.py").write_text(WARP_MODULE)
        place, version = neighbour("warp", WARP, **({name: str(child.directory / "named")} if name else {}))
        assert caches.place("warp") == (os.path.dirname(place), name or "XDG_CACHE_HOME")
        assert contents.files("warp") == (place,)
        assert contents.measure("warp").entries == 1
        assert contents.version("warp") == version


class TestTinygrad:
    @pytest.mark.parametrize("name", ["", "CACHEDB"])
    def test_place(self, neighbour, child, name):
        """Its database is where the row says."""
        place, on = neighbour("tinygrad", TINYGRAD, **({name: str(child.directory / "named.db")} if name else {}))
        assert caches.place("tinygrad") == (place, name or "XDG_CACHE_HOME")
        assert caches.state("tinygrad").on is on is True
        assert place in contents.files("tinygrad")

    @pytest.mark.parametrize("switch", ["CACHELEVEL=0", "CACHELEVEL=1", "CCACHE=0", "CCACHE=1"])
    def test_switch(self, neighbour, switch):
        """CACHELEVEL and CCACHE mean to tinygrad what the row says."""
        variable, _, value = switch.partition("=")
        _place, on = neighbour("tinygrad", TINYGRAD, **{variable: value})
        assert caches.state("tinygrad").on is on
