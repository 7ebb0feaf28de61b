"""examples/converted: the examples of pyopencl and loopy, and loopy's tutorial, converted as the pages say.

Each runs three times: cold, again where only hits are allowed, and with kcl's, loopy's and pyopencl's caches off.
"""

import functools
import re

import pytest
from harness import PLATFORMS, ROOT, SUPPORT, Child

# These look into units, which only loopy can do.
QUESTIONS = ["loopy/call_external", "loopy/tutorial_questions"]
# One of each kind, for `make test`.
SAMPLE = ["loopy/hello_loopy", "pyopencl/demo_elementwise", "pyopencl/n_body", "pyopencl/transpose"]
FOLDER = ROOT / "examples" / "converted"
ALL = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.py"))
OTHERS = [*(name for name in ALL if name not in [*SAMPLE, *QUESTIONS]), *QUESTIONS]
OFF = {"KCL_NO_CACHE": "1", "LOOPY_NO_CACHE": "1", "PYOPENCL_NO_CACHE": "1"}
PAGE = (ROOT / "doc" / "howto" / "convert.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def runs(platform_name, tmp_path_factory):
    """Run programs in three processes on one cache directory; returns what each run saw, by program."""
    fixed = {"PYOPENCL_CTX": PLATFORMS[platform_name], "PYTHONHASHSEED": "0"}

    @functools.cache
    def run(*names):
        child = Child(tmp_path_factory.mktemp(f"converted-{platform_name}"))
        words = (SUPPORT / "converted.py", *names)
        return [child.script(*words, **fixed, **more) for more in ({}, {"KCL_STRICT": "hit"}, OFF)]

    return run


@pytest.mark.slow_platforms
@pytest.mark.parametrize(
    ("group", "name"),
    [
        *((SAMPLE, name) for name in SAMPLE),
        *(pytest.param(OTHERS, name, marks=pytest.mark.slow) for name in OTHERS),
    ],
    ids=[*SAMPLE, *OTHERS],
)
def test_same_numbers(runs, group, name):
    """The second run hits, imports no loopy but for questions, and prints what a run without caches prints."""
    cold, again, off = (run[name] for run in runs(*group))
    assert cold["printed"] == off["printed"]
    assert again["printed"] == off["printed"]
    assert "False" not in off["printed"]  # what a program compares with numpy
    assert again["loopy"] == (name in QUESTIONS)


class TestPage:
    def test_every_program(self):
        assert set(re.findall(r"\(\.\./\.\./examples/converted/(\S+)\.py\)", PAGE)) == set(ALL)

    @pytest.mark.parametrize("package", ["pyopencl", "loopy"])
    def test_every_example(self, package):
        """The page names each example of the source archive, where `make compat` fetched it."""
        archives = sorted((ROOT / "build" / "compat").glob(f"{package}-*-source/*/examples"))
        if not archives:
            pytest.skip("no source archive: make compat fetches it")
        kinds = (".py", ".ipynb", ".floopy", ".loopy")
        files = {path.name for path in archives[-1].rglob("*") if path.suffix in kinds}
        assert {name for name in files if f"`{name}`" not in PAGE} == set()
