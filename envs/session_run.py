"""Cases of a session file played as episodes, under every condition, with the log, views, parser and read-back of all other play.

The case's events stand in the log before the session begins; its damage is laid over the view; its final question is the one user
turn, and the whole reply is the answer. Nothing but the view reaches the policy.

=================  =======================================================  ==========
condition          what is in view                                          tools
=================  =======================================================  ==========
``closed_book``    the question alone: what can be guessed                  none
``whole_log``      every event: what can be reached                         none
``damaged``        the damaged view                                         none
``damaged_read``   the damaged view                                         note, read, find
``whole_log_read`` every event: a read-back here is a false alarm           note, read, find
=================  =======================================================  ==========
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from envs.chat import ChatML
from envs.compact import Parsed
from envs.episode import Episode, play
from envs.log import Log
from envs.managers import Manager
from envs.policies.base import Policy, Sampled
from envs.profiles import MODEL_WINDOW, Profile, variant
from envs.sessions import Case, score
from envs.state import Delta
from envs.tasks.base import Session, Turn
from envs.trajectory import Record, Trajectory
from envs.view import Renderer, freeze

Condition = Literal["closed_book", "whole_log", "damaged", "damaged_read", "whole_log_read"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
READING = ("damaged_read", "whole_log_read")
DAMAGED = ("damaged", "damaged_read")
BEFORE = -1
"""Run of the case's events: the session that is played begins after them."""


def profile_of(condition: Condition, budget: int = MODEL_WINDOW) -> Profile:
    """``core@1`` with note, read and find. The host takes nothing out of the view and tells no fill: conditions differ in the view alone.

    Where nothing can be read back the same profile renders the view, its tools are kept from contract and parser.
    """
    flags = {"index": False} if condition == "closed_book" else {}
    return variant(
        "core@1", tools=("note", "read", "find"), view_budget=budget, whole_share=0.0, clear_results=False, fill_marks=(),
        inferences_per_run=24, **flags,
    )  # fmt: skip


def conditions_of(case: Case) -> tuple[Condition, ...]:
    """The conditions that mean something for a case: without damage there is no damaged view."""
    return CONDITIONS if case.injection else tuple(c for c in CONDITIONS if c not in DAMAGED)


class CaseRecord(Record):
    """What became of one case under one condition, with the stored episode."""

    case: str
    kind: str
    op: str
    condition: Condition
    policy: str
    right: bool
    reply: str | None
    reason: str
    tokens: int
    """Input and output over all inferences."""
    inferences: int
    evidence: list[int]
    evidence_in_view: list[int]
    """Evidence whose text stood whole in the first view."""
    evidence_in_input: list[int] = []
    """Evidence whose text stood whole in the last input, the one the reply was written from, or was read back into it, in part or whole."""
    reads: list[int]
    """Events of the case whose text read-backs showed, in part or whole."""
    trajectory: Trajectory

    @property
    def false_alarm(self) -> bool:
        """Something was read back although nothing was missing."""
        return self.condition == "whole_log_read" and bool(self.reads)


