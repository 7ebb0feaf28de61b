"""A miss of the binary layer: a program is built from source, with the compiler's messages, and its entries."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from kcl.cache.entry import Entry
from kcl.code import ProgramText
from kcl.programs.driver import Promise
from kcl.programs.kernels import kernel_names
from kcl.programs.program_key import headers_stand, marks, passed

if TYPE_CHECKING:
    from kcl.cache.layer import Layer
    from kcl.cache.lookup import Look
    from kcl.programs.driver import Driver
    from kcl.programs.program_key import ProgramSlot


def from_source(
    context: cl.Context,
    text: ProgramText,
    source: str,
    mark: str = "",
    holder: cl.Program | None = None,
) -> cl.Program:
    """Build without pyopencl's own cache of binaries, which misses some changes of headers. Shows no message.

    The driver gets `source`, which may have a line more than the text. `mark` is a further option, which no message
    shows. `holder` is the user's program that the build is for: it keeps a program that does not compile, as pyopencl
    does, with the reason. Raises pyopencl's own error where the source does not compile.
    """
    from pyopencl.characterize import has_src_build_cache

    # The class below pyopencl's wrapper: the public `build` asks pyopencl's own cache first.
    raw = cl._cl._Program(context, source)
    program = cl.Program(raw)
    program._source = text.source
    if holder is not None:
        holder._prg = raw
    options, _path = program._process_build_options(context, passed(text.options))
    marked, _path = program._process_build_options(
        context, [*passed(text.options), *([mark] if mark else [])]
    )
    # With a raw program pyopencl builds and reports as usual, past its cache; where that would serve, it reports more.
    # It has no public switch for one build.
    is_uncached = has_src_build_cache(context.devices[0])
    program._build_and_catch_errors(
        lambda: _built(raw, marked),
        options_bytes=options,
        source=None if is_uncached else text.source,
    )
    return program


def _built(raw: Any, options: bytes) -> Any:
    """Build once, and show no message of the compiler; pyopencl's own function words the error of what fails."""
    try:
        raw._build(options=options, devices=None)
    except (cl.Error, AttributeError, TypeError) as error:
        # Another version of pyopencl may lack the function, or take other arguments there.
        built = _Failed(raw, error) if isinstance(error, cl.Error) else raw
        return type(raw).build(built, options)
    return raw


class _Failed:
    """A program whose build failed: a further build raises the error of the first, and compiles nothing."""

    def __init__(self, raw: Any, error: Exception) -> None:
        self._raw = raw
        self._error = error

    def _build(self, **_: Any) -> None:
        raise self._error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def text_of(entry: Entry, options: tuple[str, ...]) -> ProgramText:
    """Return the text of an entry's program, with these options."""
    about, source = entry.metadata, entry.parts["source.cl"].decode("utf-8", "surrogatepass")
    text = ProgramText(str(about["kernel"]), source, options, tuple(about["kernels"]))
    # A driver may have put a line before the source.
    bare = text._replace(source=source.partition("\n")[2])
    return bare if bare.source_digest == about.get("program") else text


def refusal(error: BaseException) -> str:
    """Return that a text does not compile, with the first error in the log of pyopencl's error; empty for others.

    It has no path and no number of a program: the driver's own file of the source has another name in each build.
    """
    log = str(error).partition("Build on ")[2].splitlines()[2:]
    first = next((line for line in log if "error" in line), "".join(log[:1]))
    words = re.sub(r"(\S*/\S*|^\s*\d+):(?=\d+:\d+:)", "", first).strip()
    return f"does not compile: {words[:200]}" if words else ""


def logs(program: cl.Program) -> list[str]:
    """Return the compiler's log of a program, for each of its devices."""
    texts = []
    for device in program.get_info(cl.program_info.DEVICES):
        try:
            texts.append(str(program.get_build_info(device, cl.program_build_info.LOG) or ""))
        except cl.Error:
            texts.append("")
    return texts


