"""What was true at each event of a stored episode: the ledger along the log, from the record alone. For scorers only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from envs.tasks.base import Fact
from envs.trajectory import Trajectory


class Truth:
    """The facts of an episode's session, tied to the events of its log that state them."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.session = trajectory.session
        self.events: dict[int, Mapping[str, Any]] = {e["seq"]: e for e in trajectory.events if not e["sub"]}
        self.users = [seq for seq, e in self.events.items() if e["role"] == "user"]
        """Events of the user turns, in order."""
        self._in_force: dict[int, dict[str, Fact]] = {}

    @cached_property
    def calls(self) -> dict[int, list[str]]:
        """Event of a business result -> the canonical calls that it answers; none where the world knew no answer."""
        spelled: dict[str, list[str]] = {}
        for call, text in self.session.responses.items():
            spelled.setdefault(text, []).append(call)
        results = {seq: e for seq, e in self.events.items() if e["role"] == "tool"}
        return {seq: [c for c in spelled.get(e["text"], ()) if c.split(" ", 1)[0] == e["name"]] for seq, e in results.items()}

    @cached_property
    def stated(self) -> dict[int, list[Fact]]:
        """Event -> the facts that it states, in the order of the log."""
        facts: dict[str, list[Fact]] = {}
        for fact in self.session.facts:
            facts.setdefault(fact.where, []).append(fact)
        places = {seq: [f"turn:{number}"] for number, seq in enumerate(self.users)}
        places |= {seq: [f"call:{call}" for call in calls] for seq, calls in self.calls.items()}
        found = {seq: [f for place in places[seq] for f in facts.get(place, ())] for seq in sorted(places)}
        return {seq: stated for seq, stated in found.items() if stated}

    @cached_property
    def values(self) -> dict[str, list[str]]:
        """Fact key -> every value that the session gives it, in force or not."""
        found: dict[str, list[str]] = {}
        for fact in self.session.facts:
            found.setdefault(fact.key, []).append(fact.value)
        return found

    def in_force(self, seq: int) -> dict[str, Fact]:
        """Key -> its fact in force once the event ``seq`` is written: the newest version, unless that withdraws it."""
        if seq not in self._in_force:
            newest: dict[str, Fact] = {}
            for event, facts in self.stated.items():
                for fact in facts if event <= seq else ():
                    if fact.status != "never_true" and (fact.key not in newest or fact.version >= newest[fact.key].version):
                        newest[fact.key] = fact
            self._in_force[seq] = {key: fact for key, fact in newest.items() if fact.status != "withdrawn"}
        return self._in_force[seq]
