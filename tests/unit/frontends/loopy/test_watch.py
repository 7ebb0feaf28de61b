"""The things that were changed since the last look, by numbers of dictionaries and by contents."""

import ctypes
import types

import pytest

from kcl.frontends.loopy import watch


class Plain:
    def __init__(self):
        self.name = 1


class Other(Plain):
    pass


@pytest.fixture(params=["numbers", "contents"])
def numbers(request, monkeypatch):
    """The numbers of this Python, and none as in a Python that has them elsewhere."""
    if request.param == "contents":
        monkeypatch.setattr(watch, "_number", lambda: None)
    elif watch._number() is None:
        pytest.skip("this Python has no numbers")
    return request.param


def exchanged(table):
    first, second = table
    table[first], table[second] = table[second], table[first]


def renamed(table):
    table["other"] = table.pop([*table][-1])


CHANGES = {
    "a new name": lambda table: table.update(new=1),
    "another value": lambda table: table.update(a=5),
    "an equal value": lambda table: table.update(a=True),
    "no value": lambda table: table.pop("b"),
    "another name": renamed,
    "exchanged values": exchanged,
    "another order": lambda table: table.update(a=table.pop("a")),
}


@pytest.mark.usefixtures("numbers")
class TestChanged:
    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    def test_dictionaries(self, change):
        """A change of a dictionary is told once, with its position."""
        tables, looked = [{"a": 1, "b": 2}, {"a": 1, "b": 2}], watch.Watch()
        looked.add(tables)
        assert not looked.changed()
        change(tables[1])
        assert 1 in looked.changed()
        assert not looked.changed()

    @pytest.mark.parametrize("change", [dict.clear, lambda table: table.update(a=5)])
    def test_more_things(self, change):
        """What changed before more things were added is told after that, and what changed of these."""
        tables, looked = [{"a": 1}, {"a": 1}, [1]], watch.Watch()
        looked.add(tables[:1])
        change(tables[0])
        looked.add(tables[1:])
        assert 0 in looked.changed()
        assert not looked.changed()
        change(tables[1])
        tables[2].append(1)
        assert {1, 2} <= looked.changed()

    def test_lists(self):
        """Items of lists are compared."""
        lists, looked = [[1, 2], [3]], watch.Watch()
        looked.add([{}, *lists])
        lists[0].append(lists[1].pop())
        assert {1, 2} <= looked.changed()
        assert not looked.changed()

    def test_an_object_that_stands_for_another_one(self):
        """Its own attributes count, whatever its class answers."""

        class Standing:
            def __init__(self, thing):
                object.__setattr__(self, "thing", thing)

            def __getattribute__(self, name):
                return getattr(object.__getattribute__(self, "thing"), name)

        standing, looked = Standing(Plain()), watch.Watch()
        looked.add([standing])
        assert not looked.changed()
        object.__setattr__(standing, "thing", Plain())
        assert looked.changed() == {0}

    @pytest.mark.parametrize(
        "change",
        [
            lambda one: setattr(one, "name", 2),
            lambda one: setattr(one, "other", 1),
            lambda one: delattr(one, "name"),
            lambda one: vars(one).update(name=2),
            lambda one: setattr(one, "__dict__", {"name": 2}),
            lambda one: setattr(one, "__class__", Other),
        ],
    )
    def test_objects(self, change):
        """Attributes of an object, its class and another dictionary are changes, also in a loop that Python has sped up."""
        for _time in range(64):
            one, looked = Plain(), watch.Watch()
            looked.add([{}, one])
            change(one)
            assert 1 in looked.changed()
            assert not looked.changed()

    def test_names_of_modules_and_classes(self):
        """So are structures of ctypes, whose content may be a dictionary of a class of its own."""
        things = (
            types.ModuleType("mine"),
            Plain,
            type("Mine", (ctypes.Structure,), {"_fields_": []}),
        )
        looked = watch.Watch()
        looked.add([watch.content_of(one) for one in things])
        for place, one in enumerate(things):
            one.more = 1
            assert place in looked.changed()
        assert not looked.changed()
        del Plain.more

    def test_cells(self):
        """The content of a cell is watched."""
        cells, looked = [types.CellType(1), types.CellType("a")], watch.Watch()
        looked.add(cells)
        cells[1].cell_contents = "b"
        assert 1 in looked.changed()
        assert not looked.changed()

    def test_added_things(self):
        """What was added counts from then on."""
        tables, looked = [{"a": 1}, {"a": 1}], watch.Watch()
        looked.add(tables[:1])
        tables[1]["a"] = 2
        looked.add(tables[1:])
        assert not looked.changed()
        tables[1]["a"] = 3
        assert 1 in looked.changed()

    def test_a_thing_that_is_added_twice(self):
        table, looked = {"a": 1}, watch.Watch()
        for _ in range(2):
            looked.add([table])
        table["a"] = 2
        assert looked.changed() == {0, 1}


def test_put_back():
    """A dictionary that was changed and put back was changed."""
    if watch._number() is None:
        pytest.skip("this Python has no numbers")
    table, looked = {"a": 1}, watch.Watch()
    looked.add([table])
    table["a"] = 2
    table["a"] = 1
    assert looked.changed() == {0}
