"""Metrics of one stored episode, from log and views alone; never a model's opinion. Definitions: docs/metrics.md."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from envs.answers import Verdict, is_choice, judge, normal_form, read_slots
from envs.chat import Message
from envs.conduct import conduct
from envs.fidelity import fidelity
from envs.spending import OFFERS_READ, is_rejection, spending
from envs.tasks.base import DAMAGED, Slot
from envs.text import holds
from envs.trajectory import Inference, Trajectory
from envs.truth import Truth

__all__ = ["AUTONOMOUS", "TRIGGERS", "Check", "Read", "Score", "judge", "normal_form", "read_slots", "score"]


class Check(BaseModel):
    """One answer slot of one played turn."""

    model_config = ConfigDict(extra="forbid")

    turn: int
    slot: str
    verdict: Verdict
    weight: float
    credit: float
    """Right 1, abstained 0, wrong -0.25; where the log never states the fact, ``unknown`` is right."""
    constraint: bool = False
    never: bool = False
    source: str = "fresh"
    in_view: bool = False
    """The needed value stood in the first view of the turn (not only after reading back)."""
    how: str = "right"
    """``right``, ``abstained``, ``stale``, ``off_target`` (another value of the view), ``fabricated`` (in no view), ``absent``."""
    question: str = "single"
    """The turn's question tag; slots of a ``bundle`` are questions of their own, those of any other turn are one."""
    choice: bool = False
    """A yes/no, or one of the records that the question names: right half the time by chance, so never credited alone."""
    inputs: bool = False
    """What the answer rests on stood in the first view of the turn: the value itself or, of a derived answer, the fact it is made of."""
    informed: bool = False
    """The same, in any view of the turn."""
    changed: bool = False
    """Another value was in force before."""


TRIGGERS = ("self", "index", "conflict", "gate", "rejection", "tester")
"""What prompted a read-back: nothing but the policy, a range that the index listed, a conflict that the host named, the evidence gate, a
refusal that offered the read, or a question that said to look (a hint, or the user's wish to have the source checked)."""
AUTONOMOUS = TRIGGERS[:3]


class Read(BaseModel):
    """A read-back: its trigger (of :data:`TRIGGERS`) and the events whose text it showed."""

    turn: int
    tool: str
    trigger: str
    shows: list[int]


