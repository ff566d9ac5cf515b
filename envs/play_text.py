"""What a game in the terminal looks like: pure functions from an episode to lines, each with the name of its style.

Nothing here prints. Text of events that are out of view is in a line only where the caller asks for it (``reveal``); such lines
have the style ``hidden``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

from envs import hermes
from envs.chat import Message
from envs.compact import SHAPES
from envs.episode import Episode
from envs.header import note_line
from envs.log import Event
from envs.profiles import CHANGING, Profile
from envs.scoring import Check, Score
from envs.state import Boundary, Fold, State, reason_out
from envs.tasks.base import DAMAGED, Injection, Probe, Session, ToolSpec
from envs.trajectory import StoredOutcome

Style = Literal["head", "plain", "system", "user", "own", "good", "bad", "dim", "hidden"]
Line = tuple[Style, str]

CLIP = 100
MARKS: dict[str, Line] = {"system": ("system", "S│"), "user": ("user", "U│"), "assistant": ("own", "A│")}
HOW = {
    "right": "right",
    "abstained": "not answered (unknown)",
    "stale": "wrong: a value that is no longer in force",
    "off_target": "wrong: another value of the view",
    "fabricated": "wrong: a value that stood in no view",
    "absent": "wrong: no value given",
}
WHY = {
    "answered": "every user turn is answered",
    "unfinished": "left before the end",
    "limit_run": "too many turns of yours in one user turn",
    "limit_notices": "too many turns that were no call and no answer",
    "limit_session": "too many turns of yours in one session",
    "limit_tokens": "the tokens of the session are used up",
    "context_overflow": "the view is larger than its budget",
    "backend_error": "the backend failed",
}


def clip(text: str) -> str:
    """The beginning of a text, on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= CLIP else flat[: CLIP - 1] + "…"


def view_lines(messages: Sequence[Message]) -> list[Line]:
    """The messages of a view, every line marked with its role."""
    return [(MARKS[m.role][0], f"{MARKS[m.role][1]} {line}") for m in messages for line in m.content.split("\n")]


def news(before: Sequence[Line], now: Sequence[Line], typed: Sequence[Line] = ()) -> list[Line]:
    """What of a view is new since the one before: equal stretches in one line each, and the player's own turn left out."""
    lines: list[Line] = []
    for kind, a, b, c, d in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if kind == "equal":
            lines.append(("dim", f"… {_count(d - c, 'line')} as before"))
            continue
        if b > a:
            lines.append(("dim", f"… {_count(b - a, 'line')} gone"))
        new = list(now[c:d])
        lines += new[len(typed) :] if typed and new[: len(typed)] == list(typed) else new
    return lines


def outcome_lines(outcomes: Sequence[StoredOutcome]) -> list[Line]:
    """What became of each call. Results and read-backs stand in the next view, where they are in view: here is only which they are."""
    lines: list[Line] = []
    for o in outcomes:
        name = o.tool or "the turn"
        if o.code == "ok":
            lines.append(("good", f"← {name}: {o.text}"))
        elif o.code == "result":
            lines.append(("good", f"← {name}: result e{o.event}"))
        elif o.code == "shown":
            events = ", ".join(f"e{n}" for n in o.shows)
            lines.append(("good", f"← {name}: shown" + (f" {events}" if events else "")))
        elif o.code == "gate_overridden":
            lines.append(("bad", f"← {name}: carried out, but {o.text}"))
        else:
            lines.append(("bad", f"← {name}: {o.text}" if o.code == "notice" else f"← {name} refused: {o.text}"))
    return lines


# ---- log and state -----------------------------------------------------------------------------------------------------------


def reasons(episode: Episode, messages: Sequence[Message]) -> list[tuple[Event, str]]:
    """Every log entry with why it is out of view, ``""`` when it is in view. ``messages`` are the newest view."""
    if episode.manager is None:
        return [(e, reason_out(episode.log, episode.state, e)) for e in episode.log]
    # A manager says nothing: what it shows is what stands whole in a message.
    held = [m.content for m in messages]
    newest = episode.log.newest_turn
    return [
        (e, "" if any(e.text in text for text in held) or (e.role, e.seq) == ("assistant", newest) else "manager")
        for e in episode.log
    ]


def _event(event: Event) -> str:
    if event.sub:
        return f"{event.ref} host {event.name}"
    return f"{event.ref} {event.name}" if event.role == "tool" else f"{event.ref} {event.role}"


