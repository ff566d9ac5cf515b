"""Two processes train as one does: same rollouts, same weights. They meet through torchrun and gloo."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from rl_moving import command, settings, weights, write_probes

from envs.policies.smollm2 import load_model
from envs.runs import read_jsonl


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_processes_train_like_one(tmp_path):
    probes = write_probes(tmp_path / "probes.jsonl")
    more = {
        "steps": 1, "episodes_per_step": 8, "group_size": 4, "val_probes": str(probes), "val_every": 1, "val_batch": 1,
        "trainer": {"learning_rate": 0.1, "optim": "sgd"},
    }  # fmt: skip
    for processes in (1, 2):
        path = tmp_path / f"{processes}.json"
        path.write_text(json.dumps(settings(probes, tmp_path / str(processes), world_size=processes, **more)))
        done = subprocess.run(
            command(path, processes=processes), cwd=Path(__file__).parents[1], capture_output=True, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    one, two = (read_jsonl(tmp_path / str(n) / "metrics.jsonl") for n in (1, 2))
    assert [line["step"] for line in one] == [line["step"] for line in two] == [0, 1, 1]
    for name in ("reward/q", "episode/inferences", "num_tokens", "episode/segments"):
        assert one[1][name] == two[1][name], name
    assert read_jsonl(tmp_path / "1" / "validation.jsonl") == read_jsonl(tmp_path / "2" / "validation.jsonl")
    first, second = (weights(tmp_path / str(n) / "model") for n in (1, 2))
    for name in first:
        assert torch.allclose(first[name], second[name], atol=1e-6), name
    start = load_model("tiny").state_dict()
    assert max((first[name] - start[name]).abs().max().item() for name in first) > 1e-4, "the step moved the weights"
