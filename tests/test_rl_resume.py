"""Resume: whatever stops a run, the same command ends with the weights of an uninterrupted one, to the last bit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from rl_moving import command, config, equal, patch, settings, write_probes
from safetensors.torch import load_file
from transformers import TrainerCallback

from envs.runs import read_jsonl
from rl.run import run

ROOT = Path(__file__).parents[1]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def probes(tmp_path_factory) -> Path:
    return write_probes(tmp_path_factory.mktemp("data") / "probes.jsonl")


class Interrupt(TrainerCallback):
    """Ctrl-C, twice, when a step begins."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args, state, control, **kwargs) -> None:
        if state.global_step + 1 == self.step:
            raise KeyboardInterrupt


def interrupted(of, step: int) -> dict:
    with pytest.raises(KeyboardInterrupt):
        run(of, progress=False, callbacks=[Interrupt(step)])
    return run(of, progress=False)


def figures(folder: Path) -> list[dict]:
    """The metrics of a run without those that measure time."""
    lines = read_jsonl(folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if "seconds" not in k and k != "step_time"} for line in lines]


def test_full_weights_resume_exactly(probes, tmp_path, monkeypatch):
    patch(monkeypatch)
    run(config(probes, tmp_path / "a"), progress=False)
    interrupted(config(probes, tmp_path / "b"), 3)
    assert equal(tmp_path / "a" / "model", tmp_path / "b" / "model")
    assert not equal(tmp_path / "a" / "checkpoint-2", tmp_path / "a" / "model"), "the step that was done again moved the weights"
    assert figures(tmp_path / "a") == figures(tmp_path / "b")


def test_an_adapter_resumes_exactly(probes, tmp_path, monkeypatch):
    patch(monkeypatch)
    more = {"lora": {"r": 2}, "redraw": 1, "steps": 2}
    run(config(probes, tmp_path / "a", **more), progress=False)
    interrupted(config(probes, tmp_path / "b", **more), 2)
    assert equal(tmp_path / "a" / "model", tmp_path / "b" / "model")
    one, two = (load_file(tmp_path / n / "adapter" / "adapter_model.safetensors") for n in "ab")
    assert all(torch.equal(one[k], two[k]) for k in one)
    before = load_file(tmp_path / "a" / "checkpoint-1" / "adapter_model.safetensors")
    assert any(not torch.equal(one[k], before[k]) for k in one)


def process(path: Path, *more: str, processes: int = 1) -> subprocess.CompletedProcess:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    return subprocess.run(
        command(path, *more, processes=processes), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
    )


def given(probes: Path, out: Path, processes: int) -> Path:
    """The settings of a run of two steps with two micro-batches each, as a file."""
    more = {"val_probes": str(probes), "val_every": 1, "world_size": processes, "micro_batch": 2 // processes}
    path = out.with_suffix(".json")
    path.write_text(json.dumps(settings(probes, out, steps=2, **more)))
    return path


def whole(probes: Path, out: Path, processes: int = 1) -> Path:
    """The folder of a run that nothing stops."""
    done = process(given(probes, out, processes), processes=processes)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.fixture(scope="module")
def through(probes, tmp_path_factory) -> Path:
    return whole(probes, tmp_path_factory.mktemp("through") / "a")


def check_killed(probes: Path, through: Path, out: Path, place: str, processes: int = 1) -> None:
    """Kill a run in its second step, start it again by the same command, and compare it with one that nothing stopped."""
    path = given(probes, out, processes)
    killed = process(path, place, "2", processes=processes)
    assert killed.returncode != 0
    assert not (out / "done.json").exists()
    done = process(path, processes=processes)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not equal(through / "checkpoint-1", through / "model"), "the step that was done again moved the weights"
    for name in ("model", "best"):
        assert equal(through / name, out / name), name
    assert figures(through) == figures(out)
    assert read_jsonl(through / "validation.jsonl") == read_jsonl(out / "validation.jsonl")


@pytest.mark.timeout(1800)
def test_kill_9_in_the_middle_of_a_step_then_the_same_command(probes, through, tmp_path):
    check_killed(probes, through, tmp_path / "b", "pass")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", ["rollout", "checkpoint"])
def test_kill_9_elsewhere_in_a_step_then_the_same_command(probes, through, tmp_path, place):
    check_killed(probes, through, tmp_path / "b", place)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_processes_resume_exactly(probes, tmp_path):
    check_killed(probes, whole(probes, tmp_path / "a", processes=2), tmp_path / "b", "rollout", processes=2)


def test_checkpoints_fall_between_steps_and_hold_what_a_resume_needs(probes, tmp_path, monkeypatch):
    patch(monkeypatch)
    run(config(probes, tmp_path, steps=2, micro_batch=1), progress=False)
    assert sorted(p.name for p in tmp_path.glob("checkpoint-*")) == ["checkpoint-1", "checkpoint-2"]
    state = json.loads((tmp_path / "checkpoint-2" / "trainer_state.json").read_text())
    assert state["global_step"] == 2
    for name in ("optimizer.pt", "rng_state.pth", "model.safetensors", "complete.json"):
        assert (tmp_path / "checkpoint-2" / name).is_file()
    # A checkpoint alone is enough: nothing else of the run folder is needed for the same weights.
    shutil.copytree(tmp_path / "checkpoint-1", tmp_path / "again" / "checkpoint-1")
    run(config(probes, tmp_path / "again", steps=2, micro_batch=1), progress=False)
    assert equal(tmp_path / "model", tmp_path / "again" / "model")
