"""kcl.cli.assembly: native code as text."""

from __future__ import annotations

import pytest

from kcl.cli.assembly import NoAssembly, assembly

pytestmark = pytest.mark.one_platform


class TestAssembly:
    def test_ptx(self):
        """NVIDIA's binary is text already."""
        text = ".version 8.3\n.target sm_90\n.visible .entry axpy()\n{ ret; }\n"
        assert assembly(text.encode() + b"\0") == text

    @pytest.mark.parametrize("binary", [b"", b"BC\xc0\xde", b"poclbin\0" + bytes(80)])
    def test_unknown(self, binary):
        """What cannot be taken apart is said to be so."""
        with pytest.raises(NoAssembly):
            assembly(binary)

    def test_no_objdump(self, monkeypatch):
        """Without objdump the message says which package has it."""
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(NoAssembly, match="binutils"):
            assembly(b"\x7fELF" + bytes(100))
