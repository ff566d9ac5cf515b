"""Command line of the RL stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from envs.config import load_config
from envs.runs import cli_errors
from rl.config import RLConfig

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
@cli_errors()
def main(
    config: Annotated[Path, typer.Argument(help="YAML file of the run (see configs/rl_*.yaml).")],
    overrides: Annotated[list[str] | None, typer.Argument(help="dotted.key=value, e.g. trainer.learning_rate=1e-6")] = None,
    progress: Annotated[bool, typer.Option(help="Draw a progress bar.")] = True,
) -> None:
    """Train a policy with GRPO on probes: episodes whose view the policy itself rewrites.

    \b
    Train, try it small, or train on two processes:
        python -m rl configs/rl_probes.yaml
        python -m rl configs/rl_probes.yaml steps=2 model=tiny out=runs/rl-try wandb.mode=disabled
        accelerate launch --multi_gpu --num_processes 2 -m rl configs/rl_probes.yaml world_size=2

    The run folder (out) gets config.yaml, metrics.jsonl, checkpoints, model/ and, last, done.json. The same command resumes
    from the last whole checkpoint; Ctrl-C ends the run after the step under way. Settings of TRL's GRPOConfig go under
    trainer; those that this stage decides itself are refused with the reason.

    Watch reward/q (quality), logp_gap/max (sampling against training), groups/zero_variance (groups that teach nothing) and
    rows/padding. Evaluate <out>/model with python -m eval. On a CPU set OMP_WAIT_POLICY=PASSIVE.
    """  # noqa: D301
    from rl.run import run

    result = run(load_config(RLConfig, config, overrides or []), progress=progress)
    typer.echo(json.dumps(result, indent=2))
    if result["status"] == "interrupted":
        raise typer.Exit(130)


if __name__ == "__main__":
    app()