class CaseEpisode(Episode):
    """A case under a condition; plays like any other episode.

    A damaged view may lack what no policy can take away (user messages, one half of a call and its result); calls never make that.

    Args:
        plain: plain history instead of ``core@1``: what the condition shows, without tags, index and tools.
        manager: with ``plain``: chooses what of that history is shown within ``budget``.

    Raises:
        ValueError: a plain history is asked to read back: it has no tools, its ``damaged_read`` is its ``damaged``.
    """

    def __init__(
        self, case: Case, condition: Condition, chat: ChatML, *, budget: int = MODEL_WINDOW, prompt: str = "", plain: bool = False,
        manager: Manager | None = None,
    ) -> None:  # fmt: skip
        if plain and condition in READING:
            raise ValueError(f"condition {condition}: plain history has no read-back")
        self.case, self.condition, self._plain = case, condition, plain
        self._overlay: tuple[Delta, ...] = ()
        script = Session(
            id=case.id, family=f"session:{case.kind}", seed=0, tools=(), responses={}, turns=(Turn(text=case.final_question),)
        )
        profile = variant("plain@1", view_budget=budget, inferences_per_run=24) if plain else profile_of(condition, budget)
        super().__init__(script, profile, chat, prompt=prompt, manager=manager)

    @property
    def reads_back(self) -> bool:
        """Whether the policy may read the log."""
        return self.condition in READING

    def _next_user(self) -> None:
        """The case's events and its damage, then the question."""
        if self._plain:
            lay_shown(self.log, self.case, self.condition, self.state.current)
            self.prefix_events = len(self.log)
            super()._next_user()
            return
        if not self.reads_back:
            self.system = replace(self.rules, tools=()).system(self.prompt, ())
            self._renderer = Renderer(self.rules, self.chat, self.system)
        lay_log(self.log, self.case, self.state.current)
        self.prefix_events = len(self.log)
        damage = self.case.injection if self.condition in DAMAGED else None
        hidden = frozenset(damage.hide) if damage else frozenset()
        if self.condition == "closed_book":
            hidden = frozenset(e.n for e in self.case.events)
        if damage:
            laid = [
                Delta(len(self.log) if i.before == "end" else self.log.position(i.before), f"[host_summary {i.kind}] {i.text}")
                for i in damage.insert
            ]
            self._overlay = tuple(sorted(laid, key=lambda d: d.after))
        self.state = freeze(self.log, replace(self.state, overlaid=hidden, deltas=self._overlay), self.rules)
        super()._next_user()

    def _rewrite(self, turn: int | None) -> None:
        super()._rewrite(turn)
        self.state = replace(self.state, deltas=self._overlay)  # a rewrite mends nothing

    def _parse(self, sampled: Sampled) -> Parsed:
        """The whole turn is the answer, JSON too, unless it calls a tool of the contract (or is empty or cut)."""
        if sampled.cut or not sampled.text.strip():
            return Parsed("notice")
        if not self.reads_back:
            return Parsed("answer")
        parsed = super()._parse(sampled)
        known = (*self.rules.tools, "fold", "compress")
        return parsed if any(c.tool in known for c in parsed.calls) else Parsed("answer")

    def record(self, policy: str) -> CaseRecord:
        """The stored record, judged: an episode that ended without an answer is wrong."""
        reply = self.replies.get(0)
        trajectory = self.trajectory(policy, kind=self.condition)
        shown = {s for i in self.inferences for o in i.outcomes if o.code == "shown" for s in o.shows}
        first = set(self.inferences[0].visible) if self.inferences else set()
        evidence = sorted(set(self.case.expected.evidence))
        views = ["\n".join(m.content for m in view) for view in trajectory.views()]
        if self._plain:  # its log holds what is shown and is numbered by itself
            first = {n for n in evidence if views and self.case.event_text(n) in views[0]}
        return CaseRecord(
            case=self.case.id, kind=self.case.kind, op=self.case.injection.op if self.case.injection else "", condition=self.condition,
            policy=policy, right=reply is not None and score(self.case, reply), reply=reply, reason=trajectory.reason,
            tokens=trajectory.tokens, inferences=len(self.inferences), evidence=evidence,
            evidence_in_view=[n for n in evidence if n in first], evidence_in_input=[n for n in evidence if self._in_input(n, views)], reads=sorted(s for s in shown if s <= len(self.case.events)),
            trajectory=trajectory,
        )  # fmt: skip

    def _in_input(self, n: int, views: Sequence[str]) -> bool:
        if not views:
            return False
        if self.case.event_text(n) in views[-1] or (not self._plain and n in self.inferences[-1].visible):
            return True
        return any(n in o.shows and o.text in views[-1] for i in self.inferences for o in i.outcomes if o.code == "shown")


def lay_shown(log: Log, case: Case, condition: Condition, window: str) -> None:
    """Append to an empty log what a condition shows, as plain history: hidden events are not there, inserted texts are."""
    damage = case.injection if condition in DAMAGED else None
    hidden = frozenset(damage.hide) if damage else frozenset()
    calls: dict[str, int] = {}

    def lay_inserts(before: int | str) -> None:
        for insert in damage.insert if damage else ():
            if insert.before == before:
                log.append("notice", f"[host_summary {insert.kind}] {insert.text}", window=window, run=BEFORE)

    for event in case.events:
        lay_inserts(event.n)
        if condition == "closed_book" or event.n in hidden:
            continue
        name = case.speaker(event.n) if event.role == "tool" else ""
        turn = calls.get(event.call_id, 0) if event.call_id is not None else 0
        seq = log.append(event.role, case.event_text(event.n), window=window, run=BEFORE, name=name, turn=turn).seq
        if event.call:
            calls[event.call.id] = seq
    lay_inserts("end")


def lay_log(log: Log, case: Case, window: str) -> None:
    """Append a case's events to an empty log: event ``n`` becomes ``en``, tagged with its speaker (the assistant's have no tag)."""
    calls = {e.call.id: e.n for e in case.events if e.call}
    for event in case.events:
        text, name = case.event_text(event.n), case.speaker(event.n)
        turn = calls[event.call_id] if event.call_id is not None else 0
        name = "" if name == "user" or event.role == "assistant" else name
        log.append(event.role, text, window=window, run=BEFORE, name=name, turn=turn)


def run_cases(
    cases: Sequence[Case], conditions: Sequence[Condition], policy: Policy, name: str, chat: ChatML, *, budget: int = MODEL_WINDOW
) -> list[CaseRecord]:
    """Play cases under conditions (those that mean something for each) in lock-step; records by case, then condition."""
    episodes = [CaseEpisode(c, d, chat, budget=budget) for c in cases for d in conditions if d in conditions_of(c)]
    play(episodes, policy)
    return [e.record(name) for e in episodes]


class ConditionRow(Record):
    """One condition over all its cases. ``false_alarms`` counts on the whole log with read-back alone."""

    condition: Condition
    cases: int
    right: int
    tokens: int
    reading: int
    """Cases in which something was read back."""
    false_alarms: int | None


def summarise(records: Sequence[CaseRecord]) -> list[ConditionRow]:
    """One row a condition, in their order; conditions that were not played are left out."""
    played = Counter(r.condition for r in records)
    rows = []
    for condition in CONDITIONS:
        mine = [r for r in records if r.condition == condition]
        if played[condition]:
            rows.append(
                ConditionRow(
                    condition=condition, cases=len(mine), right=sum(r.right for r in mine), tokens=sum(r.tokens for r in mine),
                    reading=sum(bool(r.reads) for r in mine),
                    false_alarms=sum(r.false_alarm for r in mine) if condition == "whole_log_read" else None,
                )
            )  # fmt: skip
    return rows
