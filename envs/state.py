"""State of the protocol and its transitions, all pure: ``(log, state, …) -> state``.

Folds, boundary, window memory, hand-over and checkpoint belong to a window; public notes belong to the task.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from envs.log import Event, Log

MAIN_WINDOW = "w1"
ALIASES = {"read", "find", "recall", "list"}
"""Outcomes that show again what the log or the header holds."""


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

    @property
    def in_force(self) -> bool:
        """Stands as current, by the policy's word and the host's."""
        return self.status == "current" and self.standing == "current"


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
    """What its window holds from event ``first`` through ``upto`` is replaced by ``summary``."""

    id: str
    upto: int
    summary: str
    keep: tuple[int, ...] = ()
    first: int = 1


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
    """Standing folds, in the order they were made; what a boundary covers moves to ``covered``."""
    covered: tuple[Fold, ...] = ()
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
class Gap:
    """A stretch of events out of view, with its reason (several in an entry that merges old ones) and counts by role."""

    first: int
    last: int
    reasons: tuple[str, ...]
    user: int = 0
    own: int = 0
    tool: int = 0

    def __str__(self) -> str:
        span = f"e{self.first}" if self.first == self.last else f"e{self.first}-e{self.last}"
        counts = [f"{n} {word}" for n, word in ((self.user, "user"), (self.own, "own"), (self.tool, "tool")) if n]
        if self.reasons == ("control",):
            counts = []
        return " ".join([span, _joined(self.reasons), *counts])


def _joined(reasons: tuple[str, ...]) -> str:
    """Reasons of one entry, runs of folds as ``f1-f4``: a merged entry stays short however many folds it takes in."""
    runs: list[list[str]] = []
    for reason in reasons:
        held = runs[-1][-1] if runs else ""
        if held[:1] == "f" == reason[:1] and int(reason[1:]) == int(held[1:]) + 1:
            runs[-1].append(reason)
        else:
            runs.append([reason])
    return "+".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


@dataclass(frozen=True, slots=True)
class Stage:
    """A finished stage under ``lean@1``: its exchanges wait for the host to fold them."""

    first: int
    last: int
    outcome: str
    keep: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """All that the view depends on beside the log; every accepted change makes a new one, a version higher."""

    version: int = 0
    current: str = MAIN_WINDOW
    windows: dict[str, Window] = field(default_factory=lambda: {MAIN_WINDOW: Window(MAIN_WINDOW)})
    notes: tuple[Note, ...] = ()
    """Public memory, in insertion order."""
    run: int = 0
    protect: int = 0
    """The Run at the last rewrite: from here on, user messages are in view wherever they were made."""
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
    index: tuple[Gap, ...] = ()
    """What is out of view: exact, and the same until the next rewrite."""
    fill_mark: int = 0
    moved: str = ""
    """Hand-over status: how the current window was entered."""
    made: tuple[int, int] = (0, 0)
    """Folds and boundaries made so far: their ids are never used twice."""
    stages: tuple[Stage, ...] = ()
    admitted: bool = True
    """False while a profile with an admission length still shows plain history."""
    overlaid: frozenset[int] = frozenset()
    """Main events that a session file's damage takes out of view, whatever they are; no call can put one here."""

    @property
    def window(self) -> Window:
        return self.windows[self.current]

    def with_window(self, window: Window) -> State:
        return replace(self, windows={**self.windows, window.id: window})

    def note(self, key: str, scope: str = "public") -> Note | None:
        return next((n for n in self.memory(scope) if n.key == key), None)

    def memory(self, scope: str) -> tuple[Note, ...]:
        """Entries of a scope: ``public`` or ``window`` (the current one)."""
        return self.window.memory if scope == "window" else self.notes

    def with_memory(self, scope: str, notes: tuple[Note, ...]) -> State:
        return self.with_window(replace(self.window, memory=notes)) if scope == "window" else replace(self, notes=notes)


def fold_at(window: Window, seq: int) -> Fold | None:
    """The standing fold that covers event ``seq``."""
    return next((f for f in window.folds if f.first <= seq <= f.last), None)


def reason_out(log: Log, state: State, event: Event) -> str:
    """Why an event is out of view: ``""`` (in view), a window, boundary or fold id, ``cleared``, ``alias``, ``control``, ``dropped``.

    One reason only, by the precedence window, boundary, fold, cleared, alias, control, injected.
    """
    if event.seq in state.overlaid and not event.sub:
        return "dropped"
    if event.role == "user" and event.run >= state.protect:
        return ""
    seq = event.turn if event.sub else event.seq
    window = state.window
    if event.window != window.id:
        return event.window
    if event.sub and event.name in ("clear", "host_fold", "gate_overridden", "maintenance"):
        return "control"  # what they did shows in its own place
    if window.boundary and seq <= window.boundary.upto:
        return window.boundary.id
    fold = fold_at(window, seq)
    if fold:
        return fold.id
    if not event.sub and event.seq in state.cleared:
        return "cleared"
    if event.sub and event.name in ALIASES and event.run < state.settled:
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


def last_before(log: Log, window: str, seq: int) -> int:
    """The last main event of a window before event ``seq``; 0 when there is none."""
    places = log.places(window)
    place = bisect_left(places, log.position(seq) if seq <= log.last else len(log)) - 1
    while place >= 0 and log[places[place]].sub:
        place -= 1
    return log[places[place]].seq if place >= 0 else 0


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
        bool(names & ALIASES) and not names & {"ok", "moved", "notice"} and all(e.role != "tool" for e in turn_events(log, turn))
    )


def after_rewrite(log: Log, state: State, turn: int | None) -> State:
    """Bookkeeping that every rewrite shares; ``turn`` is the policy turn that leaves the view with it, None when none does.

    Read-backs of finished Runs leave the view. The turn leaves it too, unless it holds business calls; what it asked to be shown
    (read-backs) and what was refused in it stay in view, so that no rejection passes unseen. Deltas told before are part of the
    old history and go. The caller freezes the new header.
    """
    boundary = state.window.boundary
    hidden = dict(state.hidden)
    for seq in range(log.run_start(state.settled), log.run_start(state.run)):
        if log.main(seq).role == "assistant" and seq not in hidden and is_alias_turn(log, seq):
            hidden[seq] = "alias"
    if boundary:  # covered for good: the boundary is the reason from now on
        hidden = {s: r for s, r in hidden.items() if s > boundary.upto or log.main(s).window != state.current}
    shown = {(seq, sub) for seq, sub in state.shown if log.main(seq).run == state.run}
    if turn is not None:
        events = [e for e in turn_events(log, turn) if e.seq != turn or e.sub]
        if not any(e.role == "tool" for e in events):
            hidden[turn] = "control"
            shown |= {(e.seq, e.sub) for e in events if e.name not in ("ok", "moved")}
    return replace(
        state, hidden=hidden, shown=frozenset(shown), settled=state.run, protect=state.run, deltas=(), rewrites=state.rewrites + 1,
        fill_mark=0,
    )  # fmt: skip
