"""The native code in a program binary, as text: PoCL's and Intel's through objdump, PTX as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile

from kcl.drivers.pocl import poclbin

_ELF = b"\x7fELF"


class NoAssembly(Exception):
    """The binary cannot be shown as assembly; the message gives the reason."""


def assembly(binary: bytes) -> str:
    """Return the disassembly of each kernel; raise `NoAssembly` for an unknown binary, or where objdump is missing."""
    files = _native(binary)
    if files is None:
        return _text(binary)
    if not files:
        raise NoAssembly("the binary holds no native code, only what the driver compiles from it")
    return "\n".join(f"{name}\n{_disassembled(content)}" for name, content in files.items())


def _native(binary: bytes) -> dict[str, bytes] | None:
    """Return the object files inside of a binary by a name; None where the binary is not made of object files."""
    if binary.startswith(poclbin.MAGIC):
        try:
            found = poclbin.read(binary).files()
        except ValueError as error:
            raise NoAssembly(f"this PoCL binary cannot be taken apart: {error}") from error
        return {path: content for path, content in sorted(found.items()) if content.startswith(_ELF)}
    if binary.startswith(_ELF):
        inner = binary.find(_ELF, 1)  # Intel's container is shaped like the object file that it holds
        return {"object file": binary[max(inner, 0) :]}
    return None


def _text(binary: bytes) -> str:
    """Return PTX, which is text and may end in a NUL."""
    text = binary.rstrip(b"\0").decode("utf-8", "replace")
    if ".version" in text and ".target" in text:
        return text
    raise NoAssembly("this is neither PTX nor a binary that kcl can take apart; --binary FILE writes it as it is")


def _disassembled(content: bytes) -> str:
    command = shutil.which("objdump")
    if command is None:
        raise NoAssembly("objdump is not installed: it comes with binutils; --binary FILE writes the binary as it is")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.so")
        with open(path, "wb") as stream:
            stream.write(content)
        done = subprocess.run([command, "-d", "--no-show-raw-insn", path], capture_output=True, text=True)
    if done.returncode:
        raise NoAssembly(f"objdump does not take it: {done.stderr.strip()}")
    lines = done.stdout.splitlines()
    return "\n".join(line for line in lines if path not in line).strip("\n")
