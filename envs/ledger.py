"""Ground truth beside the log: which event states, changes or withdraws which fact. For scorers alone; the host never reads it."""

from __future__ import annotations

from dataclasses import dataclass

from envs.log import Log
from envs.tasks.base import Fact, Session


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact of the session, tied to the event that stated it."""

    fact: Fact
    event: int


class Ledger:
    """The facts that the log has stated so far.

    Args:
        session: its facts name their stating place (``turn:2``, ``call:quote item=desk``).
    """

    def __init__(self, session: Session) -> None:
        self._where: dict[str, list[Fact]] = {}
        for fact in session.facts:
            self._where.setdefault(fact.where, []).append(fact)
        self.statements: list[Statement] = []

    def observe(self, where: str, event: int) -> None:
        """The event ``event`` is the one that ``where`` names."""
        self.statements += [Statement(f, event) for f in self._where.get(where, ())]

    def current(self, key: str) -> Fact | None:
        """The value in force of ``key``: the highest version stated so far; None when withdrawn or never stated."""
        stated = [s.fact for s in self.statements if s.fact.key == key and s.fact.status != "never_true"]
        if not stated:
            return None
        newest = max(reversed(stated), key=lambda f: f.version)  # of one version, what was stated last
        return None if newest.status == "withdrawn" else newest

    def evidence(self, key: str) -> list[int]:
        """Events that state the value in force of ``key``."""
        fact = self.current(key)
        return [] if fact is None else [s.event for s in self.statements if s.fact.key == key and s.fact.version == fact.version]

    def in_force(self) -> dict[str, list[int]]:
        """Key -> events that state its value in force."""
        keys = dict.fromkeys(s.fact.key for s in self.statements)
        return {key: events for key in keys if (events := self.evidence(key))}

    def truth(self) -> dict[str, str]:
        """Key -> its value in force."""
        keys = dict.fromkeys(s.fact.key for s in self.statements)
        return {key: fact.value for key in keys if (fact := self.current(key))}


def check_ledger(session: Session, log: Log, ledger: Ledger) -> list[str]:
    """Statements whose value does not occur in the text of their event: defects of a generator, as readable lines."""
    wrong = []
    for s in ledger.statements:
        text = log.main(s.event).text
        if s.fact.status != "withdrawn" and s.fact.value.casefold() not in text.casefold():
            wrong.append(f"{session.id}: e{s.event} does not state {s.fact.key}={s.fact.value}")
    return wrong
