"""Each metric against a scripted policy that it must catch, and, as a control, the metrics that must not react to it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import pytest

from envs.chat import get_chat
from envs.episode import Episode, play
from envs.policies.flawed import FLAWED
from envs.policies.scripted import SCRIPTED
from envs.profiles import get_profile
from envs.scoring import score
from envs.tasks import get_spec
from envs.tasks.base import Probe
from envs.tasks.damage import variants_of
from envs.tasks.engine import Builder, Knobs
from envs.tasks.judgement import verify_probes
from envs.tasks.probes import make_base, make_probes
from eval.metrics import METRICS, Row, units_of

CORE = get_profile("core@1")
FAMILIES = ("procurement", "scheduling")
POLICIES = {**SCRIPTED, **FLAWED}
KNOBS = Knobs(turns=(9, 9), fillers=(8, 16), close=1.0, keep=0.0)


def bases(family, kind, most):
    return itertools.islice(filter(None, (make_base(family, seed, kind, get_chat()) for seed in range(300, 340))), most)


def changing(family, seed):
    """A session in which the user's constraint and a record change, with later questions of every kind."""
    builder = Builder(get_spec(family), seed, KNOBS)
    one = builder.work(close=True, constraint=True)
    builder.change_cap("kept")
    two = builder.work(close=True)
    builder.revise(one, close=True)
    builder.work(close=False)
    builder.ask_cap()
    compare = builder.spec.compare
    if compare and all(compare.attr in builder.records[e] for e in (one, two)):
        builder.ask_compare(one)
        if builder.spec.across:
            builder.ask_across(one, two)
    builder.ask(two, sorted(builder.records[two])[0])
    return builder.finish({})


def ruled(family, seed):
    """A session in which the user's rule gets an exception that ends: the record's old value stays in view."""
    builder = Builder(get_spec(family), seed, replace(KNOBS, rule=1.0))
    builder.work(close=True)
    builder.rule_turn("except")
    entity = next(iter(builder.book.exceptions))
    builder.rule_turn("withdraw")
    builder.ask_rule(entity)
    return builder.finish({})


@cache
def samples():
    """Probes of every kind that core@1 can play, and sessions in which constraints and records change."""
    found = []
    for family in FAMILIES:
        for kind in ("static", "changed"):
            found += [p for base in bases(family, kind, 2) for p in variants_of(base)]
        found += [p for base in bases(family, "verify", 2) for p in verify_probes(base)]
        found += make_probes(family, 300, "never", get_chat())
        found += [changing(family, 4_100 + n) for n in range(4)]
    return [s for s in found if not (isinstance(s, Probe) and s.windows)]


@cache
def measured(name):
    """Metric -> its value (sums over all units) for one policy."""
    return values(name, samples())


def values(name, given):
    chat = get_chat()
    episodes = [Episode.from_probe(s, CORE, chat) if isinstance(s, Probe) else Episode(s, CORE, chat) for s in given]
    play(episodes, POLICIES[name](chat, CORE.view_budget))
    rows = []
    for sample, episode in zip(given, episodes, strict=True):
        probe = sample if isinstance(sample, Probe) else None
        rows.append(
            Row(
                arm=name, sample=sample.id, source="probe" if probe else "session", base=probe.base if probe else sample.id,
                family=sample.family, variant=probe.variant if probe else "", signal=probe.signal if probe else "",
                twin=probe.twin if probe else None, hinted=False, managed=True, score=score(episode.trajectory(name)),
            )
        )  # fmt: skip
    found = {}
    for metric, (_, units) in units_of(rows).items():
        if whole := sum(u.den for u in units):
            found[metric] = sum(u.num for u in units) / whole
    return found


