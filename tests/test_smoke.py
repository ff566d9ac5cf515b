"""The smoke test of a machine, run for real on the CPU with a tiny model; what fails, is skipped or runs out of time is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from envs.config import UserError
from envs.runs import read_json
from scripts import gpu_smoke, smoke_stages
from scripts.gpu_smoke import STAGES, Report, Stage, absent, app, chosen, smoke

ROOT = Path(__file__).parents[1]


def test_one_command_tries_the_stages_and_writes_the_report(tmp_path):
    script = [str(ROOT / "scripts" / "gpu_smoke.sh"), "--cpu", "--steps", "1", "--model", "tiny", "--only", "grpo_fp32"]
    done = subprocess.run(
        [*script, "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = Report.model_validate(read_json(tmp_path / "smoke.json"))
    assert [(stage.name, stage.status) for stage in report.stages] == [("data", "ok"), ("sft", "ok"), ("grpo_fp32", "ok")]
    sft, grpo = (stage.figures for stage in report.stages[1:])
    assert sft["steps"] == grpo["steps"] == 1
    assert sft["training tokens/s"] > 0
    assert 0 < grpo["log-prob gap, mean"] <= grpo["log-prob gap, max"] <= 1e-4
    assert grpo["sampled tokens/s"] > 0
    assert grpo["peak RAM GB"] > 0.1
    assert report.machine.gpu is None
    assert "torch" in report.versions
    assert "| GRPO steps, transformers, fp32 | ok |" in done.stdout


def test_a_stage_that_fails_hides_no_other(tmp_path, monkeypatch):
    """Two stages crash, one hangs; what hangs on them is skipped, the rest is tried."""
    fake = tmp_path / "fake"
    (fake / "scripts").mkdir(parents=True)
    (fake / "scripts" / "smoke_stages.py").write_text(
        "import json, sys, time, pathlib\n"
        "name, out = sys.argv[1], pathlib.Path(sys.argv[2])\n"
        "if name == 'sft': print('error: out of memory', flush=True); sys.exit(3)\n"
        "if name == 'sft_qwen3': time.sleep(60)\n"
        "(out / f'{name}.json').write_text(json.dumps({'x': 1}))\n"
    )
    monkeypatch.chdir(fake)
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(gpu_smoke, "absent", lambda name, cpu: "not here" if name == "grpo_vllm" else "")
    report = smoke(tmp_path / "out", cpu=True, model="tiny", steps=1, only=None, minutes=0.1)
    told = {stage.name: (stage.status, stage.reason) for stage in report.stages}
    assert told["data"] == ("ok", "")
    assert told["sft"][0] == "failed"
    assert told["sft"][1].startswith("error: out of memory (exit code 3; see ")
    assert told["grpo_fp32"] == ("skipped", "needs sft, which is failed")
    assert told["sft_qwen3"][0] == "failed"
    assert "not done within the" in told["sft_qwen3"][1]
    assert report.status == "failed"
    assert report.seconds < 30
    assert Report.model_validate(read_json(tmp_path / "out" / "smoke.json")) == report
    result = CliRunner().invoke(app, ["--cpu", "--only", "sft", "--out", str(tmp_path / "again")])
    assert result.exit_code == 1
    assert "error: out of memory" in result.output


def test_a_smoke_test_that_is_ended_leaves_no_stage_behind(tmp_path):
    (tmp_path / "scripts").mkdir()
    for file in ("__init__.py", "gpu_smoke.py"):
        shutil.copy(ROOT / "scripts" / file, tmp_path / "scripts")
    (tmp_path / "scripts" / "smoke_stages.py").write_text("import os, time; print(os.getpid(), flush=True); time.sleep(120)\n")
    command = [sys.executable, "-m", "scripts.gpu_smoke", "--cpu", "--only", "data", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    log, deadline = tmp_path / "out" / "data.log", time.monotonic() + 120
    while not (log.is_file() and log.read_text().strip()):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    process.terminate()
    assert process.wait(30) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text()), 0)


def test_what_is_not_there_is_skipped_with_its_reason(monkeypatch):
    monkeypatch.setattr(gpu_smoke, "_installed", lambda *names: {})
    assert "vLLM is absent" in absent("grpo_vllm", False)
    assert "dashscope" in absent("sft_qwen3", False)
    assert absent("grpo_bf16", True)
    assert absent("grpo_bf16", False) == absent("sft", True) == ""


def test_stages_bring_what_they_need():
    assert chosen(None) == list(STAGES)
    assert chosen(["grpo_vllm"]) == ["data", "sft", "grpo_vllm"]
    with pytest.raises(UserError, match="--only gpro: no such stage: use one of data, sft"):
        chosen(["gpro"])


def test_without_a_gpu_the_remedy_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = CliRunner().invoke(app, ["--out", str(tmp_path / "x")])
    assert result.exit_code == 2
    assert "no CUDA device here" in result.output
    assert "add --cpu" in result.output
    assert not (tmp_path / "x").exists()


def test_speeds_are_medians_after_the_first_step():
    def line(total, sampling, rollout, step):
        return {
            "num_tokens": total, "rows/trained_share": 0.1, "seconds/sample": sampling, "seconds/rollout": rollout,
            "seconds/step": step, "loss": 0.0, "logp_gap/mean": 0.02, "logp_gap/max": 0.3,
        }  # fmt: skip

    found = smoke_stages.speeds([line(1000, 50.0, 60.0, 100.0), line(3000, 2.0, 3.0, 7.0), line(5000, 4.0, 4.0, 12.0)])
    assert found["sampled tokens/s"] == (100 + 50) / 2
    assert found["training tokens/s"] == (500 + 250) / 2
    assert (found["log-prob gap, mean"], found["log-prob gap, max"]) == (pytest.approx(0.02), 0.3)
    assert smoke_stages.speeds([line(1000, 50.0, 60.0, 100.0)])["sampled tokens/s"] == 2
    with pytest.raises(UserError, match="loss is nan"):
        smoke_stages.speeds([{**line(1000, 50.0, 60.0, 100.0), "loss": float("nan")}])


def test_the_table_shows_every_stage(tmp_path):
    stages = [
        Stage(name="data", status="ok", seconds=3, figures={"own trajectories": 1200}),
        Stage(name="sft", status="failed", reason="why"),
    ]
    report = Report(
        status="failed", at="x", seconds=4, limit_seconds=600, options={}, machine=gpu_smoke.machine(True), versions={}, git_commit=None,
        git_dirty=None, stages=stages,
    )  # fmt: skip
    text = gpu_smoke.table(report)
    assert "| expert trajectories and probes | ok | 3 | own trajectories 1,200 |" in text
    assert "| SFT steps | failed | 0 | why |" in text
    assert "no GPU" in text
