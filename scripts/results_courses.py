"""How the weights moved in validation over the steps of RL runs: a table, and their paths between false alarms and recall as a figure."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.config import UserError
from envs.runs import read_json, read_jsonl, write_json_atomic

MEASURES = {
    "pair_success": "val/pair_success", "task_correct": "val/task_correct", "right_present": "val/right_present",
    "recall": "val/detect/recall", "false_alarm": "val/detect/false_alarm", "tokens": "val/tokens",
}  # fmt: skip
"""Column -> its name in ``metrics.jsonl``."""


def keep_course(name: str, about: str, run: Path, kept: Path) -> dict[str, Any]:
    """Add the validations of an RL run to the file that keeps them; the same name replaces it. Raises UserError for a run without any."""
    lines = [line for line in read_jsonl(run / "metrics.jsonl") if "val/q" in line]
    if not lines:
        raise UserError(f"{run}: no validation in metrics.jsonl: set val_probes and val_every, and run it")
    points = [{"step": line["step"], **{m: line[k] for m, k in MEASURES.items() if line.get(k) is not None}} for line in lines]
    known = read_json(kept) if kept.is_file() else {}
    made = {"about": about, "points": points}
    write_json_atomic(kept, {**known, name: made})
    return made


def sensitivity(recall: float, false_alarm: float) -> float | None:
    """The index d′ of signal detection theory, z(recall) − z(false alarms): how well reads are told apart, however readily it reads.

    None where a share is 0 or 1. Source: Green and Swets, Signal Detection Theory and Psychophysics, 1966.
    """
    from scipy.stats import norm

    if not (0 < recall < 1 and 0 < false_alarm < 1):
        return None
    return float(norm.ppf(recall) - norm.ppf(false_alarm))


def courses_table(courses: Mapping[str, Mapping[str, Any]]) -> str:
    """One row a validation."""
    lines = [
        "| run | what | step | " + " | ".join(m.replace("_", " ") for m in MEASURES) + " | d′ |",
        "| --- | --- | ---: |" + " ---: |" * (len(MEASURES) + 1),
    ]
    for name, course in courses.items():
        for number, point in enumerate(course["points"]):
            cells = ["–" if m not in point else f"{point[m]:,.0f}" if m == "tokens" else f"{point[m]:.2f}" for m in MEASURES]
            both = {"recall", "false_alarm"} <= set(point)
            index = sensitivity(point["recall"], point["false_alarm"]) if both else None
            cells.append("–" if index is None else f"{index:.2f}")
            head = [name, course["about"]] if number == 0 else ["", ""]
            lines.append("| " + " | ".join([*head, str(point["step"]), *cells]) + " |")
    return "\n".join(lines)


def courses_figure(courses: Mapping[str, Mapping[str, Any]]) -> str:
    """Paths over the steps, recall of damaged probes against false alarms on controls, as SVG text."""
    from matplotlib import pyplot as plt

    from eval.plots import GRID, STYLE, look  # chooses the backend

    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(7.2, 5.6), layout="constrained")
        for number, (name, course) in enumerate(courses.items()):
            points: Sequence[Mapping[str, Any]] = [p for p in course["points"] if {"recall", "false_alarm"} <= set(p)]
            x, y = [p["false_alarm"] for p in points], [p["recall"] for p in points]
            colour, marker = look(number)
            axis.plot(x, y, color=colour, marker=marker, label=f"{name}: {course['about']}")
            for point in points:
                axis.annotate(
                    str(point["step"]), (point["false_alarm"], point["recall"]), xytext=(5, -11), textcoords="offset points",
                    color=colour, fontsize=8,
                )  # fmt: skip
        axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="false alarms on controls", ylabel="recall on damaged probes")
        axis.grid(color=GRID)
        figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=2)
        out = io.StringIO()
        figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]
