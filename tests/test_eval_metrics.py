"""What counts as a success, a detection, a false alarm, a cause: on constructed scores."""

from __future__ import annotations

import pytest

from envs.scoring import Check, Read, Score
from eval.config import EvalConfig
from eval.counts import cause, counts
from eval.metrics import METRICS, Row, units_of
from eval.score import summarise

READ = Read(turn=2, tool="read", trigger="index", shows=[3])


def row(variant, *, right=True, read=False, recovered=False, suspected=None, base="b", arm="sft", how=None, managed=True, **more):
    damaged = variant in ("missing", "superseded")
    checks = [
        Check(turn=2, slot="code", verdict="right" if right else "wrong", weight=1, credit=1 if right else -0.25,
              in_view=variant == "present", how=how or ("right" if right else "fabricated"))
    ]  # fmt: skip
    funnel = {"accessible": True, "suspected": read if suspected is None else suspected, "located": read, "used": read and right}
    fields = {
        "id": f"{base}/{variant}", "family": "support", "base": base, "variant": variant, "signal": "asked", "checks": checks,
        "q": 1 if right else -0.25, "quality_step": 0.25, "task_correct": right, "fully_right": right, "constraint_right": 0,
        "constraint_total": 0, "reads": [READ] if read else [], "autonomous_read": read, "recovered": recovered,
        "funnel": {**funnel, "mended": True} if damaged else {}, "calls": {"read": {"shown": 1}} if read else {}, "inferences": 2,
        "tokens": 500, "peak": 300,
    }  # fmt: skip
    fields |= {name: more.pop(name) for name in list(more) if name in Score.model_fields and name != "signal"}
    default = {"signal": "asked" if damaged else "none", "twin": f"{base}/present" if damaged else None, "hinted": False}
    return Row(
        arm=arm, sample=f"{base}/{variant}", source="probe", base=base, family="support", variant=variant, managed=managed,
        score=Score(**fields), **{**default, **more},
    )  # fmt: skip


def success(*rows):
    return [u.num for u in METRICS["pair_success"].units(rows)]


GOOD = {"read": True, "recovered": True}


def test_a_pair_succeeds_when_the_damage_is_recovered_and_the_twin_right_unread():
    assert success(row("missing", **GOOD), row("present")) == [1.0]


@pytest.mark.parametrize(
    ("damaged", "twin"),
    [
        (row("missing", **GOOD), row("present", read=True)),  # always reading
        (row("missing", right=False), row("present")),  # never reading
        (row("missing", right=True, recovered=False), row("present")),  # a lucky guess
        (row("missing", **GOOD), row("present", right=False)),  # the control is broken
        (row("missing", read=True, right=False), row("present")),  # read, and still wrong
    ],
)
def test_each_half_alone_is_no_pair_success(damaged, twin):
    assert success(damaged, twin) == [0.0]


def test_every_damaged_variant_of_a_base_is_a_unit_on_the_same_twin():
    rows = [row("missing", **GOOD), row("superseded", right=False), row("present")]
    assert success(*rows) == [1.0, 0.0]
    value = summarise(EvalConfig(name="x", probes="p", arms={"sft": {"policy": "expert"}}), "lock", {"sft": rows})
    assert value[0]["arms"]["sft"]["pair_success"]["mean"] == 0.5


def test_hinted_unsignalled_and_twinless_probes_are_no_units():
    assert success(row("missing", hinted=True, **GOOD), row("present")) == []
    assert success(row("missing", signal="none", **GOOD), row("present")) == []
    assert success(row("missing", **GOOD)) == []
    assert success(row("never_stated"), row("present")) == []


def test_detection_counts_damage_against_present_controls():
    rows = [
        row("missing", read=True, base="a"), row("present", base="a"),
        row("missing", base="b", right=False), row("present", base="b", read=True),
        row("never_stated", base="c", read=True),
    ]  # fmt: skip
    found = {name: [u.num for u in units] for name, (_, units) in units_of(rows).items()}
    assert found["detection_recall"] == [1, 0]
    assert found["detection_false_alarm"] == [0, 1]
    f1 = {u.base: (u.num, u.den) for u in METRICS["detection_f1"].units(rows)}
    assert f1 == {"a": (2, 2), "b": (0, 2)}  # 2TP over TP + FP + damaged: 2 / 4
    assert counts(rows)["funnel"]["damaged"] == 2


def test_a_find_without_a_hit_and_a_withheld_answer_are_false_alarms_too():
    looked = row("present", calls={"find": {"shown": 1}})
    withheld = row("present", checks=[Check(turn=2, slot="code", verdict="abstained", weight=1, credit=0, how="abstained")])
    assert looked.alarmed
    assert withheld.alarmed
    assert not row("present").alarmed


def test_plain_history_has_nothing_to_detect():
    rows = [row("missing", recovered=True, managed=False), row("present", managed=False)]
    names = set(units_of(rows))
    assert {"pair_success", "task_correct"} <= names
    assert not names & {"detection_recall", "detection_false_alarm", "detection_f1", "read_missing", "reads"}


@pytest.mark.parametrize(
    ("failed", "why"),
    [
        (row("missing"), None),
        (row("missing", right=False, reason="limit_run"), "cut short: limit_run"),
        (row("missing", right=False), "damage not suspected"),
        (row("missing", right=False, suspected=True), "withheld the answer unread"),
        (row("missing", right=False, read=True), "evidence read, not used"),
        (row("present", right=False), "fabricated value, value in view"),
        (row("missing", mended=False, **GOOD), "right, wrong memory left standing"),
    ],
)
def test_the_cause_of_a_failure_is_where_its_funnel_ends(failed, why):
    assert cause(failed) == why


def test_paired_differences_and_ratios_use_shared_samples_alone():
    config = EvalConfig(name="x", probes="p", arms={n: {"policy": "expert"} for n in ("sft", "base", "plain")})
    better = [row("missing", base=b, **GOOD) for b in "abc"] + [row("present", base=b, tokens=250) for b in "abc"]
    worse = [row("missing", base=b, right=False, arm="base") for b in "ab"] + [row("present", base=b, arm="base") for b in "ab"]
    plain = [row("present", base="a", arm="plain", managed=False, tokens=1000)]
    results, _ = summarise(config, "lock", {"sft": better, "base": worse, "plain": plain})
    assert set(results) == {"lock", "split", "arms", "paired"}
    found = {(p["a"], p["b"], p["metric"]): p for p in results["paired"]}
    entry = found["sft", "base", "pair_success"]
    assert (entry["mean"], entry["n"]) == (1.0, 2)
    assert entry["lo"] < 0.5  # two pairs prove little, whatever the bootstrap says
    assert results["arms"]["sft"]["tokens_ratio_to_plain"] == {"mean": 0.25, "lo": None, "hi": None, "n": 1}
    assert ("base", "sft", "pair_success") not in found
