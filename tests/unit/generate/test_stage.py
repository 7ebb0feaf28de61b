"""kcl.generate.stage: the first stage, from what a recipe returns to code, on real rows."""

import os
import signal
import threading

import numpy as np
import pytest
from loopys_own import loopy as lp

import kcl
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.faults import CacheWarning
from kcl.cache.lead import Lead
from kcl.cache.lookup import find, obtain
from kcl.frontends import RecipeResult
from kcl.generate.declarations import Declarations, RecipeCall
from kcl.generate.stage import CallValues, Generate, dtypes_of
from kcl.launch import MissingArguments

FLOAT, DOUBLE = CallValues({"x": np.dtype(np.float32)}), CallValues({"x": np.dtype(np.float64)})
LAUNCH = CallValues({"x": np.ones(4, np.float32)}, launch=True)


def doubled():
    """Return OpenCL C that leaves nothing open."""
    code = "kernel void f(global const float *x, global float *y) { size_t i = get_global_id(0); y[i] = 2 * x[i]; }"
    arguments = [kcl.Array("x", "float32", "(4,)"), kcl.Array("y", "float32", "(4,)", "out")]
    return kcl.Source(code, entry="f", arguments=arguments, global_size="(4,)")


def including(directory):
    """Return OpenCL C with an include directory."""
    return kcl.Source(
        "kernel void f(global float *y) { y[get_global_id(0)] = 1; }",
        entry="f",
        arguments=[kcl.Array("y", "float32", "(4,)", "out")],
        global_size="(4,)",
        include_dirs=[directory],
    )


def tripled():
    """Return a unit of loopy whose dtypes are open."""
    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*x[i]", name="tripled", lang_version=(2018, 2))


DECLARED = Declarations()


def stage(recipe=doubled, declared=DECLARED):
    """Return the stage of a Kernel that nothing is known about, in a cache that has only files."""
    layers.reset()
    return Generate(RecipeResult(RecipeCall(recipe.__name__, recipe, {}, declared)))


def got(generate, given=LAUNCH):
    """Obtain code."""
    with Lead("number") as lead:
        return obtain(generate, given, lead)


@pytest.fixture
def seen():
    """The (outcome, reason) of each look-up."""
    found = []
    kcl.add_hook(lambda event: found.append((event.outcome, event.reason)))
    return found


class TestRows:
    def test_nothing_open(self, seen):
        """Code without open dtypes is one row, found by the next Kernel of the same source."""
        made, found = got(stage()), got(stage())
        assert seen == [("miss", "not in the cache"), ("hit", "")]
        assert found.digest == made.digest
        assert found.code.text == made.code.text

    def test_options_of_this_run(self, seen):
        """No key of code holds the path of an include directory: what is found has the path that this run gives."""
        one, other = (got(stage(lambda path=path: including(path))) for path in ("/one", "/other"))
        assert [outcome for outcome, _reason in seen] == ["miss", "hit"]
        assert (one.code.text.options, other.code.text.options) == (("-I/one",), ("-I/other",))
        assert one.digest != other.digest

    def test_dtypes(self, seen):
        """Each choice of dtypes has a row of its own, and one that is new says so."""
        for given in (FLOAT, DOUBLE, FLOAT):
            got(stage(tripled), given)
        assert seen == [
            ("miss", "not in the cache"),
            ("miss", "new choice of dtypes: x: float64"),
            ("hit", ""),
        ]

    def test_front_end(self):
        """The front end is known of a row as of what was made: it words the error for an array that is missing."""
        for _outcome in ("miss", "hit"):
            generate = stage(tripled)
            got(generate, FLOAT)
            assert generate.front_end == "loopy"

    def test_is_stored(self, monkeypatch):
        """Any row of the Kernel will do, for whatever dtypes; a layer that is off holds none."""
        assert not stage(tripled).is_stored()
        got(stage(tripled), FLOAT)
        assert stage(tripled).is_stored()
        assert not stage().is_stored()
        monkeypatch.setenv("KCL_NO_CACHE", "1")
        assert not stage(tripled).is_stored()


