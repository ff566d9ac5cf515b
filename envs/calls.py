"""What carrying out a call is made of: the host's side of it, its outcome, its refusal, and what references mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envs import compact, hermes
from envs.chat import ChatML
from envs.compact import Call
from envs.log import Log
from envs.profiles import CHANGING, Profile
from envs.state import State, turn_events
from envs.tasks.base import Session


class Rejected(Exception):  # noqa: N818  (an outcome of the protocol, not an error)
    """A call that the host refuses: ``code``, one line of reason, the valid alternative."""

    def __init__(self, code: str, why: str, instead: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code, self.why, self.instead = code, why, instead

    @property
    def line(self) -> str:
        return f"! {self.code}: {self.why}; try {self.instead}"


@dataclass(frozen=True, slots=True)
class Done:
    """An accepted call: its outcome text, the outcome's name in the log, events whose text it shows.

    ``rewrite`` says that the view changes; ``leaves`` that the calling turn goes with it (a move stays in the window it left).
    """

    state: State
    text: str
    name: str
    shows: tuple[int, ...] = ()
    rewrite: bool = False
    leaves: bool = True


@dataclass(frozen=True, slots=True)
class Host:
    """What a call is carried out on: the log so far (the calling turn included), the rules, and the calling turn."""

    log: Log
    profile: Profile
    chat: ChatML
    session: Session
    turn: int

    def say(self, state: State, tool: str, **args: Any) -> str:
        """A call as the policy would write it, in its syntax and with the window it is in: what a refusal offers instead."""
        if self.profile.position_check and tool in CHANGING:
            args["expected"] = state.current
        if self.profile.syntax == "json":
            return hermes.example(tool, args, lean=self.profile.lean)
        return compact.spell(tool, args)


def resolve(host: Host, state: State, refs: tuple[str, ...]) -> tuple[int, ...]:
    """Events that references mean: ``f1`` and ``c1`` mean their range, a read-back turn its originals. Rejects unknown ones."""
    found: list[int] = []
    for ref in refs:
        for seq in events_of(host, state, ref):
            found += (ref[0] == "e" and aliases_of(host, seq)) or [seq]
    return tuple(dict.fromkeys(found))


def aliases_of(host: Host, seq: int) -> list[int]:
    """The originals that a read-back turn shows; none for any other event."""
    if host.log.main(seq).role != "assistant":
        return []
    return [s for e in turn_events(host.log, seq) if e.sub for s in e.shows]


def events_of(host: Host, state: State, ref: str) -> Sequence[int]:
    """Events of one reference; a boundary means what its own window holds of the range. Rejects unknown ones."""
    first, last = span(host, state, ref)
    if ref[0] != "c":
        return range(first, last + 1)
    window = next(w.id for w in state.windows.values() for b in w.boundaries if b.id == ref)
    return [s for s in range(first, last + 1) if host.log.main(s).window == window]


def span(host: Host, state: State, ref: str) -> tuple[int, int]:
    """First and last event of one reference. Rejects unknown ones; the calling turn itself is not there yet."""
    last = host.turn - 1
    if ref[0] == "e":
        seq = int(ref[1:])
        if seq > last:
            raise Rejected("unknown_ref", f"no {ref}, the log ends at e{last}", f"e1 to e{last}")
        return seq, seq
    for window in state.windows.values():
        for fold in (*window.folds, *window.covered):
            if fold.id == ref:
                return fold.first, fold.last
        for boundary in window.boundaries:
            if boundary.id == ref:
                return boundary.first, boundary.upto
    ids = [f.id for f in (*state.window.covered, *state.window.folds)] + [b.id for b in state.window.boundaries]
    raise Rejected("unknown_ref", f"no {ref}", ", ".join(ids[-4:]) or "an event such as e1")


def limit_text(host: Host, name: str, text: str, most: int, instead: str) -> None:
    """Refuse a text of more than ``most`` tokens, or one that breaks the line it will stand in."""
    if "\n" in text:
        raise Rejected("bad_arguments", f"{name} stands on one line", instead)
    size = host.chat.count(text)
    if size > most:
        raise Rejected("limit_exceeded", f"{size} tokens, {name} has at most {most}", instead)


def check_position(host: Host, state: State, call: Call) -> None:
    """Where the profile checks positions, refuse a changing call that expects another window than the current one."""
    if host.profile.position_check and call.tool in CHANGING and call.args.get("expected") != state.current:
        given = call.args.get("expected") or "no window"
        raise Rejected("wrong_window", f"you are in {state.current}, not {given}", f"the call with {state.current}")
