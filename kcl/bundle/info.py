"""The report on a bundle: its entries, those that were left out, and those that cannot hit on this machine."""

from __future__ import annotations

from collections import Counter

from kcl.base import computed_once, settings
from kcl.base.text import tables
from kcl.base.text.layout import counted
from kcl.cache.entry import Entry, recorded_seconds
from kcl.cache.key import Key
from kcl.cache.phrases import About, sentence
from kcl.drivers import devices
from kcl.frontends.loopy import moment

_MOST = 3  # differences that a reason names


class CacheInfo:
    """The report on a bundle, like torch's CacheInfo with more fields.

    `artifacts` has the digests of the entries' keys, by kind, which is the name of a layer. `bytes` is the size of the
    bundle; `seconds` is the time that making its entries took. `refused` lists damaged entries, and `left_out` good entries
    that were not saved or not stored; both as pairs of a digest, or "bundle", and the reason. `skipped` counts entries of
    unknown kinds: kind -> number.

    >>> event, outputs = doubled()(queue, x=x)
    >>> data, info = kcl.save_artifacts()
    >>> len(info.binary_artifacts), info.empty(), info.bytes == len(data), info.unusable
    (1, False, True, [])
    """

    def __init__(self, size: int = 0) -> None:
        self.bytes = size
        self.seconds = 0.0
        self.artifacts: dict[str, list[str]] = {}
        self.refused: list[tuple[str, str]] = []
        self.left_out: list[tuple[str, str]] = []
        self.skipped = Counter[str]()
        self._keys: list[tuple[str, Key]] = []

    def empty(self) -> bool:
        """Return True if no entry was saved or loaded.

        >>> kcl.load_artifacts(b"no bundle").empty()
        True
        """
        return not self.artifacts

    @property
    def generator_artifacts(self) -> list[str]:
        """The digests of entries of the generator layer: code, and the entries by which code is found."""
        return self.artifacts.get(settings.GENERATOR, [])

    @property
    def binary_artifacts(self) -> list[str]:
        """The digests of entries of the binary layer, which are built programs."""
        return self.artifacts.get(settings.BINARY, [])

    @computed_once
    def unusable(self) -> list[tuple[str, str]]:
        """The entries that cannot hit on this machine, with the reason in the words of `kcl explain`.

        The first read asks OpenCL for its platforms, so it must not happen before a fork.
        """
        return [(key.digest, reason) for kind, key in self._keys if (reason := misfit(kind, key))]

    def _add(self, kind: str, entry: Entry) -> None:
        """Add an entry to the report."""
        self.artifacts.setdefault(kind, []).append(entry.key.digest)
        self._keys.append((kind, entry.key))
        self.seconds += recorded_seconds(entry)

    def __repr__(self) -> str:
        rows = [(kind, str(len(digests))) for kind, digests in self.artifacts.items()]
        rows += [
            (f"{kind} (unknown to this kcl)", str(count)) for kind, count in self.skipped.items()
        ]
        lines = tables.lines([tables.Column("kind"), tables.Column("entries")], rows)
        lines.append(f"{self.bytes} bytes; making the entries took {self.seconds:.1f} s")
        for title, pairs in (("refused", self.refused), ("left out", self.left_out)):
            reasons = Counter([reason for _digest, reason in pairs]).items()
            lines += [
                f"{title}: {counted(count, 'entry', 'entries')}: {reason}"
                for reason, count in reasons
            ]
        return "\n".join(lines)


def misfit(kind: str, key: Key) -> str:
    """Return why an entry with this key cannot hit on this machine; empty if it can."""
    if kind == settings.TUNING:
        kind, key = settings.BINARY, devices.of_table(key)
    if kind not in settings.LAYERS:
        return ""
    mine, here = devices.compared(key) if kind == settings.BINARY else moment.compared(key)
    if here is None:
        return f"there is no device of the platform {dict(key.parts).get('platform')} here"
    reasons = [
        sentence(part, About(binary=kind == settings.BINARY)) or f"{part.name} differs"
        for part in mine.diff(here)
    ]
    return "; ".join(reasons[:_MOST])
