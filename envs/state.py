"""State of the protocol and its transitions, all pure: ``(log, state, …) -> state``.

Windows are there from the start: folds, boundary and window memory belong to a window, public notes to the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from envs.log import Event, Log

MAIN_WINDOW = "w1"


@dataclass(frozen=True, slots=True)
class Note:
    """A memory entry. ``status`` is the policy's word (``current``, ``old``, ``open``), ``standing`` the host's."""

    key: str
    value: str
    refs: tuple[int, ...]
    status: str = "current"
    standing: str = "current"  # current, pending, candidate
    was: int = 0
    """Source event of the value that this one superseded, 0 when there is none."""
    version: int = 1
    user_value: str = ""
    """The newest value of the key that a user message stated: the authority that a tool's value is compared with."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A range of whole exchanges replaced by ``brief`` and the references ``keep``."""

    id: str
    first: int
    last: int
    brief: str
    keep: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Boundary:
    """Everything through event ``upto`` is replaced by ``summary``."""

    id: str
    upto: int
    summary: str
    keep: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """A working context with its own folds, boundaries and memory."""

    id: str
    title: str = "main"
    status: str = "open"
    memory: tuple[Note, ...] = ()
    handoff: str = ""
    outcome: str = ""
    checkpoint: str = ""
    folds: tuple[Fold, ...] = ()
    boundaries: tuple[Boundary, ...] = ()

    @property
    def boundary(self) -> Boundary | None:
        return self.boundaries[-1] if self.boundaries else None


@dataclass(frozen=True, slots=True)
class Delta:
    """A line of the host shown after the log position ``after`` (number of log entries before it); never logged."""

    after: int
    text: str


@dataclass(frozen=True, slots=True)
class State:
    """All that the view depends on beside the log; every accepted change makes a new one, a version higher."""

    version: int = 0
    current: str = MAIN_WINDOW
    windows: dict[str, Window] = field(default_factory=lambda: {MAIN_WINDOW: Window(MAIN_WINDOW)})
    notes: tuple[Note, ...] = ()
    """Public memory, in insertion order."""
    run: int = 0
    cleared: frozenset[int] = frozenset()
    hidden: dict[int, str] = field(default_factory=dict)
    """Policy turns out of view with all their outcomes: seq -> ``control``, ``alias`` or ``dropped``."""
    shown: frozenset[tuple[int, int]] = frozenset()
    """Outcomes of rewriting turns of this Run that stay in view although the turn left it."""
    settled: int = 0
    """Read-backs of Runs before this one left the view at a rewrite."""
    deltas: tuple[Delta, ...] = ()
    rewrites: int = 0
    header: str = "notes: none\nout: none"
    """Frozen at the last rewrite (mapping D)."""
    fill_mark: int = 0

    @property
    def window(self) -> Window:
        return self.windows[self.current]

    def with_window(self, window: Window) -> State:
        return replace(self, windows={**self.windows, window.id: window})

    def note(self, key: str) -> Note | None:
        return next((n for n in self.notes if n.key == key), None)


def fold_at(window: Window, seq: int) -> Fold | None:
    """The standing fold that covers event ``seq``."""
    upto = window.boundary.upto if window.boundary else 0
    return next((f for f in window.folds if f.first <= seq <= f.last and f.last > upto), None)


def standing_folds(window: Window) -> tuple[Fold, ...]:
    """Folds beyond the boundary."""
    upto = window.boundary.upto if window.boundary else 0
    return tuple(f for f in window.folds if f.first > upto)


def reason_out(log: Log, state: State, event: Event) -> str:
    """Why an event is out of view: ``""`` (in view), ``window``, a boundary or fold id, ``cleared``, ``alias``, ``control``, ``dropped``.

    One reason only, by the precedence window, boundary, fold, cleared, alias, control, injected.
    """
    seq = event.turn if event.sub else event.seq
    window = state.window
    if event.window != window.id:
        return "window"
    if event.name == "clear" and event.sub:
        return "control"  # the cleared result says it in its own place
    if window.boundary and seq <= window.boundary.upto:
        return window.boundary.id
    fold = fold_at(window, seq)
    if fold:
        return fold.id
    if not event.sub and event.seq in state.cleared:
        return "cleared"
    if event.sub and event.name in ("read", "find") and event.run < state.settled:
        return "alias"
    if event.sub and (event.seq, event.sub) in state.shown:
        return ""
    return state.hidden.get(event.turn or event.seq, "") if event.role != "user" else ""


def exchange(log: Log, turn: int) -> tuple[int, int]:
    """First and last main event of the exchange of policy turn ``turn``: the turn and its business results."""
    last = turn
    while last < log.last and log.main(last + 1).turn == turn:
        last += 1
    return turn, last


def exchange_of(log: Log, seq: int) -> tuple[int, int]:
    """The exchange that holds main event ``seq`` (not a user message)."""
    event = log.main(seq)
    return exchange(log, event.turn if event.role == "tool" else seq)


def run_start(log: Log, run: int) -> int:
    """Main event of the user message that opened a Run."""
    for seq in range(log.last, 0, -1):
        event = log.main(seq)
        if event.role == "user" and event.run == run:
            return seq
    return log.last + 1


def turn_events(log: Log, turn: int) -> Iterator[Event]:
    """All log entries of a policy turn: itself, its results and outcomes."""
    for position in range(log.position(turn), len(log)):
        event = log[position]
        if event.turn == turn or (event.seq == turn and not event.sub):
            yield event
        elif event.role in ("user", "assistant"):
            return


def is_alias_turn(log: Log, turn: int) -> bool:
    """Whether a turn did nothing but read back and search (refused calls beside them included)."""
    names = {e.name for e in turn_events(log, turn) if e.seq != turn or e.sub}
    return (
        bool(names & {"read", "find"}) and not names & {"ok", "notice"} and all(e.role != "tool" for e in turn_events(log, turn))
    )


def after_rewrite(log: Log, state: State, turn: int | None) -> State:
    """Bookkeeping that every rewrite shares; ``turn`` is the rewriting policy turn, None for a host clear.

    Read-backs of finished Runs leave the view. The rewriting turn leaves it too, unless it holds business calls; what it asked
    to be shown (read-backs) and what was refused in it stay in view, so that no rejection passes unseen. Deltas told before are
    part of the old history and go. The caller freezes the new header.
    """
    hidden = dict(state.hidden)
    upto = state.window.boundary.upto if state.window.boundary else 0
    for seq in range(upto + 1, log.last + 1):
        event = log.main(seq)
        if event.role == "assistant" and event.run < state.run and seq not in hidden and is_alias_turn(log, seq):
            hidden[seq] = "alias"
    shown = {(seq, sub) for seq, sub in state.shown if log.main(seq).run == state.run}
    if turn is not None:
        events = [e for e in turn_events(log, turn) if e.seq != turn or e.sub]
        if not any(e.role == "tool" for e in events):
            hidden[turn] = "control"
            shown |= {(e.seq, e.sub) for e in events if e.name != "ok"}
    return replace(
        state, hidden=hidden, shown=frozenset(shown), settled=state.run, deltas=(), rewrites=state.rewrites + 1, fill_mark=0
    )
