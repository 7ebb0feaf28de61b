"""Candidates: code and arrays in files, calls cut by one, and the folder of a tuning."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import stat
import time

import numpy as np
import pyopencl.array as cl_array
import pytest

import kcl
from kcl.choices.tuning import candidates, inputs
from kcl.choices.tuning.candidates import CandidateFiles
from kcl.drivers.child import Verdict
from kcl.handle import chooser_of

pytestmark = pytest.mark.slow_platforms


@kcl.kernel(
    sizes={"n": "x.shape[0] - 2", "m": "z.shape[1]"},
    space=kcl.space(block=[4, 8]).where(lambda block, n: block == 4 or n % block == 0),
)
def stencil(block=4):
    """A stencil: the input has two rows more than the output."""
    import loopy as lp

    if block == 0:
        raise kcl.Skip("no block")
    knl = lp.make_kernel(
        "{[i,j]: 0<=i<n and 0<=j<m}", "z[i,j] = x[i,j] + x[i+2,j]", lang_version=(2018, 2)
    )
    return lp.split_iname(knl, "i", block, outer_tag="g.0", inner_tag="l.0")


@pytest.fixture
def given():
    """The arguments of a call for n = 8 and m = 3."""
    return {"x": np.ones((10, 3)), "z": np.zeros((8, 3))}


def workshop(queue, given, folder):
    return CandidateFiles(chooser_of(stencil()), queue, given, str(folder))


def question(queue, given, folder):
    return workshop(queue, given, folder).question(((0, 0, "device"),), None, 30.0)


class TestQuestion:
    def test_arrays_are_files(self, queue, given, tmp_path):
        """Arrays of the host and of the device become files, with their order; other values go by themselves."""
        given["x"] = np.asfortranarray(np.arange(30.0).reshape(10, 3))
        given["z"] = cl_array.to_device(queue, given["z"])
        found = question(queue, {**given, "n": np.int32(8), "a": 2.5}, tmp_path)
        assert found.forms[""].values == {"n": np.int32(8), "a": 2.5}
        assert {name: one.order for name, one in found.forms[""].arrays.items()} == {
            "x": "F",
            "z": "C",
        }
        assert np.array_equal(
            np.load(found.forms[""].arrays["x"].path), np.arange(30.0).reshape(10, 3)
        )

    def test_large_arrays(self, queue, given, tmp_path, monkeypatch):
        """Beyond a bound on all bytes floating point is made up, and integers are kept."""
        monkeypatch.setattr(candidates, "_MOST_BYTES", 100)
        found = question(queue, {**given, "places": np.arange(3)}, tmp_path)
        assert [bool(one.path) for one in found.forms[""].arrays.values()] == [False, False, True]

    def test_cuts(self, queue, given, tmp_path):
        """Each size is cut by one: on the axes of its extent, on those that its text names, and in numbers."""
        found = question(queue, {**given, "n": 8, "a": 8.0, "flag": True}, tmp_path)
        assert {
            form: {name: array.shape for name, array in one.arrays.items()}
            for form, one in found.forms.items()
            if not one.drawn
        } == {
            "": {"x": (10, 3), "z": (8, 3)},
            "n = 7": {"x": (9, 3), "z": (7, 3)},
            "m = 2": {"x": (10, 2), "z": (8, 2)},
        }
        assert found.forms["n = 7"].values == {"n": 7, "a": 7.0, "flag": True}
        assert found.forms["m = 2"].values == {"n": 8, "a": 8.0, "flag": True}


class TestCandidate:
    def test_code(self, queue, given, tmp_path):
        """A candidate has the code for the call, and for each cut at which the space has the choice."""
        made = workshop(queue, given, tmp_path)
        drawn = {inputs.NUMBERS, inputs.SIGNED}
        assert set(made.candidate({"block": 4}).trial.codes) == {"", "n = 7", "m = 2", *drawn}
        assert set(made.candidate({"block": 8}).trial.codes) == {"", "m = 2", *drawn}
        assert (
            made.candidate({"block": 8}).trial.program != made.candidate({"block": 4}).trial.program
        )

    def test_digests(self, queue, given, tmp_path):
        """A trial has the digest of each form as it runs, and the open dtypes that decide the code."""
        made = workshop(queue, given, tmp_path)
        found, other = (made.candidate({"block": block}).trial for block in (4, 8))
        assert set(found.digests) == {"", "n = 7", "m = 2"}
        assert len({*found.digests.values()}) == 1
        assert found.digests[""] != other.digests[""]
        assert found.needed == {"x": "<f8"}

    def test_equal_code_is_one_trial(self, queue, given, tmp_path):
        """Code that does not depend on a size is the same at its cut, and choices with equal code have one trial."""
        made = workshop(queue, given, tmp_path)
        found = made.candidate({"block": 4})
        assert len({one.digest for one in found.trial.codes.values()}) == 1
        assert made.candidate({"block": 4}).trial is found.trial
        assert made.candidate({"block": 8}).trial is not found.trial
        assert os.listdir(tmp_path) == []

    def test_refusals(self, queue, given, tmp_path):
        """A recipe that refuses or raises, and a choice that is not valid, have no code."""
        made = workshop(queue, given, tmp_path)
        for found, verdict in (
            (made.candidate({"block": 0}), ("skipped", "no block")),
            (
                made.candidate({"block": 4}, Verdict("not valid", "where 1 does not hold")),
                ("not valid", "where 1 does not hold"),
            ),
        ):
            assert found.verdict[:2] == verdict
            assert found.trial.codes == {}
            assert found.ratio is None
        raised = made.candidate({"block": "four"})
        assert raised.verdict.outcome == "raises"

    def test_nothing_is_stored(self, queue, given, tmp_path):
        """Candidates leave nothing in the user's cache."""
        workshop(queue, given, tmp_path).candidate({"block": 4})
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
    text = f"kernel void generating(global float *x) {{ x[0] = {len(blocks)}; /* {kind} */ }}"
    arguments = [kcl.Array("x", np.float32, 1, "out")]
    return kcl.Source(text, entry="generating", arguments=arguments, global_size=1)


