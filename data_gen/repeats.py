"""Needless repeats for the ``recovery`` kind: the expert does once more what is done already, and then gets on without it.

An old call replayed after a return to its record, a text read although it stands in view, words searched twice, a note written twice.
The host refuses the last alone; the others only cost tokens, so nothing but their label tells that they are errors.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from envs.policies.base import Sampled, View
from envs.policies.expert import Expert, Mind
from envs.tasks.base import Session


class Repeating:
    """The expert with one needless repeat at step ``at``, masked; without one it plays as ever and lists what it could repeat."""

    name = "repeating_expert"

    def __init__(self, expert: Expert, changed: Collection[str], at: int = -1, label: str = "") -> None:
        self.expert, self.changed, self.at, self.label = expert, changed, at, label
        self.options: list[tuple[int, str]] = []
        """``(step, label)`` of every repeat that was possible."""
        self._calls: list[tuple[int, str]] = []  # the event of the question that each business call was made for
        self._step = -1

    def act(self, views: Sequence[View]) -> list[Sampled]:
        """Turns for the views of one episode (one view a call)."""
        (view,) = views
        self._step += 1
        mind = self.expert.mind(view)
        move = mind.act()
        found = self._repeats(mind, move)
        self.options += [(self._step, label) for label in found]
        if self._step == self.at:
            text = self.expert.spell(view, found[self.label])
            return [Sampled(self.expert.chat.turn_ids(text), text, trained=False, error=self.label)]
        if move == mind.request.call:
            self._calls.append((mind.question.first, move))
        text = self.expert.spell(view, move)
        return [Sampled(self.expert.chat.turn_ids(text), text)]

    def _repeats(self, mind: Mind, move: str) -> dict[str, str]:
        """What could be repeated before this move: label -> turn."""
        found: dict[str, str] = {}
        own = [o.text for o in mind.seen.own if o.place > mind.question.place]
        answers = "=" in move.split(" ", 1)[0]
        old = [call for question, call in self._calls if question < mind.question.first]
        # Only records without a later change: the old call's result would pass for the newest word.
        old = [call for call in old if not any(call.endswith(f"={e}") or f"={e} " in call for e in self.changed)]
        if answers and old:
            found["replayed"] = old[0]
        reads = [text for text in own if text.startswith("read ")]
        shown = [b.first for b in mind.seen.of("result") if b.place > mind.question.place]
        if answers and (reads or shown):
            found["read_again"] = reads[-1] if reads else f"read e{shown[-1]}"
        searches = [text for text in own if text.startswith("find ")]
        if searches and move not in searches:
            found["search_again"] = searches[-1]
        noted = [(key, n) for key, n in mind.seen.notes.items() if n.source and not n.status]
        if noted:
            key, note = noted[-1]
            found["note_again"] = f"note {key}={note.value} @e{note.source}"
        return {label: text for label, text in found.items() if text != move}


def changed_records(session: Session) -> set[str]:
    """Records that a later call of the session changes."""
    change = session.tools[1].name
    return {call.split("=", 1)[1] for call in session.responses if call.split(" ", 1)[0] == change}


def choose(options: Sequence[tuple[int, str]], rng: random.Random) -> tuple[int, str] | None:
    """One of the possible repeats: every label that is possible is as likely as another, then every step."""
    if not options:
        return None
    label = rng.choice(sorted({name for _, name in options}))
    return rng.choice([o for o in options if o[1] == label])
