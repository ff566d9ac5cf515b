"""Every recipe of configs/gpu: resolved, planned, and run small on the CPU, on two processes where several GPUs are meant."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import gpu_recipes as small
import pytest
from safetensors.torch import load_file

from envs.config import ConfigError, load_config
from envs.hardware import read_launch
from envs.runs import DataError

NAMES = [recipe.stem for recipe in small.RECIPES]
ALONE = [r for r in small.RECIPES if small.strategy(r) == "single"]
CPU = ["sft_probes", "sft_rl", "rl_probes", "rl_curve"]


def load(recipe: Path):
    return load_config(small.schema(recipe), recipe)


def planned(recipe: Path):
    if small.stage(recipe) == "rl":
        from rl.plan import plan
    else:
        from sft.memory import plan
    return plan(load(recipe))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    small.write_data(folder)
    return folder


@pytest.mark.parametrize("recipe", small.RECIPES, ids=NAMES)
def test_a_recipe_resolves_fits_and_says_how_it_is_started(recipe):
    config, head = load(recipe), recipe.read_text().split("\nstatus:")[0]
    plan = planned(recipe)
    assert plan.peak_gib < 0.9 * plan.limit_gib, "a plan is an estimate: a recipe leaves room"
    assert config.status == "configured-only"  # no GPU has run any of them
    assert config.hardware.accelerate in head
    assert f"-m {small.stage(recipe)} {recipe.relative_to(small.ROOT)}" in head
    assert f"python -m {small.stage(recipe)} plan {recipe.relative_to(small.ROOT)}" in head
    assert config.world_size == read_launch(config.hardware.accelerate).gpus
    if recipe in small.MATRIX:
        assert str(config.out) == f"runs/{recipe.stem}"
    names = {"lora" in recipe.name: bool(config.lora), "qlora" in recipe.name: bool(getattr(config, "qlora", False))}
    assert all(told == is_ for told, is_ in names.items())
    assert not (config.lora and read_launch(config.hardware.accelerate).sharded)


def test_the_recipes_cover_models_devices_strategies_and_both_ways_of_training():
    seen = {(load(r).model, small.stage(r)) for r in small.MATRIX}
    models = {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B", "Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-8B"}
    assert seen == {(m, s) for m in models for s in ("rl", "sft")}
    runs = [(read_launch(load(r).hardware.accelerate), bool(load(r).lora)) for r in small.MATRIX]
    assert {(launch.gpus, launch.nodes) for launch, _ in runs} == {(1, 1), (2, 1), (8, 1), (16, 2)}
    assert {launch.strategy for launch, _ in runs} == {"single", "ddp", "fsdp2", "zero2", "zero3"}
    for gpus in (1, 2, 8, 16):
        assert {lora for launch, lora in runs if launch.gpus == gpus} == {True, False}
    used = {Path(load(r).hardware.accelerate).name for r in small.MATRIX}
    assert used == {p.name for p in Path("configs/accelerate").glob("*.yaml")}


@pytest.mark.parametrize("name", CPU)
def test_cpu_configs_are_marked_as_run(name):
    recipe = Path(f"configs/{name}.yaml")
    assert load(recipe).status == "verified"
    assert load(recipe).hardware is None


@pytest.mark.parametrize("file", sorted(Path("configs/accelerate").glob("*.yaml")), ids=lambda p: p.stem)
def test_accelerate_reads_its_file_as_the_plan_does(file):
    launch, env = read_launch(str(file)), small.launch_env(str(file))
    assert (env.get("ACCELERATE_USE_FSDP") == "true") == (launch.strategy == "fsdp2")
    assert (env.get("ACCELERATE_USE_DEEPSPEED") == "true") == (launch.strategy in ("zero2", "zero3"))
    if launch.strategy == "fsdp2":
        assert (env["FSDP_VERSION"], env["FSDP_STATE_DICT_TYPE"]) == ("2", "FULL_STATE_DICT")
        assert env["ACCELERATE_MIXED_PRECISION"] == "bf16"
    if launch.strategy in ("zero2", "zero3"):
        assert env["ACCELERATE_DEEPSPEED_CONFIG_FILE"] == f"configs/accelerate/{launch.strategy}.json"


@pytest.mark.parametrize("stage", [2, 3])
def test_buckets_of_deepspeed_are_those_of_the_plan(stage):
    import json

    from envs.memory import BUCKET

    held = json.loads(Path(f"configs/accelerate/zero{stage}.json").read_text())
    assert held["zero_optimization"]["stage"] == stage
    assert {v for k, v in held["zero_optimization"].items() if k.endswith("bucket_size")} == {BUCKET}
    assert held["data_types"]["grad_accum_dtype"] == "fp32"
    assert held["bf16"]["enabled"] is True


def check(report, folder, recipe, processes):
    assert report["processes"] == processes
    assert report["bf16"]
    assert report["checkpointing"]
    assert report["done"]["steps"] == 1
    weights = load_file(folder / recipe.stem / "model" / "model.safetensors")
    assert all(w.isfinite().all() for w in weights.values())
    start = load_file(Path(report["start"]) / "model.safetensors")
    head = weights.pop("lm_head.weight", weights["model.embed_tokens.weight"])
    assert head.equal(weights["model.embed_tokens.weight"]), "a tied head, which FSDP2 saves once more, is trained as one"
    assert weights.keys() == start.keys()
    return sum(not weights[name].equal(start[name]) for name in start)


@pytest.mark.parametrize("recipe", ALONE, ids=[r.stem for r in ALONE])
def test_recipes_of_one_gpu_run_small(recipe, data, tmp_path, one_thread):
    changes = small.overrides(recipe, data, tmp_path, 1)
    report = small.run(str(recipe), changes)
    moved = check(report, tmp_path, recipe, 1)
    if small.stage(recipe) == "sft":
        assert moved


def launched(strategies, data, folder, most=None):
    recipes = [r for r in small.RECIPES if small.strategy(r) in strategies]
    if most:
        recipes = [next(r for r in recipes if small.stage(r) == s) for s in ("rl", "sft")]
    accelerate = load(recipes[-1]).hardware.accelerate
    reports = small.launch([(r, small.overrides(r, data, folder, 2)) for r in recipes], accelerate, folder)
    for recipe, report in zip(recipes, reports, strict=True):
        moved = check(report, folder, recipe, 2)
        if small.stage(recipe) == "sft":
            assert moved
    return reports


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_recipes_of_ddp_run_small_on_two_processes(data, tmp_path):
    reports = launched(("ddp",), data, tmp_path)
    assert all(r["shared"].endswith("MULTI_CPU") for r in reports)


def test_recipes_of_fsdp2_run_small_on_two_processes(data, tmp_path):
    for report in launched(("fsdp2",), data, tmp_path, most=2):
        assert report["shared"].endswith("FSDP")
        assert report["cut"] == report["trained"] > 0, "every trained weight lies in parts"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_recipes_of_fsdp2_run_small_on_two_processes(data, tmp_path):
    assert all(r["cut"] == r["trained"] > 0 for r in launched(("fsdp2",), data, tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="deepspeed isn't installed: pip install -e '.[gpu]'")
@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_recipes_of_deepspeed_run_small_on_two_processes(strategy, data, tmp_path):
    assert all(r["shared"].endswith("DEEPSPEED") for r in launched((strategy,), data, tmp_path))


@pytest.mark.parametrize("stage", ["rl", "sft"])
def test_an_adapter_under_fsdp_is_refused(stage, data, tmp_path, monkeypatch):
    recipe = next(r for r in ALONE if r.name.startswith(stage) and "_lora" in r.name)
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    if stage == "rl":
        from rl.weights import load_weights as begin
    else:
        from sft.run import build

        def begin(config):
            build(config, None, [])

    with pytest.raises(ConfigError, match=r"lora: an adapter is small .*: launch with a configs/accelerate/ddp_\*.yaml"):
        begin(load(recipe))


def test_validation_on_the_way_needs_whole_weights(data, tmp_path, monkeypatch):
    recipe = next(r for r in small.RECIPES if small.stage(r) == "sft")
    config = load_config(
        small.schema(recipe), recipe, [*small.overrides(recipe, data, tmp_path, 1), "eval_share=0.5", "eval_every=1"]
    )
    monkeypatch.setattr("sft.run.launched_sharded", lambda: True)
    from sft.run import run

    with pytest.raises(ConfigError, match="eval_every: 1, but one process validates"):
        run(config)


def test_another_number_of_processes_is_refused(data, tmp_path):
    recipe = next(r for r in small.RECIPES if small.stage(r) == "sft")
    config = load_config(small.schema(recipe), recipe, small.overrides(recipe, data, tmp_path, 2))
    from sft.run import run

    with pytest.raises(ConfigError, match=r"world_size: 1 process\(es\) started, not 2"):
        run(config)


def test_data_of_one_chat_format_is_refused_for_the_other(data, tmp_path):
    """A hybrid's turns open otherwise than an Instruct model's, so its recorded inputs are others."""
    recipe = next(r for r in small.RECIPES if small.stage(r) == "sft" and "_4b_" in r.name)
    changes = [*small.overrides(recipe, data, tmp_path, 1), f"data={data / 'qwen'}"]
    from sft.run import run

    with pytest.raises(DataError, match="use the model it was generated for"):
        run(load_config(small.schema(recipe), recipe, changes))
