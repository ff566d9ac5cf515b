"""Figures of the report as SVG text, to stand inside one HTML file."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

INK, GRID = "#1c2733", "#d9dee4"
COLOURS = ("#0b6e8f", "#b4451f", "#4b7a1f", "#7a3e9d", "#a67c00", "#c2255c", "#33475b", "#00796b")
MARKERS = "osD^vPX*"

STYLE = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "ctxctl",  # equal data gives an equal file
    "svg.fonttype": "none",
}


def look(position: int) -> tuple[str, str]:
    """Colour and marker of a plot's arm; no pair comes twice among the first 64."""
    return COLOURS[position % len(COLOURS)], MARKERS[(position + position // len(COLOURS)) % len(MARKERS)]


def pareto_front(arms: Mapping[str, Mapping[str, Any]], correct: str, tokens: str) -> list[str]:
    """Arms that no other arm beats in both means: none with at most their tokens and at least their correctness, one of them better.

    In order of tokens; empty where no arm has both metrics.
    """
    means = {name: (m[tokens]["mean"], m[correct]["mean"]) for name, m in arms.items() if tokens in m and correct in m}
    front = [name for name, (x, y) in means.items() if not any(a <= x and b >= y and (a, b) != (x, y) for a, b in means.values())]
    return sorted(front, key=lambda name: means[name])


def correctness_against_tokens(arms: Mapping[str, Mapping[str, Any]], correct: str, tokens: str) -> str | None:
    """One point an arm with both 95 % intervals, and the Pareto front; None if no arm has both metrics."""
    points = {name: (m[tokens], m[correct]) for name, m in arms.items() if tokens in m and correct in m}
    if not points:
        return None
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(4.8, 3.9), layout="constrained")
        for position, (name, (x, y)) in enumerate(points.items()):
            colour, marker = look(position)
            axes.errorbar(
                x["mean"],
                y["mean"],
                xerr=_reach(x),
                yerr=_reach(y),
                fmt=marker,
                color=colour,
                ms=7,
                lw=1.2,
                capsize=3,
                label=name,
            )
        front = [points[name] for name in pareto_front(arms, correct, tokens)]
        axes.plot(
            [x["mean"] for x, _ in front], [y["mean"] for _, y in front], color=INK, lw=0.9, ls=":", zorder=0, label="front"
        )
        means = [x["mean"] for x, _ in points.values()]
        if min(means) > 0 and max(means) / min(means) > 6:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(-0.04, 1.04)
        axes.set_xlabel("cumulative tokens an episode (95 %)")
        axes.set_ylabel("task_correct (95 %)")
        axes.grid(color=GRID, lw=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=min(3, len(points) + 1), frameon=False)
        return _svg(figure, f"{correct} against {tokens}, one point an arm")


def tokens_by_length(arms: Mapping[str, Mapping[str, Any]], bands: Sequence[str]) -> str | None:
    """Tokens over the plain arm's by band of length, one line an arm with 95 % intervals; None with fewer than two bands.

    Over the samples that both arms finished: one that ended at a limit spent few tokens for a bad reason. An arm without any has no point.
    """
    played = [band for band in bands if any(band in found["bands"] for found in arms.values())]
    if len(played) < 2:
        return None
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(4.8, 3.9), layout="constrained")
        for position, (name, found) in enumerate(arms.items()):
            at = [i for i, band in enumerate(played) if found["bands"].get(band, {}).get("finished")]
            values = [found["bands"][played[i]]["finished"] for i in at]
            reaches = [_reach(v) or [[0.0], [0.0]] for v in values]
            colour, marker = look(position)
            axes.errorbar(
                [i + 0.04 * (position - (len(arms) - 1) / 2) for i in at],
                [v["mean"] for v in values],
                yerr=[[r[0][0] for r in reaches], [r[1][0] for r in reaches]],
                fmt=marker + "-",
                color=colour,
                ms=5,
                lw=1.2,
                capsize=3,
                label=name if at else f"{name}: none finished",
            )
        axes.axhline(1.0, color=INK, lw=0.9, ls="--")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(range(len(played)), played)
        axes.set_xlabel("length: log tokens over the view budget")
        axes.set_xlim(-0.3, len(played) - 0.7)
        axes.set_ylabel("tokens / plain, both finished (95 %)")
        axes.grid(color=GRID, lw=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=min(3, len(arms)), frameon=False)
        return _svg(figure, "tokens against plain history by length of the session, one line an arm")


def _reach(value: Mapping[str, Any]) -> list[list[float]] | None:
    if value["lo"] is None:
        return None
    return [[max(0.0, value["mean"] - value["lo"])], [max(0.0, value["hi"] - value["mean"])]]


def _svg(figure: Any, label: str) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    svg = buffer.getvalue()
    # With the view box alone the figure scales to a phone; width and height in points would overflow it.
    svg = re.sub(r'\s(?:width|height)="[0-9.]+pt"', "", svg[svg.index("<svg") :], count=2)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
