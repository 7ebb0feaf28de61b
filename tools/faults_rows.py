"""The rows of the matrix of faults: what is done, how often, and the function that does it."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A row of cases: `full` of them are the full number, `least` a sample.

    `module` and `function` name what makes the case, `baseline` the same without kcl. `unit` says how many things one
    case does, and `memory` is a bound in MiB.
    """

    name: str
    how: str
    full: int
    least: int
    module: str
    function: str
    baseline: str = ""
    unit: int = 1
    memory: int = 0


class Tests(NamedTuple):
    """A row that tests of the suite show: they have no number of cases."""

    name: str
    how: str
    file: str
    chosen: str = ""


BAD = ("wrong", "exception", "signal", "stuck", "leak", "harmed")  # how a bad outcome begins
STORES, RUNS = "faults_stores", "faults_runs"
ROWS = (
    Row(
        "bit flips in an entry",
        "every bit of a small entry, then random bits of a large one",
        110_000,
        3000,
        STORES,
        "bits",
    ),
    Row(
        "lengths, zeroed pages, swaps",
        "every length, 1 to 64 bytes more, 512 zeros, another entry",
        5000,
        100,
        STORES,
        "lengths",
    ),
    Row(
        "right key, wrong payload",
        "the entry of another key in the place of an entry",
        2000,
        50,
        STORES,
        "wrong_payload",
    ),
    Row(
        "entry of another device",
        "each part of the stored key edited",
        2000,
        50,
        STORES,
        "other_device",
    ),
    Row(
        "reader of entries, fuzzed",
        "mutated entries, half with digests made to fit, read in four ways",
        1_000_000,
        3000,
        STORES,
        "fuzz",
        memory=256,
    ),
    Row(
        "damaged database",
        "flipped, cut, overwritten, extended, deleted, open or not",
        5000,
        40,
        STORES,
        "database",
    ),
    Row(
        "clock",
        "files and clock at 1970, ten years on, or anywhere",
        1000,
        5,
        STORES,
        "clocks",
    ),
    Row(
        "flipped entry, end to end",
        "bits of a binary's entry; a process of its own",
        2000,
        8,
        RUNS,
        "end_to_end",
        "end_to_end_by_hand",
    ),
    Row(
        "PoCL's own cache damaged",
        "code and bitcode flipped, cut, overwritten, deleted",
        300,
        8,
        RUNS,
        "pocl_damage",
        "pocl_damage_by_hand",
    ),
    Row(
        "failing operations on files",
        "the k-th, with 11 errors, once or for ever; cold, warm, damaged",
        2000,
        25,
        RUNS,
        "operations",
        memory=400,
    ),
    Row(
        "planted things",
        "links, FIFOs, sockets, directories, files of others, in any place of kcl's",
        1000,
        25,
        RUNS,
        "planted",
    ),
    Row(
        "foreign or loose folder",
        "mode 0777, group-writable, another owner",
        300,
        8,
        RUNS,
        "loose",
    ),
    Row(
        "pickles",
        "a pickle that acts, in each file and in the rows",
        300,
        15,
        RUNS,
        "pickles",
    ),
    Row(
        "full disk",
        "a file system of 1 MB, then with space again",
        200,
        3,
        RUNS,
        "full_disk",
    ),
    Row(
        "cold storm",
        "8 processes and 5 kernels, then 64 processes and 20 kernels, started at once",
        4,
        1,
        RUNS,
        "storms",
    ),
    Row(
        "SIGKILL",
        "64 processes that read and write, one killed every 20 ms; kills",
        100,
        1,
        STORES,
        "kills",
        unit=100,
    ),
    Row(
        "SIGSTOP of a holder",
        "inside of a put, a lead and a transaction",
        150,
        3,
        STORES,
        "stops",
    ),
    Row(
        "many processes",
        "64 processes get, put, delete and sweep 50 entries; operations",
        50,
        1,
        STORES,
        "crowds",
        unit=20_000,
    ),
    Row(
        "power loss",
        "ext4 shut down while it is written to, mounted again",
        200,
        2,
        STORES,
        "power",
    ),
)
TESTS = (
    Tests(
        "no usable directory",
        "read-only cache, no home, a file in the place of a folder, a limit on the size of files",
        "tests/behaviour/test_faults.py",
        "TestDirectories or file_system",
    ),
    Tests(
        "PoCL without a directory",
        "under `kcl run` and `kcl.install()`",
        "tests/unit/foreign/test_usable.py",
    ),
    Tests(
        "forks and exits of a process",
        "before, during and after the first use",
        "tests/unit/base/test_process.py",
    ),
    *(
        Tests(
            f"workers by {how}",
            "pools, and processes that start before, during and after their parent's first use",
            "tests/behaviour/test_workers.py",
            how,
        )
        for how in ("forkserver", "spawn")
    ),
    Tests("holders of a lead", "killed, stopped, forked; threads", "tests/unit/cache/test_lead.py"),
    Tests(
        "identity of the device",
        "each part of a program's key",
        "tests/unit/programs/test_program_key.py",
    ),
)
