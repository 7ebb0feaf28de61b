"""`kcl pin` and `kcl unpin`: the kernels that stay."""

import pytest
from click.testing import CliRunner

from kcl.cli import main
from kcl.inspect import inventory, space


def invoke(*arguments):
    return CliRunner().invoke(main, arguments)


@pytest.mark.one_platform
@pytest.mark.usefixtures("cache")
class TestPin:
    def test_by_name(self):
        """A name or a pattern is kept as it is, and listed."""
        done = invoke("pin", "axpy", "mm*")
        assert (done.exit_code, done.stdout) == (0, "axpy\nmm*\n")
        assert invoke("pin").output == "axpy\nmm*\n"
        assert invoke("unpin", "axpy").output == "axpy is not pinned any more\n"
        assert space.pins() == ["mm*"]
        invoke("unpin", "mm*")
        assert "nothing is pinned" in invoke("pin").stderr

    def test_by_digest(self):
        """The digits that `kcl ls` prints hold their entry."""
        found = next(inventory.entries())
        invoke("pin", found.digest[:12])
        assert space.holds(space.pins(), "", found.digest)
        assert invoke("unpin", found.digest[:12]).exit_code == 0
        assert space.pins() == []

    def test_not_pinned(self):
        """What is not pinned is said."""
        done = invoke("unpin", "nobody")
        assert done.exit_code == 1
        assert "nobody is not pinned" in done.output
