"""Validation during training, by the definitions of the frozen evaluation (``envs.measures``): metrics, and a line a probe.

<out>/validation.jsonl   one line a probe and validation: step, id, base, family, variant, q, right, reads, recovered, tokens…

Paired statistics over steps (``python -m rl curve``) need the results of each probe, not their means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.measures import is_alarmed, is_damaged, pairs
from envs.runs import read_jsonl, write_jsonl_atomic
from envs.scoring import Score
from envs.tasks.base import Probe
from rl.outcome import Outcome, mean

VALIDATION = "validation.jsonl"


@dataclass(frozen=True, slots=True)
class Case:
    """A validation probe and what its episode came to (:class:`envs.measures.Case`)."""

    sample: str
    base: str
    family: str
    variant: str
    signal: str
    twin: str | None
    hinted: bool
    score: Score


def lines_of(probes: Sequence[Probe], outcomes: Sequence[Outcome], step: int) -> list[dict[str, Any]]:
    """The lines of one validation at ``step``; episodes that the backend spoilt are left out.

    ``pair_success`` (0 or 1) stands at damaged probes whose twin was played, ``suspected`` at damaged ones, ``alarmed`` at
    ``present`` ones; elsewhere they are None.
    """
    cases = [
        Case(p.id, p.base, p.family, p.variant, p.signal, p.twin, p.hint != "none", o.score)
        for p, o in zip(probes, outcomes, strict=True)
        if o.score is not None and not o.excluded
    ]
    paired = {case.sample: float(won) for case, won in pairs(cases)}
    return [
        {
            "step": step, "id": c.sample, "base": c.base, "family": c.family, "variant": c.variant,
            "q": c.score.q, "right": c.score.task_correct, "reads": len(c.score.reads), "recovered": c.score.recovered,
            "suspected": float(c.score.funnel["suspected"]) if is_damaged(c.variant, c.signal) and c.score.funnel else None,
            "alarmed": float(is_alarmed(c.score)) if c.variant == "present" else None,
            "pair_success": paired.get(c.sample),
            "tokens": c.score.tokens, "inferences": c.score.inferences, "reason": c.score.reason,
        }
        for c in cases
    ]  # fmt: skip


MEASURED: dict[str, tuple[str, str | None]] = {
    "q": ("q", None),
    "pair_success": ("pair_success", None),
    "task_correct": ("right", None),
    "tokens": ("tokens", None),
    "inferences": ("inferences", None),
    "reads": ("reads", None),
    "detect/recall": ("suspected", None),
    "detect/false_alarm": ("alarmed", None),
    "right_present": ("right", "present"),
    "read_present": ("reads", "present"),
}
"""Metric -> the field of the lines that it is the mean of, and the one variant that counts (None: all that have the field)."""


def metrics_of(lines: Sequence[dict[str, Any]]) -> dict[str, float]:
    """``<metric>/<family>`` and ``<metric>``, the mean over the families, which count equally as they do in evaluation."""
    out: dict[str, float] = {}
    for name, (field, variant) in MEASURED.items():
        by_family: dict[str, list[float]] = {}
        for line in lines:
            if line[field] is not None and variant in (None, line["variant"]):
                by_family.setdefault(line["family"], []).append(float(line[field]))
        means = {family: mean(values) for family, values in sorted(by_family.items())}
        if means:
            out[name] = mean(list(means.values()))
            out |= {f"{name}/{family}": value for family, value in means.items()}
    return out


def read_validations(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """Lines by step, in order of the steps; empty where the run never validated."""
    path = folder / VALIDATION
    steps: dict[int, list[dict[str, Any]]] = {}
    for line in read_jsonl(path) if path.is_file() else []:
        steps.setdefault(line["step"], []).append(line)
    return dict(sorted(steps.items()))


def store(folder: Path, step: int, lines: Sequence[dict[str, Any]]) -> None:
    """Add one validation: all its lines or, after a kill, none."""
    held = [line for found in read_validations(folder).values() for line in found if line["step"] != step]
    write_jsonl_atomic(folder / VALIDATION, [*held, *lines])


def better(a: dict[str, float], b: dict[str, float]) -> bool:
    """Whether metrics ``a`` are better than ``b``: more pair success (``q`` where there are no pairs), then fewer tokens."""
    return _rank(a) > _rank(b)


def _rank(metrics: dict[str, float]) -> tuple[float, float]:
    return metrics.get("pair_success", metrics.get("q", 0.0)), -metrics.get("tokens", 0.0)


def best_of(validations: dict[int, dict[str, float]]) -> int | None:
    """The step whose weights did best, the earliest among equals; None without any."""
    best: int | None = None
    for step in sorted(validations):
        if best is None or better(validations[step], validations[best]):
            best = step
    return best
