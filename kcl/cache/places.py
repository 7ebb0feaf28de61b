"""The name of every folder and file of kcl.

    pytools/pdict-v5-kcl-generated-v1-<Python>.sqlite   the generator layer, beside the PersistentDicts of pytools
    pytools/kcl-generated-v1/                           the generator layer where SQLite cannot be used
    pyopencl/kcl-binary-v1/<device>/<kernel>-<digest>   the binary layer; on PoCL a CPU's name is LLVM's
    kcl/tuning/                                         the tuning layer
    kcl/                                                files that belong to no entry: one folder for each sort

`kcl.base.settings.folder` returns the paths of these three folders. A comment on each name below describes its
content.
"""

from __future__ import annotations

import os

from kcl.base import settings

# The folder below the root with the files that belong to no entry.
KCL = "kcl"
# Rows of the generator layer: in a PersistentDict, or as files in a folder.
GENERATED = "kcl-generated-v1"
# Entries of the binary layer, in a folder for each device.
BINARIES = "kcl-binary-v1"
# The beginning of the name of a PersistentDict; its identifier follows.
DICTIONARY = "pdict-v5-"
# The end of the name of a PersistentDict, after the version of Python.
DATABASE = ".sqlite"

FLIGHT = "flight"  # lock files of the keys whose entries are being made, each with a process id
PENDING = "pending"  # jobs for the helpers that complete entries, in a folder for each setting
QUARANTINE = "quarantine"  # the last damaged entries
JOURNAL = "journal"  # the counts, misses and late switches of each process that has ended
PACKS = "packs"  # notes on the packs of the remote
PINS = "pins"  # the kernels exempt from the bounds on the stores
NOTES = "notes"  # small states by name: see kcl.cache.notes
SHAPES = "shapes"  # the sizes that each recipe with sizes has seen
REMOVED = "removed"  # a file: the last entries that were removed, with the reason
TABLES = "tuning"  # the tuning layer
SORTS = (
    FLIGHT,
    JOURNAL,
    NOTES,
    PACKS,
    PENDING,
    PINS,
    QUARANTINE,
    REMOVED,
    SHAPES,
)

# Beside the jobs: the beginning of the name of a helper's own PoCL cache.
HELPER_WORK = "work-"

# The beginning of the name of a file that is being written; no address has a full stop there.
TEMPORARY = ".kcl-tmp-"
# The end of the name of a database that was found damaged.
ASIDE = ".damaged-1"
# The end of the name of an entry in quarantine.
DAMAGED = ".damaged"

# A folder that kcl shares with its owner, and a pattern of the names there that are kcl's, of any version.
ROWS = "pytools", r"pdict-v\d+-kcl-generated-.*|kcl-generated-v\d+"
PROGRAMS = "pyopencl", r"kcl-binary-v\d+"
CHOICES = KCL, TABLES
KEPT = KCL, "|".join(SORTS)
# The folders that kcl writes in.
FOLDERS = tuple(folder for folder, _pattern in (ROWS, PROGRAMS, KEPT))


def own(sort: str = "") -> str:
    """Return kcl's own folder, or the folder in it for one sort of files."""
    folder = settings.folder(KCL)
    return os.path.join(folder, sort) if sort else folder


def dictionaries() -> str:
    """Return the folder of the generator layer's PersistentDicts, one for each version of Python."""
    return settings.folder("pytools")


def generated() -> str:
    """Return the folder of the generator layer's files, which is used if SQLite is unsafe there."""
    return os.path.join(settings.folder("pytools"), GENERATED)


def binaries() -> str:
    """Return the folder of the binary layer."""
    return os.path.join(settings.folder("pyopencl"), BINARIES)