class TestLookUps:
    def test_off(self, seen, monkeypatch):
        """Where the layer is off code is made each time and not stored."""
        monkeypatch.setenv("KCL_NO_CACHE", "1")
        for _ in range(2):
            got(stage())
        assert seen == [("bypass", "off: KCL_NO_CACHE=1")] * 2
        monkeypatch.delenv("KCL_NO_CACHE")
        assert find(stage(), LAUNCH).outcome == "miss"

    def test_missing_array(self, seen):
        """A launch must give the arrays that loopy requires, before code is stored and after; else it is no look-up."""
        for _ in range(2):
            with pytest.raises(MissingArguments, match="x"):
                got(stage(tripled), CallValues({}, launch=True))
            assert seen == []
            got(stage(tripled), FLOAT)  # code alone is made without arrays
            seen.clear()

    def test_missing_array_of_opencl(self):
        """The code of OpenCL C needs no array: one that is missing is found out as the kernel is launched."""
        assert got(stage(), CallValues({}, launch=True)).code.text.kernel == "doubled"

    def test_together(self):
        """Threads that want the same dtypes wait for each other; other dtypes do not."""
        generate = stage(tripled)
        look = find(generate, FLOAT)
        one, other = (generate.lead_digest(given, look) for given in (FLOAT, DOUBLE))
        assert one == generate.lead_digest(CallValues({"x": "float32"}), look)
        assert one != other
        generate._key = None  # as another thread does before it looks up
        assert one == generate.lead_digest(FLOAT, look)

    def test_remark(self, seen):
        """What a recipe cost is said of the first look-up that counts, and of no later one."""
        got(stage(tripled), FLOAT)
        seen.clear()
        generate = stage(tripled)
        find(generate, FLOAT)
        generate._result.remark = "3 calls carried out"
        find(generate, FLOAT)  # counts nothing
        got(generate, FLOAT)
        got(generate, FLOAT)
        generate._result.remark = "3 calls carried out"
        got(generate, DOUBLE)
        got(generate, FLOAT)
        assert [reason for outcome, reason in seen if outcome == "hit"] == [
            "3 calls carried out",
            "",
            "",
        ]
        assert [outcome for outcome, _reason in seen] == ["hit", "hit", "miss", "hit"]

    @pytest.mark.parametrize("launch", [False, True])
    def test_promise(self, launch):
        """Who waits goes on to wait for the program where code is made for a launch, and not else."""
        generate, given = stage(), LAUNCH._replace(launch=launch)
        made = generate.make(given, find(generate, given))
        assert made.promised is launch
        assert [address for address, _entry in made.publish if address == generate.key().digest]

    @pytest.mark.faults
    def test_unusable_code(self, seen):
        """Stored code that raises is set aside, and generated anew in its place."""
        generate = stage()
        got(generate)
        key = generate.key()
        entry = generate.layer.look_up(key.digest, key).entry
        broken = Entry(
            key,
            {**entry.metadata, "code": "of another Python"},
            {**entry.parts, "invoker.py": b"1 / 0"},
        )
        generate.layer.publish(key.digest, broken)
        with pytest.warns(CacheWarning, match="division by zero"):
            got(stage())
        got(stage())
        assert [outcome for outcome, _reason in seen] == ["miss", "error", "hit"]
        assert seen[1][1].startswith("the stored code could not be used: division by zero")

    def test_dumped(self, seen, monkeypatch, tmp_path):
        """KCL_DUMP generates the code of a hit once more, and the event says so."""
        got(stage())
        monkeypatch.setenv("KCL_DUMP", str(tmp_path))
        got(stage())
        assert seen[1] == ("hit", "generated again for KCL_DUMP")

    def test_dump_fails(self, seen, monkeypatch, tmp_path):
        """A hit whose code cannot be generated again is served all the same, without its unit in the dump."""
        got(stage())
        again = stage()
        monkeypatch.setenv("KCL_DUMP", str(tmp_path))
        monkeypatch.setattr(again._result, "generate", lambda _dtypes: 1 / 0)
        assert got(again).code.text.source
        assert seen[1] == ("hit", "")


class TestExplanation:
    def test_texts(self):
        """A miss is explained by the texts of its recipe, and a hit by none."""
        generate = stage(tripled)
        assert b"3*x[i]" in b"".join(generate.texts(find(generate, FLOAT)).values())
        got(generate, FLOAT)
        assert generate.texts(find(generate, FLOAT)) == {}


def test_dtypes_of():
    """Arrays, scalars of numpy, dtypes, types and names say which dtype they have; numbers and None do not."""
    values = {
        "a": np.ones(2, np.int8),
        "b": np.float32(1),
        "c": np.dtype("f8"),
        "d": np.int32,
        "e": "c8",
    }
    found = dtypes_of({**values, "f": 1.5, "g": None})
    assert found == {
        name: np.dtype(text)
        for name, text in zip("abcde", ["i1", "f4", "f8", "i4", "c8"], strict=True)
    }


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_while_a_recipe_runs():
    """A child that is forked while another thread runs the recipe of a Kernel runs it itself."""
    parent, began, goes_on = os.getpid(), threading.Event(), threading.Event()

    def slow():
        if os.getpid() == parent:
            began.set()
            goes_on.wait(60)
        return doubled()

    generate = stage(slow)
    thread = threading.Thread(target=generate.key)
    thread.start()
    assert began.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(30)  # ends a child that waits for ever
        os._exit(generate.key() is None)
    goes_on.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
