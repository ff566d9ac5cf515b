"""An evaluation whose arm is a vLLM engine in the process, beside the same weights on transformers (``make test-vllm``)."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="vLLM isn't installed: make test-vllm runs these in an environment of its own")

from envs.chat import get_chat
from envs.runs import read_jsonl, write_jsonl_atomic
from envs.tasks.probes import make_probes
from envs.trajectory import Trajectory
from eval.config import EvalConfig
from eval.freeze import freeze
from eval.run import run
from eval.score import score


def test_an_arm_on_an_engine_plays_as_transformers_does(tmp_path):
    chat = get_chat("smollm2")
    write_jsonl_atomic(tmp_path / "probes.jsonl", next(p for s in range(40) if (p := make_probes("support", s, "static", chat))))
    config = EvalConfig(
        name="v", out=str(tmp_path / "run"), probes=str(tmp_path / "probes.jsonl"), bootstrap={"resamples": 200}, batch_size=4,
        arms={"hf": {"policy": "hf", "model": "smollm2"}, "vllm": {"policy": "vllm", "model": "smollm2"}},
        decoding={"max_new_tokens": 16, "dtype": "float32"},
    )  # fmt: skip
    lock = freeze(config)
    assert lock.backbone["backbone.vllm.weights"] == lock.backbone["backbone.hf.weights"]
    assert {played.owed for played in run(config).values()} == {0}
    turns = {
        arm: {
            t.probe: [i.ids for i in t.inferences]
            for t in read_jsonl(config.arm_folder(arm) / "episodes.jsonl", model=Trajectory)
        }
        for arm in config.arms
    }
    assert turns["vllm"] == turns["hf"]
    results = score(config)["arms"]
    assert results["vllm"] == results["hf"]
