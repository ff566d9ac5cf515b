"""The GRPO subclass on a toy episode: a random model plays, so any turn must lead somewhere."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig, GRPOTrainer

from envs.chat import ChatML, Message
from envs.config import ConfigError
from envs.policies.smollm2 import load_tokenizer
from envs.segments import Segment
from rl.contract import check_contract
from rl.gaps import GapError
from rl.outcome import Outcome, advantages
from rl.rollout import roll_out
from rl.rows import FILLER, alike, chunk
from rl.sampling import Turn
from rl.trainer import EpisodeGRPOTrainer

REPLY = 5


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def chat() -> ChatML:
    return ChatML(load_tokenizer("tiny"))


class Toy:
    """Three to five turns; a turn whose first id is even rewrites the view, others append to it."""

    def __init__(self, chat: ChatML, task: int) -> None:
        self.chat, self.task = chat, task
        self.done, self.turns, self.folds, self.ids = False, 0, 0, []
        self.live = [Message("user", f"go {task} " + "word " * (7 * task % 5))]

    def view(self):
        messages = [Message("system", f"state {self.folds}"), *self.live]
        return SimpleNamespace(messages=messages, ids=self.chat.render(messages))

    def step(self, sampled) -> None:
        self.turns += 1
        self.ids += sampled.ids
        if sampled.ids[0] % 2 == 0:
            self.folds += 1
            self.live = [Message("user", "go on")]
        else:
            self.live += [Message("assistant", sampled.text, tuple(sampled.ids)), Message("user", "and then?")]
        self.done = self.turns >= 3 + self.task % 3


def judge(task, played) -> Outcome:
    values = played.episode.ids
    q = 0.0 if played.stopped else sum(v % 7 for v in values) / (6 * len(values))
    return Outcome(
        q=q, s=(values[0] % 11) / 10, fully_right=False, quality_step=0.25, counts={f"end/{played.stopped or 'done'}": 1.0}
    )


def tiny_model(vocab: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=2048, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.generation_config.update(eos_token_id=2, pad_token_id=0)
    return model


def make(chat: ChatML, folder, *, steps: int = 1, tasks: int = 8, settings: dict | None = None, dtype=torch.float32, **kwargs):
    given = {
        "output_dir": str(folder), "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "learning_rate": 1e-3,
        "lr_scheduler_type": "constant", "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
        "steps_per_generation": 2, "num_generations": 4, "num_generations_eval": 1, "max_completion_length": REPLY,
        "max_steps": steps, "loss_type": "dapo", "scale_rewards": "none", "reward_weights": [1.0, 0.0],
        "shuffle_dataset": False, "remove_unused_columns": False, "logging_steps": 1, "report_to": "none",
        "save_strategy": "no", "dataloader_pin_memory": False, "disable_tqdm": True, "top_p": 1.0, "top_k": 0, "seed": 3,
    }  # fmt: skip
    args = GRPOConfig(**{**given, **(settings or {})})
    return EpisodeGRPOTrainer(
        tiny_model(len(chat.tokenizer)).to(dtype),
        args,
        **{"start": lambda t: Toy(chat, t), "judge": judge, "tasks": list(range(tasks)), "chat": chat, **kwargs},
    )


def batch_of(segments: list[Segment], values: list[float], places: list[int] | None = None) -> dict:
    """A padded batch as TRL makes it."""
    left, right = max(len(s.prompt_ids) for s in segments), max(len(s.completion_ids) for s in segments)

    def pad(rows, width, on_left):
        return torch.tensor([[0] * (width - len(r)) + r if on_left else r + [0] * (width - len(r)) for r in rows])

    return {
        "prompt_ids": pad([s.prompt_ids for s in segments], left, True),
        "prompt_mask": pad([[1] * len(s.prompt_ids) for s in segments], left, True),
        "completion_ids": pad([s.completion_ids for s in segments], right, False),
        "completion_mask": pad([[1] * len(s.completion_ids) for s in segments], right, False),
        "tool_mask": pad([s.mask for s in segments], right, False),
        "advantages": torch.tensor(values),
        "num_items_in_batch": torch.tensor(sum(sum(s.mask) for s in segments)),
        "sampling_per_token_logps": torch.zeros(len(segments), right),
        "place": torch.tensor(places or [1] * len(segments)),
    }


def gradient(trainer: EpisodeGRPOTrainer, parts: list[dict]) -> torch.Tensor:
    trainer.model.train()
    trainer.model.zero_grad()
    trainer.current_gradient_accumulation_steps = trainer.args.steps_per_generation = len(parts)
    trainer._log_gaps = trainer._log_rows = lambda: None
    for part in parts:
        trainer._compute_loss(trainer.model, part).backward()
    return torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None])


def episode_rows(chat: ChatML) -> tuple[Segment, list[Segment], Segment, Segment]:
    """One episode as a single row and forked into three, another episode, and a filler."""
    head = chat.render([Message("system", "s"), Message("user", "go")])
    a, b, c = (list(chat.turn_ids(t)) for t in ("one two", "three", "four five six"))
    env = list(chat.newline) + chat.render([Message("user", "next")])
    whole = Segment(head)
    whole.append(a, True), whole.append(env, False), whole.append(b, True), whole.append(env, False), whole.append(c, True)
    forked = []
    for context, turn in ((head, a), (head + a + env, b), (head + a + env + b + env, c)):
        forked.append(Segment(list(context)))
        forked[-1].append(turn, True)
    other = Segment(list(head))
    other.append(list(chat.turn_ids("seven eight")), True)
    return whole, forked, other, Segment([2], [2], [0], [0.0])


def test_forking_an_episode_leaves_the_gradient(chat, tmp_path):
    trainer = make(chat, tmp_path)
    whole, forked, other, filler = episode_rows(chat)
    one = gradient(trainer, [batch_of([whole, other], [1.0, -0.5])])
    rows = batch_of([*forked, other, filler, filler], [1.0, 1.0, 1.0, -0.5, 0.0, 0.0], [1, 2, 3, 1, 0, 0])
    assert rows["num_items_in_batch"] == batch_of([whole, other], [1.0, -0.5])["num_items_in_batch"]
    for pack, parts in ((False, chunk(rows, 2)), (True, [rows]), (True, chunk(rows, 3)), (True, chunk(rows, 2, alike(rows)))):
        trainer._pack = pack
        assert torch.linalg.norm(gradient(trainer, parts) - one) / torch.linalg.norm(one) < 1e-5


def test_other_losses_do_change_with_forks(chat, tmp_path):
    trainer = make(chat, tmp_path)
    whole, forked, other, _ = episode_rows(chat)
    trainer.loss_type = "grpo"
    one = gradient(trainer, [batch_of([whole, other], [1.0, -0.5])])
    two = gradient(trainer, [batch_of([*forked, other], [1.0, 1.0, 1.0, -0.5], [1, 2, 3, 1])])
    assert torch.linalg.norm(two - one) / torch.linalg.norm(one) > 0.05


def test_a_batch_keeps_every_sampled_token_and_advantage(chat, tmp_path):
    trainer = make(chat, tmp_path)
    trainer.model.train()
    inputs = [{"prompt": [], "task": t} for t in (0, 0, 0, 0, 1, 1, 1, 1)]
    out = trainer._generate_and_score_completions(inputs)
    rows, outcomes = trainer._rows, trainer._outcomes
    assert len(rows.owner) % 2 == 0
    assert max(rows.owner) == 7
    assert any(rows.owner.count(i) > 1 for i in range(8))
    expected = advantages(outcomes, 4)
    for row, owner in enumerate(rows.owner):
        if owner == FILLER:
            assert out["advantages"][row] == 0
            assert out["tool_mask"][row, 0] == 0
        else:
            assert math.isclose(out["advantages"][row].item(), expected[owner], abs_tol=1e-6)
    assert abs(sum(expected[:4])) < 1e-9
    assert any(expected)
    assert out["num_items_in_batch"] == rows.trained
    parts = chunk(out, 2)
    assert sum(int((p["completion_mask"] * p["tool_mask"]).sum()) for p in parts) == rows.trained
    assert trainer._metrics["train"]["reward/q"] == [sum(o.q for o in outcomes) / 8]


def test_flat_groups_are_played_again_on_other_tasks(chat, tmp_path):
    def flat_on_0(task, played):
        found = judge(task, played)
        return dataclasses.replace(found, q=-0.25) if task == 0 else found

    trainer = make(chat, tmp_path, judge=flat_on_0, redraw=2, tasks=3)
    trainer.model.train()
    out = trainer._generate_and_score_completions([{"prompt": [], "task": t} for t in (0, 0, 0, 0, 1, 1, 1, 1)])
    assert trainer._metrics["train"]["groups/redrawn"][0] >= 0.5
    assert trainer._metrics["train"]["groups/zero_variance"] == [0.0]
    assert all(o.q >= 0 for o in trainer._outcomes)
    assert out["num_items_in_batch"] == trainer._rows.trained


def test_a_chunk_without_advantage_is_not_trained(chat, tmp_path):
    trainer = make(chat, tmp_path)
    whole, _, other, _ = episode_rows(chat)
    assert not gradient(trainer, [batch_of([whole, other], [0.0, 0.0])]).any()
    assert trainer._gaps.sums[1][1] == sum(whole.mask) + sum(other.mask)


def test_segments_hold_the_sampled_ids_and_nothing_else_is_trained(chat, tmp_path):
    trainer = make(chat, tmp_path)
    turns: list[list[int]] = []

    def sample(contexts, seeds):
        sampled = trainer._sample(contexts, seeds)
        turns.extend(t.ids for t in sampled)
        return sampled

    (played,) = roll_out([Toy(chat, 1)], sample, chat, seeds=["0"], max_turns=9, max_segments=9)
    trained = [t for s in played.segments for t, m in zip(s.completion_ids, s.mask, strict=True) if m]
    assert trained == [t for turn in turns for t in turn]
    assert all(v < 0 for s in played.segments for v, m in zip(s.logps, s.mask, strict=True) if m)


def rewrite_always(contexts, seeds):
    return [Turn([4, 2], [-1.0, -1.0], False)] * len(contexts)  # an even id


@pytest.mark.parametrize("cap", ["turns", "segments"])
def test_caps_stop_an_episode(chat, cap):
    limits = {"max_turns": 2, "max_segments": 9} if cap == "turns" else {"max_turns": 9, "max_segments": 2}
    (played,) = roll_out([Toy(chat, 2)], rewrite_always, chat, seeds=["0"], **limits)
    assert played.stopped == cap
    assert len(played.segments) == 2
    assert all(s.completion_ids for s in played.segments)


def test_ranks_make_the_same_calls(chat):
    calls = []

    def sample(contexts, seeds):
        calls.append(len(contexts))
        return rewrite_always(contexts, seeds)

    widths = iter([3, 3, 2, 1, 0])  # another process has more and longer episodes
    roll_out([Toy(chat, 0)], sample, chat, seeds=["0"], max_turns=9, max_segments=9, widest=lambda n: next(widths))
    assert calls == [3, 3, 2, 1]


def test_training_steps_log_gaps_and_move_the_weights(chat, tmp_path):
    trainer = make(chat, tmp_path, steps=2)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.train()
    log = [line for line in trainer.state.log_history if "reward/q" in line]
    assert len(log) == 2
    for line in log:
        assert line["logp_gap/max"] <= 1e-4
        assert line["logp_gap/seg1"] <= line["logp_gap/max"]
        assert line["logp_gap/seg2_max"] <= line["logp_gap/max"], "rewrites gave second segments"
        assert 0 <= line["rows/padding"] < 1
        assert 0 < line["rows/trained_share"] < 1
        assert line["end/done"] == 1.0
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))


def test_a_gap_beyond_the_bound_stops_before_the_step(chat, tmp_path):
    trainer = make(chat, tmp_path, gap_stop=1e-4)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    honest = trainer._sample
    trainer._sample = lambda c, s: [dataclasses.replace(t, logps=[v - 0.01 for v in t.logps]) for t in honest(c, s)]
    with pytest.raises(GapError, match="step 1: log-probabilities .* differ by 0.01"):
        trainer.train()
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))


def test_evaluation_plays_each_task_once(chat, tmp_path):
    trainer = make(chat, tmp_path, val_tasks=[0, 1, 2], settings={"per_device_eval_batch_size": 2})
    found = trainer.evaluate()
    assert found["eval_q"] > 0
    assert "eval_groups/all_right" not in found


def test_resume_gives_the_same_weights(chat, tmp_path):
    settings = {"save_strategy": "steps", "save_steps": 1}
    through = make(chat, tmp_path / "a", steps=2, settings=settings)
    through.train()
    again = make(chat, tmp_path / "b", steps=2, settings=settings)
    again.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-1"))
    for a, b in zip(through.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_bf16_weights_are_refused(chat, tmp_path):
    with pytest.raises(ConfigError, match="must be fp32"):
        make(chat, tmp_path, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("name", "value"), [("loss_type", "grpo"), ("scale_rewards", "group"), ("steps_per_generation", 4), ("top_k", 20)]
)
def test_settings_that_mix_up_rows_and_episodes_are_refused(chat, tmp_path, name, value):
    with pytest.raises(ConfigError, match=name):
        make(chat, tmp_path, settings={name: value})


def test_contract_names_what_moved():
    check_contract()
    with pytest.raises(RuntimeError, match="1.17.0"):
        check_contract("1.17.0")

    class Moved(GRPOTrainer):
        def _generate(self, prompts, images):
            return None

    with pytest.raises(RuntimeError, match="_generate takes"):
        check_contract(base=Moved)
