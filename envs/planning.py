"""A plan as a person reads it: what a step holds, memory by part, and, where it can't fit, what would make it fit."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from envs.config import ConfigError
from envs.hardware import Hardware, Launch, read_launch
from envs.memory import GIB, PHASES, Work, parts, peak

C = TypeVar("C")
MOST_REMEDIES = 6


@dataclass(frozen=True, slots=True)
class Plan:
    """What ``plan`` found. ``about`` and ``step`` are lines of the text; ``limit_gib`` is the memory of one GPU, or of this machine."""

    work: Work
    about: dict[str, Any]
    step: dict[str, Any]
    limit_gib: float
    notes: list[str] = field(default_factory=list)

    @property
    def table(self) -> dict[str, dict[str, float]]:
        """GiB by part and phase."""
        return {name: {p: v / GIB for p, v in row.items()} for name, row in parts(self.work).items()}

    @property
    def peak_gib(self) -> float:
        return peak(parts(self.work))[0] / GIB

    @property
    def fits(self) -> bool:
        return self.peak_gib <= self.limit_gib

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            **self.about,
            "step": self.step,
            "memory_gib": {name: {p: round(v, 3) for p, v in row.items()} for name, row in self.table.items()},
            "peak_gib": round(self.peak_gib, 2),
            "peak_phase": peak(parts(self.work))[1],
            "limit_gib": round(self.limit_gib, 2),
            "fits": self.fits,
            "notes": self.notes,
        }

    def text(self) -> str:
        """For people."""
        lines = [f"{name:<16}{_shown(value)}" for name, value in self.about.items()]
        lines += ["", "one step"] + [f"  {name:<26}{_shown(value)}" for name, value in self.step.items()]
        phases = [p for p in PHASES if any(row[p] for name, row in self.table.items() if name not in ("runtime", "libraries"))]
        where = "GPU" if self.work.device == "cuda" else "process"
        lines += ["", f"{f'memory of one {where}, GiB':<28}" + "".join(f"{p:>10}" for p in phases)]
        for name, row in self.table.items():
            lines.append(f"  {name:<26}" + "".join(f"{row[p]:>10.2f}" for p in phases))
        sums = [sum(row[p] for row in self.table.values()) for p in phases]
        lines.append(f"  {'all':<26}" + "".join(f"{s:>10.2f}" for s in sums))
        verdict = "fits" if self.fits else "does NOT fit"
        if self.work.device == "cpu":
            lines.append("  (a CPU process keeps what it freed: training takes the larger figure of every part)")
        lines += ["", f"peak {self.peak_gib:.1f} GiB of {self.limit_gib:.1f} GiB: {verdict}"]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def where_it_runs(hardware: Hardware | None, world_size: int | None, cuda_gib: float | None) -> tuple[Launch, str, float]:
    """Launch, device and GiB of one device: of the recipe's hardware, or of this machine (``cuda_gib``: of its GPU, if it has one).

    Raises ConfigError where ``world_size`` and the accelerate file start another number of processes.
    """
    if hardware is None:
        launch = Launch(strategy="ddp" if (world_size or 1) > 1 else "single", gpus=world_size or 1)
        return (launch, "cuda", cuda_gib) if cuda_gib else (launch, "cpu", _machine_gib() / launch.gpus)
    launch = read_launch(hardware.accelerate)
    if world_size is not None and world_size != launch.gpus:
        raise ConfigError(
            f"world_size: {world_size}, but {launch.file or 'a run without an accelerate file'} starts {launch.gpus} process(es): "
            "make them agree"
        )
    return launch, "cuda", hardware.gpu_gib


def _machine_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB


def launches(hardware: Hardware | None) -> list[tuple[str, Launch]]:
    """The accelerate files beside the recipe's own (or in configs/accelerate), by the GPUs they take."""
    folder = Path(hardware.accelerate).parent if hardware and hardware.accelerate else Path("configs/accelerate")
    found = []
    for file in sorted(folder.glob("*.yaml")):
        try:
            found.append((str(file), read_launch(str(file))))
        except ConfigError:
            continue
    return sorted(found, key=lambda pair: (pair[1].gpus, pair[0]))


def remedies(again: Callable[[Sequence[str]], Plan], changes: Iterable[Sequence[str]]) -> list[tuple[list[str], float]]:
    """Overrides, alone or two together, under which a plan fits, and its peak then: the fewest that do, at most ``MOST_REMEDIES``.

    ``again`` makes the plan with overrides; a change that the config refuses is passed over.
    """
    single = [list(change) for change in changes]
    for count in (1, 2, 3):
        fitting = []
        for chosen in itertools.combinations(single, count):
            flat = [override for change in chosen for override in change]
            keys = [override.partition("=")[0] for override in flat]
            if len(set(keys)) < len(keys):
                continue
            try:
                plan = again(flat)
            except ConfigError:
                continue
            if plan.fits:
                fitting.append((flat, plan.peak_gib))
                if len(fitting) == MOST_REMEDIES:
                    return fitting
        if fitting:
            return fitting
    return []


def plan_or_refuse(
    load: Callable[[Sequence[str]], C], plan: Callable[[C], Plan], changes: Callable[[C, Plan], Iterable[Sequence[str]]]
) -> tuple[Plan, str]:
    """The plan of a config and, where it doesn't fit, the refusal with what makes it fit ("" where it fits).

    Args:
        load: the config with further overrides.
        plan: of a config.
        changes: overrides that take less memory, the mildest first.
    """
    config = load([])
    found = plan(config)
    if found.fits:
        return found, ""
    return found, refusal(found, remedies(lambda more: plan(load(more)), changes(config, found)))


def refusal(plan: Plan, found: Sequence[tuple[Sequence[str], float]]) -> str:
    """The message for a plan that doesn't fit. Each remedy is a line of overrides to repeat the command with."""
    biggest = sorted(plan.table.items(), key=lambda item: -max(item[1].values()))[:3]
    told = ", ".join(f"{name} {max(row.values()):.1f}" for name, row in biggest)
    first = f"needs {plan.peak_gib:.1f} GiB, there are {plan.limit_gib:.1f} (largest parts: {told})"
    if not found:
        return f"{first}: nothing known here makes it fit: take a smaller model or GPUs with more memory"
    lines = [f"  {shlex.join(overrides)}    (peak {gib:.1f} GiB)" for overrides, gib in found]
    return f"{first}. It fits with any one of these lines of overrides:\n" + "\n".join(lines)
