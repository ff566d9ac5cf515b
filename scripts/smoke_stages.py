"""The stages of the smoke test, each called in a process of its own: ``python -m scripts.smoke_stages NAME OUT OPTIONS``.

A stage writes its figures to ``<out>/<name>.json``.
"""

from __future__ import annotations

import json
import math
import resource
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs.config import UserError
from envs.runs import cli_errors, read_jsonl, write_json_atomic

FULL = {
    "direct": 4, "managed": 4, "recovery": 4, "static": 6, "keep": 2, "other": 2, "changed": 4, "never": 2, "never_open": 2, "present": 2,
}  # fmt: skip
SMALL = {**dict.fromkeys(FULL, 0), "direct": 1, "managed": 1, "static": 3, "changed": 3}
QWEN3 = {
    "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
    "head_dim": 128,
}  # fmt: skip
"""The shape of Qwen3-0.6B."""


def data(out: Path, options: dict[str, Any]) -> dict[str, float]:
    """A small data set for each tokenizer."""
    from data_gen.config import DataConfig
    from data_gen.run import run
    from envs.policies.qwen import ranks_file

    wanted = {"own": options["model"]}
    if ranks_file() is not None and (not options["only"] or "sft_qwen3" in options["only"]):
        wanted["qwen3"] = "tiny-qwen"
    counts, bases = (SMALL, 2) if options["cpu"] else (FULL, 8)
    figures: dict[str, float] = {}
    for name, tokenizer in wanted.items():
        fields = {
            "out": str(out / "data" / name),
            "counts": counts,
            "tokenizer": tokenizer,
            "val_bases": 0,
            "rl_bases": bases,
            "processes": 1,
        }
        run(DataConfig.model_validate(fields))
        figures[f"{name} trajectories"] = len(read_jsonl(out / "data" / name / "trajectories.jsonl"))
    return figures


def sft(out: Path, options: dict[str, Any]) -> dict[str, float]:
    """SFT steps on the chosen weights, under bf16 autocast where the machine has it."""
    return _sft(out, options, "sft", options["model"], "own")


def sft_qwen3(out: Path, options: dict[str, Any]) -> dict[str, float]:
    """SFT steps on random weights of Qwen3's architecture: on a GPU in the shape of Qwen3-0.6B, else two narrow layers."""
    return _sft(out, options, "sft_qwen3", "tiny-qwen" if options["cpu"] else str(_random_qwen3(out / "qwen3")), "qwen3")


def _sft(out: Path, options: dict[str, Any], name: str, model: str, data_name: str) -> dict[str, float]:
    from envs.runs import read_json
    from sft.config import SFTStageConfig
    from sft.run import run

    cpu = options["cpu"]
    fields = {
        "model": model, "data": str(out / "data" / data_name), "out": str(out / name), "max_row_tokens": 4096, "eval_share": 0,
        "trainer": {
            "max_steps": options["steps"] or (3 if cpu else 20), "per_device_train_batch_size": 4 if cpu else 16, "learning_rate": 1e-4,
            "save_steps": 1000,
        },
    }  # fmt: skip
    done = run(SFTStageConfig.model_validate(fields))
    lines = [line for line in read_jsonl(out / name / "metrics.jsonl") if "loss" in line]
    return {
        "steps": done["steps"],
        "loss at first": finite("loss", lines[0]["loss"]),
        "loss at last": finite("loss", lines[-1]["loss"]),
        "training tokens/s": done["tokens_per_second"],
        "bf16": int(read_json(out / name / "arguments.json")["bf16"]),
        **memory(),
    }


def grpo_fp32(out: Path, options: dict[str, Any]) -> dict[str, float]:
    """GRPO steps in fp32, sampled by transformers: the log-probabilities of both passes must agree to 1e-4."""
    return _grpo(out, options, "grpo_fp32", "fp32", {})


def grpo_bf16(out: Path, options: dict[str, Any]) -> dict[str, float]:
    """The same under bf16 autocast."""
    return _grpo(out, options, "grpo_bf16", "bf16", {})


