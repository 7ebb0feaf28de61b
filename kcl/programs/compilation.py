"""A miss of the binary layer: builds a program from source, and makes the entries that store it."""

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
    """Build a program without pyopencl's own cache of binaries, which overlooks some changes of headers.

    The driver gets `source`, which may have one line more than the text. `mark` is a further build option, which no
    message shows. `holder` is the user's program if the build is for one: as with pyopencl alone, it keeps the program
    that does not compile, with the reason. Raises pyopencl's own error if the source does not compile. Shows no message
    of the compiler.
    """
    from pyopencl.characterize import has_src_build_cache

    # The raw class below pyopencl's wrapper, whose public `build` would ask pyopencl's own cache first.
    raw = cl._cl._Program(context, source)
    program = cl.Program(raw)
    program._source = text.source
    if holder is not None:
        holder._prg = raw
    options, _path = program._process_build_options(context, passed(text.options))
    marked, _path = program._process_build_options(
        context, [*passed(text.options), *([mark] if mark else [])]
    )
    # With a raw program pyopencl builds and reports errors as usual, without its cache. It has no public switch for
    # that. The source is passed if the cache would have been used, since the error then shows more.
    is_uncached = has_src_build_cache(context.devices[0])
    program._build_and_catch_errors(
        lambda: _built(raw, marked),
        options_bytes=options,
        source=None if is_uncached else text.source,
    )
    return program


def _built(raw: Any, options: bytes) -> Any:
    """Build without showing messages; if the build fails, pyopencl's own function raises the error in its words."""
    try:
        raw._build(options=options, devices=None)
    except (cl.Error, AttributeError, TypeError) as error:
        # Another version of pyopencl may lack the function, or take other arguments there.
        built = _Failed(raw, error) if isinstance(error, cl.Error) else raw
        return type(raw).build(built, options)
    return raw


class _Failed:
    """A program whose build failed: building it again compiles nothing and raises the same error."""

    def __init__(self, raw: Any, error: Exception) -> None:
        self._raw = raw
        self._error = error

    def _build(self, **_: Any) -> None:
        raise self._error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def text_of(entry: Entry, options: tuple[str, ...]) -> ProgramText:
    """Return the program text of an entry, with the given build options."""
    about, source = entry.metadata, entry.parts["source.cl"].decode("utf-8", "surrogatepass")
    text = ProgramText(str(about["kernel"]), source, options, tuple(about["kernels"]))
    # A driver may have put a line before the source.
    bare = text._replace(source=source.partition("\n")[2])
    return bare if bare.source_digest == about.get("program") else text


def refusal(error: BaseException) -> str:
    """Return "does not compile" and the first error of the compiler's log; empty if `error` is no failed build.

    Paths are left out, since the driver compiles a file with another name in each build.
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
    """Make the entries of a program that was built, for each slot that has none: (entries, promises).

    A promise is an entry whose binary the driver's helper adds later. `messages` are the compiler's logs, `more` is further
    metadata. Nothing is returned if a header has changed since the key was made: the driver read it later than kcl did.
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
    """The entries of a built program that still lack a binary, or the launches of some kernels.

    `published` are the entries with a binary. `promises` are those without: the driver's helper completes them.
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
        # The first launch of each kernel that was launched; None if it could not be recorded.
        self._launched: dict[str, Any] = {}

    def note_prepared(self) -> None:
        """Have the entries completed without specialised code, unless a kernel was launched."""
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
        # The helper has the job already; it gets later launches when this process ends.
        if before:
            self._driver.unseen(promises)
        else:
            self._driver.launched(promises)
        if len(kernel_names(self._program)) == len(launched):
            self._promises, self._published = (), []

    def _promised(self) -> tuple[Promise, ...]:
        """Return the promises with the launched kernels; without them the helper would wait for the code of all kernels."""
        return tuple(
            [(to, entry.with_metadata(launched=self._launched)) for to, entry in self._promises]
        )


def described(driver: Driver, text: ProgramText, slot: ProgramSlot, log: str) -> Entry:
    """Return the entry of a built program, without its binary."""
    log = driver.messages(log)
    for mark, directory in marks(slot.options):
        # The log names headers by their directories, which another run may have elsewhere.
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