def log_lines(entries: Sequence[tuple[Event, str]], reveal: bool) -> list[Line]:
    """The log in order. Out of view there is the reason, and the text only to those who may see it."""
    lines: list[Line] = []
    for event, why in entries:
        indent = "   " if event.sub else " "
        if not why:
            lines.append(("plain", f"{indent}{_event(event)}: {clip(event.text)}"))
        else:
            told = f": {clip(event.text)}" if reveal else ""
            lines.append(("hidden", f"{indent}{_event(event)}  (out of view: {why}){told}"))
    return lines


def hidden_lines(entries: Sequence[tuple[Event, str]]) -> list[Line]:
    """The events out of view, with reason and beginning."""
    out = [(e, why) for e, why in entries if why]
    if not out:
        return [("hidden", "out of view: nothing")]
    head = f"out of view: {_count(len(out), 'log entry', 'log entries')}"
    return [("hidden", head), *(("hidden", f"  {_event(e)} ({why}): {clip(e.text)}") for e, why in out)]


def _range(part: Fold | Boundary) -> str:
    last, text = (part.last, part.brief) if isinstance(part, Fold) else (part.upto, part.summary)
    refs = f" @{','.join(f'e{k}' for k in part.keep)}" if part.keep else ""
    return f"{part.id} e{part.first}-e{last}: {text}{refs}"


def state_lines(episode: Episode, reveal: bool) -> list[Line]:
    """Memory, folds, boundary and windows. What other windows hold is out of view, and what lies under a boundary."""
    if not episode.rules.managed:
        return [("plain", "plain history: no notes, folds or windows")]
    state, window = episode.state, episode.state.window
    lines = [
        f"version {state.version}, window {window.id} {window.title}, {_count(state.rewrites, 'rewrite')}",
        *(["notes:", *(f"  {note_line(n)}" for n in state.notes)] if state.notes else ["notes: none"]),
    ]
    if window.memory:
        lines += [f"{window.id} notes:", *(f"  {note_line(n)}" for n in window.memory)]
    lines += [f"{name}: {text}" for name, text in (("handoff", window.handoff), ("checkpoint", window.checkpoint)) if text]
    parts: list[Fold | Boundary] = [*([window.boundary] if window.boundary else []), *window.folds]
    lines += [f"{'fold' if isinstance(p, Fold) else 'boundary'} {_range(p)}" for p in parts] or ["folds: none"]
    lines += [f"finished stage e{s.first}-e{s.last}, not folded yet: {s.outcome}" for s in state.stages]
    out: list[Line] = [("plain", text) for text in lines]
    if reveal:
        out += [("hidden", f"  under {window.boundary.id}: fold {_range(f)}") for f in window.covered if window.boundary]
    for other in (w for w in state.windows.values() if w.id != window.id):
        done = f": {other.outcome}" if other.outcome else ""
        out.append(("plain", f"window {other.id} {other.title}, {other.status}{done}"))
        if reveal:
            held = [("checkpoint", other.checkpoint), *(("note", note_line(n)) for n in other.memory)]
            held += [("fold", _range(f)) for f in other.folds]
            out += [("hidden", f"  {other.id} {name}: {text}") for name, text in held if text]
    return out


def damage_lines(probe: Probe, before: State, after: State) -> list[Line]:
    """What the injection of a probe changed, from the states of the same probe without it and with it."""
    kind = f"probe {probe.id}: {probe.variant}, signal {probe.signal}"
    if probe.injection == Injection():
        return [("hidden", f"{kind}; nothing was damaged")]
    lines = [kind]
    for name, text in probe.injection.brief.items():
        parts: list[Fold | Boundary] = [f for w in before.windows.values() for f in w.folds if f.id == name]
        parts += [b for w in before.windows.values() for b in w.boundaries if b.id == name]
        lines += [f"  damaged {_range(p)}" for p in parts] + [f"       now {name}: {text}"]
    for key, entry in probe.injection.note.items():
        old, new = before.note(key), after.note(key)
        told = note_line(old) if old else f"no note {key}"
        lines.append(f"  damaged note {told}  now {note_line(new) if new and entry else 'gone'}")
    return [("hidden", text) for text in lines]


# ---- contract ----------------------------------------------------------------------------------------------------------------