def grpo_vllm(out: Path, options: dict[str, Any]) -> dict[str, float]:
    """GRPO steps sampled by vLLM in the same process, on the same GPU."""
    settings = {
        "use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 4096, "vllm_gpu_memory_utilization": 0.3,
    }  # fmt: skip
    return _grpo(out, options, "grpo_vllm", "fp32" if options["cpu"] else "bf16", settings)


def _grpo(out: Path, options: dict[str, Any], name: str, precision: str, trainer: dict[str, Any]) -> dict[str, float]:
    from rl.config import RLConfig
    from rl.run import run

    cpu = options["cpu"]
    fields = {
        "model": str(out / "sft" / "model"), "probes": str(out / "data" / "own" / "probes.rl.jsonl"), "out": str(out / name),
        "steps": options["steps"] or (2 if cpu else 4), "episodes_per_step": 4 if cpu else 32, "group_size": 4 if cpu else 8,
        "micro_batch": 2 if cpu else 8, "max_turns": 4, "max_segments": 4, "precision": precision, "save_every": 1000,
        "keep_best": False, "wandb": {"mode": "disabled"}, "trainer": trainer,
    }  # fmt: skip
    run(RLConfig.model_validate(fields), progress=True)
    return {**speeds([line for line in read_jsonl(out / name / "metrics.jsonl") if "reward/q" in line]), **memory()}


def speeds(lines: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Figures of a GRPO run from its metrics: medians over the steps, without the first (it warms up) if there are more."""
    seen = [0.0, *(line["num_tokens"] for line in lines)]
    steps = [
        {
            "sampled tokens/s": line["rows/trained_share"] * (now - before) / line["seconds/sample"],
            "training tokens/s": (now - before) / max(line["seconds/step"] - line["seconds/rollout"], 1e-9),
            "seconds/step": line["seconds/step"],
        }
        for line, before, now in zip(lines, seen, seen[1:], strict=False)
    ]
    steps = steps[1:] or steps
    return {
        "steps": len(lines),
        "loss at last": finite("loss", lines[-1]["loss"]),
        "log-prob gap, mean": finite("log-prob gap", statistics.fmean(line["logp_gap/mean"] for line in lines)),
        "log-prob gap, max": finite("log-prob gap", max(line["logp_gap/max"] for line in lines)),
        **{key: round(statistics.median(step[key] for step in steps), 3) for key in steps[0]},
    }


def finite(name: str, value: Any) -> float:
    """``value``. Raises UserError for NaN, infinity or none: such a step trained nothing."""
    if value is None or not math.isfinite(value):
        raise UserError(f"{name} is {value}: the step computed nothing that can be trained on")
    return float(value)


def memory() -> dict[str, float]:
    """Peak memory of this process, in GB: of the GPU where there is one, and of the machine."""
    import torch

    held = {"peak GPU GB": round(torch.cuda.max_memory_reserved() / 1e9, 2)} if torch.cuda.is_available() else {}
    return {**held, "peak RAM GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2)}


def _random_qwen3(folder: Path) -> Path:
    """Random weights in the shape of Qwen3-0.6B, with its tokenizer."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from envs.policies.smollm2 import load_tokenizer

    tokenizer = load_tokenizer("qwen")
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    torch.manual_seed(0)
    config = Qwen3Config(vocab_size=151_936, max_position_embeddings=8192, tie_word_embeddings=True, **QWEN3, **ids)
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@cli_errors()
def main() -> None:
    """Run one stage and write its figures."""
    name, out, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    figures = {
        "data": data, "sft": sft, "sft_qwen3": sft_qwen3, "grpo_fp32": grpo_fp32, "grpo_bf16": grpo_bf16, "grpo_vllm": grpo_vllm,
    }[name](out, options)  # fmt: skip
    write_json_atomic(out / f"{name}.json", figures)


if __name__ == "__main__":
    main()
