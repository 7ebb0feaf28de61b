"""The timeline of a run: a lane for each kernel, a bar for each of its look-ups."""

from __future__ import annotations

import math

from kcl.base import settings
from kcl.base.events import OUTCOMES
from kcl.base.text.markup import Html, element, join
from kcl.cli.output import seconds
from kcl.inspect import kernels
from kcl.inspect.kernels import KernelRow, LookSummary
from kcl.inspect.last_run import Run

_LANES = 200
_TICKS = 5


def drawn(run: Run) -> Html:
    """Return the timeline, or a sentence where no time is known."""
    labelled = zip(run.rows, kernels.labels(run.rows), strict=True)
    lanes = [(number, *one) for number, one in enumerate(labelled, 1) if any(look.moment for look in one[0].looks)]
    if not lanes:
        return element("p", "No time of a look-up is known.")
    length = max(run.ended - run.began, 1e-6)
    drawn_lanes = [_lane(*lane, run.began, length) for lane in lanes[:_LANES]]
    more = [element("p", f"{len(lanes) - _LANES} more kernels are in the table below.")] if len(lanes) > _LANES else []
    axis = element("li", element("span"), _axis(length), aria_hidden="true")
    return join([_legend(run), element("ol", drawn_lanes, axis, class_="lanes"), more])


def _legend(run: Run) -> Html:
    seen = {look.outcome for row in run.rows for look in row.looks}
    told = [[element("span", class_=f"bar {name}"), name] for name in OUTCOMES if name in seen]
    places = f"upper bar: {settings.GENERATOR} layer, lower bar: {settings.BINARY} layer"
    return element("p", [element("span", one) for one in told], element("span", places), class_="legend")


def _lane(number: int, row: KernelRow, name: str, began: float, length: float) -> Html:
    label = element("a", name, href=f"#kernel-{number}", title=name, class_="label")
    bars = [_bar(look, began, length) for look in row.looks if look.moment]
    return element("li", label, element("div", bars, class_="track"))


def _bar(look: LookSummary, began: float, length: float) -> Html:
    """Draw the last look-up of those that ended alike."""
    took = look.seconds / look.times
    start = min(max(look.moment - took - began, 0.0), length)
    words = f"{look.layer} {look.outcome}, {seconds(took)}, after {seconds(start)}"
    place = f"left:min({100 * start / length:.3f}%,100% - 4px);width:{100 * min(took, length - start) / length:.3f}%"
    return element(
        "span", class_=f"bar {look.layer} {look.outcome}", style=place, title=words, role="img", aria_label=words
    )


def _axis(length: float) -> Html:
    step = _step(length)
    moments = [step * number for number in range(int(length / step) + 1)]
    ticks = [element("span", seconds(moment), style=f"left:{100 * moment / length:.2f}%") for moment in moments]
    return element("div", ticks, class_="axis")


def _step(length: float) -> float:
    """Return the round number of seconds, 1, 2 or 5 of some power of ten, that is at least a fifth of a length."""
    power = 10.0 ** math.floor(math.log10(length / _TICKS))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= 0.999 * length / _TICKS)
