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
from kcl.generate.declarations import RecipeCall
from kcl.generate.stage import CallValues, Generate, dtypes_of
from kcl.launch import MissingArguments

FLOAT, DOUBLE = CallValues({"x": np.dtype(np.float32)}), CallValues({"x": np.dtype(np.float64)})
LAUNCH = CallValues({"x": np.ones(4, np.float32)}, launch=True)


def doubled(directories=()):
    """Return OpenCL C that leaves nothing open."""
    code = "kernel void f(global const float *x, global float *y) { size_t i = get_global_id(0); y[i] = 2 * x[i]; }"
    arguments = [kcl.Array("x", "float32", "(4,)"), kcl.Array("y", "float32", "(4,)", "out")]
    sizes = {"global_size": "(4,)", "include_dirs": directories}
    return kcl.Source(code, entry="f", arguments=arguments, **sizes)


def tripled():
    """Return a unit of loopy whose dtypes are open."""
    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*x[i]", name="tripled", lang_version=(2018, 2))


def stage(recipe=doubled, **parameters):
    """Return the stage of a Kernel that nothing is known about, in a cache that has only files."""
    layers.reset()
    call = RecipeCall(recipe.__name__, recipe, parameters)
    return Generate(RecipeResult(call))


def got(generate, given=LAUNCH):
    with Lead("number") as lead:
        return obtain(generate, given, lead)


def in_a_thread(work):
    """Let another thread do this; fail if it hangs."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture
def seen():
    """The (outcome, reason) of each look-up."""
    found = []
    kcl.add_hook(lambda event: found.append((event.outcome, event.reason)))
    return found


class TestRows:
    def test_options_of_this_run(self, seen):
        """Code without open dtypes is one row. The path of an include directory is that of this run, and in no key."""
        one, other = (got(stage(directories=[path])) for path in ("/one", "/other"))
        assert seen == [("miss", "not in the cache"), ("hit", "")]
        assert (one.code.text.options, other.code.text.options) == (("-I/one",), ("-I/other",))
        assert one.code.text.source == other.code.text.source
        assert one.digest != other.digest

    def test_dtypes(self, seen):
        """Each choice of dtypes has a row of its own, and one that is new says so."""
        for given in (FLOAT, DOUBLE, FLOAT):
            got(stage(tripled), given)
        new = ("miss", "new choice of dtypes: x: float64")
        assert seen == [("miss", "not in the cache"), new, ("hit", "")]

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
        nothing = CallValues({}, launch=True)
        for _ in range(2):
            with pytest.raises(MissingArguments, match="x"):
                got(stage(tripled), nothing)
            assert seen == []
            got(stage(tripled), FLOAT)  # code alone is made without arrays
            seen.clear()
        # An array that is missing for OpenCL C is found out as the kernel is launched.
        assert got(stage(), nothing).code.text.kernel == "doubled"

    def test_together(self):
        """Threads that want the same dtypes wait for each other; other dtypes do not."""
        generate = stage(tripled)
        look = find(generate, FLOAT)
        one, other = (generate.lead_digest(given, look) for given in (FLOAT, DOUBLE))
        assert one == generate.lead_digest(CallValues({"x": "float32"}), look)
        assert one != other
        generate._key = None  # as another thread does before it looks up
        assert one == generate.lead_digest(FLOAT, look)

    @pytest.mark.parametrize("recipe", [doubled, "raises"])
    def test_hooks(self, recipe):
        """Hooks run without the lock of the Kernel, as of a miss, of a hit, and after an error."""
        free = []

        def ask():
            free.append(generate.lock.acquire(blocking=False))
            if free[-1]:
                generate.lock.release()

        remove = kcl.add_hook(lambda _event: in_a_thread(ask))
        for _outcome in ("miss", "hit"):
            if recipe is doubled:
                generate = stage()
                got(generate)
            else:
                generate = stage(lambda: {}[0])
                with pytest.raises(KeyError):
                    got(generate)
        remove()
        assert free == [True, True]

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
        reasons = [reason for outcome, reason in seen if outcome == "hit"]
        assert reasons == ["3 calls carried out", "", ""]
        assert [outcome for outcome, _reason in seen] == ["hit", "hit", "miss", "hit"]

    @pytest.mark.parametrize("launch", [False, True])
    def test_promise(self, launch):
        """Who waits goes on to wait for the program where code is made for a launch, and not else."""
        generate, given = stage(), LAUNCH._replace(launch=launch)
        made = generate.make(given, find(generate, given))
        assert made.promised is launch
        assert generate.key().digest in [address for address, _entry in made.publish]

    @pytest.mark.faults
    @pytest.mark.parametrize(
        ("code", "words"),
        [
            (b"1 / 0", "division by zero"),
            (b"import no_such_module_of_anybody", "No module named"),
            (b"raise __import__('kcl').RecipeError('of stored code')", "of stored code"),
        ],
    )
    def test_unusable_code(self, seen, code, words):
        """Stored code that raises is set aside, and generated anew in its place."""
        generate = stage()
        got(generate)
        key = generate.key()
        entry = generate.layer.look_up(key.digest, key).entry
        metadata = {**entry.metadata, "code": "of another Python"}
        broken = Entry(key, metadata, {**entry.parts, "invoker.py": code})
        generate.layer.publish(key.digest, broken)
        with pytest.warns(CacheWarning, match=words):
            got(stage())
        got(stage())
        assert [outcome for outcome, _reason in seen] == ["miss", "error", "hit"]
        assert seen[1][1].startswith(f"the stored code could not be used: {words}")

    @pytest.mark.parametrize("fails", [False, True])
    def test_dumped(self, seen, monkeypatch, tmp_path, fails):
        """KCL_DUMP generates the code of a hit once more, and the event says so; where that fails the hit is served."""
        got(stage())
        again = stage()
        monkeypatch.setenv("KCL_DUMP", str(tmp_path))
        if fails:
            monkeypatch.setattr(again._result, "generate", lambda _dtypes: 1 / 0)
        assert got(again).code.text.source
        assert seen[1] == ("hit", "" if fails else "generated again for KCL_DUMP")


def test_texts():
    """A miss is explained by the texts of its recipe, and a hit by none."""
    generate = stage(tripled)
    assert b"3*x[i]" in b"".join(generate.texts(find(generate, FLOAT)).values())
    got(generate, FLOAT)
    assert generate.texts(find(generate, FLOAT)) == {}


def test_dtypes_of():
    """Arrays, scalars of numpy, dtypes, types and names say which dtype they have; numbers and None do not."""
    values = [np.ones(2, np.int8), np.float32(1), np.dtype("f8"), np.int32, "c8", 1.5, None]
    found = dtypes_of(dict(zip("abcdefg", values, strict=True)))
    dtypes = [np.dtype(text) for text in ("i1", "f4", "f8", "i4", "c8")]
    assert found == dict(zip("abcde", dtypes, strict=True))


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


def test_a_recipe_that_forks():
    """The child goes on with the recipe, and so does its parent."""
    children = []

    def forking():
        children.append(os.fork())
        return doubled()

    generate = stage(forking)
    try:
        code = got(generate).code
    except BaseException:
        code = None
        if not children[0]:
            os._exit(1)
    if not children[0]:
        os._exit(code is None)
    assert code is not None
    assert os.waitpid(children[0], 0)[1] == 0
