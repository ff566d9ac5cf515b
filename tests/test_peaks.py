"""Planned memory against the real peak of a process that trains, on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envs.chat import get_chat
from envs.memory import CPU_GIB
from envs.runs import write_jsonl_atomic

ROOT = Path(__file__).parents[1]
TOLERANCE = 0.25
"""Of what the process takes beyond its libraries."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """24 probes, the expert's trajectories on them, and a random Llama of 38M parameters with SmolLM2's tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from envs.episode import Episode, play
    from envs.policies.expert import Expert
    from envs.policies.smollm2 import load_tokenizer
    from envs.profiles import get_profile
    from envs.tasks.probes import make_probes

    folder, chat = tmp_path_factory.mktemp("peaks"), get_chat("smollm2")
    probes = [p for seed in range(60) for p in make_probes("support", seed, "static", chat) or ()][:24]
    write_jsonl_atomic(folder / "probes.rl.jsonl", probes)
    episodes = [Episode.from_probe(p, get_profile("core@1"), chat) for p in probes]
    play(episodes, Expert(chat))
    write_jsonl_atomic(folder / "trajectories.jsonl", [e.trajectory("expert") for e in episodes])
    tokenizer = load_tokenizer("smollm2")
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=384, intermediate_size=1024, num_hidden_layers=12, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=8192, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder / "mid")
    tokenizer.save_pretrained(folder / "mid")
    return folder


def measured(config: str, *overrides: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "tests/peaks.py", f"configs/{config}.yaml", *overrides], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
    return json.loads(done.stdout.splitlines()[-1])


def sft(folder, tmp_path, model):
    return measured(
        "sft_probes", f"model={model}", f"data={folder}", f"out={tmp_path / 'run'}", "eval_share=0", "trainer.max_steps=3",
        "trainer.bf16=false", "wandb.mode=disabled",
    )  # fmt: skip


def rl(folder, tmp_path, model):
    return measured(
        "rl_probes", f"model={model}", f"probes={folder / 'probes.rl.jsonl'}", "val_probes=null", f"out={tmp_path / 'run'}", "steps=2",
        "redraw=0", "max_turns=1", "wandb.mode=disabled",
    )  # fmt: skip


def check(found):
    real = found["measured"] - CPU_GIB
    assert real > 0.4, "too small a run to tell anything"
    assert abs(found["planned"] - found["measured"]) < TOLERANCE * real


def test_an_sft_run_takes_what_was_planned(folder, tmp_path):
    check(sft(folder, tmp_path, folder / "mid"))


@pytest.mark.slow
def test_an_rl_run_takes_what_was_planned(folder, tmp_path):
    check(rl(folder, tmp_path, folder / "mid"))


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stage", [sft, rl])
def test_smollm2_takes_what_was_planned(stage, folder, tmp_path):
    check(stage(folder, tmp_path, "smollm2"))
