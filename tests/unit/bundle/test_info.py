"""kcl.bundle.info: the report on a bundle."""

import numpy as np
import pyopencl as cl
import pytest

import kcl
from kcl.base import settings
from kcl.bundle.info import CacheInfo, misfit
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.frontends.loopy import moment
from kcl.generate.protocol import common_parts

pytestmark = pytest.mark.one_platform


@kcl.kernel
def counted(by=1):
    import loopy as lp

    text = f"y[i] = x[i] + {by}"
    return lp.make_kernel("{[i]: 0<=i<n}", text, name="counted", lang_version=(2018, 2))


@pytest.fixture
def keys(context):
    return counted().key(context, x=np.float32, y=np.float32)


def test_counts():
    """An empty report prints as a short table. Entries count by kind, with what making them took; reasons are grouped."""
    info = CacheInfo(60)
    assert info.empty()
    assert (info.generator_artifacts, info.binary_artifacts, info.unusable) == ([], [], [])
    assert str(info).splitlines() == ["kind  entries", "60 bytes; making the entries took 0.0 s"]
    info, one = CacheInfo(), Entry(Key([Part("proofs", "file.py")]), {"seconds": 1.5}, {})
    info._add("generator", one)
    info.left_out += [("1" * 64, "too large"), ("2" * 64, "too large")]
    info.skipped["tuning"] = 3
    assert not info.empty()
    assert info.generator_artifacts == [one.key.digest]
    assert str(info).splitlines() == [
        "kind                          entries",
        "generator                           1",
        "tuning (unknown to this kcl)        3",
        "0 bytes; making the entries took 1.5 s",
        "left out: 2 entries: too large",
    ]


def test_usable(keys, monkeypatch):
    """The keys of this process can hit here, unless a switch or a variable is set that was not there."""
    assert {layer: misfit(layer, key) for layer, key in keys.items()} == {
        "generator": "",
        "binary": "",
    }
    monkeypatch.setenv("_LOOPY_SKIP_ARG_CHECKS", "1")
    assert "argument checks" in misfit(settings.GENERATOR, keys["generator"])
    for variable in ("POCL_WORK_GROUP_METHOD", "CL_CONFIG_CPU_TARGET_ARCH"):
        monkeypatch.setenv(variable, "other")
        assert f"variable {variable}" in misfit(settings.BINARY, keys["binary"])
        monkeypatch.delenv(variable)


def changed(key: Key, name: str, value: str | None) -> Key:
    assert name in dict(key.parts)
    parts = [
        Part(name, value) if part.name == name and value is not None else part for part in key.parts
    ]
    return Key([part for part in parts if part.name != name or value is not None])


# part: its value elsewhere, and how the reason names it
GENERATOR = {
    "kcl": ("2 0.0.9 " + "1" * 64, "kcl 0.0.9 -> "),
    "python": ("cpython 3.12 cpython-312", "Python: cpython 3.12"),
    "optimize": ("2", "python -O level: 2 -> 0"),
    "distribution numpy": ("1.2.3 " + "1" * 64, "numpy 1.2.3 -> "),
    "distribution loopy": ("2025.1 " + "1" * 64, "loopy 2025.1 -> "),
    "distribution islpy": (None, ""),
    "distribution mako": ("0.1 " + "1" * 64, "mako 0.1 -> "),
}
BINARY = {
    "format": ("0", "kcl's format of binaries: 0 -> "),
    "platform": ("Another", "no device of the platform Another here"),
    "platform vendor": ("Another", "platform: vendor Another -> "),
    "platform version": ("OpenCL 3.0 Another", "platform: version OpenCL 3.0 Another -> "),
    "device vendor": ("Another", "device: vendor Another -> "),
    "device version": ("OpenCL 3.0 HSTR: pthread-x86_64-pc-linux-gnu-znver9", "device: version "),
    "driver": ("0.9", "device: driver 0.9 -> "),
    "OpenCL C": ("OpenCL C 0.9", "device: language OpenCL C 0.9 -> "),
    "extensions": ("cl_none", "device: extensions "),
    "address bits": ("32", "device: address width 32 -> "),
    "driver library": ("1" * 40, "device: build of the driver's library"),
    "cpu features": ("sse2", "device: CPU features "),
}


CHANGES = [
    (layer, name, *change)
    for layer, table in ((settings.GENERATOR, GENERATOR), (settings.BINARY, BINARY))
    for name, change in table.items()
]


@pytest.mark.parametrize(("layer", "name", "value", "words"), CHANGES)
def test_changed_part(keys, layer, name, value, words):
    """A part of the environment or the device that is another one elsewhere is named by the reason."""
    if value is not None:
        assert words in misfit(layer, changed(keys[layer], name, value))


def test_every_part_is_known(keys):
    """The tables have every part of a key but those of the program itself."""
    names = {layer: {part.name for part in key.parts} for layer, key in keys.items()}
    given = {name for name in names["generator"] if name.startswith("distribution ")}
    of_a_program = {"dtype names", "state"}  # what it registered and changed
    assert names["generator"] - given - of_a_program - GENERATOR.keys() == {"record"}
    assert names["binary"] - BINARY.keys() - {"device"} == {"source", "options"}


def test_parts_of_a_program(keys):
    """Parts that belong to a program make nothing unusable: a program here may ask for them."""
    assert misfit(settings.GENERATOR, changed(keys["generator"], "record", "1" * 64)) == ""
    for name in ("source", "options"):
        assert misfit(settings.BINARY, changed(keys["binary"], name, "-DX")) == ""
    header = Key(
        [*keys["binary"].parts[:3], Part("header a.h", "1" * 64), *keys["binary"].parts[3:]]
    )
    assert misfit(settings.BINARY, header) == ""


def test_source_and_pure_and_proofs():
    """Keys of kcl.Source, of pure recipes and of proofs are compared too."""
    source = Key([*common_parts(("numpy", "pyopencl")), Part("source", "1" * 64)])
    assert misfit(settings.GENERATOR, source) == ""
    other = changed(source, "distribution numpy", "1.2 " + "1" * 64)
    assert "numpy 1.2 -> " in misfit(settings.GENERATOR, other)
    pure = counted_pure().key(cl.create_some_context(interactive=False))["generator"]
    assert misfit(settings.GENERATOR, pure) == ""
    assert "kcl" in misfit(settings.GENERATOR, Key([Part("kcl", "0"), *pure.parts[1:]]))
    foreign = Key([*pure.parts, Part("distribution nobody-has-this", "1.0 " + "1" * 64)])
    assert "nobody-has-this 1.0 is not used any more" in misfit(settings.GENERATOR, foreign)
    proofs = Key([Part("proofs", "driver.py"), *moment.shared()])
    assert misfit(settings.GENERATOR, proofs) == ""


@kcl.kernel(pure=True, version="1")
def counted_pure():
    import loopy as lp

    return lp.make_kernel("{[i]: 0<=i<8}", "y[i] = 2", name="counted", lang_version=(2018, 2))
