"""kcl.inspect.kernels: look-ups put together, kernel by kernel."""

import pytest

from kcl import option
from kcl.base import events
from kcl.base.events import Event
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.stores import Stat, address
from kcl.inspect import kernels
from kcl.inspect.history import journal, records
from kcl.inspect.history.records import DIGITS
from kcl.inspect.inventory import ListedEntry
from kcl.inspect.kernels import LookSummary


def look(layer, kernel="axpy", outcome="hit", digest="", **others):
    facts = {"times": 1, "time": 9.0, "seconds": 0.5, "saved": 2.0, **others}
    return LookSummary(layer, kernel, outcome, "", digest, **facts)


def stored(layer, kernel, source, dtypes={"x": "<f4"}, options=(), **parameters):  # noqa: B006 (unchanged)
    """Return what lies in the cache of a look-up."""
    key = Key([("layer", layer), ("source", source)])
    metadata = {
        "kernel": kernel,
        "program": source,
        "options": options,
        "recipe": {"parameters": list(parameters.items())},
        "arguments": [[name, "ArrayArg", dtype, True] for name, dtype in dtypes.items()],
        "function": "invoke",
    }
    return ListedEntry(layer, f"x-{key.digest}", Stat(1, 1.0), key, metadata)


@pytest.mark.parametrize(
    ("options", "is_same"),
    [(["-DN=2"], True), (["-DN=2", {"place": "x"}], True), (["-DN=3"], False), ([], False)],
)
def test_macros(options, is_same):
    """Programs of one text are told apart by the macros of their build options, however these are written."""
    entries = [stored("binary", "axpy", "1", options=given) for given in (["-D", "N=2"], options)]
    before, after = map(kernels.identify_text, entries)
    assert (before == after) is is_same


def entries(*held):
    return {one.digest[:DIGITS]: one for one in held}


def of_this_process():
    run, missed = journal.of_this_run()
    return kernels.group_records([run], missed)


def rows(looks, *held):
    return kernels.group_looks(looks, entries(*held))


class TestRows:
    def test_pairs(self):
        """A program belongs to the code with its OpenCL C, also where two sets of parameters share the name."""
        code = [stored("generator", "mm", source, block=source) for source in "ab"]
        built = [stored("binary", "mm", source) for source in "ba"]
        looks = [
            look("generator", "mm", digest=row.digest, parameters={"block": row.program})
            for row in code
        ]
        looks += [look("binary", "mm", digest=program.digest) for program in built]
        found = rows(looks, *code, *built)
        assert kernels.name_rows(found) == ["mm(block=a)", "mm(block=b)"]
        assert [[one.program for one in row.stored] for row in found] == [["a", "a"], ["b", "b"]]
        assert found[0].spent == (1.0, 4.0)

    def test_not_stored(self):
        """Look-ups of which nothing is stored belong together by their kernel; rows come in the order of their look-ups."""
        (row,) = rows([look("generator", outcome="bypass"), look("binary", outcome="miss")])
        outcomes = [kernels.write_outcome(row.of(layer)) for layer in ("generator", "binary")]
        assert (outcomes, kernels.name_rows([row])) == (["bypass", "miss"], ["axpy"])
        found = rows([look("binary", "late", time=9.0), look("binary", "early", time=8.0)])
        assert [row.kernel for row in found] == ["early", "late"]
        looks = [look("binary", outcome="miss"), look("binary", times=2)]
        assert kernels.write_outcome(looks) == "miss, hit x2"
        assert kernels.write_outcome([]) == "-"

    @pytest.mark.parametrize("off", ["generator", "binary"])
    def test_layer_off(self, off):
        other = "binary" if off == "generator" else "generator"
        held = [stored(other, "scaled", source, block=source) for source in "ab"]
        looks = []
        for entry in held:
            asked = {"parameters": {"block": entry.program}}
            looks.append(look(off, "scaled", "bypass", **asked))
            looks.append(look(other, "scaled", digest=entry.digest, **asked))
        found = rows(looks, *held)
        assert kernels.name_rows(found) == ["scaled(block=a)", "scaled(block=b)"]
        for row in found:
            ends = [kernels.write_outcome(row.of(layer)) for layer in (off, other)]
            assert ends == ["bypass", "hit"]

    def test_partial_hit(self):
        code = stored("generator", "axpy", "a")
        missed = look("binary", outcome="miss", saved=0.0)
        found = rows([look("generator", digest=code.digest), missed], code)
        (_head, line) = kernels.write_table(found)
        assert line.split() == ["axpy", "hit", "miss", "1.000", "2.000"]

    def test_program_of_several(self):
        """A program of pyopencl is named by its first kernel, and counts the others that its entry names."""
        program = stored("binary", "lap", "a")
        program.metadata.update(site="solver.py:49", kernels=["lap", "norm", "axpy"])
        given = {"solver.py:49": "", "-DREAL": ""}
        (row,) = rows([look("binary", "lap", digest=program.digest, parameters=given)], program)
        assert kernels.name_rows([row]) == ["lap(solver.py:49, -DREAL) +2"]


