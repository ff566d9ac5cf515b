"""``python -m sft``: fine-tune a model on recorded trajectories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from envs.config import load_config
from envs.runs import cli_errors
from sft.config import SFTStageConfig

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@cli_errors()
def main(
    config: Annotated[Path, typer.Argument(help="YAML file of the run.", show_default=False)],
    overrides: Annotated[list[str] | None, typer.Argument(help="dotted.key=value, read as YAML.", show_default=False)] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print rows, tokens, padding, steps, time; train nothing.")] = False,
) -> None:
    """Fine-tune a model on the turns that an expert sampled in recorded trajectories.

    A row is one segment: a stretch of an episode whose view only grew. Its labels are the sampled tokens; what the host
    wrote, what was shown again and the steps marked as errors are context. Nothing is cut: a row over max_row_tokens is an error.

    \b
    Look first, then train, then train with an adapter into another folder:
        python -m sft configs/sft_probes.yaml --plan
        python -m sft configs/sft_probes.yaml data=runs/data_demo max_minutes=9
        python -m sft configs/sft_probes.yaml out=runs/sft_lora 'lora={r: 32, alpha: 64}'

    The same command resumes after Ctrl-C or a kill; a finished run prints its result again. Settings of TRL's SFTConfig go
    under trainer, e.g. trainer.learning_rate=1e-4. On a CPU set OMP_WAIT_POLICY=PASSIVE: with the default, a busy neighbour
    costs three quarters of the speed. The folder holds metrics.jsonl, checkpoints/, model/ and done.json.
    """  # noqa: D301  (\b keeps the lines of the example apart)
    settings = load_config(SFTStageConfig, config, overrides or [])
    from sft.plan import plan as plan_run
    from sft.run import run

    result = plan_run(settings, str(config)) if plan else run(settings, str(config))
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    app(prog_name="python -m sft")
