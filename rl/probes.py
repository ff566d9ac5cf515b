"""Probes and full sessions as tasks of the trainer: loading, start, outcome."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from envs.chat import ChatML
from envs.config import ConfigError
from envs.episode import Episode
from envs.measures import is_alarmed, is_damaged
from envs.profiles import CORE_TOOLS, Profile
from envs.rewards import reference_cost, saving
from envs.runs import read_jsonl
from envs.scoring import Check, Score, score
from envs.tasks.base import Probe, Session
from envs.trajectory import Trajectory
from rl.ablation import quality
from rl.curriculum import SESSION, Task
from rl.outcome import Outcome, mean
from rl.rollout import Played


def load_probes(path: str | Path, field: str) -> list[Probe]:
    """Probes of a JSONL file. Raises ConfigError or DataError naming file, line and remedy."""
    probes = read_jsonl(path, model=Probe)
    if not probes:
        raise ConfigError(f"{field}: {path} holds no probe: make probes with python -m data_gen")
    return probes


def load_sessions(path: str | Path) -> list[Session]:
    """Full sessions of a JSONL file. Raises ConfigError or DataError naming file, line and remedy."""
    sessions = read_jsonl(path, model=Session)
    if not sessions:
        raise ConfigError(f"sessions: {path} holds no session: write one Session a line, or leave the field out")
    return sessions


class ProbeGame:
    """Starts and judges episodes of probes and sessions under one profile and prompt; ``ablation`` may change what their quality is."""

    def __init__(self, profile: Profile, chat: ChatML, prompt: str, ablation: Collection[str] = ()) -> None:
        self.profile, self.chat, self.prompt, self.ablation = profile, chat, prompt, ablation
        self._reference: dict[str, int] = {}
        self.on_judged: Callable[[Trajectory, float], None] | None = None
        """Called with each judged episode and its quality."""

    def start(self, task: Task) -> Episode:
        """The episode at the point where the policy takes over: after a probe's frozen prefix, or at a session's first turn."""
        if isinstance(task, Probe):
            return Episode.from_probe(task, self.profile, self.chat, prompt=self.prompt)
        return Episode(task, self.profile, self.chat, prompt=self.prompt)

    def judge(self, task: Task, played: Played) -> Outcome:
        """Quality, saving and metrics of a played episode; one that a cap stopped is scored as having hit a limit."""
        trajectory = played.episode.trajectory("rl")
        if played.stopped:
            trajectory = trajectory.model_copy(update={"reason": "limit_run"})
        result = score(trajectory)
        if self.on_judged:
            self.on_judged(trajectory, result.q)
        if task.id not in self._reference:
            self._reference[task.id] = reference_cost(task, self.chat, self.profile.name, self.prompt)
        tools = (task.session if isinstance(task, Probe) else task).tools
        q, step = quality(result, self.ablation)
        return Outcome(
            q=q,
            s=saving(self._reference[task.id], result.tokens),
            fully_right=result.fully_right,
            quality_step=step,
            metrics=_metrics(task, played, result),
            counts=_counts(played, result, {*CORE_TOOLS, *(t.name for t in tools), "none"}),
            excluded=result.infrastructure,
            overlong=result.reason.startswith(("limit", "context")),
            score=result,
        )


def _metrics(task: Task, played: Played, result: Score) -> dict[str, float]:
    out = {
        "episode/segments": float(len(played.segments)),
        "episode/inferences": float(result.inferences),
        "episode/tokens": float(result.tokens),
        "episode/reads": float(len(result.reads)),
        "episode/rewrites": float(result.rewrites),
        "episode/malformed": float(result.malformed),
        "episode/fully_right": float(result.fully_right),
        f"family/{task.family}": result.q,
        f"variant/{task.variant if isinstance(task, Probe) else SESSION}": result.q,
    }
    for kind, values in _by_kind(result.checks).items():
        out[f"reward/{kind}"] = mean(values)
    if not isinstance(task, Probe):
        return out
    if task.variant == "present":
        out["detect/false_alarm"] = float(is_alarmed(result))
    elif is_damaged(task.variant, task.signal) and result.funnel:
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
