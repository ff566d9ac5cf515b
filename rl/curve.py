"""What training changed: curves of runs as a figure, and the paired difference between their last validations and step 0."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.config import UserError
from envs.runs import read_jsonl, write_text_atomic
from envs.stats import Bounds, Estimate, Unit, paired
from rl.outcome import mean
from rl.resume import METRICS
from rl.validation import VALIDATION, read_validations

LAST = 3
"""Validations at the end of a run that are averaged, by probe, before they are compared with step 0."""
RESAMPLES, SEED = 10_000, 0
COMPARED: dict[str, tuple[str, Bounds]] = {
    "q": ("q", (-0.25, 1.0)),
    "pair_success": ("pair_success", (0.0, 1.0)),
    "task_correct": ("right", (0.0, 1.0)),
    "tokens": ("tokens", None),
}
"""Metric -> its field in ``validation.jsonl`` and its bounds."""
PANELS = {"reward/q": "training: reward/q", "val/q": "validation: q", "val/pair_success": "validation: pair success",
          "val/tokens": "validation: tokens an episode"}  # fmt: skip
MEASURES = {
    "seconds/step": "seconds a step", "seconds/host_share": "of it host", "rows/padding": "padding",
    "rows/trained_share": "trained share of rows", "rows/naive_ratio": "trained share ÷ one row an inference",
    "logp_gap/max": "largest log-prob gap",
}  # fmt: skip
"""Logged figures of the second table, means over the steps (the gap: the largest)."""

SHARES = ("seconds/host_share", "rows/padding", "rows/trained_share")


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder's figures: ``metrics`` lines in order, ``validations`` lines by step."""

    name: str
    metrics: list[dict[str, Any]]
    validations: dict[int, list[dict[str, Any]]]

    @property
    def last(self) -> list[int]:
        """The last steps that were validated, step 0 left out."""
        return [step for step in self.validations if step > 0][-LAST:]

    def points(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of a logged metric."""
        return [(line["step"], line[name]) for line in self.metrics if line.get(name) is not None]


def load_runs(folders: Sequence[Path]) -> list[Run]:
    """Runs under the names of their folders. Raises UserError for one without a validation at step 0 and later."""
    names = [folder.resolve().name for folder in folders]
    runs = []
    for folder, name in zip(folders, names, strict=True):
        shown = name if names.count(name) == 1 else f"{folder.resolve().parent.name}/{name}"
        metrics = read_jsonl(folder / METRICS) if (folder / METRICS).is_file() else []
        run = Run(shown, metrics, read_validations(folder))
        if 0 not in run.validations or not run.last:
            raise UserError(
                f"{folder / VALIDATION}: needs step 0 and a later validation: run with val_probes and val_at_start=true, and wait"
            )
        runs.append(run)
    return runs


def difference(run: Run, metric: str, other: Run | None = None) -> Estimate | None:
    """The mean of the last validations minus step 0, or minus the last validations of another run; None without the metric.

    Paired by probe, bases resampled within families.
    """
    field, bounds = COMPARED[metric]
    before = _units(other, other.last, field) if other else _units(run, [0], field)
    return paired(_units(run, run.last, field), before, bounds=bounds, resamples=RESAMPLES, seed=SEED)


def _units(run: Run, steps: Sequence[int], field: str) -> list[Unit]:
    """A unit a probe that all these steps have: its mean over them."""
    held: dict[str, list[dict[str, Any]]] = {}
    for step in steps:
        for line in run.validations[step]:
            if line[field] is not None:
                held.setdefault(line["id"], []).append(line)
    return [
        Unit(lines[0]["family"], lines[0]["base"], mean([float(x[field]) for x in lines]), 1.0, key)
        for key, lines in held.items()
        if len(lines) == len(steps)
    ]


def tables(runs: Sequence[Run]) -> str:
    """The paired differences to step 0 and to the first run, and the measures of the runs, as Markdown."""
    head = [
        "| run | steps | compared with step 0 | probes | bases | "
        + " | ".join(f"{m}, difference (95 %)" for m in COMPARED)
        + " |",
        "| --- | ---: | --- | ---: | ---: | " + " | ".join("---" for _ in COMPARED) + " |",
    ]
    for run in runs:
        steps = ", ".join(map(str, run.last))
        head.append(f"| {run.name} | {max(run.validations)} | mean of {steps} | {_compared(run)} |")
    if len(runs) > 1:
        head += [
            "",
            "| first run minus | " + head[0].split(" | ", 3)[3],
            "| --- | ---: | ---: | " + " | ".join("---" for _ in COMPARED) + " |",
        ]
        head += [f"| {run.name} | {_compared(runs[0], run)} |" for run in runs[1:]]
    head += ["", "| run | " + " | ".join(MEASURES.values()) + " |", "| --- | " + " | ".join("---:" for _ in MEASURES) + " |"]
    for run in runs:
        head.append(f"| {run.name} | {' | '.join(_measure(run, name) for name in MEASURES)} |")
    return "\n".join(head)


def _compared(run: Run, other: Run | None = None) -> str:
    """The cells of a comparison: probes, bases, and each difference."""
    found = {metric: difference(run, metric, other) for metric in COMPARED}
    q = found["q"]
    cells = [_cell(value, COMPARED[metric][1] is None) for metric, value in found.items()]
    return " | ".join([str(q.n if q else 0), str(q.bases if q else 0), *cells])


def _cell(value: Estimate | None, amount: bool) -> str:
    if value is None:
        return "-"
    shown = (lambda x: "?" if x is None else f"{x:+,.0f}") if amount else (lambda x: "?" if x is None else f"{x:+.3f}")
    return f"{shown(value.mean)} [{shown(value.lo)}, {shown(value.hi)}]"


def _measure(run: Run, name: str) -> str:
    values = [value for _, value in run.points(name)]
    if not values:
        return "-"
    if name == "logp_gap/max":
        return f"{max(values):.1e}"
    return f"{mean(values):.1%}" if name in SHARES else f"{mean(values):.3g}"


def draw_curves(runs: Sequence[Run], path: Path) -> None:
    """A PNG of the four curves by step, one line a run; equal data gives an equal picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9.0, 6.0), sharex=True, layout="constrained")
    for (name, title), axis in zip(PANELS.items(), axes.flat, strict=True):
        for run in runs:
            points = run.points(name)
            steps, values = [p[0] for p in points], [p[1] for p in points]
            marker = "o" if name.startswith("val/") else ""
            line = axis.plot(steps, values, marker=marker, ms=4, lw=1.2 if marker else 0.6, alpha=1 if marker else 0.4)
            if not marker:
                axis.plot(steps, smooth(values), color=line[0].get_color(), lw=1.6, label=run.name)
            else:
                line[0].set_label(run.name)
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.25)
    for axis in axes[1]:
        axis.set_xlabel("step")
    axes[0][0].legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)


def smooth(values: Sequence[float], width: int = 5) -> list[float]:
    """Each value's mean with those of the ``width - 1`` steps before it."""
    return [mean(values[max(0, i + 1 - width) : i + 1]) for i in range(len(values))]


def write(runs: Sequence[Run], page: Path) -> Path:
    """Put tables and figure into a Markdown page, between its ``curve`` markers (added at the end where there are none).

    Returns the path of the figure, ``<page's name>_curve.png`` beside the page.
    """
    figure = page.with_name(f"{page.stem}_curve.png")
    draw_curves(runs, figure)
    names = " ".join(run.name for run in runs)
    block = (
        f"<!-- curve:start -->\nMade with `python -m rl curve` from {names}.\n\n![curves by step]({figure.name})\n\n"
        f"{tables(runs)}\n<!-- curve:end -->"
    )
    text = page.read_text(encoding="utf-8") if page.is_file() else "# Training\n"
    pattern = re.compile(r"<!-- curve:start -->.*?<!-- curve:end -->", re.DOTALL)
    # A function as the replacement: names may hold backslashes.
    text = pattern.sub(lambda _: block, text) if pattern.search(text) else f"{text.rstrip()}\n\n{block}\n"
    write_text_atomic(page, text)
    return figure
