"""GRPO whose episodes vLLM samples in the same process, and the weights that reach it (``make test-vllm``)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("vllm", reason="vLLM isn't installed: make test-vllm runs these in an environment of its own")

import rl_moving

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
def small(tmp_path_factory) -> Path:
    return rl_moving.small(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def trainer(patched, probes, small, tmp_path_factory):
    """Two steps of training at a rate that changes what the model says."""
    made = build(rl_moving.config(probes, tmp_path_factory.mktemp("run"), model=str(small), steps=2, trainer=VLLM))
    made.train()
    return made


def contexts(trainer) -> list[list[int]]:
    return [trainer._start(task).view().ids for task in trainer._tasks]


def forward_logps(model, context, ids) -> torch.Tensor:
    """Log-probabilities of ``ids`` after ``context`` by one fp32 pass of transformers."""
    with torch.inference_mode():
        logits = model(torch.tensor([[*context, *ids]])).logits[0, len(context) - 1 : -1].float()
    return logits.log_softmax(-1).gather(-1, torch.tensor(ids)[:, None]).squeeze(-1)


def gap(model, trainer, seed: str) -> float:
    """Mean distance between the log-probabilities that the engine drew with and those of ``model``."""
    where = contexts(trainer)
    turns = trainer._engine.generate(where, [f"{seed}{i}" for i in range(len(where))])
    gaps = [(torch.tensor(t.logps) - forward_logps(model, c, t.ids)).abs() for c, t in zip(where, turns, strict=True)]
    return float(torch.cat(gaps).mean())


def test_the_engine_samples_from_the_new_weights(trainer, small):
    """The engine rounds weights to half precision: its distance to the weights that were trained is that, to the old ones far more."""
    new, old = gap(trainer.model, trainer, "a"), gap(load_model(small, device="cpu"), trainer, "a")
    assert new < 0.02
    assert old > 0.2


def test_weights_are_sent_once_a_step(trainer, monkeypatch):
    sent = []
    send = trainer._engine._send_weights
    monkeypatch.setattr(trainer._engine, "_send_weights", lambda: (sent.append(1), send()))
    where = contexts(trainer)
    trainer._engine.generate(where, ["a"] * len(where))
    assert sent == []
    trainer.state.global_step += 1
    for _ in range(2):
        trainer._engine.generate(where, ["a"] * len(where))
    assert sent == [1]


def test_weights_changed_by_hand_arrive(trainer):
    """What is compared above is no accident of training: other weights, other log-probabilities, and only once they were sent."""
    draw = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=draw))
    before = gap(trainer.model, trainer, "b")
    trainer.state.global_step += 1
    after = gap(trainer.model, trainer, "b")
    assert before > 0.2
    assert after < 0.02


def test_the_gap_of_sampling_and_training_is_small_and_logged(trainer):
    steps = [line for line in trainer.state.log_history if "logp_gap/max" in line]
    assert len(steps) == 2
    assert all(0 < line["logp_gap/mean"] < 0.02 for line in steps)
    assert all(abs(line["sampling/importance_sampling_ratio/mean"] - 1) < 0.02 for line in steps)
