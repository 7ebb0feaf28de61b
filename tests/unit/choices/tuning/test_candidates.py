"""Candidates: code and arrays in files, calls cut by one, and the folder of a tuning."""

import contextlib
import multiprocessing
import os
import stat
import time

import numpy as np
import pyopencl.array as cl_array
import pytest
from elementwise import one_array

import kcl
from kcl.choices.tuning import candidates, inputs
from kcl.drivers.child import Verdict

pytestmark = pytest.mark.slow_platforms


@kcl.kernel(
    sizes={"n": "x.shape[0] - 2", "m": "z.shape[1]"},
    space=kcl.space(block=[4, 8]).where(lambda block, n: block == 4 or n % block == 0),
)
def stencil(block=4):
    import loopy as lp

    if block == 0:
        raise kcl.Skip("no block")
    knl = lp.make_kernel(
        "{[i,j]: 0<=i<n and 0<=j<m}", "z[i,j] = x[i,j] + x[i+2,j]", lang_version=(2018, 2)
    )
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


# The arguments of a call for n = 8 and m = 3.
CALL = {"x": np.ones((10, 3)), "z": np.zeros((8, 3))}


@pytest.fixture
def workshop(files_of):
    return files_of(stencil(), **CALL)


@pytest.fixture
def question(files_of, question_of):
    return lambda **more: question_of(files_of(stencil(), **{**CALL, **more}))


class TestQuestion:
    def test_arrays_are_files(self, queue, question):
        """Arrays of the host and of the device become files, with their order; other values go by themselves."""
        x = np.asfortranarray(np.arange(30.0).reshape(10, 3))
        z = cl_array.to_device(queue, CALL["z"])
        form = question(x=x, z=z, n=np.int32(8), a=2.5).forms[""]
        assert form.values == {"n": np.int32(8), "a": 2.5}
        assert {name: file.order for name, file in form.arrays.items()} == {"x": "F", "z": "C"}
        assert np.array_equal(np.load(form.arrays["x"].path), x)

    def test_large_arrays(self, question, monkeypatch):
        """Beyond a bound on all bytes floating point is made up, and integers are kept."""
        monkeypatch.setattr(candidates, "_MOST_BYTES", 100)
        arrays = question(places=np.arange(3)).forms[""].arrays
        assert [bool(file.path) for file in arrays.values()] == [False, False, True]

    def test_cuts(self, question):
        """Each size is cut by one: on the axes of its extent, on those that its text names, and in numbers."""
        forms = question(n=8, a=8.0, flag=True).forms
        assert {
            name: [array.shape for array in form.arrays.values()]
            for name, form in forms.items()
            if not form.drawn
        } == {"": [(10, 3), (8, 3)], "n = 7": [(9, 3), (7, 3)], "m = 2": [(10, 2), (8, 2)]}
        assert forms["n = 7"].values == {"n": 7, "a": 7.0, "flag": True}
        assert forms["m = 2"].values == {"n": 8, "a": 8.0, "flag": True}


class TestCandidate:
    def test_code(self, workshop):
        """A candidate has the code for the call and for each cut at which the space has the choice, and digests of it.

        Code that does not depend on a size is the same at its cut, and choices with equal code have one trial.
        """
        drawn = {inputs.NUMBERS, inputs.SIGNED}
        four, eight, again, none = (workshop.trial({"block": size}) for size in (4, 8, 8, 0))
        assert set(four.codes) == {"", "n = 7", "m = 2", *drawn}
        assert set(eight.codes) == {"", "m = 2", *drawn}
        assert eight is again is not four
        assert four.program != eight.program
        assert len({code.digest for code in four.codes.values()}) == 1
        assert set(four.digests) == {"", "n = 7", "m = 2"}
        assert len({*four.digests.values()}) == 1
        assert four.digests[""] != eight.digests[""]
        assert four.needed == {"x": "<f8"}
        # A recipe that refuses or raises has no code.
        assert (none.verdict, none.codes, none.ratio) == (("skipped", "no block"), {}, None)
        assert workshop.trial({"block": "four"}).verdict.outcome == "raises"
        # Nothing is written beside the tuning, or in the user's cache.
        assert os.listdir(workshop.folder) == []
        assert list(kcl.entries()) == []


