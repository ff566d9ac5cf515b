"""Probes as tasks of the trainer: loading, order over a run, start, outcome."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from envs.chat import ChatML
from envs.config import ConfigError
from envs.episode import Episode
from envs.measures import is_alarmed, is_damaged
from envs.profiles import CORE_TOOLS, Profile
from envs.rewards import reference_cost, saving
from envs.runs import read_jsonl
from envs.scoring import Check, Score, score
from envs.tasks.base import Probe
from rl.ablation import quality
from rl.outcome import Outcome, mean
from rl.rollout import Played


def load_probes(path: str | Path, field: str) -> list[Probe]:
    """Probes of a JSONL file. Raises ConfigError or DataError naming file, line and remedy."""
    probes = read_jsonl(path, model=Probe)
    if not probes:
        raise ConfigError(f"{field}: {path} holds no probe: make probes with python -m data_gen")
    return probes


def draw(items: Sequence[Any], count: int, seed: int) -> list[Any]:
    """``count`` items in a seeded order that takes each once before any comes again.

    The order of a whole run is drawn at once, so it doesn't depend on where the run was interrupted.
    """
    rng = random.Random(f"order {seed}")
    out: list[Any] = []
    while len(out) < count:
        out += rng.sample(list(items), len(items))
    return out[:count]


class ProbeGame:
    """Starts and judges episodes of probes under one profile and prompt; ``ablation`` may change what their quality is."""

    def __init__(self, profile: Profile, chat: ChatML, prompt: str, ablation: Collection[str] = ()) -> None:
        self.profile, self.chat, self.prompt, self.ablation = profile, chat, prompt, ablation
        self._reference: dict[str, int] = {}

    def start(self, probe: Probe) -> Episode:
        """The episode at the point where the policy takes over."""
        return Episode.from_probe(probe, self.profile, self.chat, prompt=self.prompt)

    def judge(self, probe: Probe, played: Played) -> Outcome:
        """Quality, saving and metrics of a played episode; one that a cap stopped is scored as having hit a limit."""
        trajectory = played.episode.trajectory("rl")
        if played.stopped:
            trajectory = trajectory.model_copy(update={"reason": "limit_run"})
        result = score(trajectory)
        if probe.id not in self._reference:
            self._reference[probe.id] = reference_cost(probe, self.chat, self.profile.name, self.prompt)
        q, step = quality(result, self.ablation)
        return Outcome(
            q=q,
            s=saving(self._reference[probe.id], result.tokens),
            fully_right=result.fully_right,
            quality_step=step,
            metrics=_metrics(probe, played, result),
            counts=_counts(played, result, {*CORE_TOOLS, *(t.name for t in probe.session.tools), "none"}),
            excluded=result.infrastructure,
            overlong=result.reason.startswith(("limit", "context")),
            score=result,
        )


def _metrics(probe: Probe, played: Played, result: Score) -> dict[str, float]:
    out = {
        "episode/segments": float(len(played.segments)),
        "episode/inferences": float(result.inferences),
        "episode/tokens": float(result.tokens),
        "episode/reads": float(len(result.reads)),
        "episode/rewrites": float(result.rewrites),
        "episode/malformed": float(result.malformed),
        "episode/fully_right": float(result.fully_right),
        f"family/{probe.family}": result.q,
        f"variant/{probe.variant}": result.q,
    }
    for kind, values in _by_kind(result.checks).items():
        out[f"reward/{kind}"] = mean(values)
    if probe.variant == "present":
        out["detect/false_alarm"] = float(is_alarmed(result))
    elif is_damaged(probe.variant, probe.signal) and result.funnel:
        out |= {"detect/recall": float(result.funnel["suspected"]), "detect/recovered": float(result.recovered)}
    return out


def _by_kind(checks: Sequence[Check]) -> dict[str, list[float]]:
    """Credits by kind of check: where the asked value comes from, ``constraint`` and ``never_stated``."""
    kinds: dict[str, list[float]] = {}
    for check in checks:
        kind = "never_stated" if check.never else "constraint" if check.constraint else check.source
        kinds.setdefault(kind, []).append(check.credit)
    return kinds


def _counts(played: Played, result: Score, tools: set[str]) -> dict[str, float]:
    """How the episode ended and what its calls came to; names that a policy made up count as ``other``."""
    out = {f"end/{played.stopped or result.reason}": 1.0}
    for tool, outcomes in result.calls.items():
        for outcome, n in outcomes.items():
            name = f"calls/{tool if tool in tools else 'other'}/{outcome}"
            out[name] = out.get(name, 0.0) + n
    return out
