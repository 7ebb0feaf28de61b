"""Lead: the work of one thread for one launch, through all stages, while other threads and processes wait for it.

The process that generates code builds the program too, and has the lead for the next kernel: so the other processes
import no code generator. Hence a thread releases the lead for code only when it has the lead for the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcl.base.events import Event
    from kcl.cache.layer import Layer
    from kcl.cache.process_leads import ProcessLead


class Lead:
    """The leads that a thread has taken for a kernel; they end with the `with` block. For one thread.

    `events` are the events of the look-ups so far. `parameters` are those of the recipe; `shown` writes their values.
    """

    __slots__ = ("_earlier", "_kernel", "_process_leads", "_shown", "events", "parameters")

    def __init__(self, kernel: str, parameters: Mapping[str, Any] = {}, shown: Callable[[Any], str] = repr) -> None:
        self.events: list[Event] = []
        self.parameters = parameters
        self._kernel = kernel
        self._shown = shown
        self._process_leads: list[ProcessLead] = []
        self._earlier: tuple[Layer, Callable[[], str]] | None = None

    def texts(self) -> dict[str, str]:
        """Return the parameters in readable form."""
        return {name: self._shown(value) for name, value in self.parameters.items()}

    def described(self) -> str:
        """Return the kernel with its parameters, for display."""
        listed = ", ".join(f"{name}={text}" for name, text in self.texts().items())
        return f"{self._kernel}({listed})" if listed else self._kernel

    def take(self, layer: Layer, digest: str) -> str:
        """Take the lead for a digest, or wait for the thread or process that has it; return the holder's name.

        The name is empty where waiting is of no use, as others would not see the entry. This thread releases the lead
        of an earlier stage as soon as it waits, or has the new lead.
        """
        self._follow()
        held = layer.join(digest, self._kernel, self.release)
        self.release()
        if held is None:
            return ""
        self._process_leads.append(held)
        return held.by

    def passed(self, layer: Layer, together: Callable[[], str] | None) -> None:
        """Note that a stage has its value; `together` returns the digest under which others wait for it, if any."""
        self._earlier = (layer, together) if together is not None else None

    def release(self) -> None:
        """Let the others continue. A second release is no error."""
        while self._process_leads:
            self._process_leads.pop().release()

    def _follow(self) -> None:
        """Wait until the maker of the earlier stage's value has the lead for this one, unless it is this thread."""
        if self._earlier is not None and not self._process_leads:
            layer, together = self._earlier
            held = layer.join(together(), self._kernel)
            if held is not None:
                held.release()

    def __enter__(self) -> Lead:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