def tool_lines(profile: Profile, tools: Sequence[ToolSpec]) -> list[Line]:
    """Every call of the contract by an example, and the limits."""
    about = {internal: (model.__doc__ or "") for internal, model, _ in hermes.TOOLS.values()}
    about["local"] = "Store one value in the memory of this window alone."
    lines: list[Line] = []
    for name in profile.tools:
        example = _example(name, profile)
        if example:
            lines += [("own", line) for line in example.split("\n")] + [("dim", f"    {about.get(name, '')}")]
    for tool in tools:
        args = dict.fromkeys(tool.args, "...")
        json = profile.syntax == "json"
        line = hermes.spell(tool.name, args) if json else " ".join([tool.name, *(f"{n}={v}" for n, v in args.items())])
        lines += [("own", text) for text in line.split("\n")] + [("dim", "    A business tool: put your values for the dots.")]
    limits = [f"a view of {profile.view_budget} tokens", f"{profile.inferences_per_run} turns of yours a user turn"]
    if profile.managed:
        limits.append(f"{_most(profile.max_notes)} notes of {_most(profile.note_tokens)} tokens")
    if {"fold", "stage_done"} & set(profile.tools):
        limits.append(f"{profile.max_folds} folds standing")
    return [*lines, ("own", "anything else: your answer"), ("dim", f"    Limits: {', '.join(limits)}.")]


def _example(name: str, profile: Profile) -> str:
    placed = profile.position_check and name in CHANGING
    by_agent = profile.compress_by == "agent" and name == "compress"
    if profile.syntax == "compact":
        return ("w1 " if placed or (profile.position_check and name == "local") else "") + (
            "compress e9" if by_agent else SHAPES[name]
        )
    given: Mapping[str, Any] | None = next((args for internal, _, args in hermes.TOOLS.values() if internal == name), None)
    if given is None:
        return ""
    args = {k: v for k, v in given.items() if not (by_agent and k == "text")}
    return hermes.spell(name, args | ({"expected": "w1"} if placed else {}), lean=profile.lean)


def _most(limit: int | None) -> str:
    return "any number of" if limit is None else str(limit)


# ---- verdicts ----------------------------------------------------------------------------------------------------------------


def turn_lines(result: Score, turn: int, session: Session, stated: Mapping[str, Sequence[int]], reveal: bool) -> list[Line]:
    """The verdict on the answer of one user turn, slot by slot; what would have been right only to those who may see it."""
    lines: list[Line] = []
    for check in (c for c in result.checks if c.turn == turn):
        slot = next(s for s in session.turns[turn].slots if s.name == check.slot)
        right = check.verdict == "right"
        told = f"{'✓' if right else '✗'} {check.slot}: {_how(check)}"
        lines.append(("good" if right else "bad", told))
        if reveal and not right:
            where = ", ".join(f"e{n}" for n in stated.get(slot.key, ()))
            lines.append(("hidden", f"    right is {slot.accept[0]}" + (f", stated in {where}" if where else "")))
    return lines or [("dim", "nothing was asked that can be checked")]


def _how(check: Check) -> str:
    if check.never and check.verdict == "right":
        return "right: it was never told"
    return HOW.get(check.how, check.how)


def end_lines(result: Score, turns: int) -> list[Line]:
    """The verdict on the whole game. ``turns`` user turns were played to their end or begun."""
    right = sum(c.verdict == "right" for c in result.checks)
    lines: list[Line] = [
        ("head", f"ended: {result.reason} ({WHY.get(result.reason, 'a limit')})"),
        (
            "good" if result.task_correct else "bad",
            f"{right} of {_count(len(result.checks), 'slot')} right in {_count(turns, 'user turn')}, quality q {result.q:.2f}",
        ),
        (
            "plain",
            f"{result.tokens:,} tokens: {result.tokens_in:,} read, {result.tokens_out:,} written, in "
            f"{_count(result.inferences, 'inference')}; largest view {result.peak:,}; {_count(result.rewrites, 'rewrite')}, "
            f"{_count(len(result.reads), 'read-back')}",
        ),
    ]
    if result.variant in DAMAGED:
        reached = ", ".join(step for step, done in result.funnel.items() if done) or "nothing"
        told = f"damaged probe ({result.variant}): {'recovered' if result.recovered else 'not recovered'}; reached: {reached}"
        lines.append(("good" if result.recovered else "bad", told))
    elif result.variant:
        lines.append(("plain", f"probe without damage ({result.variant})"))
    return lines


def _count(n: int, word: str, many: str = "") -> str:
    return f"{n:,} {word if n == 1 else many or word + 's'}"
