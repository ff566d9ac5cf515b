"""``render(log, state, …) -> View``: what the policy sees at one inference. Pure and deterministic, never reads ground truth.

System message (prompt, tool contract, header), then history in order of the log: a fold or boundary stands where its range
began. Everything that is not the policy's own turn is ``user``; neighbouring host blocks join by a line feed.
"""

from __future__ import annotations

from dataclasses import dataclass

from envs.chat import ChatML, Message
from envs.log import Event, Log
from envs.policies.base import View
from envs.profiles import Profile
from envs.state import Note, State, fold_at, reason_out


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch of events out of view for one reason."""

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
    out: list[str] = []
    for run in _runs(reasons):
        out.append(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return "+".join(out)


def _runs(reasons: tuple[str, ...]) -> list[list[str]]:
    runs: list[list[str]] = []
    for reason in reasons:
        held = runs[-1][-1] if runs else ""
        if held[:1] == "f" == reason[:1] and int(reason[1:]) == int(held[1:]) + 1:
            runs[-1].append(reason)
        else:
            runs.append([reason])
    return runs


def gaps(log: Log, state: State) -> list[Gap]:
    """All stretches of main events out of view, in order, neighbours of one reason merged. Always exact."""
    found: list[Gap] = []
    for seq in range(1, log.last + 1):
        event = log.main(seq)
        reason = reason_out(log, state, event)
        if not reason:
            continue
        reason = "control" if reason == "alias" else reason
        user, own, tool = (int(event.role == r) for r in ("user", "assistant", "tool"))
        held = found[-1] if found else None
        if held and held.last == seq - 1 and held.reasons == (reason,):
            found[-1] = Gap(held.first, seq, held.reasons, held.user + user, held.own + own, held.tool + tool)
        else:
            found.append(Gap(seq, seq, (reason,), user, own, tool))
    return found


def merge_oldest(found: list[Gap], lines: int) -> list[Gap]:
    """At most ``lines`` entries: past that, the oldest are merged into one with all their reasons and counts."""
    extra = len(found) - lines
    if extra <= 0:
        return found
    old = found[: extra + 1]
    reasons = tuple(dict.fromkeys(r for g in old for r in g.reasons))
    merged = Gap(old[0].first, old[-1].last, reasons, *(sum(getattr(g, n) for g in old) for n in ("user", "own", "tool")))
    return [merged, *found[extra + 1 :]]


def note_line(note: Note) -> str:
    """``key=value @e12[ old| open| candidate| pending][ was @e2]``: one source, the first that states the value."""
    refs = f" @e{note.refs[0]}" if note.refs else ""
    mark = note.status if note.status != "current" else note.standing
    return (
        f"{note.key}={note.value}{refs}" + (f" {mark}" if mark != "current" else "") + (f" was @e{note.was}" if note.was else "")
    )


def header(log: Log, state: State, profile: Profile) -> str:
    """The context header: public notes and the omission index."""
    notes = "\n".join(["notes:", *map(note_line, state.notes)]) if state.notes else "notes: none"
    index = merge_oldest(gaps(log, state), profile.index_lines)
    return f"{notes}\nout: {'; '.join(map(str, index)) or 'none'}"


def block(event: Event, state: State, chat: ChatML, tagged: bool) -> str:
    """The text of one host-rendered event."""
    if event.role == "host" or not tagged:
        return event.text
    if event.role == "user":
        return f"[e{event.seq} user] {event.text}"
    if event.seq in state.cleared:
        return f"[e{event.seq} {event.name}] cleared {chat.count(event.text)} tokens"
    return f"[e{event.seq} {event.name}] {event.text}"


def fold_block(fold_id: str, first: int, last: int, text: str, keep: tuple[int, ...]) -> str:
    """The line that stands for a fold or a boundary: ``[f1 e2-e3] brief @e3``."""
    refs = f" @{','.join(f'e{k}' for k in keep)}" if keep else ""
    return f"[{fold_id} e{first}-e{last}] {text}{refs}"


def history(log: Log, state: State, profile: Profile, chat: ChatML) -> tuple[list[Message], frozenset[int]]:
    """The messages after the system message, and the events whose full text stands in them."""
    messages: list[Message] = []
    host: list[str] = []
    visible: set[int] = set()
    seen: set[str] = set()
    deltas = list(state.deltas)

    def flush() -> None:
        if host:
            messages.append(Message("user", "\n".join(host)))
            host.clear()

    boundary = state.window.boundary
    if boundary:
        host.append(fold_block(boundary.id, 1, boundary.upto, boundary.summary, boundary.keep))
    start = log.position(boundary.upto) + 1 if boundary else 0
    for position in range(start, len(log)):
        while deltas and deltas[0].after <= position:
            host.append(deltas.pop(0).text)
        event = log[position]
        reason = reason_out(log, state, event)
        if reason and reason != "cleared":
            fold = fold_at(state.window, event.turn if event.sub else event.seq)
            if fold and fold.id == reason and fold.id not in seen:
                seen.add(fold.id)
                host.append(fold_block(fold.id, fold.first, fold.last, fold.brief, fold.keep))
            continue
        if event.role == "assistant":
            flush()
            messages.append(Message("assistant", event.text, event.ids))
        else:
            host.append(block(event, state, chat, profile.managed))
        if not event.sub and not reason:
            visible.add(event.seq)
    host.extend(d.text for d in deltas)
    flush()
    return messages, frozenset(visible)


def render(log: Log, state: State, profile: Profile, chat: ChatML, system: str) -> View:
    """The view of the policy. ``system`` is prompt and tool contract, fixed for the episode."""
    head = f"{system}\n{state.header}" if profile.managed else system
    messages, visible = history(log, state, profile, chat)
    messages.insert(0, Message("system", head))
    out = [str(g) for g in gaps(log, state)] if profile.managed else []
    return View(messages, chat.render(messages), out, visible)
