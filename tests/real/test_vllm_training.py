"""GRPO whose episodes vLLM samples in the same process, and the weights that reach it (``make test-vllm``)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("vllm", reason="vLLM isn't installed: make test-vllm runs these in an environment of its own")

import rl_moving

from envs.policies.hf import HFPolicy
from envs.policies.smollm2 import load_model
from rl.run import build

VLLM = {"use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 2048, "learning_rate": 0.01}


@pytest.fixture(scope="module")
def patched():
    with pytest.MonkeyPatch.context() as patch:
        rl_moving.patch(patch)
        yield


@pytest.fixture(scope="module")
def probes(tmp_path_factory) -> Path:
    return rl_moving.write_probes(tmp_path_factory.mktemp("data") / "probes.jsonl")


@pytest.fixture(scope="module")
def trainer(patched, probes, tmp_path_factory):
    """Two steps of training at a rate that changes what the model says."""
    made = build(rl_moving.config(probes, tmp_path_factory.mktemp("run"), steps=2, trainer=VLLM))
    made.train()
    return made


def contexts(trainer) -> list[list[int]]:
    return [trainer._start(task).view().ids for task in trainer._tasks]


def greedy(model, trainer, where) -> list[list[int]]:
    policy = HFPolicy(model, trainer._tokenizer, max_new_tokens=12)
    return [t.ids for t in policy.generate(where)]


def test_the_engine_answers_with_the_new_weights(trainer):
    where = contexts(trainer)
    now, before = greedy(trainer.model, trainer, where), greedy(load_model("tiny", device="cpu"), trainer, where)
    assert now != before  # training moved them far enough to tell
    with trainer._sampling_at(0.0):
        turns = trainer._engine.generate(where, [f"{i}" for i in range(len(where))])
    assert [t.ids[:12] for t in turns] == [ids[: len(t.ids)] for ids, t in zip(now, turns, strict=True)]


def test_weights_are_sent_once_a_step(trainer, monkeypatch):
    sent = []
    sync = trainer.vllm_generation.sync_weights
    monkeypatch.setattr(trainer.vllm_generation, "sync_weights", lambda: (sent.append(1), sync()))
    where = contexts(trainer)
    trainer._engine.generate(where, ["a"] * len(where))
    assert sent == []
    trainer.state.global_step += 1
    for _ in range(2):
        trainer._engine.generate(where, ["a"] * len(where))
    assert sent == [1]


def test_weights_changed_by_hand_arrive(trainer):
    """What is compared above is no accident of training: other weights, other answers."""
    where = contexts(trainer)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7)))
    trainer.state.global_step += 1
    with trainer._sampling_at(0.0):
        turns = trainer._engine.generate(where, ["a"] * len(where))
    now = greedy(trainer.model, trainer, where)
    assert [t.ids for t in turns] == [ids[: len(t.ids)] for ids, t in zip(now, turns, strict=True)]


def test_the_gap_of_sampling_and_training_is_small_and_logged(trainer):
    steps = [line for line in trainer.state.log_history if "logp_gap/max" in line]
    assert len(steps) == 2
    assert all(0 <= line["logp_gap/max"] < 1e-4 for line in steps)
    assert all(abs(line["sampling/importance_sampling_ratio/mean"] - 1) < 1e-4 for line in steps)