class TestGenerator:
    @pytest.fixture
    def files(self, queue, tmp_path, platform_name):
        """The files of a tuning whose candidates are generated in a child."""
        if platform_name != "pocl":
            pytest.skip("the recipes run in this process")
        with contextlib.closing(
            CandidateFiles(chooser_of(generating()), queue, {}, str(tmp_path))
        ) as made:
            yield made

    @pytest.mark.parametrize(
        ("kind", "seconds", "verdict"),
        [
            ("abort", 60.0, ("crashes", "SIGABRT, while generating")),
            ("exit", 60.0, ("crashes", "status 3, while generating")),
            ("endless", 0.5, ("hangs", "no result in 0.5 s, while generating")),
            ("memory", 60.0, ("takes too much memory", "4 GiB, while generating")),
        ],
    )
    def test_ends(self, files, kind, seconds, verdict):
        """A choice that ends, stops or fills the process that generates is named, and the next one is generated."""
        files.limit = lambda _least: seconds
        found = files.candidate({"kind": kind})
        assert (found.verdict, found.trial.limit) == (verdict, seconds)
        files.limit = lambda _least: 60.0
        assert files.candidate({"kind": "closure"}).verdict.outcome == ""

    def test_no_child_stays(self, queue, tmp_path):
        """The child ends with the tuning."""
        made = CandidateFiles(chooser_of(generating()), queue, {}, str(tmp_path))
        made.candidate({"kind": "closure"})
        process = made._generator and made._generator.process.pid
        assert not process or os.path.exists(f"/proc/{process}")
        made.close()
        made.close()
        assert not process or not os.path.exists(f"/proc/{process}")

    def test_worker_of_a_pool(self, queue, tmp_path):
        """A process that may have no child of multiprocessing's generates itself."""
        config = multiprocessing.current_process()._config
        config["daemon"] = True
        try:
            with contextlib.closing(
                CandidateFiles(chooser_of(generating()), queue, {}, str(tmp_path))
            ) as made:
                assert made.candidate({"kind": "closure"}).verdict.outcome == ""
                assert made._generator is None
        finally:
            del config["daemon"]


