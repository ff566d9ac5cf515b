"""Command line of the evaluation: ``python -m eval freeze|run|score|report|tune-prompt CONFIG.yaml [dotted.key=value ...]``, ``demo``, ``suites``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from envs.config import load_config
from envs.runs import cli_errors
from eval.config import EvalConfig
from eval.suites.cli import suites

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Evaluate arms on the same frozen probes and sessions.

The four steps, in order, all with the same config:

    python -m eval freeze configs/eval_scripted.yaml

    python -m eval run    configs/eval_scripted.yaml

    python -m eval score  configs/eval_scripted.yaml

    python -m eval report configs/eval_scripted.yaml

**freeze** hashes tasks, rules, sources and weights into `<out>/lock.json`; **run** plays what is still owed and can be killed
at any moment; **score** needs no model; **report** writes `<out>/report.html` and `<out>/report.md`.

Settings are changed behind the config: `python -m eval run configs/eval_scripted.yaml batch_size=32`.

**tune-prompt** chooses the prompt of an arm on validation probes; **demo** does all four steps on a small suite with the weights
of `make demo`.

Apart from these, **suites** plays the seed experiments, without a config: `python -m eval suites --help`.
""",
)
Config = Annotated[str, typer.Argument(metavar="CONFIG.yaml", help="Config file (schema: eval/config.py).")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[key=value]...", help="Dotted overrides, e.g. out=runs/again arms.sft.model=runs/sft/final."),
]


def _load(config: str, overrides: list[str] | None) -> EvalConfig:
    return load_config(EvalConfig, config, overrides or [])


@app.command()
@cli_errors()
def freeze(
    config: Config,
    overrides: Overrides = None,
    new: Annotated[
        bool, typer.Option("--new", help="Replace another lock; its episodes and results are moved to <out>/earlier/.")
    ] = False,
) -> None:
    """Write the lock: hashes of everything the results will depend on.

    Example: python -m eval freeze configs/eval_scripted.yaml
    """
    from eval.freeze import freeze as step

    loaded = _load(config, overrides)
    lock = step(loaded, new=new)
    typer.echo(
        f"lock {lock.short}: {loaded.folder / 'lock.json'} ({len(lock.rules)} rules, {len(lock.backbone)} backbone entries)"
    )
    typer.echo(lock.stated["power"])


@app.command()
@cli_errors()
def run(
    config: Config,
    overrides: Overrides = None,
    arm: Annotated[list[str] | None, typer.Option("--arm", help="Play only this arm (may be repeated).")] = None,
) -> None:
    """Play every episode still owed. Killed at any moment, the same command goes on.

    Example: python -m eval run configs/eval_scripted.yaml --arm expert
    """
    from eval.run import run as step

    owed = 0
    for name, played in step(_load(config, overrides), arm).items():
        typer.echo(f"{name}: {played.now} played, {played.before} were stored" + (f", {played.owed} OWED" if played.owed else ""))
        owed += played.owed
    if owed:
        typer.echo(
            f"{owed} episodes are owed after infrastructure errors (errors.jsonl): the same command tries them again", err=True
        )
        raise typer.Exit(1)


@app.command()
@cli_errors()
def score(config: Config, overrides: Overrides = None) -> None:
    """Score the stored episodes again, without any model.

    Example: python -m eval score configs/eval_scripted.yaml
    """
    from eval.score import score as step

    loaded = _load(config, overrides)
    results = step(loaded)
    typer.echo(f"{loaded.folder / 'results.json'}: split {results['split']}, lock {results['lock'][:12]}")
    for arm, metrics in results["arms"].items():
        value = metrics.get(loaded.primary_metric) or metrics.get(f"session_{loaded.primary_metric}")
        if value:
            typer.echo(
                f"  {arm}: {loaded.primary_metric} {value['mean']:.3f} [{value['lo']:.3f}, {value['hi']:.3f}], n={value['n']}"
            )


@app.command()
@cli_errors()
def report(config: Config, overrides: Overrides = None) -> None:
    """Write report.html (one file, opens anywhere) and report.md from the scores.

    Example: python -m eval report configs/eval_scripted.yaml
    """
    from eval.report import report as step

    html = step(_load(config, overrides), command=f"python -m eval {shlex.join(sys.argv[1:])}")
    typer.echo(f"{html} and {html.with_suffix('.md')}")


@app.command("tune-prompt")
@cli_errors()
def tune_prompt(
    config: Config,
    overrides: Overrides = None,
    *,
    candidates: Annotated[Path, typer.Option(help="Prompts to try: a folder of *.txt files, or a YAML list of texts.")],
    arm: Annotated[str, typer.Option(help="The arm whose prompt is tuned.")] = "prompt",
) -> None:
    """Try prompts on validation probes; keep a log of all, and write the best as a prompt file.

    Every candidate is logged in `<out>/tuning/tuning.jsonl`; the best, by the primary metric and then by tokens, becomes
    `<out>/tuning/prompt.txt`. Held-out families are refused. The same command resumes.

    Example: python -m eval tune-prompt configs/eval_main.yaml --candidates prompts/ --arm prompt
    """
    from eval.tune import read_candidates, tune

    loaded = _load(config, overrides)
    for line in tune(loaded, read_candidates(candidates), arm):
        value, tokens = line["metrics"][loaded.primary_metric], line["metrics"]["tokens"]["mean"]
        typer.echo(
            f"{line['name']} ({line['hash']}): {loaded.primary_metric} {value['mean']:.3f} [{value['lo']:.3f}, {value['hi']:.3f}], "
            f"n={value['n']}, {tokens:,.0f} tokens"
        )
    prompt = loaded.folder / "tuning" / "prompt.txt"
    typer.echo(
        f"the first of these is {prompt}: use it with arms.{arm}.prompt={prompt}; the log of all is {prompt.with_name('tuning.jsonl')}"
    )


@app.command()
@cli_errors()
def demo(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="Arms and settings.")] = Path("configs/eval_demo.yaml"),
    overrides: Overrides = None,
    demo: Annotated[Path, typer.Option(help="Finished run of the pipeline whose weights are played.")] = Path("runs/demo"),
    bases: Annotated[int, typer.Option(min=1, help="Bases of the demo's validation probes, each with its variants.")] = 10,
    sessions: Annotated[int, typer.Option(min=2, help="Whole sessions.")] = 4,
) -> None:
    """Freeze, play, score and report the main arms on a small suite, with the weights of `make demo`.

    Example: python -m eval demo --demo runs/demo-tiny out=runs/eval-demo-tiny
    """
    from eval.demo import demo_config, demo_run

    loaded = demo_config(config, demo, overrides or [])
    page = demo_run(loaded, demo, bases, sessions, command=f"python -m eval {shlex.join(sys.argv[1:])}")
    typer.echo(f"report: {page} and {page.with_suffix('.md')}")


app.command()(suites)


if __name__ == "__main__":
    app(prog_name="python -m eval")
