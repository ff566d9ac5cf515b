"""The GPU recipes of configs/gpu on the CPU: the same configs and accelerate files, a tiny random Qwen3, few short rows.

python tests/gpu_recipes.py JOBS.json    # one process of a launch: the runs of a JSON list, one after the other
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from envs.chat import get_chat
from envs.config import load_config
from envs.hardware import read_launch
from envs.runs import write_jsonl_atomic

ROOT = Path(__file__).parents[1]
MATRIX = sorted(ROOT.glob("configs/gpu/*.yaml"))
RECIPES = [*MATRIX, *(ROOT / f"configs/{name}.yaml" for name in ("rl_lora", "sft_lora", "sft_qlora"))]
REPLY = 4
WORDS = 6000


def stage(recipe: Path) -> str:
    return recipe.name.split("_")[0]


def schema(recipe: Path) -> Any:
    if stage(recipe) == "rl":
        from rl.config import RLConfig

        return RLConfig
    from sft.config import SFTStageConfig

    return SFTStageConfig


def strategy(recipe: Path) -> str:
    return read_launch(load_config(schema(recipe), recipe).hardware.accelerate).strategy


def family(model: str) -> str:
    """Whose chat format a recipe's model has."""
    return "qwen-2507" if "2507" in model else "qwen"


def write_model(folder: Path, name: str) -> None:
    """A random Qwen3 of two narrow layers with the first words of the family's vocabulary: a whole one takes minutes on a CPU."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from envs.policies.qwen import tiny_qwen
    from envs.policies.smollm2 import load_tokenizer

    whole = load_tokenizer(name)
    spec = json.loads(whole.backend_tokenizer.to_str())
    held = {token: i for token, i in spec["model"]["vocab"].items() if i < WORDS}
    spec["model"]["vocab"] = held
    pairs = [m if isinstance(m, list) else m.split(" ") for m in spec["model"]["merges"]]
    spec["model"]["merges"] = [pair for pair in pairs if {*pair, "".join(pair)} <= held.keys()]
    for place, token in enumerate(spec["added_tokens"]):
        token["id"] = WORDS + place
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(spec)), chat_template=whole.chat_template, eos_token=whole.eos_token,
        pad_token=whole.pad_token, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    tiny_qwen(len(tokenizer)).save_pretrained(folder)


def write_data(folder: Path) -> None:
    """For both chat formats a model, probes, and trajectories of the expert on them."""
    from envs.episode import Episode, play
    from envs.policies.expert import Expert
    from envs.profiles import get_profile
    from envs.tasks.probes import make_probes

    for name in ("qwen", "qwen-2507"):
        write_model(folder / name, name)
        chat = get_chat(str(folder / name))
        probes = next(p for seed in range(40) if (p := make_probes("support", seed, "static", chat)))
        write_jsonl_atomic(folder / name / "probes.rl.jsonl", probes)
        episodes = [Episode.from_probe(p, get_profile("core@1"), chat) for p in probes]
        play(episodes, Expert(chat))
        write_jsonl_atomic(folder / name / "trajectories.jsonl", [e.trajectory("expert") for e in episodes])


def overrides(recipe: Path, data: Path, out: Path, processes: int) -> list[str]:
    """What makes a recipe small; everything else of it stays."""
    config = load_config(schema(recipe), recipe)
    model = data / family(config.model)
    own = ["trainer.use_cpu=false"] if strategy(recipe).startswith("zero") else []  # accelerate takes DeepSpeed for no CPU engine
    own += [f"model={model}", f"out={out / recipe.stem}", f"world_size={processes}", "wandb={mode: disabled}"]
    if stage(recipe) == "rl":
        return [
            *own, f"probes={model / 'probes.rl.jsonl'}", "val_probes=null", "steps=1", f"episodes_per_step={2 * processes}",
            "group_size=2", "micro_batch=1", "max_turns=1", "redraw=0", "trainer.use_vllm=false", "trainer.learning_rate=0.001",
        ]  # fmt: skip
    return [
        *own, f"data={model}", "trainer.max_steps=1", "trainer.per_device_train_batch_size=1", "trainer.gradient_accumulation_steps=1",
        "trainer.warmup_steps=0", "eval_share=0", "qlora=false", "packing=off", "trainer.bf16=true",
    ]  # fmt: skip


def run(recipe: str, changes: list[str]) -> dict[str, Any]:
    """One recipe in this process; returns what it did and how the weights were shared."""
    path = Path(recipe)
    config = load_config(schema(path), path, changes)
    if stage(path) == "rl":
        import rl.run
        from envs.profiles import get_profile

        rl.run.get_profile = lambda name: dataclasses.replace(get_profile(name), reply_tokens=REPLY)
        held, build = [], rl.run.build

        def watched(*args: Any, **kwargs: Any) -> Any:
            held.append(build(*args, **kwargs))
            return held[-1]

        rl.run.build = watched
        try:
            done = rl.run.run(config, progress=False)
        finally:
            rl.run.build = build
    else:
        import sft.run
        from sft.trainer import SegmentTrainer

        held, fit = [], SegmentTrainer.train

        def train(self: Any, *args: Any, **kwargs: Any) -> Any:
            held.append(self)
            return fit(self, *args, **kwargs)

        SegmentTrainer.train = train
        try:
            done = sft.run.run(config, recipe)
        finally:
            SegmentTrainer.train = fit
    trainer = held[0]
    weights = [p for p in trainer.model.parameters() if p.requires_grad]
    return {
        "recipe": path.stem, "start": config.model, "done": done, "shared": str(trainer.accelerator.distributed_type), "processes": trainer.args.world_size,
        "bf16": trainer.args.bf16, "checkpointing": trainer.args.gradient_checkpointing,
        "cut": sum(type(p).__name__ == "DTensor" for p in weights), "trained": len(weights),
    }  # fmt: skip


def launch_env(accelerate: str) -> dict[str, str]:
    """What ``accelerate launch --config_file`` puts into the environment of a process, by accelerate's own reading of the file."""
    from accelerate.commands import launch
    from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

    args = launch.launch_command_parser().parse_args(["--config_file", accelerate, "-m", "rl"])
    args, defaults, _ = launch._validate_launch_command(args)
    if args.use_deepspeed:
        args.deepspeed_fields_from_accelerate_config = list(defaults.deepspeed_config)
        args.num_machines, args.main_process_ip = 1, None  # several nodes would be reached by ssh
        return {k: v for k, v in prepare_deepspeed_cmd_env(args)[1].items() if k.startswith(("ACCELERATE", "DEEPSPEED"))}
    return {k: v for k, v in prepare_multi_gpu_env(args).items() if k.startswith(("ACCELERATE", "FSDP"))}


