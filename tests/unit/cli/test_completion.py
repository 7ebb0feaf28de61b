"""kcl.cli.completion: what a shell is told that completes a word."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kcl import cli

pytestmark = pytest.mark.one_platform


class TestCompletion:
    """What a shell gets that asks as the line in its start-up file makes it ask."""

    def completed(self, *words):
        """Return what bash may go on with behind these words."""
        asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_KCL_COMPLETE": "bash_complete"}
        said = CliRunner().invoke(cli.main, [], prog_name="kcl", env=asked).stdout
        return [line.partition(",")[2] for line in said.splitlines()]

    @pytest.mark.usefixtures("cache")
    def test_names(self):
        """Commands, options, layers, the last of a list of layers, kernels."""
        assert self.completed("kcl", "pu") == ["purge"]
        assert self.completed("kcl", "purge", "--o") == ["--older"]
        assert self.completed("kcl", "purge", "po") == ["pocl"]
        assert self.completed("kcl", "env", "--off", "binary,ne") == ["binary,neo"]
        assert self.completed("kcl", "ls", "--layer", "g") == ["generator"]
        for words in (["show"], ["ls", "--kernel"], ["unpack", "--kernel"], ["purge", "--kernel"], ["explain"]):
            assert self.completed("kcl", *words, "from_") == ["from_class", "from_file", "from_global"], words

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_source(self, shell):
        """Each shell of the documentation gets a script."""
        said = CliRunner().invoke(cli.main, [], prog_name="kcl", env={"_KCL_COMPLETE": f"{shell}_source"})
        assert f"_KCL_COMPLETE={shell}_complete" in said.stdout
