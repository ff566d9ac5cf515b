"""Where managing pays by length, on constructed scores, and in the report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_eval_metrics import row

from eval.crossover import UNTOLD, crossover, crossover_section
from eval.plots import look, pareto_front, tokens_by_length

OPTIONS = {"resamples": 400, "seed": 0}


def arms(ratios: dict[str, float], spread: float = 0.0):
    """Twelve samples a band; ``sft`` takes ``ratios[band]`` times the tokens of plain, more or less by ``spread``."""
    plain, sft = [], []
    for band in ratios:
        for i in range(12):
            one = replace(row("present", base=f"{band} {i}", arm="plain", managed=False), length=band)
            tokens = round(1000 * ratios[band] * (1 + spread * (-1) ** i))
            plain.append(replace(one, score=one.score.model_copy(update={"tokens": 1000})))
            sft.append(replace(one, arm="sft", managed=True, score=one.score.model_copy(update={"tokens": tokens})))
    return {"plain": plain, "sft": sft}


def test_it_pays_from_the_band_after_which_no_interval_reaches_plain():
    found = crossover(arms({"short": 1.3, "medium": 0.9, "long": 0.5}, 0.02), "plain", OPTIONS)["probe"]["sft"]
    assert found["from"] == "medium"
    assert found["bands"]["long"]["tokens"]["mean"] == pytest.approx(0.5)
    assert found["bands"]["short"]["task_correct"]["mean"] == found["bands"]["short"]["plain_task_correct"]["mean"] == 1.0


def test_a_longer_band_that_is_not_cheaper_moves_the_crossover():
    assert crossover(arms({"short": 0.5, "medium": 1.2, "long": 0.5}), "plain", OPTIONS)["probe"]["sft"]["from"] == "long"
    assert crossover(arms({"short": 0.5, "medium": 0.5, "long": 1.2}), "plain", OPTIONS)["probe"]["sft"]["from"] is None


def test_a_mean_below_one_is_not_enough():
    assert crossover(arms({"long": 0.9}, 0.8), "plain", OPTIONS)["probe"]["sft"]["from"] is None


def test_an_episode_that_ended_at_a_limit_does_not_pay():
    rows = arms({"medium": 0.5, "long": 0.5}, 0.02)
    rows["sft"] = [
        replace(r, score=r.score.model_copy(update={"reason": "context_overflow", "tokens": 10})) if r.length == "long" else r
        for r in rows["sft"]
    ]
    found = crossover(rows, "plain", OPTIONS)["probe"]["sft"]
    assert found["bands"]["medium"]["finished"]["mean"] == pytest.approx(0.5)
    assert found["bands"]["long"]["tokens"]["mean"] == pytest.approx(0.01)
    assert found["bands"]["long"]["finished"] is None
    assert found["from"] is None


def test_only_samples_that_both_arms_played_count():
    rows = arms({"short": 1.3, "long": 0.5})
    rows["plain"] = [r for r in rows["plain"] if r.length == "long"]
    assert list(crossover(rows, "plain", OPTIONS)["probe"]["sft"]["bands"]) == ["long"]
    assert crossover({"sft": rows["sft"]}, "plain", OPTIONS) == {}


def test_the_report_has_a_table_and_a_figure():
    details = {"crossover": crossover(arms({"short": 1.3, "long": 0.5}), "plain", OPTIONS)}
    shown = crossover_section(details)
    cells = [c["text"] for c in shown["tables"][0]["rows"][0][1:]]
    assert cells == ["1.30", "1.30", "1.00", "0.50", "0.50", "1.00", "long"]
    assert shown["figure"].startswith("<svg")
    dear = crossover_section({"crossover": crossover(arms({"short": 1.3}), "plain", OPTIONS)})
    assert dear["tables"][0]["rows"][0][-1]["text"] == UNTOLD
    assert dear["figure"] is None  # one band is no curve
    assert crossover_section({"crossover": {}}) is None


def test_the_front_holds_what_nothing_beats_in_both():
    arms = {
        name: {"tokens": {"mean": x}, "task_correct": {"mean": y}}
        for name, (x, y) in {
            "cheap": (10, 0.2),
            "dear": (90, 0.9),
            "beaten": (95, 0.9),
            "middle": (40, 0.5),
            "low": (50, 0.4),
        }.items()
    }
    arms["unmeasured"] = {"tokens": {"mean": 1}}
    assert pareto_front(arms, "task_correct", "tokens") == ["cheap", "middle", "dear"]
    assert pareto_front({"a": arms["low"], "b": arms["low"]}, "task_correct", "tokens") == ["a", "b"]  # equals beat nobody
    assert pareto_front({}, "task_correct", "tokens") == []


def test_no_two_of_many_arms_look_alike():
    assert len({look(position) for position in range(64)}) == 64


def test_the_plot_by_length_counts_what_both_finished():
    share = {"mean": 0.5, "lo": None, "hi": None, "n": 3}
    band = {"tokens": {**share, "mean": 0.01}, "finished": share}
    bands = {"short": band, "long": band}
    cut = {name: {**found, "finished": None} for name, found in bands.items()}
    drawn = tokens_by_length({"sft": {"bands": bands}}, ["short", "long"])
    with_cut = tokens_by_length({"sft": {"bands": bands}, "cut": {"bands": cut}}, ["short", "long"])
    assert "none finished" not in drawn
    assert "cut: none finished" in with_cut
    assert tokens_by_length({"cut": {"bands": {"short": cut["short"]}}}, ["short", "long"]) is None
