"""kcl.option: where files lie by a call; test_file.py has what a call wins over."""

import pytest

import kcl
from kcl import option
from kcl.cache import layers


def test_takes_effect_at_once(tmp_path):
    """Under another root lie the same folders; open layers look there from the next look-up on. None is made."""
    before = layers.binary().place
    option.cache_dir(tmp_path / "new")
    assert option.get_cache_dir() == str(tmp_path / "new")
    assert layers.generator().place.startswith(str(tmp_path / "new" / "pytools" / "pdict-"))
    assert layers.binary().place == str(tmp_path / "new" / "pyopencl" / "kcl-binary-v1") != before
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["cache_dir", "cach_dir"])
def test_an_assignment_is_refused(tmp_path, name):
    words = r"cannot be assigned: call kcl.option.cache_dir\("
    with pytest.raises(AttributeError, match=words):
        setattr(kcl.option, name, tmp_path)
    assert callable(kcl.option.cache_dir)


def test_a_relative_path_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match="abspath"):
        option.cache_dir("cache")
