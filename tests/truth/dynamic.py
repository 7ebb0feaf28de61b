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


@kcl.kernel(pure=True)
def timed():
    return scaled(2 if time.time() > 10 else 3)


@kcl.kernel(pure=True)
def timed_helper():
    return scaled(2 if clock() > 10 else 3)


@kcl.kernel(pure=True)
def dated():
    return scaled(2 if datetime.now().year > 2000 else 3)


@kcl.kernel(pure=True)
def random_number():
    return scaled(int(random.random() < 2) + 1)


@kcl.kernel(pure=True)
def unique():
    return scaled(len(str(uuid.uuid4())))


@kcl.kernel(pure=True)
def listed():
    return scaled(len(os.listdir(FOLDER)))


@kcl.kernel(pure=True)
def listed_path():
    return scaled(len([*pathlib.Path(FOLDER).iterdir()]))


@kcl.kernel(pure=True)
def globbed():
    return scaled(len(glob.glob(os.path.join(FOLDER, "*"))))


@kcl.kernel(pure=True)
def exists():
    return scaled(3 if os.path.exists(os.path.join(FOLDER, "new.txt")) else 2)


@kcl.kernel(pure=True)
def exists_path():
    return scaled(3 if pathlib.Path(FOLDER, "new.txt").is_file() else 2)


@kcl.kernel(pure=True)
def sized():
    return scaled(pathlib.Path(HERE, "data", "sized.txt").stat().st_size)


@kcl.kernel(pure=True)
def process():
    return scaled(int(subprocess.check_output(["cat", os.path.join(HERE, "data", "process.txt")])))


@kcl.kernel(pure=True)
def attribute_computed():
    return scaled(computed("ONE"))


@kcl.kernel(pure=True)
def module_computed():
    return scaled(importlib.import_module("truth." + "chosen").IMPORTED)


@kcl.kernel(pure=True)
def evaluated():
    return scaled(eval("ALPHA"))


@kcl.kernel(pure=True)
def by_globals():
    return scaled(globals()["AL" + "PHA"])


@kcl.kernel(pure=True)
def by_modules():
    return scaled(sys.modules["truth.chosen"].LISTED)


@kcl.kernel(pure=True)
def arguments():
    return scaled(len(sys.argv))


@kcl.kernel(pure=True)
def language():
    return scaled(len(locale.setlocale(locale.LC_CTYPE, "")))