PERFECT = {
    "pair_success": 1, "session_task_correct": 1, "session_turn_accuracy": 1, "session_constraint_retention": 1, "session_view_retention": 1,
    "session_information": 1, "session_answer_right": 1, "session_answer_half": 0, "session_answer_prior_guess": 0, "answer_fabricated": 0,
    "answer_abstained": 0, "answer_stale": 0, "session_answer_absent": 0, "session_answer_off_target": 0, "recovered": 1, "detection_recall": 1, "detection_false_alarm": 0,
    "detection_f1": 1, "right_present": 1, "right_missing": 1, "right_superseded": 1, "right_contradicted": 1, "right_dropped": 1,
    "right_never_stated": 1, "right_fabricated": 1, "right_irrelevant_gap": 1, "right_historical": 1, "right_verify": 1, "tool_success": 1,
    "session_tool_success": 1, "malformed_rate": 0, "write_fidelity": 1, "session_write_fidelity": 1, "session_silent_failure": 0, "conflicts": 0,
    "session_conflicts": 0, "session_active_share": 1, "session_scope_error": 0, "session_replayed": 0, "meta_reply": 0, "termination": 1,
    "within_budget": 1,
}  # fmt: skip
"""What the expert scores on probes that a view can tell, and on whole sessions."""

CAUGHT = (
    # metric, the policy that it is made for, what it must at least differ from the expert's by
    ("pair_success", "always_read", -1.0),
    ("pair_success", "never_read", -1.0),
    ("pair_success", "provoker", -1.0),
    ("pair_success", "fabricator", -1.0),
    ("session_task_correct", "abstainer", -1.0),
    ("session_turn_accuracy", "fabricator", -0.1),
    ("session_constraint_retention", "stale_answerer", -0.3),
    ("session_view_retention", "forgetter", -0.2),
    ("detection_recall", "fabricator", -0.9),
    ("detection_false_alarm", "always_read", 1.0),
    ("detection_f1", "always_read", -0.2),
    ("recovered", "unmended", -0.2),
    ("verification_right", "never_read", -0.2),
    ("verification_read", "always_read", 0.2),
    ("verification_tokens", "always_read", 200),
    ("information", "never_read", -0.3),
    ("asked_changed", "stale_answerer", -0.3),
    ("asked_undeclared", "never_read", -0.3),
    ("answer_abstained", "abstainer", 0.8),
    ("answer_stale", "stale_answerer", 0.05),
    ("answer_off_target", "last_value", 0.5),
    ("answer_fabricated", "fabricator", 0.25),
    ("answer_absent", "meta_replier", 1.0),
    ("session_answer_half", "half_answerer", 0.1),
    ("session_answer_prior_guess", "yes_no_guesser", 0.1),
    ("session_conflicts", "memory_dumper", 2.0),
    ("session_active_share", "memory_dumper", -0.2),
    ("session_spontaneous", "memory_dumper", 4.0),
    ("write_fidelity", "misnoter", -1.0),
    ("tokens", "protocol_chatterer", 700),
    ("protocol_share", "protocol_chatterer", 0.2),
    ("prefill", "protocol_chatterer", 200),
    ("spontaneous", "protocol_chatterer", 2.5),
    ("inferences", "protocol_chatterer", 2.5),
    ("peak", "always_read", 100),
    ("reads", "always_read", 1.0),
    ("tool_success", "stubborn", -0.5),
    ("malformed_rate", "babbler", 0.3),
    ("refusal_recovery", "stubborn", -0.5),
    ("session_silent_failure", "forgetter", 0.5),
    ("session_scope_error", "claimer", 0.3),
    ("session_replayed", "replayer", 1.0),
    ("meta_reply", "meta_replier", 0.3),
    ("termination", "endless", -1.0),
    ("within_budget", "endless", -1.0),
    ("session_verdict_tokens", "fabricator", -500),
)

FORGOTTEN = ("forgetter", "never_read")
"""Of ``asked_conditional``: the policy that it is made for, which folds the user's words away, and one that keeps them in view."""

