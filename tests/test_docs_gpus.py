"""docs/gpus.md tells the recipes that there are, with their figures."""

from __future__ import annotations

from pathlib import Path

import gpu_recipes as small
from test_gpu_recipes import load, planned

from envs.hardware import read_launch


def test_the_table_has_every_recipe_with_its_planned_peak_and_status():
    page = Path("docs/gpus.md").read_text()
    lines = page.split("<!-- recipes:start -->")[1].split("<!-- recipes:end -->")[0].strip().splitlines()[2:]
    told = {line.split("`")[1]: [cell.strip() for cell in line.strip("|").split("|")] for line in lines}
    assert list(told) == [r.relative_to(small.ROOT / "configs").as_posix() for r in small.RECIPES]
    for recipe, cells in zip(small.RECIPES, told.values(), strict=True):
        config, launch = load(recipe), read_launch(load(recipe).hardware.accelerate)
        kind = "QLoRA" if getattr(config, "qlora", False) else "LoRA" if config.lora else "full"
        assert cells[2] == kind
        assert cells[3].startswith(f"{launch.gpus} × {config.hardware.gpu_gib:.0f} GiB")
        assert cells[4:7] == [launch.strategy, f"{planned(recipe).peak_gib:.1f}", config.status], recipe.name
        assert cells[7].startswith("one process" if launch.gpus == 1 else "two ranks")


def test_the_plans_on_the_page_are_those_of_the_commands():
    from typer.testing import CliRunner

    import rl.__main__
    import sft.__main__

    page = Path("docs/gpus.md").read_text()
    shown = CliRunner().invoke(rl.__main__.app, ["plan", "configs/gpu/rl_qwen3_8b_fsdp2_8gpu.yaml"])
    assert shown.stdout.strip() in page
    one = ["hardware.accelerate=configs/accelerate/one_gpu.yaml", "world_size=1"]
    refused = CliRunner().invoke(sft.__main__.app, ["plan", "configs/gpu/sft_qwen3_8b_fsdp2_8gpu.yaml", *one])
    assert refused.stdout.strip() in page
    assert refused.stderr.strip() in page
