"""Scripted policies that a sound metric must tell apart from a good one. All are functions of the view."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from envs.chat import ChatML
from envs.policies.base import Sampled, View
from envs.policies.expert import Expert, Mind
from envs.policies.knowledge import Known
from envs.policies.reading import read_request, slot_kind
from envs.policies.seen import Block, read_view, spec_of
from envs.tasks.spec import FamilySpec


class NeverRead(Expert):
    """The expert without read-back: what is not in view is ``unknown``, what is in view is believed."""

    name = "never_read"

    def text(self, view: View) -> str:
        return _Blind(view, self.chat, self.budget).act()


class _Blind(Mind):
    def check(self, entity: str, attr: str, known: Known | None) -> str:
        return ""

    def look_everywhere(self) -> str:
        return ""

    def search(self, searches: Sequence[str], events: Callable[[Block], list[int]]) -> str:
        return ""


class AlwaysRead(Expert):
    """Reads every fold and boundary in view again before each answer, then does as the expert does."""

    name = "always_read"

    def text(self, view: View) -> str:
        mind = Mind(view, self.chat, self.budget)
        move = mind.act()
        if "=" not in move.split(" ", 1)[0] or not mind.seen.managed:
            return move
        done = {o.text for o in mind.seen.own if o.place > mind.question.place}
        refs = [f"read {(b.keep and f'e{b.keep[-1]}') or b.name}" for b in mind.seen.of("fold", "boundary")]
        left = [r for r in refs if r not in done and not mind.was_read(int(r[6:]) if r[5] == "e" else 0)]
        return left[0] if left else move


class Abstainer(Expert):
    """Plays along and answers ``unknown`` to every question."""

    name = "abstainer"

    def text(self, view: View) -> str:
        mind = Mind(view, self.chat, self.budget)
        move = _Blind(view, self.chat, self.budget).act()
        return "; ".join(f"{s}=unknown" for s in mind.request.slots) if "=" in move.split(" ", 1)[0] else move


class Fabricator(Expert):
    """Never reads; where a value is not in view it invents one of the right kind, and never abstains."""

    name = "fabricator"

    def text(self, view: View) -> str:
        move = _Blind(view, self.chat, self.budget).act()
        if "unknown" not in move:
            return move
        return _invent(view, move)


def _invent(view: View, move: str) -> str:
    spec = spec_of(view.messages)
    rng = random.Random(view.messages[-1].content)
    parts = []
    request = read_request(spec, read_view(view.messages).question.text)
    for part in move.split("; "):
        name, _, value = part.partition("=")
        kind = slot_kind(spec, request, name)
        parts.append(f"{name}={spec.draw(kind, rng) if value == 'unknown' else value}")
    return "; ".join(parts)


class LastValue(Expert):
    """Plays along and answers with the last text of the right kind that stands in the view: what a pattern alone can do."""

    name = "last_value"

    def text(self, view: View) -> str:
        mind = Mind(view, self.chat, self.budget)
        move = _Blind(view, self.chat, self.budget).act()
        if "=" not in move.split(" ", 1)[0]:
            return move
        text = "\n".join(m.content for m in view.messages)
        found = {s: _values(mind.spec, slot_kind(mind.spec, mind.request, s), text) for s in mind.request.slots}
        return "; ".join(f"{s}={values[-1] if values else 'unknown'}" for s, values in found.items())


def _values(spec: FamilySpec, kind: str, text: str) -> list[str]:
    """Every text of a kind, none that is part of a longer number or code."""
    return [m.group() for m in re.finditer(rf"(?<![A-Za-z0-9_-])(?:{spec.pattern(kind)})(?![A-Za-z0-9_-])", text)]


class ClosedBook:
    """Sees the last user message alone and guesses: a value of the right kind, or one that the message itself contains."""

    name = "closed_book"

    def __init__(self, chat: ChatML, budget: int | None = None) -> None:
        self.chat = chat

    def text(self, view: View) -> str:
        spec = spec_of(view.messages)
        question = read_view(view.messages).question.text
        request = read_request(spec, question)
        rng = random.Random(question)
        values = []
        for slot in request.slots:
            kind = slot_kind(spec, request, slot)
            values.append(
                f"{slot}={rng.choice((spec.words.yes[0], spec.words.no[0])) if slot == 'over' else spec.draw(kind, rng)}"
            )
        return "; ".join(values)

    def act(self, views: Sequence[View]) -> list[Sampled]:
        texts = [self.text(v) for v in views]
        return [Sampled(self.chat.turn_ids(t), t) for t in texts]


SCRIPTED = {p.name: p for p in (Expert, NeverRead, AlwaysRead, Abstainer, Fabricator, LastValue, ClosedBook)}
__all__ = ["SCRIPTED", "Abstainer", "AlwaysRead", "ClosedBook", "Fabricator", "LastValue", "NeverRead"]
