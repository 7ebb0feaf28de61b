"""Recipes whose outcome no key can hold: they run every time."""

import glob
import importlib
import locale
import os
import pathlib
import random
import subprocess
import sys
import time
import uuid
from datetime import datetime

import kcl
from truth import chosen
from truth.common import scaled

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "data", "listed")
ALPHA = 3


def clock():
    return time.time()


def computed(name):
    return getattr(chosen, "NUMBER_" + name)


@kcl.kernel
def timed():
    return scaled(2 if time.time() > 10 else 3)


@kcl.kernel
def timed_helper():
    return scaled(2 if clock() > 10 else 3)


@kcl.kernel
def dated():
    return scaled(2 if datetime.now().year > 2000 else 3)


@kcl.kernel
def random_number():
    return scaled(int(random.random() < 2) + 1)


@kcl.kernel
def unique():
    return scaled(len(str(uuid.uuid4())))


@kcl.kernel
def listed():
    return scaled(len(os.listdir(FOLDER)))


@kcl.kernel
def listed_path():
    return scaled(len([*pathlib.Path(FOLDER).iterdir()]))


@kcl.kernel
def globbed():
    return scaled(len(glob.glob(os.path.join(FOLDER, "*"))))


@kcl.kernel
def exists():
    return scaled(3 if os.path.exists(os.path.join(FOLDER, "new.txt")) else 2)


@kcl.kernel
def exists_path():
    return scaled(3 if pathlib.Path(FOLDER, "new.txt").is_file() else 2)


@kcl.kernel
def sized():
    return scaled(pathlib.Path(HERE, "data", "sized.txt").stat().st_size)


@kcl.kernel
def process():
    return scaled(int(subprocess.check_output(["cat", os.path.join(HERE, "data", "process.txt")])))


@kcl.kernel
def attribute_computed():
    return scaled(computed("ONE"))


@kcl.kernel
def module_computed():
    return scaled(importlib.import_module("truth." + "chosen").IMPORTED)


@kcl.kernel
def evaluated():
    return scaled(eval("ALPHA"))


@kcl.kernel
def by_globals():
    return scaled(globals()["AL" + "PHA"])


@kcl.kernel
def by_modules():
    return scaled(sys.modules["truth.chosen"].LISTED)


@kcl.kernel
def arguments():
    return scaled(len(sys.argv))


@kcl.kernel
def language():
    return scaled(len(locale.setlocale(locale.LC_CTYPE, "")))