class Score(BaseModel):
    """Everything that is measured on one episode."""

    model_config = ConfigDict(extra="forbid")

    id: str
    family: str
    base: str | None
    variant: str | None
    signal: str | None
    checks: list[Check]
    q: float
    """Quality: mean of the credits by weight."""
    quality_step: float
    """The smallest step of ``q``: 0.25 times the smallest weight over the sum of weights."""
    task_correct: bool
    fully_right: bool
    constraint_right: int
    constraint_total: int
    reads: list[Read]
    autonomous_read: bool
    funnel: dict[str, bool] = Field(default_factory=dict)
    """On damaged probes: ``accessible``, ``suspected``, ``located``, ``used``, ``mended``."""
    recovered: bool = False
    """Evidence shown, reply right and, where a memory was wrong, mended; whoever prompted the read."""
    prompted: bool = False
    """The evidence was shown by read-backs that others prompted (gate, refusal, tester) and by none of the policy's own accord."""
    mended: bool | None = None
    """None where no memory was wrong."""
    malformed: int = 0
    calls: dict[str, dict[str, int]] = Field(default_factory=dict)
    rewrites: int = 0
    segments: int = 0
    inferences: int = 0
    tokens: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    peak: int = 0
    reason: str = "answered"
    infrastructure: bool = False
    within_budget: bool = True
    stale_entries: int = 0
    """Memory entries that stand as current with a value that is no longer in force."""
    conflicts_flagged: int = 0
    """Outcomes in which the host named a conflict between two memories."""
    repeated_calls: int = 0
    """Business calls made again with the same arguments while their result is in the log."""
    recovery_ratio: float | None = None
    """Characters that read-backs showed, over those of the evidence events; None without either."""
    constraints_in_view: int = 0
    """Of ``constraint_total``: those whose value in force stood in the view that was answered from. A diagnostic."""
    writes: dict[str, int] = Field(default_factory=dict)
    """Values written: memories as ``true``, ``stale`` or ``false`` by the ledger, and what it has no key for, with the numbers and codes of
    briefs, as ``seen`` or ``unseen`` in what they were made from."""
    rewrites_checked: int = 0
    """Accepted folds and compressions that were followed by another view."""
    silent_failures: int = 0
    """Of these: a fact in force that they covered stands no more in the view, and nothing there refers to its event."""
    entries: int = 0
    entries_active: int = 0
    """Memory entries at the end, and those of them that stand as current with a value in force."""
    conflicts: int = 0
    """Memory keys at the end that stand as current with two values, or with one that the ledger contradicts."""
    spent: dict[str, int] = Field(default_factory=dict)
    """Tokens by what an inference was for (``envs.spending.SPENDERS``); they add up to ``tokens``."""
    prefill: int | None = None
    """Input tokens that no call before had; None for records from before this was stored."""
    refusals: int = 0
    refusals_mended: int = 0
    """Turns with a refused call, or that were neither call nor answer; and those after which the next turn was accepted whole."""
    context_calls: int = 0
    spontaneous: int = 0
    """Accepted context calls, and those that neither user, tester nor a refusal asked for."""
    scope_errors: int = 0
    """Replies that claim what the log denies: the result of a call that was never made, or an event that does not exist."""
    meta_replies: int = 0
    replies: int = 0
    """Turns that ended in nothing or in protocol tokens instead of an answer, of all turns that were to end one."""
    diagnostic_turns: int = 0
    verdict_tokens: int = 0
    """Turns with checks after the first that failed: they change no verdict. Tokens without them."""


def score(trajectory: Trajectory) -> Score:
    """Score a stored episode."""
    views, truth = list(trajectory.views()), Truth(trajectory)
    texts = [normal_form("\n".join(m.content for m in view)) for view in views]
    checks = _checks(trajectory, texts, truth)
    weights = sum(c.weight for c in checks) or 1.0
    reads = _reads(trajectory, views)
    constraint = [c for c in checks if c.constraint]
    right = bool(checks) and all(c.verdict == "right" for c in checks)
    result = Score(
        id=trajectory.id, family=trajectory.family, base=trajectory.base, variant=trajectory.variant, signal=trajectory.signal,
        checks=checks, q=sum(c.credit * c.weight for c in checks) / weights,
        quality_step=0.25 * min((c.weight for c in checks), default=1.0) / weights, task_correct=right, fully_right=right,
        constraint_right=sum(c.verdict == "right" for c in constraint), constraint_total=len(constraint), reads=reads,
        autonomous_read=any(r.trigger in AUTONOMOUS for r in reads), reason=trajectory.reason,
        infrastructure=trajectory.reason == "backend_error", within_budget=not trajectory.over_tokens and not trajectory.reason.startswith(("limit", "context")),
        constraints_in_view=_retained(trajectory, texts, truth), **_contract(trajectory.inferences), **conduct(trajectory, truth),
        **fidelity(trajectory, truth, views, texts), **spending(trajectory), **_diagnostic(trajectory, checks),
    )  # fmt: skip
    if trajectory.variant in DAMAGED and trajectory.session.turns[trajectory.start].slots:
        _funnel(trajectory, result, texts)
    return result


