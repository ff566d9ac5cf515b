"""What counts as damage, an alarm and a success: the definitions that evaluation and validation during training share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from envs.scoring import Score
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
