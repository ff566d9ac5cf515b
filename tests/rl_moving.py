"""RL runs of the tiny random model whose weights really move: it is never right, so its quality is made from what it sampled.

python tests/rl_moving.py CONFIG    # a run as a process of its own, for tests that kill it or start several
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from safetensors.torch import load_file

from envs.chat import get_chat
from envs.profiles import get_profile
from envs.runs import write_jsonl_atomic
from envs.tasks.probes import make_probes
from rl.config import RLConfig
from rl.probes import ProbeGame

REPLY = 6
_judge = ProbeGame.judge


def judge(self: ProbeGame, probe: Any, played: Any) -> Any:
    """The real outcome, with a quality between 0 and 1 that hangs on the sampled ids."""
    ids = [t for s in played.segments for t, m in zip(s.completion_ids, s.mask, strict=True) if m]
    return replace(_judge(self, probe, played), q=sum(t % 7 for t in ids) / (6 * len(ids)))


def short(name: str) -> Any:
    return replace(get_profile(name), reply_tokens=REPLY)


def patch(monkeypatch: Any) -> None:
    monkeypatch.setattr("rl.run.get_profile", short)
    monkeypatch.setattr("rl.probes.ProbeGame.judge", judge)


def write_probes(path: Path) -> Path:
    chat = get_chat("tiny")
    write_jsonl_atomic(path, next(p for seed in range(40) if (p := make_probes("support", seed, "static", chat))))
    return path


def small(folder: Path) -> Path:
    """A random Llama of two layers whose heads are wide enough for vLLM's CPU attention (64)."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from envs.policies.smollm2 import load_tokenizer

    tokenizer = load_tokenizer("tiny")
    torch.manual_seed(0)
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=64, max_position_embeddings=2048, tie_word_embeddings=True, **ids,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def settings(probes: Path, out: Path, **more: Any) -> dict[str, Any]:
    return {
        "model": "tiny", "probes": str(probes), "out": str(out), "steps": 3, "episodes_per_step": 4, "group_size": 2,
        "micro_batch": 2, "max_turns": 2, "save_every": 1, "wandb": {"mode": "disabled"}, "trainer": {"learning_rate": 0.01},
        **more,
    }  # fmt: skip


def config(probes: Path, out: Path, **more: Any) -> RLConfig:
    return RLConfig.model_validate(settings(probes, out, **more))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def equal(one: Path, two: Path) -> bool:
    """Whether two model folders hold the same weights to the last bit."""
    a, b = weights(one), weights(two)
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def die_at(place: str, step: int) -> None:
    """Kill this process (as ``kill -9`` does) in the middle of a step: in its rollout, its training pass, or its checkpoint."""
    from rl.callbacks import RunCallback
    from rl.trainer import EpisodeGRPOTrainer

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if place == "checkpoint":

        def save(self: Any, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == step:
                die()  # its files are there, its mark is not
            mark(self, args, state, control)

        mark, RunCallback.on_save = RunCallback.on_save, save
        return

    def sample(self: Any, contexts: Any, seeds: Any) -> Any:
        if place == "rollout" and self.state.global_step + 1 == step and seeds[0].endswith("/2"):
            die()  # the first turn of every episode is played
        return draw(self, contexts, seeds)

    def loss(self: Any, model: Any, inputs: Any) -> Any:
        if place == "pass" and self.state.global_step + 1 == step and self._step % self.args.steps_per_generation == 1:
            die()  # half of the gradient is there
        return compute(self, model, inputs)

    draw, EpisodeGRPOTrainer._sample = EpisodeGRPOTrainer._sample, sample
    compute, EpisodeGRPOTrainer._compute_loss = EpisodeGRPOTrainer._compute_loss, loss


def command(path: Path, *more: str, processes: int = 1) -> list[str]:
    """The command of a run from a JSON file of its settings."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--standalone"] if processes > 1 else []
    return [sys.executable, *launcher, __file__, str(path), *more]


if __name__ == "__main__":
    import rl.run

    rl.run.get_profile = short
    ProbeGame.judge = judge
    torch.set_num_threads(1)
    if len(sys.argv) > 2:
        die_at(sys.argv[2], int(sys.argv[3]))
    rl.run.run(RLConfig.model_validate(json.loads(Path(sys.argv[1]).read_text())), progress=False)
