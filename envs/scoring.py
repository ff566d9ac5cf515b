"""Metrics of one stored episode, from log and views alone; never a model's opinion. Definitions: docs/metrics.md."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from envs.conduct import conduct
from envs.tasks.base import DAMAGED, Slot
from envs.tasks.words import ABSTAINS
from envs.text import holds, normalise
from envs.trajectory import Inference, Trajectory

Verdict = Literal["right", "abstained", "wrong", "stale"]


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


class Read(BaseModel):
    """A read-back: its trigger (``self``, ``index``, ``rejection``) and the events whose text it showed."""

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


def normal_form(value: str) -> str:
    """How answers are compared: NFKC, casefold, squeezed spaces, outer quotes and a final dot off."""
    text = normalise(value)
    text = text[:-1].rstrip() if text.endswith(".") else text
    for left, right in (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("`", "`")):
        if len(text) >= 2 and text[0] == left and text[-1] == right:
            text = text[1:-1].strip()
    return text[:-1].rstrip() if text.endswith(".") else text


_SEPARATORS = str.maketrans({"\n": ";", "；": ";", "＝": "="})


def read_slots(reply: str) -> dict[str, list[str]]:
    """Slot name -> the values given for it (``over=yes; by=500``, separated by ``;`` or line feeds, full-width forms too)."""
    found: dict[str, list[str]] = {}
    for part in reply.translate(_SEPARATORS).split(";"):
        name, sep, value = part.partition("=")
        if sep:
            found.setdefault(name.strip().casefold(), []).append(value)
    return found


def judge(slot: Slot, reply: str) -> tuple[Verdict, str]:
    """Verdict on one slot, and the value given (``""`` when absent or repeated: both are wrong)."""
    given = read_slots(reply).get(slot.name.casefold(), [])
    if len(given) != 1:
        return "wrong", ""
    value = normal_form(given[0])
    if value in {normal_form(a) for a in slot.accept}:
        return "right", value
    if value in ABSTAINS:
        return "abstained", value
    return ("stale" if value in {normal_form(s) for s in slot.stale} else "wrong"), value


def score(trajectory: Trajectory) -> Score:
    """Score a stored episode."""
    texts = [normal_form("\n".join(m.content for m in view)) for view in trajectory.views()]
    checks = _checks(trajectory, texts)
    weights = sum(c.weight for c in checks) or 1.0
    reads = _reads(trajectory)
    constraint = [c for c in checks if c.constraint]
    right = bool(checks) and all(c.verdict == "right" for c in checks)
    result = Score(
        id=trajectory.id, family=trajectory.family, base=trajectory.base, variant=trajectory.variant, signal=trajectory.signal,
        checks=checks, q=sum(c.credit * c.weight for c in checks) / weights,
        quality_step=0.25 * min((c.weight for c in checks), default=1.0) / weights, task_correct=right, fully_right=right,
        constraint_right=sum(c.verdict == "right" for c in constraint), constraint_total=len(constraint), reads=reads,
        autonomous_read=any(r.trigger in ("self", "index") for r in reads), reason=trajectory.reason,
        infrastructure=trajectory.reason == "backend_error", within_budget=not trajectory.over_tokens and not trajectory.reason.startswith(("limit", "context")),
        **_contract(trajectory.inferences), **conduct(trajectory),
    )  # fmt: skip
    if trajectory.variant in DAMAGED and trajectory.session.turns[trajectory.start].slots:
        _funnel(trajectory, result, texts)
    return result


def _checks(trajectory: Trajectory, texts: list[str]) -> list[Check]:
    checks = []
    for index in range(trajectory.start, len(trajectory.session.turns)):
        mine = [text for inference, text in zip(trajectory.inferences, texts, strict=True) if inference.turn == index]
        reply = trajectory.replies.get(index)
        for slot in trajectory.session.turns[index].slots:
            verdict, value = judge(slot, reply) if reply is not None else ("wrong", "")
            how: str = verdict
            if verdict == "wrong":
                how = "absent" if not value else "off_target" if any(holds(t, value) for t in mine) else "fabricated"
            credit = 1.0 if verdict == "right" else 0.0 if verdict == "abstained" else -0.25
            in_view = bool(mine) and not slot.never and any(holds(mine[0], normal_form(a)) for a in slot.accept)
            checks.append(
                Check(
                    turn=index, slot=slot.name, verdict=verdict, weight=slot.weight, credit=credit, constraint=slot.constraint,
                    never=slot.never, source=slot.source, in_view=in_view, how=how,
                )
            )  # fmt: skip
    return checks


def _reads(trajectory: Trajectory) -> list[Read]:
    """Every read or find whose result shows a logged event's text, with what prompted it."""
    reads = []
    refused: set[int] = set()
    for inference in trajectory.inferences:
        indexed = set(_out_events(inference.out)) if trajectory.indexed else set()
        for outcome in inference.outcomes:
            if outcome.code == "shown" and outcome.shows:
                trigger = "rejection" if inference.turn in refused else "index" if indexed & set(outcome.shows) else "self"
                reads.append(Read(turn=inference.turn, tool=outcome.tool, trigger=trigger, shows=outcome.shows))
        if any("try read" in o.text for o in inference.outcomes if o.code not in ("ok", "shown", "result")):
            refused.add(inference.turn)
    return reads


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
    autonomous = plain or any(r.trigger in ("self", "index") and evidence & set(r.shows) for r in result.reads)
    result.funnel = {
        "accessible": bool(evidence),
        "suspected": aimed or any(c.how == "abstained" for c in result.checks) or (plain and in_view),
        "located": located,
        "used": located and right,
        "mended": result.mended is not False,
    }
    result.recovered = located and right and autonomous and result.mended is not False
