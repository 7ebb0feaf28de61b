"""Implements `Kernel.explain`: says which entry each layer has for a kernel now, or why there is none."""

from __future__ import annotations

import time
from collections.abc import Callable

from kcl.base import settings
from kcl.cache import layers
from kcl.cache.key import Key
from kcl.cache.layer import Layer
from kcl.cache.lookup import find
from kcl.generate import miss
from kcl.generate.stage import CallValues, Generate
from kcl.inspect.explain import Texts, misses, read_texts
from kcl.programs.stage import Build, BuildRequest


def lines(
    kernel: str, generate: Generate, call: CallValues, build: Callable[[], Build]
) -> list[str]:
    """Say which entry each layer holds for a kernel; `build`, called after a hit, returns the stage of its context."""
    look = find(generate, call)
    sentences = [f"kernel {kernel}", _write_sentence(layers.generator(), look.outcome, look.reason)]
    if look.outcome == "miss" and look.key is not None:
        texts = read_texts(miss.texts(generate.evidence()))
        sentences += _explain_miss(settings.GENERATOR, kernel, look.key, texts)
    if look.value is None:
        why = "its key needs the source, which the generator layer does not hold"
        return [*sentences, _write_sentence(layers.binary(), "not looked up", why)]
    stage, text = build(), look.value.code.text
    look = find(stage, BuildRequest(text))
    sentences.append(_write_sentence(layers.binary(), look.outcome, look.reason))
    if look.outcome == "miss":
        key = stage.slots(text)[0].key
        sentences += _explain_miss(settings.BINARY, kernel, key, Texts({"source": text.source}))
    return sentences


def _write_sentence(layer: Layer, outcome: str, reason: str) -> str:
    return f"  {layer.name}: {outcome}" + (f": {reason}" if reason else "") + f" ({layer.place})"


def _explain_miss(layer: str, kernel: str, key: Key, texts: Texts) -> list[str]:
    """Say how the key differs from that of the nearest entry now."""
    # The file of an entry has whole seconds: a second more takes in what was stored just now.
    now = time.time() + 1.0
    return [
        f"    {line}"
        for line in misses.write_explanation(
            misses.Shelf(layer).explain(kernel, key, texts, now, now)
        )
    ]