UNMOVED = {
    "always_read": ("right_missing", "recovered", "detection_recall", "write_fidelity", "tool_success", "termination", "session_task_correct"),
    "never_read": ("detection_false_alarm", "right_present", "right_never_stated", "tool_success", "malformed_rate", "answer_fabricated"),
    "abstainer": ("answer_fabricated", "answer_stale", "malformed_rate", "meta_reply", "termination", "right_never_stated"),
    "fabricator": ("detection_false_alarm", "answer_abstained", "right_present", "meta_reply", "tool_success", "session_replayed"),
    "memory_dumper": ("session_task_correct", "write_fidelity", "detection_false_alarm", "tool_success", "session_silent_failure", "right_missing"),
    "protocol_chatterer": (
        "pair_success", "recovered", "detection_false_alarm", "detection_recall", "tool_success", "write_fidelity", "conflicts", "session_task_correct",
        "reads", "meta_reply", "termination",
    ),
    "forgetter": ("pair_success", "detection_false_alarm", "recovered"),
    "unmended": ("right_contradicted", "detection_recall", "detection_false_alarm", "task_correct"),
    "provoker": ("recovered", "detection_recall", "detection_false_alarm", "task_correct", "conflicts"),
    "claimer": ("pair_success", "recovered", "meta_reply", "termination"),
    "replayer": ("session_task_correct", "recovered", "session_conflicts", "session_scope_error", "detection_false_alarm"),
    "misnoter": ("detection_false_alarm", "detection_recall", "right_missing", "session_task_correct", "session_silent_failure"),
    "stale_answerer": ("detection_recall", "detection_false_alarm", "session_view_retention", "session_information", "session_tool_success", "answer_fabricated"),
    "half_answerer": ("pair_success", "session_answer_prior_guess", "session_tool_success", "session_information"),
    "yes_no_guesser": ("pair_success", "session_answer_half", "session_tool_success", "session_information"),
    "meta_replier": ("detection_recall", "detection_false_alarm", "tool_success", "session_silent_failure", "termination"),
    "stubborn": ("task_correct", "malformed_rate", "meta_reply", "termination"),
    "babbler": ("pair_success", "task_correct", "tool_success", "detection_false_alarm", "termination"),
}  # fmt: skip
"""Controls: what a habit must not move away from the expert's value."""


def test_the_expert_is_perfect():
    found = measured("expert")
    assert {name: found[name] for name in PERFECT} == PERFECT


@pytest.mark.parametrize(("metric", "policy", "by"), CAUGHT)
def test_each_metric_catches_the_policy_made_for_it(metric, policy, by):
    best = {"refusal_recovery": 1.0}  # the expert is never refused: nothing to recover from
    expert, caught = measured("expert").get(metric, best.get(metric)), measured(policy)[metric]
    assert (caught - expert >= by - 1e-9) if by > 0 else (caught - expert <= by + 1e-9), (expert, caught)


def test_answers_that_turn_on_an_exception_are_counted_by_themselves():
    given = [ruled(family, 4_200 + n) for family in FAMILIES for n in range(3)]
    expert, caught, control = (values(name, given) for name in ("expert", *FORGOTTEN))
    assert expert["session_asked_conditional"] == 1
    assert caught["session_asked_conditional"] <= 0.5
    assert control["session_asked_conditional"] == 1
    assert control["session_task_correct"] < 1, "it errs elsewhere"


@pytest.mark.parametrize("policy", UNMOVED)
def test_and_metrics_of_other_things_do_not_react(policy):
    expert, found = measured("expert"), measured(policy)
    moved = {m: (expert[m], found.get(m)) for m in UNMOVED[policy] if found.get(m) != pytest.approx(expert[m], abs=1e-9)}
    assert not moved


def test_every_scripted_policy_is_caught_by_some_metric_and_every_metric_catches_one():
    assert {policy for _, policy, _ in CAUGHT} >= set(POLICIES) - {"expert", "closed_book"}
    bare = {m.removeprefix("session_") for m, _, _ in CAUGHT} | {"asked_conditional"}
    about = {"quality", "task_correct", "turn_accuracy", "session_task_correct"}
    missed = {m for m in METRICS if m not in bare and not m.startswith(("right_", "read_", "detection_recall_"))} - about
    assert missed <= {"answer_right", "unsignalled_right"}, missed


def test_never_reading_is_wrong_exactly_where_only_a_look_at_the_source_can_tell():
    assert measured("closed_book")["task_correct"] < 0.1
    assert measured("always_read")["unsignalled_right"] == 1.0
    assert measured("expert")["unsignalled_right"] == measured("never_read")["unsignalled_right"] == 0.0
    assert measured("expert")["right_verify"] == 1.0 > measured("never_read")["right_verify"]
