"""The user's standing rule and its exceptions: stated, withdrawn, reinstated, or granted just once."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envs.tasks.base import Fact, FactKind, Slot

if TYPE_CHECKING:
    from envs.tasks.spec import FamilySpec, Rule

RULE = "rule"


def rule_key(spec: FamilySpec, entity: str) -> str:
    """Key of a record's exception."""
    return f"{RULE}.{spec.id_of[entity]}"


@dataclass
class RuleBook:
    """What the user has ruled so far. Every method returns the sentence that says it, and the facts that it states."""

    spec: FamilySpec
    rng: random.Random
    value: str = ""
    exceptions: dict[str, str] = field(default_factory=dict)
    """Record -> its own value, in force or withdrawn."""
    withdrawn: set[str] = field(default_factory=set)
    spent: dict[str, str] = field(default_factory=dict)
    """Record -> the value of a consent that held once."""
    versions: dict[str, int] = field(default_factory=dict)

    @property
    def rule(self) -> Rule:
        assert self.spec.rule is not None
        return self.spec.rule

    def _fact(self, key: str, value: str, turn: int, kind: FactKind, withdrawn: bool = False) -> Fact:
        version = self.versions[key] = self.versions.get(key, 0) + 1
        return Fact(
            key=key, value=value, where=f"turn:{turn}", version=version, source="user", kind=kind,
            status="withdrawn" if withdrawn else "current",
        )  # fmt: skip

    def _new(self) -> str:
        taken = {self.value, *self.exceptions.values(), *self.spent.values()}
        while (value := self.spec.draw(self.rule.kind, self.rng)) in taken:
            pass
        return value

    def state(self, turn: int) -> tuple[str, Fact]:
        """The rule itself."""
        self.value = self._new()
        return self.rng.choice(self.rule.says).format(v=self.value), self._fact(RULE, self.value, turn, "constraint")

    def other_value(self, entity: str, turn: int) -> tuple[str, Fact]:
        """An exception for one record."""
        self.exceptions[entity] = value = self._new()
        text = self.rng.choice(self.rule.exceptions).format(entity=self.spec.phrase(entity), v=value)
        return text, self._fact(rule_key(self.spec, entity), value, turn, "exception")

    def withdraw(self, entity: str, turn: int) -> tuple[str, Fact]:
        """The exception no longer holds."""
        self.withdrawn.add(entity)
        text = self.rng.choice(self.rule.withdrawals).format(entity=self.spec.phrase(entity))
        return text, self._fact(rule_key(self.spec, entity), self.exceptions[entity], turn, "exception", withdrawn=True)

    def reinstate(self, entity: str, turn: int) -> tuple[str, Fact]:
        """The exception holds again."""
        self.withdrawn.discard(entity)
        text = self.rng.choice(self.rule.reinstatements).format(entity=self.spec.phrase(entity))
        return text, self._fact(rule_key(self.spec, entity), self.exceptions[entity], turn, "exception")

    def grant_once(self, entity: str, turn: int) -> tuple[str, Fact]:
        """Consent for this one time: it holds in its own turn alone."""
        self.spent[entity] = value = self._new()
        text = self.rng.choice(self.rule.once).format(entity=self.spec.phrase(entity), v=value)
        return text, self._fact(f"{rule_key(self.spec, entity)}.once", value, turn, "exception")

    def in_force(self, entity: str) -> str:
        """The value that holds for a record now."""
        return self.exceptions[entity] if self.excepted(entity) else self.value

    def excepted(self, entity: str) -> bool:
        return entity in self.exceptions and entity not in self.withdrawn

    def slot(self, entity: str, once: bool = False) -> Slot:
        """The answer slot of a question for a record's value; ``once`` in the turn of a consent."""
        value = self.spent[entity] if once else self.in_force(entity)
        others = {self.value, *([self.exceptions[entity]] if entity in self.exceptions else []), *self.spent.values()}
        key = f"{rule_key(self.spec, entity)}.once" if once else rule_key(self.spec, entity) if self.excepted(entity) else RULE
        return Slot(
            name=self.rule.slot_name, accept=self.spec.accepted(self.rule.kind, value), key=key, stale=tuple(sorted(others - {value})), constraint=True,
            kind=self.rule.kind, source="fresh" if once else "kept",
        )  # fmt: skip
