"""`kcl ls`: the entries of a real run, filtered, sorted and as JSON."""

import json

import pytest
from commands import run, with_parts

from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.stores import address
from kcl.cli import ls as ls_module
from kcl.inspect import catalogue, inventory

pytestmark = pytest.mark.one_platform


def test_all(cache):
    """Every kernel has a line for its program and one for its code; a misspelt one is told, and so by `kcl show`."""
    head, *lines = run("ls").output.splitlines()
    titles = [column.title for column, _write in ls_module.COLUMNS]
    assert head.split() == " ".join(titles).split()
    address_, _entry = cache.binary_of("typed")
    (line,) = [line for line in lines if line.split()[:2] == ["typed", "binary"]]
    assert line.endswith(f"  {address_[-64:][:12]}")
    assert "  -  " not in line
    assert len(lines) == len(list(inventory.entries()))
    limited = run("ls", "--limit", "2").output.splitlines()
    assert limited[3:] == [f"{len(lines) - 2} more; --limit 0 shows all"]
    assert run("ls", "--kernel", "tpyed").output.startswith("no entries (did you mean 'typed'")
    assert "of that name (did you mean 'typed'" in run("show", "tpyed", code=1).stderr


def test_what_made_it(cache):
    """Code has the recipe's line, parameters and dtypes, and its programs; a program has those of its code."""
    _address, binary = cache.binary_of("parameter")
    _address, row = cache.row_of("parameter")
    listed = json.loads(run("ls", "--json").output)
    entries = {(entry["kernel"], entry["layer"]): entry for entry in listed}
    code, made = entries["parameter", "generator"], entries["parameter", "binary"]
    assert (code["key"], made["key"]) == (row.key.digest, binary.key.digest)
    assert made["build_seconds"] == binary.metadata["seconds"]
    assert (made["uses"], made["built"] < made["last_used"]) == (1, True)
    assert (code["partners"], made["partners"]) == ([made["key"]], [code["key"]])
    assert code["parameters"] == made["parameters"] == {"factor": "9"}
    arguments = row.metadata["arguments"]
    assert code["dtypes"] == {name: dtype for name, _kind, dtype, _ in arguments if dtype}
    file, _, line = code["recipe"].partition(":")
    text = (cache.folder / file).read_text().splitlines()
    assert "def parameter" in "".join(text[int(line) - 1 : int(line) + 1])
    table = run("ls", "--kernel", "parameter", "--layer", "generator").output
    assert f"{code['recipe']}  {code['key'][:12]}" in table


def test_elsewhere(copy):
    """Programs of a driver that is not on this machine are listed like others, and known in JSON."""
    _address, entry = copy.binary_of("typed")
    moved = entry.with_metadata(
        platform={"name": "AMD Accelerated Parallel Processing"}, device={"name": "gfx90a"}
    )
    other = with_parts(moved, driver="another")
    copy.binaries.put(address(other.key.digest, "gfx90a", "typed"), other.pack())
    assert "gfx90a" in run("ls").output
    entries = json.loads(run("ls", "--device", "gfx", "--json").output)
    assert [(entry["device"], entry["here"]) for entry in entries] == [("gfx90a", False)]


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("sort", catalogue.SORTS)
def test_sort(sort):
    entries = json.loads(run("ls", "--json", "--sort", sort).output)
    member = {"size": "bytes", "took": "build_seconds", "used": "last_used"}.get(sort, sort)
    is_text = sort in ("kernel", "layer", "device")
    # An entry that was never used has no time.
    values = [entry[member] or (0, "")[is_text] for entry in entries]
    assert values == sorted(values, reverse=not is_text)
    assert json.loads(run("ls", "--json", "--sort", sort, "--limit", "3").output) == entries[:3]


def test_parameters(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    same = {"rows": "16", "columns": "16", "order": "'column-major'"}
    for number, text in enumerate(("dtype('float32')", "dtype('<f8')")):
        key = Key([("source", str(number))])
        about = {"kernel": "transposed_by_tiles", "function": "f", "arguments": []}
        recipe = {"site": "driver.py:3", "parameters": [*same.items(), ("dtype", text)]}
        layers.generator().publish(key.digest, Entry(key, {**about, "recipe": recipe}, {}))
    lines = run("ls").output.splitlines()
    assert max(map(len, lines)) <= 80
    written = "".join("".join(lines).split())
    assert "dtype=float32" in written
    assert "dtype=float64" in written
    assert written.count("rows=16,") == 2
