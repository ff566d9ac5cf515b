"""Controlled omissions: what an injection does to the state of a probe's base. The index is never damaged."""

from __future__ import annotations

from dataclasses import replace

from envs.log import Log
from envs.state import Note, State, Window, after_rewrite
from envs.tasks.base import Injection
from envs.text import states


def inject(log: Log, state: State, injection: Injection) -> State:
    """The damaged state: briefs replaced, notes set to another value or gone; then a rewrite, as after any change of the view.

    The caller freezes the header. Raises ValueError when the injection names a fold or boundary that does not stand.
    """
    windows = dict(state.windows)
    todo = dict(injection.brief)
    for name, window in windows.items():
        folds = tuple(replace(f, brief=todo.pop(f.id)) if f.id in todo else f for f in window.folds)
        bounds = tuple(replace(b, summary=todo.pop(b.id)) if b.id in todo else b for b in window.boundaries)
        windows[name] = replace(window, folds=folds, boundaries=bounds)
    if todo:
        raise ValueError(f"the injection names {', '.join(todo)}, which do not stand in the prefix")
    notes = list(state.notes)
    for key, entry in injection.note.items():
        place = next((i for i, n in enumerate(notes) if n.key == key), None)
        if entry is None:
            if place is not None:
                notes.pop(place)
            continue
        value, source = entry
        note = Note(key, value, (source,), user_value=value if log.main(source).role == "user" else "")
        if place is None:
            notes.append(note)
        else:
            notes[place] = note
    for key, (value, source) in (*injection.claim.items(), *injection.old.items()):
        stated = bool(source) and states(log.main(source).text, value)
        refs = (source,) if source else ()
        status = "old" if key in injection.old else "current"
        note = Note(key, value, refs, status, standing="current" if stated else "candidate")
        notes = [*(n for n in notes if n.key != key), note]
    hidden = dict(state.hidden)
    for turn in injection.drop:
        hidden[turn] = "dropped"
        windows = {
            name: replace(w, folds=tuple(f for f in w.folds if not f.first <= turn <= f.last)) for name, w in windows.items()
        }
    state = replace(state, windows=windows, notes=tuple(notes), hidden=hidden)
    if injection.window:
        made = Window(f"w{len(windows) + 1}", title=injection.window)
        state = replace(state.with_window(made), current=made.id, moved=f"opened from {state.current}")
    return after_rewrite(log, state, None)
