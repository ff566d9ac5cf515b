"""The raw log: append-only, ground truth, every event in order forever.

User messages, policy turns and business results are numbered ``e1, e2, …``; every other outcome of a turn (acknowledgement,
rejection, read-back, host notice) is logged under its turn as ``e4.1`` and can never be cited.

Beside the events the log keeps what can be told of them without reading them again (places by window, first event of each Run,
counts by role), so that no question about the log costs more the longer it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

Role = Literal["user", "assistant", "tool", "host", "system", "memory", "notice"]
"""The last three come from session files alone (``envs.sessions``): they are main events that the host renders with their tag."""
_COUNTED = {"user": 0, "assistant": 1, "tool": 2}


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
    """Business tool of a result; speaker of a session file's message (``user north``, ``notice``); ``ok``, ``moved``, ``read``, ``find``, ``notice``, ``clear`` or a rejection code for an outcome."""
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
        self._counts: list[tuple[int, int, int]] = [(0, 0, 0)]
        self._places: dict[str, list[int]] = {}
        self._stretches: list[tuple[str, int]] = []
        self._run_start: dict[int, int] = {}
        self._users: dict[int, list[int]] = {}
        self._acts: dict[int, list[tuple[int, str, str]]] = {}
        self.newest_turn = 0
        """Number of the newest policy turn, 0 when there is none."""

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
        user, own, tool = self._counts[-1]
        kind = _COUNTED.get(role)
        self._counts.append((user + (kind == 0), own + (kind == 1), tool + (kind == 2)))
        if not self._stretches or self._stretches[-1][0] != window:
            self._stretches.append((window, event.seq))
        if role == "user":
            self._run_start.setdefault(run, event.seq)
            self._users.setdefault(run, []).append(event.seq)
        elif role == "assistant":
            self.newest_turn = event.seq
        elif role == "tool":
            self._acts.setdefault(run, []).append((event.seq, window, event.name))
        self._place(event)
        return event

    def append_outcome(self, turn: int, text: str, *, window: str, run: int, name: str, shows: tuple[int, ...] = ()) -> Event:
        """Append an outcome under policy turn ``turn``: logged, never cited."""
        sub = self._subs[turn] = self._subs.get(turn, 0) + 1
        event = Event(turn, sub, "host", text, window, run, name=name, turn=turn, shows=shows)
        if name == "moved":
            self._acts.setdefault(run, []).append((turn, window, "moved"))
        self._place(event)
        return event

    def _place(self, event: Event) -> None:
        self._places.setdefault(event.window, []).append(len(self._events))
        self._events.append(event)

    def places(self, window: str) -> list[int]:
        """Positions of all entries made in a window, rising. Not to be changed."""
        return self._places.get(window, [])

    def stretches(self) -> list[tuple[str, int, int]]:
        """``(window, first, last)`` of main events: every stretch spent in one window without a move, in order."""
        ends = [first - 1 for _, first in self._stretches[1:]] + [self.last] * bool(self._stretches)
        return [(window, first, last) for (window, first), last in zip(self._stretches, ends, strict=True)]

    def counts(self, first: int, last: int) -> tuple[int, int, int]:
        """User messages, policy turns and business results among the main events ``first`` to ``last``."""
        a, b = self._counts[first - 1], self._counts[last]
        return b[0] - a[0], b[1] - a[1], b[2] - a[2]

    def run_start(self, run: int) -> int:
        """Main event of the user message that opened a Run; one past the end when there is none."""
        return self._run_start.get(run, self.last + 1)

    def run_users(self, run: int) -> list[int]:
        """Main events of the user messages of a Run. Not to be changed."""
        return self._users.get(run, [])

    def acts_elsewhere(self, run: int, window: str, most: int) -> list[tuple[int, str, str]]:
        """The newest business calls and moves that a Run made in other windows, as ``(event, window, name)`` in order."""
        found: list[tuple[int, str, str]] = []
        for act in reversed(self._acts.get(run, [])[-10 * most :]):
            if act[1] != window:
                found.append(act)
            if len(found) == most:
                break
        return found[::-1]

    def digest(self) -> str:
        """Hash of the whole log, for replay checks."""
        body = json.dumps([e.as_dict() for e in self._events], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(body.encode()).hexdigest()
