"""The report on a bundle: its entries, those that were left out, and those that cannot hit here."""

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

_MOST = 3  # differences in a reason


class CacheInfo:
    """What a bundle holds, by kind, and what it lacks: torch's CacheInfo, with more.

    `artifacts` has the digests of the keys by kind, which is the name of a layer. `bytes` is the size of the bundle,
    `seconds` is what making its entries took. `refused` are damaged entries, `left_out` good ones that were not saved
    or not stored: pairs of a digest, or "bundle", and the reason. `skipped` counts entries of unknown kinds, by kind.

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
        """The digests of rows of the generator layer: code, and the rows that lead to it."""
        return self.artifacts.get(settings.GENERATOR, [])

    @property
    def binary_artifacts(self) -> list[str]:
        """The digests of programs."""
        return self.artifacts.get(settings.BINARY, [])

    @computed_once
    def unusable(self) -> list[tuple[str, str]]:
        """The entries that cannot hit here, with the reason in the words of `kcl explain`; compared when first read.

        That asks OpenCL for platforms: read it after a fork, not before.
        """
        return [(key.digest, reason) for kind, key in self._keys if (reason := misfit(kind, key))]

    def _add(self, kind: str, entry: Entry) -> None:
        """Count an entry."""
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
    """Return why an entry cannot hit here; empty if it can."""
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