class TestLooks:
    def test_of_process(self):
        """Look-ups of the same entry with the same end are added up, before anything is written and after."""
        entry = Entry(Key([("source", "1")]), {"kernel": "axpy"}, {})
        layers.binary().publish(address(entry.key.digest, "device", "axpy"), entry)
        for seconds in (0.5, 0.25):
            hit = Event("binary", "axpy", "ab", "hit", "", seconds, 1, 1.0)
            events.emit(hit, entry.key, [entry.key.digest])
        for _ in range(2):
            ((found,),) = [row.looks for row in of_this_process()]
            assert (found.times, found.seconds, found.saved) == (2, 0.75, 1.0)
            records.write()

    @pytest.mark.parametrize(
        ("asked", "known"),
        [
            (None, ("axpy", {"n": "1"})),
            (["axpy", ["n", "m"]], ("axpy", {"n": "1"})),
            (["other", ["n"]], ("other", None)),
            (["program", []], ("program", {})),
        ],
    )
    def test_of_run(self, asked, known):
        """Hits come from the uses of a run; values of parameters are known for the recipe that made the entry."""
        held = stored("generator", "axpy", "a", n="1")
        digest = held.digest
        by = {} if asked is None else {digest[:DIGITS]: asked}
        uses = {digest[:DIGITS]: [1, 1.5, 0.25, 1.0], "gone": [1, 1.0, 0.0, 0.0]}
        run = [{"asked": by, "uses": uses, "tallies": []}]
        (found,) = kernels.find_looks(run, [], entries(held))
        assert (found.key, found.times, found.seconds, found.saved) == (digest, 1, 0.25, 1.0)
        assert (found.kernel, found.parameters) == known


class TestLines:
    def test_width(self):
        """A long label goes on in the next lines, between parameters; no line is longer than 80 columns."""
        given = {"width": "64", "order": "2", "dtype": "numpy.float64", "boundary": "periodic"}
        code = stored("generator", "stencil", "a", **given)
        asked = look("generator", "stencil", digest=code.digest, parameters=given)
        lines = kernels.write_table(rows([asked], code))
        assert [line[:45].strip() for line in lines[1:]] == [
            "stencil(width=64, order=2,",
            "dtype=numpy.float64, boundary=periodic)",
        ]
        long = look("generator", "kernel" * 20)
        assert max(map(len, [*lines, *kernels.write_table(rows([long]))])) <= 80

    def test_dtypes(self):
        """Where parameters do not tell rows apart, the dtypes that differ do, else the key, which `kcl show` takes."""
        dtypes = [{"x": kind, "y": kind, "n": "<i4"} for kind in ("<f4", "<f8", "<f8")]
        code = [stored("generator", "axpy", *pair) for pair in zip("abc", dtypes, strict=True)]
        looks = [look("generator", digest=entry.digest) for entry in code]
        typed = ["axpy x, y: float32", "axpy x, y: float64"]
        assert kernels.name_rows(rows(looks[:2], *code)) == typed
        keyed = [f"{typed[1]}, key {entry.digest[:12]}" for entry in code[1:]]
        assert kernels.name_rows(rows(looks, *code)) == [typed[0], *keyed]
        assert kernels.name_rows(rows(looks[:1], *code)) == ["axpy"]


@pytest.mark.one_platform
def test_last_run(filled):
    """Each look-up of the last run is in a row with parameters and dtypes, and the counters say the same."""
    option.cache_dir(filled.project.child.cache)
    run = kernels.find_last_run("driver.py")
    rows = {row.kernel: row for row in run.rows}
    assert rows["parameter"].parameters == {"factor": "9"}
    assert rows["typed"].dtypes["x"].startswith("float")
    looks = [look for row in run.rows for look in row.looks]
    tuning = {layer["layer"]: layer for layer in run.layers}["tuning"]
    assert (tuning["hits"], tuning["misses"], tuning["defaults"]) == (0, 0, 0)
    for layer in run.layers[:2]:
        times = [look.times for look in looks if look.layer == layer["layer"]]
        assert sum(times) == layer["hits"] > 0 == layer["misses"]
        assert layer["files"]
    assert {look.outcome for look in looks} == {"hit"}
    assert run.misses == []
