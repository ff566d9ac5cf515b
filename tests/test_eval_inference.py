"""Gates, claims, verdicts, repeats: on constructed scores, and against known values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student
from test_eval_metrics import row

from envs.stats import Unit, estimate, leave_one_out, paired, paired_p
from eval.config import EvalConfig
from eval.inference import holm, infer, judged_arms, over_families, pass_all, plain_arms, repeats
from eval.metrics import units_of
from eval.verdict import verdict_sections

SHARE = (0.0, 1.0)
OPTIONS = {"resamples": 500, "seed": 3}
HF = {"policy": "hf", "model": "m"}


def config(**more):
    arms = {"base": HF, "sft": {"policy": "hf", "model": "tuned"}, "plain": {**HF, "profile": "plain@1"}}
    return EvalConfig(**{"name": "x", "probes": "p", "arms": arms, "bootstrap": {"resamples": 500}, **more})


def arm_rows(arm, *, right=1.0, detects=1.0, tokens=500, conflicts=0, managed=True, bases=160):
    """``bases`` pairs in 8 families; the first shares of them are right, and detected and recovered."""
    found = []
    for i in range(bases):
        damaged, present = i < right * bases, i < right * bases
        seen = i < detects * bases
        extra = {"arm": arm, "base": f"b{i}", "tokens": tokens + i % 7, "conflicts": conflicts * (i % 2), "managed": managed}
        found.append(row("missing", right=damaged, read=seen, recovered=seen and damaged, **extra))
        found.append(row("present", right=present, **extra))
    return [type(r)(**{**{f: getattr(r, f) for f in r.__slots__}, "family": f"f{int(r.base[1:]) % 8}"}) for r in found]


def rows(**sft):
    return {
        "base": arm_rows("base", right=0.6, detects=0.2, tokens=800, conflicts=1),
        "sft": arm_rows("sft", **{"right": 0.9, "detects": 0.9, **sft}),
        "plain": arm_rows("plain", right=0.9, tokens=1000, managed=False),
    }


def claims(found):
    return {(c["condition"], c["against"]): c for c in found["claims"]}


def test_an_arm_that_improves_everything_is_shown():
    found = infer(config(), rows())
    assert found["verdicts"]["sft"]["verdict"] == "shown"
    assert found["verdicts"]["sft"]["failed"] == []
    assert list(found["verdicts"]) == ["sft"]  # base is what it is judged against
    held = claims(found)
    assert {key: c["outcome"] for key, c in held.items()} == {
        ("primary", "base"): "holds", ("correctness", "plain"): "holds", ("detection", "base"): "holds",
        ("recovery", "base"): "holds", ("conflicts", "base"): "holds", ("tokens", "plain"): "holds",
    }  # fmt: skip
    assert held["correctness", "plain"]["adjusted"] is None  # a gate is no claim
    assert held["tokens", "plain"]["adjusted"] >= held["tokens", "plain"]["p"]
    assert held["tokens", "plain"]["families"].keys() == {f"f{i}" for i in range(8)}


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"right": 0.8}, ["correctness against plain: worse", "tokens against plain: not tested"]),
        ({"detects": 0.2}, ["detection against base: open", "recovery against base: open"]),
        ({"conflicts": 1}, ["conflicts against base: open"]),
        ({"tokens": 1000}, ["tokens against plain: open"]),
        ({"tokens": 1200}, ["tokens against plain: worse"]),
    ],
)
def test_each_condition_alone_fails_the_verdict_and_is_named(change, failed):
    verdict = infer(config(), rows(**change))["verdicts"]["sft"]
    assert verdict["verdict"] == "not shown"
    assert verdict["failed"] == failed
    assert verdict["p"] > 0.05


def test_cost_is_not_looked_at_where_the_gate_is_open_for_want_of_pairs():
    few = {arm: [r for r in of if int(r.base[1:]) < 16] for arm, of in rows(right=1.0).items()}
    held = claims(infer(config(), few))
    assert held["correctness", "plain"]["outcome"] == "open"  # equal on 16 bases says little of 3 points
    cost = held["tokens", "plain"]
    assert (cost["outcome"], cost["difference"], cost["p"], cost["evidence"]) == ("not tested", None, None, 1.0)


def test_plain_history_on_the_same_weights_must_be_beaten_too():
    arms = {**config().arms, "plain_sft": {"policy": "hf", "model": "tuned", "profile": "plain@1"},
            "cut": {"policy": "hf", "model": "tuned", "profile": "plain@1", "manager": "truncate"}}  # fmt: skip
    both = config(arms={name: arm if isinstance(arm, dict) else arm.model_dump() for name, arm in arms.items()})
    assert plain_arms(both, "sft") == ["plain", "plain_sft"]
    assert plain_arms(both, "base") == ["plain"]
    played = {**rows(), "plain_sft": arm_rows("plain_sft", right=1.0, tokens=300, managed=False)}
    verdict = infer(both, played)["verdicts"]["sft"]
    assert verdict["failed"] == ["correctness against plain_sft: worse", "tokens against plain_sft: not tested"]


def test_a_reference_that_is_missing_shows_nothing():
    alone = infer(config(), {"sft": rows()["sft"]})["verdicts"]["sft"]
    assert alone["verdict"] == "not shown"
    assert all(text.endswith("no data") for text in alone["failed"])
    assert len(alone["failed"]) == 5


def test_who_is_judged():
    arms = {"base": HF, "sft": HF, "rl": HF, "expert": {"policy": "expert"}, "plain": {**HF, "profile": "plain@1"}}
    assert judged_arms(config(arms=arms)) == ["sft", "rl"]
    assert judged_arms(config(arms=arms, inference={"judged": ["rl"]})) == ["rl"]
    scripted = {"expert": {"policy": "expert"}, "never_read": {"policy": "never_read"}}
    assert judged_arms(config(arms=scripted, references=["expert"])) == ["never_read"]
    with pytest.raises(ValueError, match=r"inference.judged names arm 'gone', which is not among the arms"):
        config(inference={"judged": ["gone"]})


def test_a_verdict_is_adjusted_for_the_number_of_judged_arms(monkeypatch):
    import eval.inference as module

    names = [f"sft{i}" for i in range(3)]
    arms = {**{n: {"policy": "hf", "model": n} for n in names}, "base": HF, "plain": {**HF, "profile": "plain@1"}}
    same = {n: rows()["sft"] for n in names}
    monkeypatch.setattr(module, "paired_p", lambda *a, **k: 0.03)
    found = infer(config(arms=arms), {**rows(), **same})["verdicts"]
    # Each alone would pass at 0.03; of three at once the smallest must pass at 0.05 / 3.
    assert {v["verdict"] for v in found.values()} == {"not shown"}
    assert found["sft0"]["failed"] == ["all conditions together, adjusted for the number of arms: p = 0.090"]


def test_holm_against_known_values():
    # Holm's step-down on the textbook set; as statsmodels' multipletests(method="holm") and R's p.adjust give it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9, 0.6]) == [1.0, 1.0, 1.0]
    assert holm([]) == []


def test_p_values_agree_with_the_intervals():
    rng = np.random.default_rng(5)
    for bounds in (SHARE, None):
        for _ in range(12):
            gap = rng.uniform(-0.3, 0.3)
            a = [Unit("a", f"b{i}", float(v), 1.0, str(i)) for i, v in enumerate(rng.uniform(size=30) < 0.5 + gap)]
            b = [Unit("a", f"b{i}", float(v), 1.0, str(i)) for i, v in enumerate(rng.uniform(size=30) < 0.5)]
            p = paired_p(a, b, bounds=bounds, **OPTIONS)
            value = paired(a, b, bounds=bounds, level=1 - p * 0.98, **OPTIONS)
            wide = paired(a, b, bounds=bounds, level=min(1 - p * 1.02, 1.0) if p < 0.98 else 0.0, **OPTIONS)
            assert value.lo <= 0 <= value.hi
            assert p > 0.97 or not wide.lo <= 0 <= wide.hi
    assert paired_p(a[:1], b[:1], bounds=None, **OPTIONS) is None
    assert paired_p(a, [], bounds=SHARE, **OPTIONS) is None


def test_the_t_interval_over_families_is_students():
    means = [0.2, 0.5, 0.6, 0.9]
    units = [Unit(f"f{i}", f"b{j}", m, 1.0, f"{i}/{j}") for i, m in enumerate(means) for j in range(3)]
    value = over_families(units, bounds=SHARE)
    half = student.ppf(0.975, 3) * np.std(means, ddof=1) / 2
    assert (value.mean, value.hi) == pytest.approx((0.55, min(0.55 + half, 1.0)))
    assert value.n == 4
    assert over_families(units[:3], bounds=SHARE) is None
    assert over_families([Unit(f, "b", 1.0) for f in "abc"], bounds=SHARE).lo is None  # like families tell no spread
    other = [Unit(u.family, u.base, 0.1, 1.0, u.key) for u in units]
    gap = over_families(units, other, bounds=SHARE)
    assert gap.mean == pytest.approx(0.45)
    assert gap.lo == pytest.approx(0.45 - half)
    assert leave_one_out(units, other) == pytest.approx((1 / 3, 17 / 30))


def test_pass_at_one_and_pass_to_the_k_over_repeats():
    units = [Unit("a", "x", won, 1.0, "s", i) for i, won in enumerate((1, 1, 1, 0))] + [Unit("a", "y", 1, 1.0, "t", 0)]
    assert [u.num for u in pass_all(units, 1)] == [0.75, 1.0]
    assert [u.num for u in pass_all(units, 2)] == [0.5]  # 3 of the 6 pairs; a sample with one repeat tells none
    assert [u.num for u in pass_all(units, 4)] == [0.0]
    assert estimate(pass_all(units, 1), bounds=SHARE, **OPTIONS).bases == 2


def repeated(r, repeat):
    return type(r)(**{**{f: getattr(r, f) for f in r.__slots__}, "repeat": repeat})


def test_repeats_of_a_sample_are_paired_by_number_and_stay_with_their_base():
    good = {"read": True, "recovered": True}
    first = [row("missing", **good), row("present")]
    second = [row("missing", right=False), row("present")]
    played = [*(repeated(r, 0) for r in first), *(repeated(r, 1) for r in second)]
    units = units_of(played)["pair_success"][1]
    assert [(u.num, u.repeat, u.base) for u in units] == [(1.0, 0, "b"), (0.0, 1, "b")]
    table = repeats(config(), played)
    assert table["pair_success"]["pass@1"]["mean"] == 0.5
    assert table["pair_success"]["pass^2"]["mean"] == 0.0
    assert table["task_correct"]["pass^2"]["mean"] == 0.5
    assert repeats(config(), first) == {}
    with pytest.raises(ValueError, match="unique within an arm"):
        paired(units + units, units, bounds=SHARE, **OPTIONS)


def test_the_report_says_verdict_gate_and_families():
    sections = verdict_sections(infer(config(), rows(right=0.8)))
    told = {s["title"]: s for s in sections}
    assert list(told) == ["Verdicts", "Gates and primary set", "The claims by family"]
    first = told["Verdicts"]["tables"][0]["rows"][0]
    assert (first[0], first[1]["text"]) == ("sft", "not shown")
    assert "tokens against plain: not tested" in first[2]["text"]
    lines = {r[1]["text"]: r for r in told["Gates and primary set"]["tables"][0]["rows"]}
    assert lines["correctness (gate)"][3]["text"] == "90%"
    assert lines["tokens"][-1]["text"] == "not tested"
    general = told["The claims by family"]["tables"][0]
    assert general["head"][-1] == "families in general (t)"
    assert verdict_sections({"verdicts": {}, "repeats": {}}) == []