def entries(
    driver: Driver,
    layer: Layer,
    text: ProgramText,
    program: cl.Program,
    look: Look,
    messages: tuple[str, ...],
    **more: Any,
) -> tuple[list[tuple[str, Entry]], tuple[Promise, ...]]:
    """Describe a program that was built, for each slot that has no entry: (entries, promises).

    `messages` are the compiler's logs, `more` is further metadata. There are no entries if a header has changed since its
    part of the key was made: the driver read it later than kcl did.
    """
    whole: list[tuple[str, Entry]] = []
    promises: list[Promise] = []
    slots: list[ProgramSlot] = look.beside
    if not slots or not headers_stand(text.source, slots[0].options, slots[0].key):
        return [], ()
    text = text if text.kernels else text._replace(kernels=kernel_names(program))
    lacking = {slot.key.digest: (slot, log) for slot, log in zip(slots, messages, strict=False)}
    for slot, log in [pair for digest, pair in lacking.items() if digest not in look.digests]:
        try:
            entry = described(driver, text, slot, log).with_metadata(**more)
            complete = driver.completed(program, slot, entry)
        except (cl.Error, ValueError, IndexError, OSError, ImportError) as error:
            layer.fault("ask the driver for the binary", error)
            continue
        if complete is None:
            promises.append((slot.address, entry))
        elif complete.parts.get("binary"):
            whole.append((slot.address, complete))
    return whole, tuple(promises)


class UnfinishedEntries:
    """The entries of a program that was built, as far as they lack something: a binary, or the launches of kernels.

    `published` are the entries that the driver completed at once. `promises` are those without a binary: its helper
    completes them.
    """

    def __init__(
        self,
        driver: Driver,
        layer: Layer,
        program: cl.Program,
        published: list[tuple[str, Entry]],
        promises: tuple[Promise, ...],
    ) -> None:
        self._driver = driver
        self._layer = layer
        self._program = program
        self._published = published
        self._promises = promises
        # The first launch of each kernel that was launched, None where that cannot be noted.
        self._launched: dict[str, Any] = {}

    def note_prepared(self) -> None:
        """Have the entries completed as the program is, unless a kernel was launched."""
        if not self._launched:
            self._driver.launched(self._promised())

    def note_launches(
        self, names: Iterable[str], noted: Callable[[], Mapping[str, Any]] = dict
    ) -> None:
        """Note that kernels were launched: the driver will have specialised code for them.

        Their entries get the launches that `noted` returns.
        """
        before, new = self._launched, [name for name in names if name not in self._launched]
        if not new or not (self._promises or self._published):
            return
        launches = noted()
        self._launched = launched = {**before, **{name: launches.get(name) for name in new}}
        for address, entry in self._published if launches else ():
            self._layer.publish(address, entry.with_metadata(launched=launched))
        promises = self._promised()
        # The helper has the job: later launches are added as the process ends.
        if before:
            self._driver.unseen(promises)
        else:
            self._driver.launched(promises)
        if len(kernel_names(self._program)) == len(launched):
            self._promises, self._published = (), []

    def _promised(self) -> tuple[Promise, ...]:
        """Return the promises with the launches: without these the helper would wait for the code of all kernels."""
        return tuple(
            [(to, entry.with_metadata(launched=self._launched)) for to, entry in self._promises]
        )


def described(driver: Driver, text: ProgramText, slot: ProgramSlot, log: str) -> Entry:
    """Describe a program that was built; its binary is not in it."""
    log = driver.messages(log)
    for mark, directory in marks(slot.options):
        # The log names headers by their place, which is another one in another run.
        log = log.replace(directory, mark)
    device = slot.device
    metadata = {
        "kernel": text.kernel,
        "kernels": list(text.kernels),
        "program": text.source_digest,
        "options": list(slot.options.flags),
        "platform": {"name": device.platform.name, "version": device.platform.version},
        "device": {"name": device.name, "driver": device.driver_version},
        "created": int(time.time()),
        **driver.described(slot),
    }
    source = driver.given(text.source).encode("utf-8", "surrogatepass")
    return Entry(
        slot.key,
        metadata,
        {"source.cl": source, "build.log": log.encode("utf-8", "surrogatepass")},
    )
