"""Command line of the RL stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from envs.config import load_config
from envs.runs import cli_errors
from rl.config import RLConfig


class _TrainByDefault(TyperGroup):
    """``python -m rl CONFIG`` trains: what isn't a command is the first argument of ``train``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["train", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, cls=_TrainByDefault)


@app.callback(no_args_is_help=True)
def main() -> None:
    """Train policies, and show what training changed. ``python -m rl CONFIG`` is short for ``train``.

    \b
        python -m rl configs/rl_probes.yaml
        python -m rl train --help
        python -m rl curve runs/rl-probes
    """  # noqa: D301


@app.command()
@cli_errors()
def train(
    config: Annotated[Path, typer.Argument(help="YAML file of the run (see configs/rl_*.yaml).")],
    overrides: Annotated[list[str] | None, typer.Argument(help="dotted.key=value, e.g. trainer.learning_rate=1e-6")] = None,
    progress: Annotated[bool, typer.Option(help="Draw a progress bar.")] = True,
) -> None:
    """Train a policy with GRPO on probes and full sessions: episodes whose view the policy itself rewrites.

    \b
    Train, try it small, or train on two processes:
        python -m rl configs/rl_probes.yaml
        python -m rl configs/rl_probes.yaml steps=2 model=tiny out=runs/rl-try wandb.mode=disabled
        accelerate launch --multi_gpu --num_processes 2 -m rl configs/rl_probes.yaml world_size=2

    The run folder (out) gets config.yaml, metrics.jsonl, validation.jsonl, checkpoints, best/, model/ and, last, done.json.
    The same command resumes from the last whole checkpoint; Ctrl-C ends the run after the step under way. Settings of TRL's
    GRPOConfig go under trainer; those that this stage decides itself are refused with the reason.

    Watch reward/q (quality), logp_gap/max (sampling against training), groups/zero_variance (groups that teach nothing) and
    rows/padding. Evaluate <out>/model or <out>/best with python -m eval. On a CPU set OMP_WAIT_POLICY=PASSIVE.
    """  # noqa: D301
    from rl.run import run

    result = run(load_config(RLConfig, config, overrides or []), progress=progress)
    typer.echo(json.dumps(result, indent=2))
    if result["status"] == "interrupted":
        raise typer.Exit(130)


@app.command()
@cli_errors()
def curve(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
    write: Annotated[Path | None, typer.Option(help="Put figure and tables into this Markdown page.")] = None,
) -> None:
    """What training changed: the last three validations against step 0, by probe, with 95 % intervals.

    \b
        python -m rl curve runs/rl-probes runs/rl-permuted --write docs/rl.md
    """  # noqa: D301
    from rl import curve as module

    found = module.load_runs(runs)
    typer.echo(module.tables(found))
    if write:
        typer.echo(f"wrote {write} and {module.write(found, write)}")


if __name__ == "__main__":
    app()