def _checks(trajectory: Trajectory, texts: list[str], truth: Truth) -> list[Check]:
    checks = []
    by_turn: dict[int, list[str]] = {}
    for inference, text in zip(trajectory.inferences, texts, strict=True):
        if inference.kind != "maintenance":
            by_turn.setdefault(inference.turn, []).append(text)
    for index in range(trajectory.start, len(trajectory.session.turns)):
        turn, mine, reply = trajectory.session.turns[index], by_turn.get(index, []), trajectory.replies.get(index)
        for slot in turn.slots:
            verdict, value = judge(slot, reply) if reply is not None else ("wrong", "")
            how: str = verdict
            if verdict == "wrong":
                how = "absent" if not value else "off_target" if any(holds(t, value) for t in mine) else "fabricated"
            credit = 1.0 if verdict == "right" else 0.0 if verdict == "abstained" else -0.25
            in_view = bool(mine) and not slot.never and any(holds(mine[0], normal_form(a)) for a in slot.accept)
            rests = () if slot.never else _rests_on(slot, index, truth)
            inputs = in_view or (bool(mine) and any(holds(mine[0], value) for value in rests))
            checks.append(
                Check(
                    turn=index, slot=slot.name, verdict=verdict, weight=slot.weight, credit=credit, constraint=slot.constraint,
                    never=slot.never, source=slot.source, in_view=in_view, how=how, question=turn.question,
                    changed=bool(slot.stale), choice=is_choice(slot), inputs=inputs, informed=inputs or any(holds(t, v) for t in mine[1:] for v in rests),
                )
            )  # fmt: skip
    return checks


def _rests_on(slot: Slot, turn: int, truth: Truth) -> list[str]:
    """Values of which one must be seen to answer: the accepted ones or, of a derived answer, the fact that its key names."""
    if slot.source == "derived" and turn < len(truth.users):
        fact = truth.in_force(truth.users[turn]).get(slot.key)
        return [normal_form(fact.value)] if fact else []
    return [normal_form(a) for a in slot.accept]


def _retained(trajectory: Trajectory, texts: list[str], truth: Truth) -> int:
    """Constraint checks whose constraint, with its value in force, stands in the last view of their turn."""
    last = {i.turn: text for i, text in zip(trajectory.inferences, texts, strict=True) if i.kind != "maintenance"}
    kept = 0
    for index in range(trajectory.start, min(len(trajectory.session.turns), len(truth.users))):
        slots = [s for s in trajectory.session.turns[index].slots if s.constraint]
        if not slots or index not in last:
            continue
        in_force = truth.in_force(truth.users[index])
        rules = [f for s in slots if (f := in_force.get(s.key)) and f.kind in ("constraint", "exception")]
        if all(holds(last[index], normal_form(f.value)) for f in rules):
            kept += len(slots)
    return kept


def _diagnostic(trajectory: Trajectory, checks: list[Check]) -> dict[str, Any]:
    """Turns with checks after the first that failed, and the tokens up to its end."""
    gate = min((c.turn for c in checks if c.credit < 1), default=len(trajectory.session.turns))
    return {
        "diagnostic_turns": len({c.turn for c in checks if c.turn > gate}),
        "verdict_tokens": sum(i.tokens_in + len(i.ids) for i in trajectory.inferences if i.turn <= gate),
    }


def _reads(trajectory: Trajectory, views: list[list[Message]]) -> list[Read]:
    """Every read or find whose result shows a logged event's text, with what prompted it."""
    reads = []
    refused: dict[int, str] = {}
    named: dict[int, set[int]] = {}
    for inference, view in zip(trajectory.inferences, views, strict=True):
        turn = inference.turn
        indexed = set(_out_events(inference.out)) if trajectory.indexed else set()
        for outcome in inference.outcomes:
            if outcome.code == "shown" and outcome.shows:
                shows = set(outcome.shows)
                asked = trajectory.hint != "none" or trajectory.session.turns[turn].question == "verify"
                trigger = refused.get(turn) or ("tester" if asked else "")
                if not trigger:
                    flagged = shows & (named.get(turn, set()) | _conflicts_in(view))
                    trigger = "conflict" if flagged else "index" if indexed & shows else "self"
                reads.append(Read(turn=turn, tool=outcome.tool, trigger=trigger, shows=outcome.shows))
            elif outcome.code == "ok" and "; conflict " in outcome.text:
                named.setdefault(turn, set()).update(_cited(outcome.text.split("; conflict ", 1)[1]))
            elif is_rejection(outcome.code) and OFFERS_READ.search(outcome.text):
                refused.setdefault(turn, "gate" if outcome.code == "evidence_required" else "rejection")
    return reads


