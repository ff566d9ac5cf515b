"""The plots beside the card: actions by outcome, input tokens and tokens of an episode by kind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from data_gen.card import PLOTS
from data_gen.tally import Tally


def write_plots(out: Path, tally: Tally) -> None:
    """Write the PNG files of the card, each atomically; the same counts give the same bytes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    (out / "plots").mkdir(parents=True, exist_ok=True)
    for name, draw in zip(PLOTS, (_actions, _inputs, _episodes), strict=True):
        figure, axis = plt.subplots(figsize=(7, 3.2))
        draw(axis, tally)
        figure.tight_layout()
        path = out / name
        temporary = path.with_name(f".{path.name}.tmp")
        figure.savefig(temporary, format="png", dpi=110, metadata={"Software": None})
        plt.close(figure)
        temporary.replace(path)


def _actions(axis: Any, tally: Tally) -> None:
    right, refused = Counter[str](), Counter[str]()
    for action, n in tally.actions.items():
        tool, _, outcome = action.partition(" ")
        (right if outcome in ("ok", "result", "shown") else refused)[tool] += n
    tools = sorted({*right, *refused}, key=lambda t: (right[t] + refused[t], t))
    axis.barh(tools, [right[t] for t in tools], label="accepted")
    axis.barh(tools, [refused[t] for t in tools], left=[right[t] for t in tools], label="refused")
    axis.set_xlabel("calls and replies")
    axis.legend()


def _by_kind(axis: Any, histograms: dict[str, Counter[int]]) -> None:
    kinds = sorted(k for k, h in histograms.items() if h)
    if not kinds:
        return
    values, weights = [list(histograms[k]) for k in kinds], [list(histograms[k].values()) for k in kinds]
    axis.hist(values, bins=30, weights=weights, stacked=True, label=kinds)
    axis.legend()


def _inputs(axis: Any, tally: Tally) -> None:
    _by_kind(axis, tally.inputs)
    axis.set_xlabel("tokens of an input")
    axis.set_ylabel("inferences")


def _episodes(axis: Any, tally: Tally) -> None:
    _by_kind(axis, tally.totals)
    axis.set_xlabel("cumulative tokens of an episode")
    axis.set_ylabel("episodes")
