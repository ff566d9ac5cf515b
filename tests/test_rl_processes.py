"""Two processes train as one does: same rollouts, same weights. They meet through torchrun and gloo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from envs.chat import get_chat
from envs.runs import read_jsonl, write_jsonl_atomic
from envs.tasks.probes import make_probes


@pytest.mark.slow
def test_two_processes_train_like_one(tmp_path):
    probes = next(p for seed in range(40) if (p := make_probes("support", seed, "static", get_chat("tiny"))))
    write_jsonl_atomic(tmp_path / "probes.jsonl", probes)
    config = {
        "model": "tiny", "probes": str(tmp_path / "probes.jsonl"), "steps": 1, "episodes_per_step": 8, "group_size": 4,
        "micro_batch": 2, "max_turns": 1, "wandb": {"mode": "disabled"},
        "trainer": {"learning_rate": 0.1, "optim": "sgd"},
    }  # fmt: skip
    for processes in (1, 2):
        out = tmp_path / str(processes)
        path = tmp_path / f"{processes}.yaml"
        path.write_text(json.dumps({**config, "out": str(out), "world_size": processes}))
        launcher = [sys.executable, "-m"]
        if processes > 1:
            launcher += ["torch.distributed.run", "--nproc-per-node", str(processes), "--standalone", "-m"]
        done = subprocess.run(
            [*launcher, "rl", str(path), "--no-progress"], cwd=Path(__file__).parents[1], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
    one, two = (read_jsonl(tmp_path / str(n) / "metrics.jsonl")[0] for n in (1, 2))
    for name in ("reward/q", "episode/inferences", "num_tokens", "episode/segments"):
        assert one[name] == two[name], name
    first, second = (load_file(tmp_path / str(n) / "model" / "model.safetensors") for n in (1, 2))
    for name in first:
        assert torch.allclose(first[name], second[name], atol=1e-6), name
