"""``python -m rl plan`` and ``python -m sft plan``: what they print, refuse and advise, without model, data, GPU or network."""

from __future__ import annotations

import json
import re
import shlex
import socket
from pathlib import Path

import pytest
from rl_moving import write_probes
from typer.testing import CliRunner

import rl.__main__
import sft.__main__
from envs.config import ConfigError, load_config
from envs.hardware import read_launch

APPS = {"rl": rl.__main__.app, "sft": sft.__main__.app}
RL, SFT = "configs/gpu/rl_qwen3_8b_fsdp2_8gpu.yaml", "configs/gpu/sft_qwen3_8b_fsdp2_8gpu.yaml"
ONE = ["hardware.accelerate=configs/accelerate/one_gpu.yaml", "world_size=1"]


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No network, and no cache of models."""

    def refuse(*_, **__):
        raise AssertionError("a plan asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "nothing"))


def plan(stage, config, *overrides):
    return CliRunner().invoke(APPS[stage], ["plan", str(config), *overrides])


def told(stage, config, *overrides):
    result = plan(stage, config, *overrides, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_text_has_parts_phases_and_a_step():
    result = plan("rl", RL)
    assert result.exit_code == 0
    for word in (
        "status          configured-only",
        "parameters      8,190,735,360",
        "8 on 1 node(s), fsdp2",
        "sample   forward  backward",
    ):
        assert word in result.stdout
    for part in ("weights", "gradients", "optimizer", "communication", "activations", "head", "vLLM", "runtime"):
        assert re.search(rf"^  {part} +\d", result.stdout, re.MULTILINE), part
    assert "peak" in result.stdout
    assert "fits" in result.stdout


def test_rows_and_tokens_of_a_step_follow_the_config():
    step = told("rl", RL)["step"]
    config = load_config(rl.__main__.RLConfig, RL)
    assert step["episodes"] == config.episodes_per_step
    assert step["rows"] == config.episodes_per_step * config.expect.segments
    assert step["tokens of the rows"] == step["rows"] * config.expect.row_tokens
    assert step["episodes a GPU"] * 8 == step["episodes"]
    assert step["passes a GPU"] * config.micro_batch == step["episodes a GPU"]
    assert told("rl", RL, "micro_batch=2")["step"]["passes a GPU"] == 2 * step["passes a GPU"]
    assert told("sft", SFT)["step"]["rows"] == 4 * 2 * 8
    notes = told("rl", RL)["notes"]
    assert any("as the config expects them" in note for note in notes)


def test_no_time_is_told_without_a_basis():
    assert not any("minutes" in name for name in told("rl", RL)["step"])
    found = told("rl", RL, "expect.tokens_per_second=6400")
    tokens = found["step"]["tokens of the rows"]
    assert found["step"]["minutes of all steps"] == pytest.approx(tokens * 200 / 6400 / 60, abs=0.1)
    assert any("expect.tokens_per_second" in note for note in found["notes"])


@pytest.mark.parametrize(("stage", "config"), [("rl", RL), ("sft", SFT)])
def test_eight_billion_in_full_on_one_gpu_is_refused_and_every_remedy_fits(stage, config):
    result = plan(stage, config, *ONE)
    assert result.exit_code == 1
    assert "does NOT fit" in result.stdout
    assert re.search(r"error: needs [12]\d\d\.\d GiB, there are 80\.0 \(largest parts: optimizer 61\.0", result.stderr)
    lines = [line.split("(peak")[0].strip() for line in result.stderr.splitlines() if "(peak" in line]
    assert any("hardware.accelerate=configs/accelerate/fsdp2_8.yaml" in line for line in lines)
    assert any("lora=" in line for line in lines)
    for line in lines:
        given = shlex.split(line)
        kept = [o for o in ONE if o.partition("=")[0] not in {g.partition("=")[0] for g in given}]
        assert told(stage, config, *kept, *given)["fits"], line


def test_sampling_without_an_engine_is_reckoned_with_and_the_engine_is_a_remedy():
    told_ = plan(
        "rl", "configs/gpu/rl_qwen3_8b_lora_1gpu.yaml", "trainer.use_vllm=false", "reuse_tokens=131072", "hardware.gpu_gib=60"
    )
    assert told_.exit_code == 1
    assert "keys and values" in told_.stderr
    assert "trainer.use_vllm=true trainer.vllm_mode=colocate trainer.vllm_enable_sleep_mode=true" in told_.stderr


def test_a_remedy_may_need_two_changes_and_says_what_it_comes_to():
    tight = ["hardware.gpu_gib=22", "trainer.gradient_checkpointing=false"]
    result = plan("sft", "configs/gpu/sft_qwen3_4b_lora_1gpu.yaml", *tight)
    assert result.exit_code == 1
    assert "trainer.gradient_checkpointing=true" in result.stderr
    lines = [line for line in result.stderr.splitlines() if "(peak" in line]
    assert all(float(re.search(r"peak ([\d.]+) GiB", line)[1]) <= 22 for line in lines)


def test_what_nothing_can_mend_says_so():
    result = plan("sft", SFT, "hardware.gpu_gib=1")
    assert result.exit_code == 1
    assert "nothing known here makes it fit: take a smaller model or GPUs with more memory" in result.stderr


def test_an_engine_without_room_for_a_view_is_refused_with_the_share_it_needs():
    result = plan("rl", RL, "trainer.vllm_gpu_memory_utilization=0.15")
    assert result.exit_code == 2
    need = float(re.search(r"raise it to ([\d.]+) or more", result.stderr)[1])
    assert told("rl", RL, f"trainer.vllm_gpu_memory_utilization={need}")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["world_size=4"], r"world_size: 4, but configs/accelerate/fsdp2_8.yaml starts 8 process\(es\): make them agree"),
        (["expect=null"], r"expect: not given, and there are no tasks to measure .* make the data first"),
        (["model_size=null"], r"model_size: not given, and Qwen/Qwen3-8B/config.json can't be read"),
        (["hardware.accelerate=configs/accelerate/fsdp2.yaml"], r"fsdp2.yaml: no such file: did you mean"),
        (["micro_batch=5"], r"episodes_per_step: 128 doesn't divide by micro_batch 5 x 8"),
    ],
)
def test_what_a_plan_needs_is_asked_for(overrides, message):
    result = plan("rl", RL, *overrides)
    assert result.exit_code == 2
    assert re.search(message, result.stderr), result.stderr


def test_an_accelerate_file_of_another_kind_is_refused(tmp_path):
    for text, message in (
        ("distributed_type: FSDP\nnum_processes: 2\n", "fsdp_version: the trainers are written for FSDP2"),
        ("distributed_type: TPU\nnum_processes: 2\n", "distributed_type: Input should be"),
        (
            "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {zero_stage: 1}\n",
            "ZeRO stage 1: the recipes use 2 or 3",
        ),
        ("distributed_type: 'NO'\nnum_processes: 2\n", "use MULTI_GPU for several"),
    ):
        file = tmp_path / "a.yaml"
        file.write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_launch(str(file))


def test_rows_of_tasks_at_hand_are_measured_not_expected(tmp_path, monkeypatch):
    monkeypatch.delenv("HF_HOME")
    probes = write_probes(tmp_path / "probes.jsonl")
    found = told("rl", "configs/rl_probes.yaml", "model=tiny", f"probes={probes}", "val_probes=null")
    assert any("measured on 2 task(s)" in note for note in found["notes"])
    # Two probes, eight episodes of one a pass: the tree holds their shared view once.
    assert found["step"]["positions a pass, at most"] < 0.5 * found["step"]["tokens of the rows"] / 2
    assert found["step"]["rows"] >= 16


def test_an_sft_plan_without_data_reckons_with_the_longest_rows(tmp_path):
    found = told("sft", "configs/sft_probes.yaml", "model=tiny", f"data={tmp_path}")
    assert found["step"]["tokens of the rows"] == 8 * 640
    assert any("no data at hand" in note for note in found["notes"])


def test_without_hardware_it_plans_for_this_machine(tmp_path):
    found = told("sft", "configs/sft_probes.yaml", "model=tiny", f"data={tmp_path}", "trainer.bf16=false")
    assert "libraries" in found["memory_gib"] or "runtime" in found["memory_gib"]
    assert found["limit_gib"] > 1


def test_help_teaches_and_training_stays_the_default():
    for stage, app in APPS.items():
        shown = CliRunner().invoke(app, ["plan", "--help"]).output
        assert f"python -m {stage} plan configs/gpu/{stage}_qwen3_8b_fsdp2_8gpu.yaml" in shown
        assert "no-such.yaml: no such file" in CliRunner().invoke(app, ["no-such.yaml"]).stderr
    assert Path(RL).is_file()
    assert Path(SFT).is_file()


def test_a_plan_that_fits_needs_no_remedy_and_less_memory_is_never_worse():
    roomy, tight = (told("sft", SFT, f"trainer.per_device_train_batch_size={n}")["peak_gib"] for n in (4, 1))
    assert tight < roomy