def _conflicts_in(view: list[Message]) -> set[int]:
    """Sources that the header's list of conflicts names."""
    line = next((text for text in view[0].content.split("\n") if text.startswith("conflicts: ")), "") if view else ""
    return _cited(line)


def _cited(text: str) -> set[int]:
    return {int(n) for n in re.findall(r"@e(\d+)", text)}


def _out_events(entries: list[str]) -> list[int]:
    """Event numbers that index entries list (``e2-e3 f1 1 own 1 tool``)."""
    events: list[int] = []
    for entry in entries:
        first, _, last = entry.split(" ", 1)[0].partition("-")
        events += range(int(first[1:]), int((last or first)[1:]) + 1)
    return events


def _contract(inferences: list[Inference]) -> dict[str, Any]:
    calls: dict[str, Counter[str]] = {}
    malformed = segments = held = 0
    for inference in inferences:
        bad = inference.kind == "notice"
        for outcome in inference.outcomes:
            bad = bad or outcome.code in ("bad_arguments", "unknown_tool")
            calls.setdefault(outcome.tool or "none", Counter())[outcome.code] += 1
        malformed += bad
        segments += not held or inference.keep < held
        held = inference.keep + len(inference.new)
    return {
        "malformed": malformed,
        "calls": {tool: dict(counts) for tool, counts in calls.items()},
        "rewrites": sum(i.rewrite for i in inferences),
        "segments": segments,
        "inferences": len(inferences),
        "tokens": sum(i.tokens_in + len(i.ids) for i in inferences),
        "tokens_in": sum(i.tokens_in for i in inferences),
        "tokens_out": sum(len(i.ids) for i in inferences),
        "peak": max((i.tokens_in for i in inferences), default=0),
    }


def _shown(trajectory: Trajectory) -> list[tuple[set[int], str]]:
    """What read-backs and searches showed: events and text of each, and the pages of one reference together, as a page may cut a value."""
    found: list[tuple[set[int], str]] = []
    pages: dict[str, tuple[set[int], str]] = {}
    for outcome in (o for i in trajectory.inferences for o in i.outcomes if o.code == "shown"):
        found.append((set(outcome.shows), outcome.text))
        title, _, body = outcome.text.partition("\n")
        shows, text = pages.get(title.rpartition(" p")[0], (set(), ""))
        pages[title.rpartition(" p")[0]] = (shows | set(outcome.shows), text + body)
    return [*found, *pages.values()]


def _funnel(trajectory: Trajectory, result: Score, texts: list[str]) -> None:
    """The detection funnel of a damaged probe: accessible, suspected, located, used, mended."""
    slot = trajectory.session.turns[trajectory.start].slots[0]
    evidence = set(trajectory.stated.get(slot.key, ()))
    hidden = set(_out_events(trajectory.inferences[0].out)) if trajectory.inferences else set()
    in_view = any(c.in_view for c in result.checks)
    accepted = [normal_form(a) for a in slot.accept]
    # A sum or a comparison stands in no text: its evidence was shown when the event was.
    shown = any(
        evidence & shows and (slot.source == "derived" or any(holds(normal_form(text), a) for a in accepted))
        for shows, text in _shown(trajectory)
    )
    plain = not any(i.out for i in trajectory.inferences)
    aimed = any(hidden & set(r.shows) for r in result.reads)
    right = result.task_correct
    if trajectory.wrong_note and not plain:
        result.mended = normal_form(trajectory.notes.get(slot.key, "")) in accepted
    located = shown or (plain and in_view)
    own = plain or any(r.trigger in AUTONOMOUS and evidence & set(r.shows) for r in result.reads)
    result.prompted = located and not own
    result.funnel = {
        "accessible": bool(evidence),
        "suspected": aimed or any(c.how == "abstained" for c in result.checks) or (plain and in_view),
        "located": located,
        "used": located and right,
        "mended": result.mended is not False,
    }
    result.recovered = located and right and result.mended is not False
