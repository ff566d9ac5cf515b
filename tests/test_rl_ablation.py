"""Ablations change one thing each, are off by default, and do what they are said to do."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch
from test_rl_trainer import batch_of, episode_rows, gradient, judge, make

from envs.chat import ChatML
from envs.config import ConfigError, dump_config, load_config
from envs.policies.smollm2 import load_tokenizer
from envs.scoring import Check, Score
from rl.ablation import ABLATIONS, advantages_of_group, permuted, quality
from rl.config import RLConfig
from rl.outcome import Outcome, advantages

RUN = {"probes": "p.jsonl", "out": "o"}


@pytest.fixture(scope="module")
def chat() -> ChatML:
    return ChatML(load_tokenizer("tiny"))


def outcome(q: float, s: float = 0.5, right: bool = False, **more) -> Outcome:
    return Outcome(q=q, s=s, fully_right=right, quality_step=0.25, **more)


# ---- the switch ---------------------------------------------------------------------------------------------------------


def test_nothing_is_ablated_by_default():
    assert RLConfig.model_validate(RUN).ablation == []


def test_unknown_ablations_are_refused_with_the_nearest_name(tmp_path):
    path = tmp_path / "rl.yaml"
    path.write_text("probes: p.jsonl\nout: o\n")
    with pytest.raises(ConfigError, match="did you mean 'std_scaling'"):
        load_config(RLConfig, path, ["ablation=[std_scale]"])
    with pytest.raises(ConfigError, match="named twice"):
        load_config(RLConfig, path, ["ablation=[std_scaling, std_scaling]"])
    assert load_config(RLConfig, path, ["ablation=[std_scaling]"]).ablation == ["std_scaling"]


def test_the_old_weighting_field_still_means_the_same(tmp_path):
    assert RLConfig.model_validate({**RUN, "weighting": "token"}) == RLConfig.model_validate(RUN)
    old = RLConfig.model_validate({**RUN, "weighting": "episode"})
    assert old.ablation == ["episode_weighting"]
    (tmp_path / "rl.yaml").write_text(dump_config(old))
    assert load_config(RLConfig, tmp_path / "rl.yaml") == old
    (tmp_path / "old.yaml").write_text("probes: p.jsonl\nout: o\n")
    assert load_config(RLConfig, tmp_path / "old.yaml", ["weighting=episode"]) == old
    with pytest.raises(ConfigError, match="episode_weighting"):
        load_config(RLConfig, tmp_path / "old.yaml", ["weighting=tokens"])


# ---- advantages ---------------------------------------------------------------------------------------------------------

MIXED = [outcome(1, 0.2, True), outcome(1, 0.8, True), outcome(-0.25, 0.9), outcome(-0.25, 0.1)]
ADVANTAGE_ONLY = {"no_cost", "additive_cost", "std_scaling", "rows_as_samples"}


@pytest.mark.parametrize("name", sorted(set(ABLATIONS) - ADVANTAGE_ONLY))
def test_other_ablations_leave_the_advantages(name):
    assert advantages(MIXED, 4, {name}) == advantages(MIXED, 4)


def test_without_cost_a_group_that_is_all_right_teaches_nothing(tmp_path):
    right = [outcome(1.0, 0.9, True), outcome(1.0, 0.1, True)]
    assert advantages(right, 2)[0] > 0 > advantages(right, 2)[1]
    assert advantages(right, 2, {"no_cost"}) == [0.0, 0.0]
    mixed = [outcome(1.0, 0.1, True), outcome(0.0, 0.9)]
    assert advantages(mixed, 2, {"no_cost"}) == advantages(mixed, 2), "where quality differs nothing changes"
    (tmp_path / "rl.yaml").write_text("probes: p.jsonl\nout: o\n")
    with pytest.raises(ConfigError, match="no_cost and additive_cost contradict each other"):
        load_config(RLConfig, tmp_path / "rl.yaml", ["ablation=[no_cost, additive_cost]"])


def test_the_cost_share_weighs_saving_and_only_that():
    right = [outcome(1, 0.9, right=True), outcome(1, 0.1, right=True)]
    small, large = (advantages(right, 2, cost_share=share)[0] for share in (0.05, 1.0))
    assert large == pytest.approx(20 * small)
    assert small > 0
    assert advantages(MIXED, 4, cost_share=1.0) == advantages(MIXED, 4)


def test_additive_cost_pays_for_failing_cheaply():
    failed = [outcome(-0.25, 0.9), outcome(-0.25, 0.1)]
    assert advantages(failed, 2) == [0.0, 0.0]
    cheap, dear = advantages(failed, 2, {"additive_cost"})
    assert cheap == pytest.approx(0.05 * 0.25 * 0.4)
    assert dear == -cheap
    right = [outcome(1, 0.9, True), outcome(1, 0.1, True)]
    assert advantages(right, 2, {"additive_cost"}) == advantages(right, 2), "where all are right nothing changes"


def test_std_scaling_blows_a_difference_in_cost_up_to_one_in_quality():
    right = [outcome(1, 0.9, True), outcome(1, 0.1, True)]
    plain, scaled = advantages(right, 2), advantages(right, 2, {"std_scaling"})
    assert plain[0] < 0.01
    assert scaled[0] > 0.6
    quality_ = advantages([outcome(1), outcome(-0.25)], 2, {"std_scaling"})
    assert scaled[0] == pytest.approx(quality_[0], rel=0.05), "a cheaper answer is worth as much as a right one"


def test_std_scaling_inverts_the_order_of_quality_and_cost():
    """A policy mixes two habits: dear and right 95 % of the time, cheap and right 85 %. Which one is reinforced?"""
    rng = random.Random("habits")
    gain = {"plain": 0.0, "std_scaling": 0.0}
    for _ in range(3000):
        dear = [rng.random() < 0.5 for _ in range(8)]
        right = [rng.random() < (0.95 if d else 0.85) for d in dear]
        q, s = [1.0 if r else -0.25 for r in right], [0.0 if d else 1.0 for d in dear]
        for name in gain:
            values = advantages_of_group(q, s, right, 0.25, [1] * 8, {name})
            gain[name] += sum(v if d else -v for v, d in zip(values, dear, strict=True))
    assert gain["plain"] > 0, "being right is reinforced"
    assert gain["std_scaling"] < 0, "being cheap is reinforced"


def test_rows_as_samples_lets_a_fork_move_the_baseline():
    one = [outcome(1, right=True), outcome(0)]
    forked = [outcome(1, right=True, rows=3), outcome(0)]
    assert advantages(one, 2) == advantages(forked, 2) == [0.5, -0.5]
    assert advantages(one, 2, {"rows_as_samples"}) == [0.5, -0.5]
    assert advantages(forked, 2, {"rows_as_samples"}) == [0.25, -0.75]


def test_permuted_advantages_are_the_same_numbers_elsewhere():
    values = [float(i) for i in range(16)]
    movable = [i != 3 for i in range(16)]
    found = permuted(values, movable, "0/5")
    assert sorted(found) == values
    assert found != values
    assert found[3] == 3.0, "an episode that the backend spoilt gets none"
    assert found == permuted(values, movable, "0/5") != permuted(values, movable, "0/6")


def test_no_constraint_weight_counts_every_check_once():
    checks = [
        Check(turn=1, slot="cap", verdict="right", weight=2.0, credit=1.0, constraint=True),
        Check(turn=1, slot="code", verdict="wrong", weight=1.0, credit=-0.25),
    ]
    score = Score(
        id="x", family="support", base=None, variant=None, signal=None, checks=checks, q=1.75 / 3, quality_step=0.25 / 3,
        task_correct=False, fully_right=False, constraint_right=1, constraint_total=1, reads=[], autonomous_read=False,
    )  # fmt: skip
    assert quality(score, ()) == (1.75 / 3, 0.25 / 3)
    assert quality(score, {"no_constraint_weight"}) == (0.375, 0.125)


# ---- in the trainer -----------------------------------------------------------------------------------------------------

INPUTS = [{"prompt": [], "task": t} for t in (0, 0, 0, 0, 1, 1, 1, 1)]


def batch(chat, folder, **more):
    trainer = make(chat, folder, **more)
    trainer.model.train()
    return trainer, trainer._generate_and_score_completions(INPUTS)


def by_episode(trainer, out):
    return [{out["advantages"][r].item() for r, o in enumerate(trainer._rows.owner) if o == e}.pop() for e in range(8)]


def test_the_permutation_is_the_only_change_of_its_control(chat, tmp_path):
    plain, one = batch(chat, tmp_path)
    control, two = batch(chat, tmp_path, ablation=["permuted_advantages"])
    assert sorted(by_episode(plain, one)) == pytest.approx(sorted(by_episode(control, two)))
    assert by_episode(plain, one) != by_episode(control, two)
    for name in ("prompt_ids", "completion_ids", "tool_mask", "num_items_in_batch"):
        assert torch.equal(one[name], two[name]), name
    assert control._metrics["train"]["ablation/permuted_advantages"] == [1.0]
    assert not any(name.startswith("ablation/") for name in plain._metrics["train"])


def limited(task, played):
    """The episodes of every other seed hit a limit."""
    found = judge(task, played)
    return dataclasses.replace(found, q=-0.25, overlong=True) if sum(played.episode.ids) % 2 else found


def test_over_long_episodes_are_trained_on_and_masked_only_as_an_ablation(chat, tmp_path):
    plain, one = batch(chat, tmp_path, judge=limited)
    masked, two = batch(chat, tmp_path, judge=limited, ablation=["mask_overlong"])
    over = [i for i, o in enumerate(plain._outcomes) if o.overlong]
    assert 0 < len(over) < 8
    for trainer, out, trained in ((plain, one, True), (masked, two, False)):
        rows = [r for r, o in enumerate(trainer._rows.owner) if o in over]
        assert all(bool(out["tool_mask"][r][out["completion_mask"][r].bool()].sum()) == trained for r in rows)
        assert out["num_items_in_batch"] == trainer._rows.trained
    assert any(one["advantages"][r] != 0 for r, o in enumerate(plain._rows.owner) if o in over)
    assert by_episode(plain, one) == by_episode(masked, two), "they still count in the baseline"
    assert masked._rows.trained < plain._rows.trained


def test_a_batch_of_masked_episodes_alone_does_not_divide_by_zero(chat, tmp_path):
    _, out = batch(chat, tmp_path, judge=lambda t, p: dataclasses.replace(judge(t, p), overlong=True), ablation=["mask_overlong"])
    assert out["num_items_in_batch"] == 1


def test_rows_as_samples_changes_the_gradient_when_an_episode_is_forked(chat, tmp_path):
    """The same two episodes, one of them cut into three segments or not: only under the ablation does it matter."""
    trainer = make(chat, tmp_path)
    whole, forked, other, _ = episode_rows(chat)

    def pull(ablation, fork):
        first, second = advantages([outcome(1, right=True, rows=3 if fork else 1), outcome(0)], 2, ablation)
        rows = [*forked, other] if fork else [whole, other]
        return gradient(trainer, [batch_of(rows, [first] * (len(rows) - 1) + [second])])

    for ablation, same in (((), True), (("rows_as_samples",), False)):
        one, two = pull(ablation, False), pull(ablation, True)
        assert (torch.linalg.norm(two - one) / torch.linalg.norm(one) < 1e-5) == same


def test_episode_weighting_gives_a_long_episode_no_more_than_a_short_one(chat, tmp_path):
    plain, one = batch(chat, tmp_path)
    other, two = batch(chat, tmp_path, ablation=["episode_weighting"])
    tokens = [sum(sum(s.mask) for s, o in zip(plain._rows.segments, plain._rows.owner, strict=True) if o == e) for e in range(8)]
    assert len(set(tokens)) > 1
    mean = sum(tokens) / 8
    for a, b, n in zip(by_episode(plain, one), by_episode(other, two), tokens, strict=True):
        assert b * n == pytest.approx(a * mean, abs=1e-5)
