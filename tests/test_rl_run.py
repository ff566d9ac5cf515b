"""Whole runs on real probes with a tiny random model: interrupted and resumed, finished, with an adapter."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback
from typer.testing import CliRunner

from envs.chat import get_chat
from envs.config import ConfigError, load_config
from envs.profiles import get_profile
from envs.runs import read_jsonl, write_jsonl_atomic
from envs.tasks.probes import make_probes
from rl.__main__ import app
from rl.config import RLConfig
from rl.run import run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def short_turns(monkeypatch):
    monkeypatch.setattr("rl.run.get_profile", lambda name: replace(get_profile(name), reply_tokens=6))


@pytest.fixture(scope="module")
def probes(tmp_path_factory) -> Path:
    chat = get_chat("tiny")
    found = next(p for seed in range(40) if (p := make_probes("support", seed, "static", chat)))
    path = tmp_path_factory.mktemp("data") / "probes.jsonl"
    write_jsonl_atomic(path, found)
    return path


def config(probes: Path, out: Path, **more) -> RLConfig:
    return RLConfig.model_validate(
        {
            "model": "tiny", "probes": str(probes), "out": str(out), "steps": 2, "episodes_per_step": 4, "group_size": 2,
            "micro_batch": 2, "max_turns": 1, "save_every": 1, "freeze_embeddings": True, "wandb": {"mode": "disabled"},
            "trainer": {"learning_rate": 0.01},
            **more,
        }
    )  # fmt: skip


class At(TrainerCallback):
    """Does something when a step begins."""

    def __init__(self, step: int, action) -> None:
        self.step, self.action = step, action

    def on_step_begin(self, args, state, control, **kwargs) -> None:
        if state.global_step + 1 == self.step:
            self.action()


def kill() -> None:
    raise KeyboardInterrupt


def test_an_interrupted_run_ends_like_one_that_was_not(probes, tmp_path):
    through = run(config(probes, tmp_path / "a"), progress=False)
    assert through["status"] == "finished"
    assert through["metrics"]["logp_gap/max"] <= 1e-4

    with pytest.raises(KeyboardInterrupt):
        run(config(probes, tmp_path / "b"), progress=False, callbacks=[At(2, kill)])
    (tmp_path / "b" / "checkpoint-9").mkdir()  # torn: its mark is missing
    again = run(config(probes, tmp_path / "b"), progress=False)
    assert again["status"] == "finished"
    one, two = (load_file(tmp_path / name / "model" / "model.safetensors") for name in "ab")
    assert all(torch.equal(one[k], two[k]) for k in one)
    lines = read_jsonl(tmp_path / "b" / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    assert {"reward/q", "reward/s", "episode/segments", "groups/zero_variance", "rows/padding", "logp_gap/seg1"} <= set(lines[0])

    before = (tmp_path / "b" / "done.json").stat().st_mtime_ns
    assert run(config(probes, tmp_path / "b"), progress=False)["status"] == "finished"
    assert (tmp_path / "b" / "done.json").stat().st_mtime_ns == before
    with pytest.raises(ConfigError, match="seed"):
        run(config(probes, tmp_path / "b", seed=5), progress=False)


def test_a_finished_run_goes_on_to_more_steps_like_one_that_was_told_so_at_once(probes, tmp_path):
    settings = {"val_probes": str(probes), "val_every": 1, "lora": {"r": 2}}
    run(config(probes, tmp_path / "a", **settings), progress=False)
    run(config(probes, tmp_path / "b", steps=1, **settings), progress=False)
    assert run(config(probes, tmp_path / "b", **settings), progress=False)["steps"] == 2
    one, two = (load_file(tmp_path / name / "model" / "model.safetensors") for name in "ab")
    assert all(torch.equal(one[k], two[k]) for k in one)
    lines = [read_jsonl(tmp_path / name / "metrics.jsonl") for name in "ab"]
    steps = [[(line["step"], "val/q" in line) for line in each] for each in lines]
    assert steps[0] == steps[1] == [(0, True), (1, False), (1, True), (2, False), (2, True)]
    with pytest.raises(ConfigError, match="steps: the run in this folder has 2"):
        run(config(probes, tmp_path / "b", steps=1, **settings), progress=False)


def test_ctrl_c_ends_after_the_step_and_saves_it(probes, tmp_path):
    press = At(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    stopped = run(config(probes, tmp_path, save_every=50), progress=False, callbacks=[press])
    assert stopped["status"] == "interrupted"
    assert stopped["steps"] == 1
    assert (tmp_path / "checkpoint-1" / "complete.json").is_file()
    assert not (tmp_path / "done.json").exists()


def test_an_adapter_is_merged_into_the_final_model(probes, tmp_path):
    from envs.policies.smollm2 import load_model

    settings = {"lora": {"r": 2}, "precision": "bf16", "steps": 1, "val_probes": str(probes), "val_every": 1}
    done = run(config(probes, tmp_path, **settings), progress=False)
    model = load_model(done["model"])
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert (tmp_path / "adapter" / "adapter_config.json").is_file()
    lines = read_jsonl(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines] == [0, 1, 1]
    assert lines[1]["logp_gap/mean"] < 0.1
    assert all("val/q/support" in line and "val/family/support" in line for line in (lines[0], lines[2]))
    assert {p.dtype for p in load_model(done["best"]["model"]).parameters()} == {torch.float32}


def test_validation_shows_sample_episodes_and_a_resumed_run_is_one_tracked_run(probes, tmp_path, monkeypatch):
    from envs.tracking import offline_runs
    from tests.wandb_files import figures

    monkeypatch.setenv("WANDB_SILENT", "true")
    settings = {"wandb": {"mode": "offline"}, "val_probes": str(probes), "val_every": 1, "save_every": 50}
    press = At(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert run(config(probes, tmp_path, **settings), progress=False, callbacks=[press])["status"] == "interrupted"
    assert run(config(probes, tmp_path, **settings), progress=False)["status"] == "finished"
    told = figures(tmp_path)
    assert len(told) == len(set(told))
    assert [step for step, name in told if name == "reward/q"] == [1, 2]
    assert [step for step, name in told if name == "val/q/support"] == [0, 1, 2]
    assert [step for step, name in told if name == "samples"] == [0, 1, 2]
    shown = json.loads(next((offline_runs(tmp_path)[0] / "files" / "media" / "table").glob("samples*.json")).read_text())
    row = dict(zip(shown["columns"], shown["data"][0], strict=True))
    assert list(row) == ["id", "family", "variant", "transcript", "q", "tokens", "view"]
    assert row["family"] == "support"
    assert isinstance(row["q"], float)
    assert row["tokens"] > 0
    assert len(row["view"]) < 1700


def test_command_line(probes, tmp_path):
    path = tmp_path / "rl.yaml"
    path.write_text(json.dumps(config(probes, tmp_path / "run").model_dump(mode="json")))
    assert load_config(RLConfig, path, ["steps=1"]).steps == 1
    runner = CliRunner()
    helped = runner.invoke(app, ["--help"])
    assert helped.exit_code == 0
    assert "python -m rl configs/rl_probes.yaml" in helped.output
    wrong = runner.invoke(app, [str(path), "probes=nowhere.jsonl", "--no-progress"])
    assert wrong.exit_code == 2
    assert "nowhere.jsonl: no such file" in wrong.output