@kcl.kernel(
    sizes={"n": "place.shape[0]"},
    space=kcl.space(local=[1, 2], cases=[{"place": np.array([2, 0, 1])}]),
)
def gathering(local=1):
    """Read where integers say."""
    text = """kernel void gathering(global long *place, global double *x, global double *y, int n)
              { int i = get_global_id(0); y[i] = x[place[i]]; }"""
    arguments = [
        kcl.Array("place", np.int64, "n", "in"),
        kcl.Array("x", np.float64, 8, "in"),
        kcl.Array("y", np.float64, "n", "out"),
        kcl.Scalar("n", np.int32),
    ]
    return kcl.Source(
        text, entry="gathering", arguments=arguments, global_size="n", local_size=local
    )


class TestCases:
    def test_forms(self, queue, tmp_path):
        """Each case is a form: the call with other arguments, and with its own sizes."""

        given = {"place": np.zeros(8, int), "x": np.arange(8.0)}
        made = CandidateFiles(chooser_of(gathering()), queue, given, str(tmp_path))
        made.close()
        form = made.question(((0, 0, "device"),), None, 30.0).forms["cases[0]"]
        assert np.array_equal(np.load(form.arrays["place"].path), [2, 0, 1])
        assert np.array_equal(np.load(form.arrays["x"].path), np.arange(8.0))
        assert "cases[0]" in made.default.trial.codes

    def test_notes(self, queue, tmp_path):
        """Forms without a comparison are told, and integers that are all equal."""
        given = {"place": np.zeros(8, int), "x": np.arange(8.0)}
        made = CandidateFiles(chooser_of(gathering()), queue, given, str(tmp_path))
        made.close()
        left = {
            inputs.SIGNED: Verdict("hangs", "no result in 2 s"),
            "n = 7": Verdict("crashes", "-"),
        }
        assert made.notes(left) == [
            "nothing is compared, with signed numbers: the default hangs: no result in 2 s",
            "nothing is compared, at n = 7: the default crashes: -",
            "all elements of place are 0: kcl.space(cases=[{'place': ...}]) compares others",
        ]


class TestFolder:
    def test_goes_away(self, tmp_path, monkeypatch):
        """The folder is for its user alone, and goes away, also after an error."""
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        with contextlib.suppress(ValueError), candidates.folder() as made:
            assert stat.S_IMODE(os.stat(made).st_mode) == 0o700
            (tmp_path / os.path.basename(made) / "file").touch()
            raise ValueError
        assert os.listdir(tmp_path) == []

    def test_leftovers_are_swept(self, tmp_path, monkeypatch):
        """What a killed process left goes; the folders of tunings that run or begin, and those of others, stay."""
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        for name, age in (("kcl-tune-left", 3600), ("kcl-tune-begun", 5), ("other", 3600)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "array.npy").touch()
            os.utime(tmp_path / name, (time.time() - age,) * 2)
        with candidates.folder() as first:
            assert not (tmp_path / "kcl-tune-left").exists()
            os.utime(first, (0, 0))
            with candidates.folder():
                assert os.path.isdir(first)
        assert sorted(os.listdir(tmp_path)) == ["kcl-tune-begun", "other"]

    def test_killed(self, child, tmp_path, monkeypatch):
        """A killed tuning leaves a folder without a lock, which the next tuning removes."""
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
        with candidates.folder():
            assert not left.exists()
