"""``python -m sft``: fine-tune a model on recorded trajectories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from envs.cli import TrainByDefault, show_plan
from envs.config import load_config
from envs.runs import cli_errors
from sft.config import SFTStageConfig

app = typer.Typer(add_completion=False, rich_markup_mode=None, cls=TrainByDefault)


@app.callback(no_args_is_help=True)
def main() -> None:
    """Fine-tune a model, or plan it. ``python -m sft CONFIG`` is short for ``train``.

    \b
        python -m sft configs/sft_probes.yaml
        python -m sft train --help
        python -m sft plan configs/gpu/sft_qwen3_8b_fsdp2_8gpu.yaml
    """  # noqa: D301


@app.command()
@cli_errors()
def train(
    config: Annotated[Path, typer.Argument(help="YAML file of the run.", show_default=False)],
    overrides: Annotated[list[str] | None, typer.Argument(help="dotted.key=value, read as YAML.", show_default=False)] = None,
    look: Annotated[bool, typer.Option("--plan", help="Print rows, tokens, padding, steps, time; train nothing.")] = False,
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

    result = plan_run(settings, str(config)) if look else run(settings, str(config))
    print(json.dumps(result, indent=2))


@app.command()
@cli_errors()
def plan(
    config: Annotated[Path, typer.Argument(help="YAML file of the run (see configs/gpu/).", show_default=False)],
    overrides: Annotated[list[str] | None, typer.Argument(help="dotted.key=value, read as YAML.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Memory of one GPU by part, rows and tokens of a step. Trains nothing; needs no GPU, no model, no data, no network.

    \b
        python -m sft plan configs/gpu/sft_qwen3_8b_fsdp2_8gpu.yaml
        python -m sft plan configs/gpu/sft_qwen3_8b_fsdp2_8gpu.yaml hardware.gpu_gib=40 --json

    GPUs and model sizes come from the config (hardware, model_size); rows from the data where it is there, else from expect or
    max_row_tokens. Without hardware it plans for this machine. A run that can't fit is refused with exit code 1 and with
    overrides that make it fit. Rows, padding and time of the data at hand: python -m sft CONFIG --plan.
    """  # noqa: D301
    from sft.memory import report

    found, refusal = report(config, overrides or [])
    show_plan(found, refusal, as_json)


if __name__ == "__main__":
    app(prog_name="python -m sft")
