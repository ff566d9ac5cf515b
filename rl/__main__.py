"""Command line of the RL stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from envs.cli import TrainByDefault, show_plan
from envs.config import UserError, load_config, nearest
from envs.runs import cli_errors
from rl.config import RLConfig

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, cls=TrainByDefault)


@app.callback(no_args_is_help=True)
def main() -> None:
    """Train policies, and show what training changed. ``python -m rl CONFIG`` is short for ``train``.

    \b
        python -m rl configs/rl_probes.yaml
        python -m rl train --help
        python -m rl plan configs/gpu/rl_qwen3_4b_fsdp2_8gpu.yaml
        python -m rl curve runs/rl-probes
        python -m rl export runs/rl-probes
        python -m rl merge adapters/sft-s0 adapters/rl-s0 --out runs/models/rl-s0
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
def plan(
    config: Annotated[Path, typer.Argument(help="YAML file of the run (see configs/gpu/).")],
    overrides: Annotated[list[str] | None, typer.Argument(help="dotted.key=value, e.g. micro_batch=4")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Memory of one GPU by part, rows and tokens of a step. Trains nothing; needs no GPU, no model, no data, no network.

    \b
        python -m rl plan configs/gpu/rl_qwen3_8b_fsdp2_8gpu.yaml
        python -m rl plan configs/gpu/rl_qwen3_8b_fsdp2_8gpu.yaml hardware.gpu_gib=40 --json

    GPUs, model sizes and expected rows come from the config (hardware, model_size, expect); where the tasks are there, the expert
    plays some of them and their rows are measured instead. Without hardware it plans for this machine. A run that can't fit is
    refused with exit code 1 and with overrides that make it fit.
    """  # noqa: D301
    from rl.plan import report

    found, refusal = report(config, overrides or [])
    show_plan(found, refusal, as_json)


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


@app.command()
@cli_errors()
def export(
    run: Annotated[Path | None, typer.Argument(help="Folder of an RL or SFT run.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; default RUN/export-<weights>.", show_default=False)] = None,
    weights: Annotated[str | None, typer.Option(help="final, best or checkpoint-N; default final.", show_default=False)] = None,
    dtype: Annotated[str, typer.Option(help="bfloat16 or float32.")] = "bfloat16",
    lock: Annotated[Path | None, typer.Option(help="lock.json of the evaluation that goes with it.", show_default=False)] = None,
    licence: Annotated[
        str | None, typer.Option(help="Licence id for the card, where the base's isn't known.", show_default=False)
    ] = None,
    check: Annotated[Path | None, typer.Option(help="Verify an export instead of making one.", show_default=False)] = None,
) -> None:
    """Write trained weights as a folder that vLLM and transformers serve load, with a chat template and a model card.

    \b
        python -m rl export runs/rl-probes
        python -m rl export runs/rl-probes --weights best --dtype float32 --out exports/best
        python -m rl export runs/rl-probes --lock runs/eval_probes/lock.json
        python -m rl export --check runs/rl-probes/export-final
        transformers serve runs/rl-probes/export-final

    Adapters are merged in fp32 and the weights cast once, at the end. export.json and the card name data, protocol, prompt and
    lock by their hashes; a lock of other rules than the run's is refused. To evaluate what a server says, see docs/export.md.
    """  # noqa: D301
    from rl import export as module

    if (run is None) == (check is None):
        raise UserError("give a run folder to export, or --check FOLDER to verify an export")
    if dtype not in module.BYTES:
        raise UserError(f"--dtype {dtype}: {nearest(dtype, module.BYTES)}")
    if check:
        about = module.check(check)
        typer.echo(f"{check}: {len(about.files)} files as exported; {about.stage} run {about.run}, weights {about.weights}")
    elif run:
        folder, about = module.export(run, out, weights=weights, dtype=dtype, lock=lock, licence=licence)  # type: ignore[arg-type]
        best = "; its best weights: --weights best" if about.weights == "final" and (run / "best").is_dir() else ""
        typer.echo(f"{folder}: weights {about.weights} in {about.dtype}{best}")


@app.command()
@cli_errors()
def ship(
    run: Annotated[Path, typer.Argument(help="Folder of a finished RL or SFT run with lora.")],
    out: Annotated[Path, typer.Argument(help="Folder to write, e.g. adapters/NAME.")],
    on: Annotated[list[Path] | None, typer.Option(help="Shipped adapter that it stands on; the lowest first.")] = None,
    weights: Annotated[str, typer.Option(help="final, or best of an RL run.")] = "final",
) -> None:
    """Write a run's adapter in bf16, small enough for a repository, with what it was trained on.

    \b
        python -m rl ship runs/results/sft-s0 adapters/sft-s0
        python -m rl ship runs/results/rl-s0 adapters/rl-s0 --on adapters/sft-s0

    The rounding belongs to the adapter: RL starts from, and the evaluation plays, what python -m rl merge makes of it.
    """  # noqa: D301
    from rl import adapters

    if weights not in ("final", "best"):
        raise UserError(f"--weights {weights}: {nearest(weights, ('final', 'best'))}")
    about = adapters.ship(run, out, on=on or [], weights=weights)  # type: ignore[arg-type]
    typer.echo(f"{out}: {about.stage}, rank {about.rank}, {about.parameters:,} parameters in {about.dtype}, {about.sha256[:12]}")


@app.command()
@cli_errors()
def merge(
    adapters: Annotated[list[Path], typer.Argument(help="Shipped adapters, the lowest first.")],
    out: Annotated[Path, typer.Option(help="Model folder to write.")],
) -> None:
    """Make the model of shipped adapters: start weights, plus each adapter in turn, in fp32.

    \b
        python -m rl merge adapters/sft-s0 --out runs/models/sft-s0
        python -m rl merge adapters/sft-s0 adapters/rl-s0 --out runs/models/rl-s0
    """  # noqa: D301
    from rl.adapters import merge as make

    about = make(adapters, out)
    typer.echo(f"{out}: {about['base']} + {' + '.join(about['names'])}")


if __name__ == "__main__":
    app()
