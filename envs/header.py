"""The texts that the host derives from the state: context header, conflicts, state block. Never logged, never a tool result."""

from __future__ import annotations

from envs.index import merge_oldest
from envs.log import Log
from envs.profiles import Profile
from envs.state import Note, State
from envs.text import same_value

CONFLICTS = 4
"""Conflicts that the header lists; the outcome of a write names each."""
ELSEWHERE = 6
"""Calls of this Run in other windows that the header lists, newest last."""


def note_line(note: Note) -> str:
    """``key=value @e12[ old| open| candidate| pending][ was @e2]``: one source, the first that states the value."""
    refs = f" @e{note.refs[0]}" if note.refs else ""
    mark = note.status if note.status != "current" else note.standing
    return (
        f"{note.key}={note.value}{refs}" + (f" {mark}" if mark != "current" else "") + (f" was @e{note.was}" if note.was else "")
    )


def conflicts(state: State) -> list[tuple[Note, Note]]:
    """Keys with two current values in view: the public entry and the current window's."""
    mine = {n.key: n for n in state.window.memory if n.in_force}
    return [
        (note, mine[note.key])
        for note in state.notes
        if note.in_force and note.key in mine and not same_value(note.value, mine[note.key].value)
    ]


def conflict_text(state: State, pair: tuple[Note, Note]) -> str:
    """``budget: public 9800 @e1, w2 9000 @e8``."""
    sides = zip(("public", state.current), pair, strict=True)
    return f"{pair[0].key}: " + ", ".join(f"{side} {n.value}" + (f" @e{n.refs[0]}" if n.refs else "") for side, n in sides)


def state_block(state: State) -> str:
    """Where the policy is now: window, state version, how the window was entered."""
    window = state.window
    moved = f", {state.moved}" if state.moved else ""
    return f"[state] window {window.id} {window.title}, version {state.version}{moved}"


def header(log: Log, state: State, profile: Profile) -> str:
    """The context header: memories, windows, conflicts and the omission index."""
    notes = "\n".join(["notes:", *map(note_line, state.notes)]) if state.notes else "notes: none"
    lines = [notes, *(_window_lines(log, state) if profile.windows else [])]
    if profile.conflict_flags and (found := conflicts(state)):
        lines.append("conflicts: " + "; ".join(conflict_text(state, pair) for pair in found[:CONFLICTS]))
    if profile.index:
        entries = merge_oldest(list(state.index), profile.index_lines)
        lines.append("out: " + ("; ".join(map(str, entries)) or "none"))
    if profile.state_block and profile.mapping in "AD":
        lines.append(state_block(state))
    return "\n".join(lines)


def _window_lines(log: Log, state: State) -> list[str]:
    window = state.window
    lines = [f"window {window.id} {window.title}"]
    lines += [f"{name}: {text}" for name, text in (("handoff", window.handoff), ("checkpoint", window.checkpoint)) if text]
    lines += [f"{window.id} notes:", *map(note_line, window.memory)] if window.memory else [f"{window.id} notes: none"]
    others = [w for w in state.windows.values() if w.id != window.id]
    if others:
        told = (f"{w.id} {w.title} {w.status}" + (f": {w.outcome}" if w.outcome else "") for w in others)
        lines.append("windows: " + "; ".join(told))
    acts = log.acts_elsewhere(state.run, window.id, ELSEWHERE)
    if acts:
        lines.append("elsewhere: " + "; ".join(f"e{seq} {place} {name}" for seq, place, name in acts))
    return lines
