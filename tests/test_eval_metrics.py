"""What counts as a success, a detection, a false alarm, a cause: on constructed scores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from game import filler, make_session

from envs.lengths import length_of
from envs.scoring import Check, Read, Score
from envs.tasks.base import Slot
from eval.config import EvalConfig
from eval.counts import cause, counts
from eval.metrics import METRICS, Row, ratio_to, units_of
from eval.score import summarise
from eval.strata import strata

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


def test_what_no_view_can_tell_belongs_to_verification_and_to_no_detection_metric():
    rows = [
        row("missing", **GOOD), row("present"),
        row("corrupted", signal="none", right=False, base="c", twin="twin"),
        replace(row("present", read=True, base="c", twin="c/corrupted"), sample="twin"),
        row("verify", read=True, base="v", tokens=900, twin=None),
    ]  # fmt: skip
    found = {name: [(u.key, u.num) for u in units] for name, (_, units) in units_of(rows).items()}
    assert found["detection_false_alarm"] == [("b/present", 0)]
    assert [u.den for u in METRICS["detection_f1"].units(rows)] == [2]
    assert found["verification_right"] == [("c/corrupted", 0), ("twin", 1), ("v/verify", 1)]
    assert found["verification_read"] == [("c/corrupted", 0), ("twin", 1), ("v/verify", 1)]
    assert found["verification_tokens"] == [("c/corrupted", 500), ("twin", 500), ("v/verify", 900)]
    assert found["unsignalled_right"] == [("c/corrupted", 0)]


def test_hinted_probes_count_under_their_hint_alone():
    hinted = [
        replace(row("missing", hinted=True, base=b, twin=None, **GOOD), sample=f"{b}/missing/vague", hint="vague") for b in "ab"
    ]
    rows = [row("missing", base=b, right=False) for b in "ab"] + [row("present", base=b) for b in "ab"] + hinted
    assert [u.num for u in units_of(rows)["recovered"][1]] == [0, 0]
    by_hint = strata(rows, {"resamples": 100, "seed": 0})["hint"]
    assert list(by_hint) == ["none", "vague"]
    assert by_hint["none"]["recovered"]["mean"] == 0
    assert (by_hint["vague"]["recovered"]["mean"], by_hint["vague"]["recovered"]["n"]) == (1.0, 2)
    assert by_hint["none"]["pair_success"]["n"] == 2
    assert "pair_success" not in by_hint["vague"]


def test_a_pair_belongs_to_the_variant_and_signal_of_its_damaged_probe():
    rows = [row("missing", **GOOD), row("superseded", right=False, signal="index"), row("present")]
    found = strata(rows, {"resamples": 100, "seed": 0})
    assert {level: m["pair_success"]["mean"] for level, m in found["variant"].items() if "pair_success" in m} == {
        "missing": 1,
        "superseded": 0,
    }
    assert {level: m["pair_success"]["mean"] for level, m in found["signal"].items() if "pair_success" in m} == {
        "asked": 1,
        "index": 0,
    }
    assert "language" not in found, "one level says nothing new"


@pytest.mark.parametrize(("fillers", "band"), [(10, "short"), (130, "medium"), (500, "long"), (1300, "very long")])
def test_the_length_of_a_session_is_what_its_script_puts_into_the_log(chat, fillers, band):
    call = "quote item=desks qty=2"
    session = make_session(["Quote. Answer: a=?"], {call: filler(fillers)}, slots=[(Slot(name="a", accept=("1",)),)])
    asked = session.model_copy(update={"turns": (session.turns[0].model_copy(update={"calls": (call,)}),)})
    assert length_of(asked, chat) == band
    assert length_of(session, chat) == "short", "a result that no turn asks for is not in the log"


def test_ratios_with_and_without_what_followed_a_failure_and_where_both_finished():
    rows = [
        row("present", base="a", tokens=300, verdict_tokens=300),
        row("present", base="b", tokens=900, verdict_tokens=400, reason="limit_run"),
    ]
    plain = [row("present", base=b, tokens=600, verdict_tokens=200) for b in "ab"]
    found = {name: [(u.num, u.den) for u in units] for name, (_, units) in ratio_to(rows, plain).items()}
    assert found["tokens_ratio_to_plain"] == [(300, 600), (900, 600)]
    assert found["verdict_tokens_ratio_to_plain"] == [(300, 200), (400, 200)]
    assert found["finished_tokens_ratio_to_plain"] == [(300, 600)]


def test_what_was_asked_is_counted_apart_by_what_managers_lose():
    def check(right, **more):
        return Check(turn=2, slot="code", verdict="right" if right else "wrong", weight=1, credit=1 if right else -0.25, **more)

    one = [check(True, changed=True), check(False, changed=True, source="detail"), check(True, question="exception")]
    rows = [row("present", checks=one), row("present", base="c", checks=[check(True, source="kept")])]
    found = {name: [(u.num, u.den) for u in units] for name, (_, units) in units_of(rows).items() if name.startswith("asked_")}
    assert found == {"asked_changed": [(1, 2)], "asked_undeclared": [(0, 1)], "asked_conditional": [(1, 1)]}


def test_counts_hold_triggers_spenders_and_answers_by_wording():
    one = row("missing", spent={"reading": 300, "answering": 200}, **GOOD)
    check = Check(turn=2, slot="code", verdict="right", weight=1, credit=1, inputs=True, informed=True, question="paraphrased")
    two = row("present", checks=[check], spent={"answering": 500})
    found = counts([one, two])
    assert found["triggers"] == {"index": 1}
    assert found["spent"] == {"reading": 300, "answering": 700}
    assert found["answer_split"] == {"in view, paraphrased": {"right": 1}, "not in view, matched": {"prior_guess": 1}}
