"""What counts as damage, an alarm and a success: the definitions that evaluation and validation during training share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from envs.scoring import Check, Score
from envs.tasks.base import DAMAGED


class Case(Protocol):
    """A scored probe: its id (``sample``), that of its ``present`` twin, and whether its question was ``hinted``."""

    @property
    def sample(self) -> str: ...
    @property
    def variant(self) -> str: ...
    @property
    def signal(self) -> str: ...
    @property
    def twin(self) -> str | None: ...
    @property
    def hinted(self) -> bool: ...
    @property
    def score(self) -> Score: ...


AnyCase = TypeVar("AnyCase", bound=Case)


def is_damaged(variant: str, signal: str) -> bool:
    """Whether a probe is damaged and its view can tell: what recovery is measured on."""
    return variant in DAMAGED and signal != "none"


def is_alarmed(score: Score) -> bool:
    """Whether the policy acted as if something were missing: a read or find, or an answer withheld."""
    looked = any(sum(score.calls.get(tool, {}).values()) for tool in ("read", "find"))
    return looked or any(check.verdict == "abstained" for check in score.checks)


def pairs(cases: Sequence[AnyCase]) -> list[tuple[AnyCase, bool]]:
    """Each damaged probe with whether its pair succeeds: it was recovered **and** its ``present`` twin is right with no read-back.

    Of its own accord: a read that the gate, a refusal or a tester prompted counts for ``recovered`` and not here. Under plain history,
    where nothing can be damaged, the evidence must stand in view. Probes with no signal (no policy can tell), with a hint (the read is not
    autonomous) or without a played twin are left out.
    """
    by_sample = {c.sample: c for c in cases}
    found = []
    for case in cases:
        twin = by_sample.get(case.twin or "")
        if not is_damaged(case.variant, case.signal) or case.hinted or twin is None:
            continue
        found.append(
            (case, case.score.recovered and not case.score.prompted and twin.score.task_correct and not twin.score.reads)
        )
    return found


ANSWERS = ("right", "half", "abstained", "stale", "off_target", "prior_guess", "fabricated", "absent")
"""What an answer was: all its slots right · some · withheld · once in force · another value of the view · right or chosen from nothing: a
yes/no, a record that the question names, or a value that stood in no view · in no view and wrong · no value, or several."""


def answers(score: Score) -> Iterator[tuple[str, str, str]]:
    """Every question that was asked: where its needed inputs stood at first (``in view``, ``not in view``, ``never stated``), its
    wording (``matched``, ``paraphrased``), and what the answer was (of :data:`ANSWERS`).

    The slots of a turn are one question, those of a bundle one each.
    """
    groups: dict[tuple[int, str], list[Check]] = {}
    for check in score.checks:
        groups.setdefault((check.turn, check.slot if check.question == "bundle" else ""), []).append(check)
    for checks in groups.values():
        never = all(c.never for c in checks)
        where = "never stated" if never else "in view" if all(c.inputs or c.never for c in checks) else "not in view"
        wording = "paraphrased" if checks[0].question == "paraphrased" else "matched"
        yield where, wording, _answer(checks)


def _answer(checks: Sequence[Check]) -> str:
    right = [c for c in checks if c.credit >= 1]
    if len(right) == len(checks):
        return "right" if all(c.informed or c.never for c in checks) else "prior_guess"
    if right:
        return "half" if any(not c.choice for c in right) else "prior_guess"
    given = [c for c in checks if c.how != "abstained"]
    if not given:
        return "abstained"
    return "prior_guess" if all(c.choice and c.how != "absent" for c in given) else given[0].how
