"""The raw log: append-only, ground truth, every event in order forever.

User messages, policy turns and business results are numbered ``e1, e2, …``; every other outcome of a turn (acknowledgement,
rejection, read-back, host notice) is logged under its turn as ``e4.1`` and can never be cited.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

Role = Literal["user", "assistant", "tool", "host"]


@dataclass(frozen=True, slots=True)
class Event:
    """One raw event. ``sub`` is 0 for main events; outcomes of turn ``e4`` have ``seq=4`` and ``sub=1, 2, …``."""

    seq: int
    sub: int
    role: Role
    text: str
    window: str
    run: int
    name: str = ""
    """Business tool of a result; ``ok``, ``read``, ``find``, ``notice``, ``clear`` or a rejection code for an outcome."""
    turn: int = 0
    """For results and outcomes: the ``seq`` of the policy turn that caused them."""
    ids: tuple[int, ...] | None = None
    """Sampled token ids of a policy turn."""
    shows: tuple[int, ...] = ()
    """Originals that a read-back is an alias of."""

    @property
    def ref(self) -> str:
        return f"e{self.seq}" + (f".{self.sub}" if self.sub else "")

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it: lists for tuples."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


class Log:
    """Append-only list of events; nothing is ever changed or removed."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._main: list[int] = []  # position of e1, e2, …
        self._subs: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __getitem__(self, position: int) -> Event:
        return self._events[position]

    @property
    def last(self) -> int:
        """Number of the newest main event, 0 when empty."""
        return len(self._main)

    def main(self, seq: int) -> Event:
        """The event ``eN``. Raises IndexError when there is none."""
        if not 1 <= seq <= len(self._main):
            raise IndexError(f"the log has no e{seq}: it ends at e{len(self._main)}")
        return self._events[self._main[seq - 1]]

    def position(self, seq: int) -> int:
        """Position in the list of the event ``eN``."""
        return self._main[seq - 1]

    def append(self, role: Role, text: str, *, window: str, run: int, **more: Any) -> Event:
        """Append a main event; it gets the next number."""
        event = Event(len(self._main) + 1, 0, role, text, window, run, **more)
        self._main.append(len(self._events))
        self._events.append(event)
        return event

    def append_outcome(self, turn: int, text: str, *, window: str, run: int, name: str, shows: tuple[int, ...] = ()) -> Event:
        """Append an outcome under policy turn ``turn``: logged, never cited."""
        sub = self._subs[turn] = self._subs.get(turn, 0) + 1
        event = Event(turn, sub, "host", text, window, run, name=name, turn=turn, shows=shows)
        self._events.append(event)
        return event

    def digest(self) -> str:
        """Hash of the whole log, for replay checks."""
        body = json.dumps([e.as_dict() for e in self._events], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(body.encode()).hexdigest()
