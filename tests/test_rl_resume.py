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


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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


def interrupted(given, step: int) -> dict:
    with pytest.raises(KeyboardInterrupt):
        run(given, progress=False, callbacks=[Interrupt(step)])
    return run(given, progress=False)


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
        command(path, *more, processes=processes), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )


def killed_and_resumed(probes: Path, tmp_path: Path, place: str, **more) -> tuple[Path, Path]:
    """Folders of a run as it should be, and of one that was killed in its second step and started again by the same command."""
    processes = more.get("world_size", 1)
    for name in "ab":
        given = settings(probes, tmp_path / name, steps=2, micro_batch=4 // processes // 2, **more)
        (tmp_path / f"{name}.json").write_text(json.dumps(given))
    whole = process(tmp_path / "a.json", processes=processes)
    assert whole.returncode == 0, whole.stderr[-3000:]
    killed = process(tmp_path / "b.json", place, "2", processes=processes)
    assert killed.returncode != 0
    assert not (tmp_path / "b" / "done.json").exists()
    done = process(tmp_path / "b.json", processes=processes)
    assert done.returncode == 0, done.stderr[-3000:]
    return tmp_path / "a", tmp_path / "b"


def check(one: Path, two: Path) -> None:
    assert equal(one / "model", two / "model")
    assert not equal(one / "checkpoint-1", one / "model")
    assert figures(one) == figures(two)


def test_kill_9_in_the_middle_of_a_step_then_the_same_command(probes, tmp_path):
    check(*killed_and_resumed(probes, tmp_path, "pass", val_probes=str(probes), val_every=1))
    assert read_jsonl(tmp_path / "a" / "validation.jsonl") == read_jsonl(tmp_path / "b" / "validation.jsonl")
    assert equal(tmp_path / "a" / "best", tmp_path / "b" / "best")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["rollout", "checkpoint"])
def test_kill_9_elsewhere_in_a_step_then_the_same_command(probes, tmp_path, place):
    check(*killed_and_resumed(probes, tmp_path, place))


@pytest.mark.slow
def test_two_processes_resume_exactly(probes, tmp_path):
    check(*killed_and_resumed(probes, tmp_path, "rollout", world_size=2))


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
