"""Recipes that read files, variables and the working directory."""

import importlib.resources
import io
import json
import os
import pathlib

import numpy as np

import kcl
from truth.common import ARGUMENTS, number, scaled

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = pathlib.Path(__file__).parent / "data"
VARIABLE = "TRUTH_NAMED"


def loaded(name):
    with open(os.path.join(HERE, "data", name), encoding="utf-8") as stream:
        return json.load(stream)["factor"]


def variable(name):
    return int(os.environ.get(name, "2"))


@kcl.kernel
def opened():
    with open(os.path.join(HERE, "data", "opened.txt")) as stream:
        return scaled(int(stream.read()))


@kcl.kernel
def opened_again():
    with open(os.path.join(HERE, "data", "again.txt")) as stream:
        return scaled(int(stream.read()))


@kcl.kernel
def opened_bytes():
    with io.FileIO(os.path.join(HERE, "data", "bytes.bin")) as stream:
        return scaled(stream.read()[0])


@kcl.kernel
def opened_low():
    descriptor = os.open(os.path.join(HERE, "data", "low.txt"), os.O_RDONLY)
    try:
        return scaled(int(os.read(descriptor, 100)))
    finally:
        os.close(descriptor)


@kcl.kernel
def by_path():
    return scaled(int((DATA / "path.txt").read_text()))


@kcl.kernel
def by_helper():
    return scaled(loaded("helped.json"))


@kcl.kernel
def by_numpy():
    return scaled(int(np.load(DATA / "array.npy").sum()))


@kcl.kernel
def by_numpy_text():
    return scaled(int(np.loadtxt(os.path.join(HERE, "data", "table.txt")).sum()))


@kcl.kernel
def by_numpy_raw():
    return scaled(int(np.fromfile(os.path.join(HERE, "data", "raw.bin"), np.uint8).sum()))


@kcl.kernel
def by_numpy_map():
    return scaled(int(np.memmap(os.path.join(HERE, "data", "map.bin"), np.uint8, "r").sum()))


@kcl.kernel
def by_resource():
    return scaled(int(importlib.resources.files("truth").joinpath("data/resource.txt").read_text()))


@kcl.kernel
def missing():
    try:
        with open(os.path.join(HERE, "data", "missing.txt")) as stream:
            return scaled(int(stream.read()))
    except FileNotFoundError:
        return scaled(2)


@kcl.kernel
def linked():
    with open(os.path.join(HERE, "data", "link.txt")) as stream:
        return scaled(int(stream.read()))


@kcl.kernel
def link_itself():
    return scaled(number(os.readlink(os.path.join(HERE, "data", "pointer"))))


@kcl.kernel
def linked_folder():
    with open(os.path.join(HERE, "data", "folder", "inside.txt")) as stream:
        return scaled(int(stream.read()))


@kcl.kernel
def resolved():
    return scaled(number(os.path.basename(os.path.realpath(os.path.join(HERE, "data", "resolved.txt")))))


@kcl.kernel
def relative_file():
    with open("relative.txt") as stream:
        return scaled(int(stream.read()))


@kcl.kernel
def named_file(name="truth_named.txt"):
    with open(os.path.join(HERE, "data", name)) as stream:
        return scaled(int(stream.read()))


@kcl.kernel
def working_directory():
    return scaled(number(os.path.basename(os.getcwd())))


@kcl.kernel
def working_directory_path():
    return scaled(number(pathlib.Path.cwd().name))


@kcl.kernel
def absolute_path():
    return scaled(number(os.path.basename(os.path.abspath("."))))


@kcl.kernel
def variable_item():
    return scaled(int(os.environ["TRUTH_ITEM"]))


@kcl.kernel
def variable_got():
    return scaled(int(os.getenv("TRUTH_GOT", "2")))


@kcl.kernel
def variable_bytes():
    return scaled(int(os.environb.get(b"TRUTH_BYTES", b"2")))


@kcl.kernel
def variable_helper():
    return scaled(variable("TRUTH_HELPER"))


@kcl.kernel
def variable_named():
    return scaled(variable(VARIABLE))


@kcl.kernel
def variable_asked():
    return scaled(3 if "TRUTH_ASKED" in os.environ else 2)


@kcl.kernel
def variable_expanded():
    return scaled(number(os.path.basename(os.path.expandvars("$TRUTH_EXPANDED"))))


@kcl.kernel
def home():
    return scaled(number(os.path.basename(os.path.expanduser("~"))))


@kcl.kernel
def variables_listed():
    return scaled(sum(name.startswith("TRUTH_LISTED") for name in os.environ) + 1)


@kcl.kernel
def variables_copied():
    return scaled(int(dict(os.environ).get("TRUTH_COPIED", "2")))


@kcl.kernel
def from_file():
    return kcl.Source.from_file(
        os.path.join(HERE, "kernels", "from_file.cl"), entry="scaled", arguments=ARGUMENTS, global_size="(n,)"
    )