@kcl.kernel(space=kcl.space(kind=["right", "abort", "endless", "memory", "exit", "closure"]))
def generating(kind="right", amount=1 << 34):
    """Generate code, or end or fill the process that does."""
    if kind == "abort":
        os.abort()
    elif kind == "exit":
        raise SystemExit(3)
    while kind == "endless":
        pass
    blocks = [bytearray(amount // 16) for _ in range(16)] if kind == "memory" else []
    return one_array("generating", f"x[i] = {len(blocks)}; /* {kind} */", direction="out")


ENDS = [
    ("abort", 60.0, ("crashes", "SIGABRT, while generating")),
    ("exit", 60.0, ("crashes", "status 3, while generating")),
    ("endless", 0.5, ("hangs", "no result in 0.5 s, while generating")),
    ("memory", 60.0, ("takes too much memory", "4 GiB, while generating")),
]


class TestGenerator:
    @pytest.fixture
    def files(self, files_of, platform_name):
        if platform_name != "pocl":
            pytest.skip("the recipes run in this process")
        return files_of(generating())

    def test_ends(self, files):
        """A choice that ends, stops or fills the process that generates is named; the next one is generated. None stays."""
        for kind, seconds, verdict in ENDS:
            files.seconds = lambda _least, seconds=seconds: seconds
            candidate = files.trial({"kind": kind})
            assert (candidate.verdict, candidate.limit) == (verdict, seconds)
        files.seconds = lambda _least: 60.0
        assert files.trial({"kind": "closure"}).verdict.outcome == ""
        process = files._generator.process.pid
        assert os.path.exists(f"/proc/{process}")
        files.close()
        files.close()
        assert not os.path.exists(f"/proc/{process}")

    def test_worker_of_a_pool(self, files_of, monkeypatch):
        monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
        files = files_of(generating())
        assert files.trial({"kind": "closure"}).verdict.outcome == ""
        assert files._generator is None


@kcl.kernel(
    sizes={"n": "place.shape[0]"},
    space=kcl.space(local=[1, 2], cases=[{"place": np.array([2, 0, 1])}]),
)
def gathering(local=1):
    text = """kernel void gathering(global long *place, global double *x, global double *y, int n)
              { int i = get_global_id(0); y[i] = x[place[i]]; }"""
    place, x = kcl.Array("place", np.int64, "n", "in"), kcl.Array("x", np.float64, 8, "in")
    arguments = [place, x, kcl.Array("y", np.float64, "n", "out"), kcl.Scalar("n", np.int32)]
    size = {"global_size": "n", "local_size": local}
    return kcl.Source(text, entry="gathering", arguments=arguments, **size)


class TestCases:
    @pytest.fixture
    def files(self, files_of):
        return files_of(gathering(), place=np.zeros(8, int), x=np.arange(8.0))

    def test_forms(self, files, question_of):
        form = question_of(files).forms["cases[0]"]
        assert np.array_equal(np.load(form.arrays["place"].path), [2, 0, 1])
        assert np.array_equal(np.load(form.arrays["x"].path), np.arange(8.0))
        assert "cases[0]" in files.default.codes

    def test_notes(self, files):
        left = {
            inputs.SIGNED: Verdict("hangs", "no result in 2 s"),
            "n = 7": Verdict("crashes", "-"),
        }
        assert files.notes(left) == [
            "nothing is compared, with signed numbers: the default hangs: no result in 2 s",
            "nothing is compared, at n = 7: the default crashes: -",
            "all elements of place are 0: kcl.space(cases=[{'place': ...}]) compares others",
        ]


class TestFolder:
    def test_goes_away(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        with contextlib.suppress(ValueError), candidates.folder() as made:
            assert stat.S_IMODE(os.stat(made).st_mode) == 0o700
            (tmp_path / os.path.basename(made) / "file").touch()
            raise ValueError
        assert os.listdir(tmp_path) == []

    def test_leftovers_are_swept(self, child, tmp_path, monkeypatch):
        """What a killed process left goes; the folders of tunings that run or begin, and those of others, stay."""
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        code = """
            import os, signal
            from kcl.choices.tuning import candidates
            with candidates.folder() as made:
                os.utime(made, (0, 0))
                os.kill(os.getpid(), signal.SIGKILL)
            """
        child.run(code, TMPDIR=str(tmp_path))
        (left,) = tmp_path.glob("kcl-tune-*")
        for name, age in (("kcl-tune-begun", 5), ("other", 3600)):
            (tmp_path / name).mkdir()
            os.utime(tmp_path / name, (time.time() - age,) * 2)
        with candidates.folder() as first:
            assert not left.exists()
            os.utime(first, (0, 0))
            with candidates.folder():
                assert os.path.isdir(first)
        assert {"kcl-tune-begun", "other"} == {
            path.name for path in tmp_path.iterdir() if path.name.startswith(("kcl-tune", "other"))
        }
