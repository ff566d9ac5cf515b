"""What the user's messages say about a standing rule: the rule, exceptions, their end and return, and consent for once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from envs.policies.reading import bare, entity_fields, remembered
from envs.policies.seen import Noted
from envs.tasks.rules import RULE, rule_key
from envs.tasks.spec import FamilySpec
from envs.tasks.surface import find_all

Move = Literal["rule", "except", "withdraw", "reinstate", "once"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """One sentence about the rule."""

    move: Move
    entity: str = ""
    value: str = ""


@remembered
def rulings(spec: FamilySpec, text: str) -> tuple[Ruling, ...]:
    """The rulings of a user message, in order of the text."""
    rule = spec.rule
    if rule is None:
        return ()
    fields = {**entity_fields(spec), "v": spec.pattern(rule.kind)}
    found = []
    kinds: tuple[tuple[Move, tuple[str, ...]], ...] = (
        ("rule", rule.says), ("except", rule.exceptions), ("withdraw", rule.withdrawals), ("reinstate", rule.reinstatements),
        ("once", rule.once),
    )  # fmt: skip
    for move, templates in kinds:
        for m in find_all(templates, text, fields):
            got = m.groupdict()
            found.append((m.start(), Ruling(move, bare(spec, got.get("entity") or ""), got.get("v") or "")))
    return tuple(r for _, r in sorted(found, key=lambda x: x[0]))


@dataclass
class Rules:
    """What holds now, as far as the view tells."""

    spec: FamilySpec
    value: str = ""
    event: int = 0
    exceptions: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Record -> its own value, and the event of the newest word on it."""
    withdrawn: set[str] = field(default_factory=set)
    once: dict[str, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: FamilySpec, told: Iterable[tuple[int, str]], notes: dict[str, Noted]) -> Rules:
        """From user messages ``(event, text)`` and notes, by order of events."""
        by_key = {rule_key(spec, e): e for e in spec.entities}
        said: list[tuple[int, Ruling]] = [(event, r) for event, text in told for r in rulings(spec, text)]
        for key, note in notes.items():
            if key == RULE:
                said.append((note.source, Ruling("rule", "", note.value)))
            elif key in by_key:
                said.append((note.source, Ruling("except", by_key[key], note.value)))
                if note.status == "old":
                    said.append((note.source, Ruling("withdraw", by_key[key])))
        rules = cls(spec)
        for event, r in sorted(said, key=lambda x: x[0]):
            rules._take(event, r)
        return rules

    def _take(self, event: int, r: Ruling) -> None:
        if r.move == "rule":
            self.value, self.event = r.value, event
        elif r.move == "once":
            self.once[r.entity] = (r.value, event)
        elif r.move == "except":
            self.exceptions[r.entity] = (r.value, event)
            self.withdrawn.discard(r.entity)
        else:
            held = self.exceptions.get(r.entity, ("", event))[0]
            self.exceptions[r.entity] = (held, event)
            (self.withdrawn.add if r.move == "withdraw" else self.withdrawn.discard)(r.entity)

    def in_force(self, entity: str, question: int) -> str:
        """The value that holds for a record at the user message ``question``; empty when the view does not tell."""
        if entity in self.once and self.once[entity][1] == question:
            return self.once[entity][0]
        if entity in self.exceptions and entity not in self.withdrawn:
            return self.exceptions[entity][0]
        return self.value

    def lines(self, notes: dict[str, Noted]) -> list[str]:
        """Note lines for what stands in no note yet."""
        out = []
        if self.value and (RULE not in notes or notes[RULE].value != self.value):
            out.append(f"note {RULE}={self.value} @e{self.event}")
        for entity, (value, event) in self.exceptions.items():
            status = "old" if entity in self.withdrawn else ""
            held = notes.get(rule_key(self.spec, entity))
            if value and (held is None or held.value != value or (held.status == "old") != bool(status)):
                out.append(f"note {rule_key(self.spec, entity)}={value} @e{event}" + (f" {status}" if status else ""))
        return out
