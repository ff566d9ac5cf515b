"""Failing episodes that were read one by one: drawn at random, sorted by cause by hand, counted for the page of results."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Self

from pydantic import Field, model_validator

from envs.config import ConfigError, Strict, UserError, load_config, nearest
from envs.runs import read_jsonl
from eval.config import EvalConfig

SCORES = "scores.jsonl"


class Reading(Strict):
    """What was found in one failing episode."""

    cause: str
    what: str
    """In a few words, of this episode."""


class Readings(Strict):
    """A reader's findings, kept as YAML."""

    run: str
    """Config of the evaluation."""
    arm: str
    seed: int
    count: int = Field(gt=0)
    causes: dict[str, str]
    """Cause -> what it says."""
    episodes: dict[str, Reading]
    """Sample -> finding."""

    @model_validator(mode="after")
    def _causes_are_known(self) -> Self:
        for sample, found in self.episodes.items():
            if found.cause not in self.causes:
                raise ValueError(f"episodes: {sample}: cause {found.cause!r}: {nearest(found.cause, self.causes)}")
        return self


def draw(scores: Path, arm: str, count: int, seed: int) -> list[str]:
    """``count`` failed probes of an arm, at random; the same ones for the same scores and seed.

    Raises UserError where there are no scores, no such arm, or fewer failures.
    """
    rows = _rows(scores)
    if arm not in (arms := {row["arm"] for row in rows}):
        raise UserError(f"{scores}: arm {arm!r}: {nearest(arm, arms)}")
    failed = sorted({row["sample"] for row in rows if row["arm"] == arm and row["cause"]})
    if len(failed) < count:
        raise UserError(f"{scores}: {arm} failed on {len(failed)} probes, not on {count}: draw at most that many")
    return sorted(random.Random(seed).sample(failed, count))


def cut_table(scores: Path) -> str:
    """Probes that ended at a limit, their share of an arm's tokens, and its median of tokens a probe. Raises UserError without scores."""
    lines = ["| arm | probes | at a limit | share of the tokens | median tokens |", "| --- | ---: | ---: | ---: | ---: |"]
    by_arm: dict[str, list[tuple[bool, int]]] = {}
    for row in _rows(scores):
        by_arm.setdefault(row["arm"], []).append((row["score"]["reason"] != "answered", row["score"]["tokens"]))
    for arm, found in by_arm.items():
        cut = [tokens for at_limit, tokens in found if at_limit]
        whole = sum(tokens for _, tokens in found)
        share = f"{sum(cut) / whole:.2f}" if whole else "–"
        lines.append(f"| {arm} | {len(found)} | {len(cut)} | {share} | {median(t for _, t in found):,.0f} |")
    return "\n".join(lines)


def _rows(scores: Path) -> list[dict[str, Any]]:
    """Scored probes. Raises UserError where there are no scores."""
    if not scores.is_file():
        raise UserError(f"{scores}: no such file: score the evaluation first (python -m eval score CONFIG)")
    return [row for row in read_jsonl(scores) if row["source"] == "probe"]


def failing_block(path: Path) -> str | None:
    """Counts by cause with every finding; None where nothing was read.

    Where the evaluation's scores are at hand, the episodes must be those that its seed draws. Raises ConfigError where they are not.
    """
    if not path.is_file():
        return None
    told = load_config(Readings, path)
    scores = load_config(EvalConfig, told.run).folder / SCORES
    if scores.is_file():
        _check(path, told, draw(scores, told.arm, told.count, told.seed))
    return _table(told.causes, told.episodes.items())


def _check(path: Path, told: Readings, drawn: Iterable[str]) -> None:
    for sample in set(drawn) ^ set(told.episodes):
        wrong = "was not drawn" if sample in told.episodes else "was drawn and has no finding"
        raise ConfigError(f"{path}: episodes: {sample} {wrong}: python -m scripts.results_page draw {told.run} lists the draw")


def _table(causes: Mapping[str, str], episodes: Iterable[tuple[str, Any]]) -> str:
    found = list(episodes)
    number = Counter(reading.cause for _, reading in found)
    lines = [f"| cause | episodes of {len(found)} | which |", "| --- | ---: | --- |"]
    for cause, about in causes.items():
        which = "; ".join(f"`{sample}` {reading.what}" for sample, reading in found if reading.cause == cause)
        lines.append(f"| {about} | {number[cause]} | {which} |")
    return "\n".join(lines)
