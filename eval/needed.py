"""Of a failure: was what it needed in the exact input that the reply was written from? From the record alone, never an opinion.

``eval replay`` proves that the views read here are, id for id, the inputs that were stored when the model was asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from envs.scoring import Score, normal_form
from envs.text import holds
from envs.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Needed:
    """What one wrong answer slot needed.

    ``events`` state the value that was asked; ``missing`` are those of them whose text the last input of the turn did not show.
    ``value`` says whether an accepted form of the answer stood in that input. ``in_input`` is None where the log never
    states the fact, so that nothing was needed.
    """

    turn: int
    slot: str
    events: tuple[int, ...]
    missing: tuple[int, ...]
    value: bool
    in_input: bool | None


def needed_in_input(trajectory: Trajectory, scored: Score) -> list[Needed]:
    """Of every slot that was not answered right, in order."""
    last = {i.turn: number for number, i in enumerate(trajectory.inferences) if i.kind != "maintenance"}
    views = list(trajectory.views())
    found = []
    for check in (c for c in scored.checks if c.verdict != "right"):
        slot = next(s for s in trajectory.session.turns[check.turn].slots if s.name == check.slot)
        events = tuple(trajectory.stated.get(slot.key, ()))
        text, shown = "", set[int]()
        if (place := last.get(check.turn)) is not None:
            text = "\n".join(m.content for m in views[place])
            shown = {*trajectory.inferences[place].visible, *_read_back(trajectory, place, text)}
        value = any(holds(normal_form(text), normal_form(form)) for form in slot.accept)
        missing = tuple(e for e in events if e not in shown)
        # A sum or a comparison stands in no text: an event that states what it is made of is needed.
        inside = len(missing) < len(events) if check.source == "derived" else value
        found.append(Needed(check.turn, check.slot, events, missing, value, None if check.never else inside))
    return found


def _read_back(trajectory: Trajectory, place: int, text: str) -> set[int]:
    """Events whose text earlier read-backs put into this input."""
    outcomes = (o for i in trajectory.inferences[:place] for o in i.outcomes if o.code == "shown")
    return {e for o in outcomes if o.text in text for e in o.shows}


def needed_of(trajectory: Trajectory, scored: Score) -> bool | None:
    """Of an episode: of the first wrong slot; None where all are right, or where nothing was needed."""
    found = needed_in_input(trajectory, scored)
    return found[0].in_input if found else None


def summary(found: Iterable[bool | None]) -> dict[str, int]:
    """How many failures had it, how many had not (those that needed nothing are in neither)."""
    counted = Counter(found)
    return {"in_input": counted[True], "not_in_input": counted[False]}
