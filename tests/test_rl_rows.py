"""Rows, trees, outcomes and the schema: no model, or a very small one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from envs.config import ConfigError, load_config
from envs.segments import Segment
from rl.config import RESERVED, RLConfig, micro_batches
from rl.curriculum import draw
from rl.gaps import GapError, Gaps
from rl.outcome import Outcome, advantages, batch_metrics
from rl.packing import add_tree_scoring, can_pack, plant
from rl.resume import MARK, check_same_config, drop_after, last_checkpoint
from rl.rows import FILLER, alike, chunk, make_rows, real_tokens, spread
from rl.sampling import cut_turn, generate_turns

pytestmark = pytest.mark.usefixtures("one_thread")


# ---- rows ---------------------------------------------------------------------------------------------------------------


def segment(prompt: int, completion: int, trained: int) -> Segment:
    return Segment(
        list(range(3, 3 + prompt)),
        list(range(50, 50 + completion)),
        [1] * trained + [0] * (completion - trained),
        [-1.0] * completion,
    )


def padded(segments: list[Segment]) -> dict[str, torch.Tensor]:
    left, right = max(len(s.prompt_ids) for s in segments), max(len(s.completion_ids) for s in segments)

    def pad(rows: list[list[int]], width: int, on_left: bool) -> torch.Tensor:
        return torch.tensor([[0] * (width - len(r)) + r if on_left else r + [0] * (width - len(r)) for r in rows])

    return {
        "prompt_ids": pad([s.prompt_ids for s in segments], left, True),
        "prompt_mask": pad([[1] * len(s.prompt_ids) for s in segments], left, True),
        "completion_ids": pad([s.completion_ids for s in segments], right, False),
        "completion_mask": pad([[1] * len(s.completion_ids) for s in segments], right, False),
        "tool_mask": pad([s.mask for s in segments], right, False),
        "num_items_in_batch": torch.tensor(7),
    }


SEGMENTS = st.builds(lambda p, c, t: segment(p, c, min(t, c)), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))


@given(st.lists(st.lists(SEGMENTS, min_size=1, max_size=4), min_size=1, max_size=5), st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_rows_lose_nothing_and_divide(episodes, chunks, more):
    rows = make_rows(episodes, chunks, 2, widest=lambda n: n + more)
    assert len(rows.owner) % chunks == 0
    assert len(rows.owner) >= sum(map(len, episodes)) + more
    assert rows.trained == sum(sum(s.mask) for e in episodes for s in e)
    assert [s for s, o in zip(rows.segments, rows.owner, strict=True) if o != FILLER] == [s for e in episodes for s in e]
    for s, owner, place in zip(rows.segments, rows.owner, rows.place, strict=True):
        assert (owner == FILLER) == (place == 0) == (sum(s.mask) == 0)
    batch = padded(rows.segments) | {"place": torch.tensor(rows.place), "row": torch.arange(len(rows.owner))}
    for order in (None, alike(batch)):
        parts = chunk(batch, chunks, order)
        assert sorted(i for p in parts for i in p["row"].tolist()) == list(range(len(rows.owner)))
        assert sum(real_tokens(p) for p in parts) == sum(len(s.ids) for e in episodes for s in e)
        for part in parts:
            assert part["num_items_in_batch"] == 7
            for k, i in enumerate(part["row"].tolist()):
                kept = (
                    part["prompt_ids"][k][part["prompt_mask"][k].bool()].tolist()
                    + part["completion_ids"][k][part["completion_mask"][k].bool()].tolist()
                )
                assert kept == rows.segments[i].ids
            assert part["prompt_mask"].any(0).all()
            assert part["completion_mask"].any(0).all()


def test_chunks_refuse_to_lose_rows():
    with pytest.raises(ValueError, match="3 rows don't divide into 2"):
        chunk(padded([segment(2, 2, 1)] * 3), 2)


def test_advantages_weigh_tokens_alike_whatever_the_segments():
    one, three = [segment(2, 6, 6)], [segment(2, 2, 2)] * 3
    rows = make_rows([one, three], 3, 2)
    weights = spread([1.0, -1.0], rows, "token", 6.0)
    tokens = torch.tensor([sum(s.mask) for s in rows.segments])
    owner = torch.tensor(rows.owner)
    assert (weights * tokens)[owner == 0].sum() == -(weights * tokens)[owner == 1].sum() == 6
    assert (weights[owner == FILLER] == 0).all()
    assert (owner == FILLER).sum() == 2
    short = make_rows([one, [segment(2, 3, 3)]], 1, 2)
    assert spread([1.0, 1.0], short, "episode", 4.5).tolist() == [0.75, 1.5]


# ---- trees --------------------------------------------------------------------------------------------------------------

TOKENS = st.lists(st.integers(1, 3), min_size=1, max_size=6)


@given(st.lists(st.tuples(TOKENS, TOKENS, st.integers(0, 63)), min_size=1, max_size=6))
@settings(max_examples=80, deadline=None)
def test_every_row_sees_itself_and_nothing_else(rows):
    prompts, completions = [r[0] for r in rows], [r[1] for r in rows]
    scored = [[(r[2] >> i) & 1 for i in range(len(r[1]))] for r in rows]
    tree = plant(prompts, completions, scored)
    assert tree.tokens.numel() <= sum(len(p) + len(c) for p, c in zip(prompts, completions, strict=True))
    assert len(set(tree.sources.tolist())) == len(tree.sources)
    wanted = {(r, c) for r, marks in enumerate(scored) for c, m in enumerate(marks) if m}
    assert wanted == set(zip(tree.rows.tolist(), tree.columns.tolist(), strict=True))
    for source, label, row, column in zip(tree.sources, tree.labels, tree.rows, tree.columns, strict=True):
        seen = tree.mask[0, 0, source].nonzero().flatten()
        order = seen[tree.positions[0, seen].argsort()]
        assert tree.tokens[0, order].tolist() == prompts[row] + completions[row][:column]
        assert tree.positions[0, order].tolist() == list(range(len(order)))
        assert label == completions[row][column]


def test_a_group_shares_its_view_once():
    view = list(range(100))
    tree = plant([view] * 4, [[1, 2]] * 4, [[1, 1]] * 4)
    assert tree.tokens.numel() == 99 + 4 * 3


@pytest.fixture(scope="module")
def small() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def alone(model, ids: list[int], temperature: float = 1.0) -> list[float]:
    """Log-probability of each id but the first, by a pass over the one row."""
    logps = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0].float() / temperature, -1)
    return [logps[i, t].item() for i, t in enumerate(ids[1:])]


def test_a_tree_scores_and_trains_like_its_rows(small):
    assert can_pack(small)
    add_tree_scoring(small, 0.7)
    torch.manual_seed(1)
    view = torch.randint(3, 64, (20,)).tolist()
    prompts = [view, view, [*view[:12], 5, 6], [9, 8]]
    completions = [torch.randint(3, 64, (n,)).tolist() for n in (5, 3, 6, 4)]
    tree = plant(prompts, completions, [[1] * len(c) for c in completions])

    def gradient(loss: torch.Tensor) -> torch.Tensor:
        small.zero_grad()
        loss.backward()
        return torch.cat([p.grad.flatten() for p in small.parameters()])

    logps, entropies = small(
        input_ids=tree.tokens, attention_mask=tree.mask, position_ids=tree.positions,
        tree_sources=tree.sources, tree_labels=tree.labels,
    )  # fmt: skip
    for value, row, column in zip(logps.tolist(), tree.rows.tolist(), tree.columns.tolist(), strict=True):
        expected = alone(small, prompts[row] + completions[row], 0.7)[len(prompts[row]) + column - 1]
        assert abs(value - expected) < 1e-5
    assert (entropies > 0).all()
    packed = gradient(logps.sum())
    separate = 0.0
    for p, c in zip(prompts, completions, strict=True):
        scores = torch.log_softmax(small(input_ids=torch.tensor([p + c])).logits[0] / 0.7, -1)
        separate = separate + scores[range(len(p) - 1, len(p) + len(c) - 1), c].sum()
    apart = gradient(separate)
    assert torch.linalg.norm(packed - apart) / torch.linalg.norm(apart) < 1e-5


def test_generate_gives_the_log_probabilities_of_what_it_samples(small):
    from transformers import GenerationConfig

    config = GenerationConfig(
        max_new_tokens=6, do_sample=True, temperature=0.8, top_p=1.0, top_k=0, eos_token_id=[2, 7], pad_token_id=0
    )
    contexts = [[5, 6, 7, 8], [9], [10, 11]]
    torch.manual_seed(3)
    for context, turn in zip(
        contexts,
        generate_turns(small.eval(), contexts, generation_config=config, stop_ids=frozenset({2, 7}), pad_id=0),
        strict=True,
    ):
        expected = alone(small, context + turn.ids, 0.8)[len(context) - 1 :]
        assert max(abs(a - b) for a, b in zip(turn.logps, expected, strict=True)) < 1e-5


def test_a_turn_ends_with_its_first_stop_id():
    assert cut_turn([5, 7, 9, 9], [-1.0, -2.0, -3.0, -4.0], frozenset({7})).ids == [5, 7]
    turn = cut_turn([5, 6], [-1.0, -2.0], frozenset({7}))
    assert turn.cut
    assert turn.logps == [-1.0, -2.0]


# ---- outcomes, gaps -----------------------------------------------------------------------------------------------------


def outcome(q: float, s: float = 0.5, right: bool = False, **more) -> Outcome:
    return Outcome(q=q, s=s, fully_right=right, quality_step=0.25, **more)


def test_saving_counts_only_in_groups_that_are_all_right():
    mixed = advantages([outcome(1, 1.0, True), outcome(0, 0.0)], 2)
    assert mixed == [0.5, -0.5]
    right = advantages([outcome(1, 1.0, True), outcome(1, 0.0, True)], 2)
    assert right == [0.05 * 0.25 * 0.5, -0.05 * 0.25 * 0.5]


def test_equal_episodes_have_no_advantage_left_by_rounding():
    assert advantages([outcome(1, 0.1 + 0.2, True)] * 3 + [outcome(0.1)] * 3, 3) == [0.0] * 6


def test_groups_have_their_own_baseline_and_excluded_episodes_none():
    out = advantages([outcome(1), outcome(0), outcome(0.5), outcome(0.5, excluded=True)], 2)
    assert out == [0.5, -0.5, 0.0, 0.0]


def test_metrics_of_a_batch():
    batch = [
        outcome(1, right=True, metrics={"a": 1.0}),
        outcome(1, right=True),
        outcome(0, counts={"end/limit": 1.0}),
        outcome(0),
        outcome(9, excluded=True),
    ]
    found = batch_metrics([*batch, outcome(0)], 2)
    assert found["reward/q"] == 0.4
    assert found["a"] == 1.0
    assert found["end/limit"] == 0.2
    assert found["episode/excluded"] == 1.0
    assert found["groups/all_right"] == pytest.approx(1 / 3)
    assert found["groups/zero_variance"] == pytest.approx(1 / 3)


def test_gaps_by_place_and_their_bounds():
    batch = {
        "completion_mask": torch.ones(3, 2), "tool_mask": torch.tensor([[1, 1], [1, 0], [0, 0]]),
        "place": torch.tensor([1, 2, 0]),
        "sampling_per_token_logps": torch.tensor([[-1.0, -2.0], [-1.0, 5.0], [9.0, 9.0]]),
    }  # fmt: skip
    gaps = Gaps()
    gaps.measure(torch.tensor([[-1.0, -2.25], [-1.5, 0.0], [0.0, 0.0]]), batch)
    both = Gaps([gaps.sums, {2: (0.5, 1, 0.5), 3: (0.0, 2, 0.0)}])
    assert both.metrics() == {
        "logp_gap/mean": 1.25 / 6, "logp_gap/max": 0.5, "logp_gap/seg1": 0.125, "logp_gap/seg1_max": 0.25, "logp_gap/seg2": 0.5,
        "logp_gap/seg2_max": 0.5, "logp_gap/seg3": 0.0, "logp_gap/seg3_max": 0.0,
    }  # fmt: skip
    both.check(0.3, exact=False, step=1)
    with pytest.raises(GapError, match="step 1: .* 0.5 .maximum.* segment 2"):
        both.check(0.3, exact=True, step=1)
    gaps.measure(torch.full((3, 2), float("nan")), batch)
    with pytest.raises(GapError, match="inf"):
        gaps.check(1e9, exact=False, step=2)


# ---- config, resume -----------------------------------------------------------------------------------------------------


def config(**more) -> RLConfig:
    return RLConfig.model_validate({"probes": "p.jsonl", "out": "o", **more})


def test_every_reserved_setting_is_one_of_trl():
    from dataclasses import fields

    from trl import GRPOConfig

    assert set(RESERVED) <= {f.name for f in fields(GRPOConfig)}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.loss_type=grpo", "must be dapo"),
        ("trainer.num_generations=4", "group_size"),
        ("trainer.learning_rat=1", "learning_rate"),
        ("trainer={use_vllm: true, vllm_importance_sampling_mode: sequence_mask}", "token_truncate"),
        ("lora={target_modules: [q_proj, lm_head]}", "never be trained"),
        ("lora={rank: 4}", "LoraConfig"),
        ("episodes_per_step=12", "multiple of group_size"),
        ("grup_size=4", "group_size"),
    ],
)
def test_bad_settings_are_named_with_the_remedy(tmp_path, override, message):
    path = tmp_path / "rl.yaml"
    path.write_text("probes: p.jsonl\nout: o\n")
    with pytest.raises(ConfigError, match=message):
        load_config(RLConfig, path, [override])


def test_shipped_configs_load():
    for name in ("rl_probes", "rl_lora"):
        loaded = load_config(RLConfig, f"configs/{name}.yaml")
        assert micro_batches(loaded, 1) >= 1


def test_micro_batches_divide_evenly_over_processes():
    assert micro_batches(config(episodes_per_step=16, micro_batch=2), 2) == 4
    with pytest.raises(ConfigError, match="multiple of 24"):
        micro_batches(config(episodes_per_step=16, micro_batch=8), 3)


def test_gap_bound_follows_precision():
    assert config().gap_stop == 1e-4
    assert config(precision="bf16").gap_stop == 0.1
    assert config(logp_gap_stop=0.5).gap_stop == 0.5


def test_the_order_of_probes_takes_each_once_an_epoch():
    order = draw(range(5), 12, seed=1)
    assert sorted(order[:5]) == sorted(order[5:10]) == list(range(5))
    assert order[:5] != order[5:10]
    assert draw(range(5), 20, seed=1)[:12] == order != draw(range(5), 12, seed=2)


def test_only_whole_checkpoints_count(tmp_path):
    assert last_checkpoint(tmp_path) == (None, 0)
    for step in (9, 10, 11):
        (tmp_path / f"checkpoint-{step}").mkdir()
    for step in (9, 10):
        (tmp_path / f"checkpoint-{step}" / MARK).write_text("{}")
    assert last_checkpoint(tmp_path) == (tmp_path / "checkpoint-10", 10)


def test_metrics_of_undone_steps_go(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    drop_after(tmp_path, 2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_a_resumed_run_keeps_its_config(tmp_path):
    from envs.config import dump_config

    (tmp_path / "config.yaml").write_text(dump_config(config()))
    check_same_config(config(save_every=3, wandb={"mode": "disabled"}), tmp_path)
    with pytest.raises(ConfigError, match="seed: the run in this folder has 0, this call 1"):
        check_same_config(config(seed=1), tmp_path)
    before = config().steps
    check_same_config(config(steps=before + 1), tmp_path)
    with pytest.raises(ConfigError, match=f"steps: the run in this folder has {before}"):
        check_same_config(config(steps=before - 1), tmp_path)
    for schedule in ("linear", "constant_with_warmup"):  # a warm-up may be a share of the steps
        other = config(trainer={"lr_scheduler_type": schedule})
        (tmp_path / "config.yaml").write_text(dump_config(other))
        with pytest.raises(ConfigError, match="steps: the run"):
            check_same_config(other.model_copy(update={"steps": before + 1}), tmp_path)
