"""`kcl pin` and `kcl unpin`: the kernels that stay."""

from commands import run

from kcl.inspect import space


def test_pins():
    """A name, a pattern or a digest is kept as it is, listed, and let go again; what is not pinned is said."""
    digits = "0" * 12
    assert run("pin", "axpy", "mm*", digits).stdout == f"{digits}\naxpy\nmm*\n"
    assert run("pin").output == f"{digits}\naxpy\nmm*\n"
    assert run("unpin", "axpy", digits).output.count("is not pinned any more\n") == 2
    assert space.read_pins() == ["mm*"]
    assert "nobody is not pinned" in run("unpin", "mm*", "nobody", code=1).output
    assert "nothing is pinned" in run("pin").stderr