def launch(jobs: list[tuple[Path, list[str]]], accelerate: str, folder: Path) -> list[dict[str, Any]]:
    """Run recipes that share an accelerate file's strategy on two CPU processes; what each of their main processes reports."""
    file = folder / "jobs.json"
    file.write_text(json.dumps([[str(recipe), changes] for recipe, changes in jobs]))
    env = launch_env(accelerate)
    env.update({"ACCELERATE_TORCH_DEVICE": "cpu"} if "ACCELERATE_USE_DEEPSPEED" in env else {"ACCELERATE_USE_CPU": "true"})
    env = {
        **os.environ, **env, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", __file__, str(file)],
        cwd=ROOT, capture_output=True, text=True, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads((folder / "reports.json").read_text())


def _share_on_a_cpu() -> None:
    """Let accelerate use FSDP2 and DeepSpeed on CPU processes, which it only does on accelerators."""
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    init = AcceleratorState.__init__

    def patched(self: Any, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
        init(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:
            fsdp_plugin.set_mixed_precision(self._mixed_precision)
            self.fsdp_plugin, self.distributed_type = fsdp_plugin, DistributedType.FSDP
            PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = patched
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        # Only on no CPU engine does accelerate use DeepSpeed, and there transformers asks a GPU for bf16.
        import transformers.training_args

        transformers.training_args.is_torch_bf16_gpu_available = lambda: True
        PartialState._prepare_backend = lambda *_: ("gloo", DistributedType.MULTI_CPU)


def main(jobs: Path) -> None:
    import torch

    torch.set_num_threads(1)
    _share_on_a_cpu()
    reports = [run(recipe, changes) for recipe, changes in json.loads(jobs.read_text())]
    if os.environ.get("RANK", "0") == "0":
        jobs.with_name("reports.json").write_text(json.dumps(reports))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
