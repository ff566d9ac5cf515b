"""Command line of the evaluation: ``python -m eval freeze|run|score|replay|report|tune-prompt CONFIG.yaml [dotted.key=value ...]``.

Beside these ``view``, ``export``, ``compare``, ``check-stats``, ``demo`` and ``suites``.
"""

from __future__ import annotations

import json
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from envs.config import UserError, load_config
from envs.runs import cli_errors
from eval.config import EvalConfig
from eval.sessions_cli import replay_sessions, run_sessions
from eval.suites.cli import suites
from eval.view import Only, config_of
from eval.view import view as write_view


class Kind(StrEnum):
    """What ``export`` writes."""

    csv = "csv"
    parquet = "parquet"
    wandb = "wandb"
    inspect = "inspect"


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
at any moment; **score** needs no model; **report** writes `<out>/report.html` and `<out>/report.md`. **replay** builds every
stored view again and holds it against the exact input that was stored with it.

Your own conversations need no config (format: docs/sessions.md):

    python -m eval run --sessions my_sessions.jsonl --arm base --arm pinned --model smollm2

Settings are changed behind the config: `python -m eval run configs/eval_scripted.yaml batch_size=32`.

**tune-prompt** chooses the prompt of an arm on validation probes; **demo** does all four steps on a small suite with the weights
of `make demo`.

**view** writes `<out>/episodes.html`: every scored episode to step through, log and view side by side.

**export** writes a scored run as CSV, parquet, wandb tables or Inspect logs: `python -m eval export --help`.

**compare** sets arms, or whole runs under the same rules, against each other: `python -m eval compare --help`. **check-stats**
measures what the intervals and tests are worth.

Apart from these, **suites** plays the seed experiments, without a config: `python -m eval suites --help`.
""",
)
Config = Annotated[str, typer.Argument(metavar="CONFIG.yaml", help="Config file (schema: eval/config.py).")]
Perhaps = Annotated[
    str | None, typer.Argument(metavar="[CONFIG.yaml]", help="Config file (schema: eval/config.py); none with --sessions.")
]
Arms = Annotated[list[str] | None, typer.Option("--arm", help="This arm only (may be repeated).")]
Sessions = Annotated[
    Path | None,
    typer.Option("--sessions", metavar="FILE.jsonl", help="A session file of your own (docs/sessions.md), instead of a config."),
]
Out = Annotated[
    Path | None, typer.Option("--out", help="With --sessions: the run folder; default runs/sessions/<name of the file>.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[key=value]...", help="Dotted overrides, e.g. out=runs/again arms.sft.model=runs/sft/final."),
]


def _load(config: str | None, overrides: list[str] | None) -> EvalConfig:
    if config is None:
        raise UserError("nothing to play: give a CONFIG.yaml, or --sessions FILE.jsonl for conversations of your own")
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
    config: Perhaps = None,
    overrides: Overrides = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            "--arm",
            help="Play only this arm (may be repeated). With --sessions: gold, bad, echo, expert-read, base, prompt, plain, a manager "
            "(truncate, pinned, …), NAME=MODEL or NAME={policy: hf, …}.",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard", metavar="2/8", help="Play only this part of the samples, into a folder of its own; score reads all."
        ),
    ] = None,
    sessions: Sessions = None,
    model: Annotated[str | None, typer.Option("--model", help="With --sessions: the model of arms that need one.")] = None,
    out: Out = None,
    new: Annotated[bool, typer.Option("--new", help="With --sessions: set earlier results under another lock aside.")] = False,
) -> None:
    r"""Play every episode still owed. Killed at any moment, the same command goes on.

    A config:               python -m eval run configs/eval_scripted.yaml --arm expert

    On several machines:    python -m eval run configs/eval_scripted.yaml --shard 2/8

    Your conversations:     python -m eval run --sessions my_sessions.jsonl --arm expert-read

    With a model:           python -m eval run --sessions my_sessions.jsonl --arm base --arm plain --arm pinned --model smollm2

    --sessions freezes a lock by itself (it is your own data), plays every arm under the four conditions (closed book, whole log,
    damaged without read-back, damaged with it) and on the whole log with read-back for false alarms, and writes results.json and
    report.md. Settings: decoding.temperature=0.7 budget=4096 …
    """
    if sessions:
        settings = [part for part in (config, *(overrides or ())) if part]
        run_sessions(sessions, arm or [], model, out, settings, shard=shard, new=new)
        return
    if model or out or new:
        raise UserError("--model, --out and --new belong to --sessions: a config says these itself (out=… behind it)")
    from eval.run import run as step

    owed = 0
    for name, played in step(_load(config, overrides), arm, shard).items():
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
def view(
    target: Annotated[str, typer.Argument(metavar="CONFIG.yaml|RUN_FOLDER", help="Config file, or a run folder.")],
    overrides: Overrides = None,
    arm: Arms = None,
    only: Annotated[Only | None, typer.Option("--only", help="Only failed, or only right episodes.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="At most so many: the worst, lowest quality first, then most tokens.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default <run folder>/episodes.html.")] = None,
) -> None:
    """Write episodes.html: every scored episode, log and view side by side, call by call, in one file that opens offline.

    Filter by arm, family, variant, signal, cause of failure and more, sort by tokens, inferences, reward, saving or reads, search all
    text, step with the arrow keys, jump to the same sample of another arm with o. Made before the report, the report links to it.

    Example: python -m eval view configs/eval_scripted.yaml --arm expert --arm never_read --only failed
    """
    made = write_view(config_of(target, overrides or []), arm, only, limit, out)
    for note in made.notes:
        typer.echo(note, err=True)
    typer.echo(f"{made.path}: {made.shown} of {made.scored} scored episodes, {made.size / 1e6:.1f} MB")


@app.command()
@cli_errors()
def export(
    target: Annotated[str, typer.Argument(metavar="CONFIG.yaml|RUN_FOLDER", help="Config file, or run folder, of a scored run.")],
    overrides: Overrides = None,
    to: Annotated[
        list[Kind] | None,
        typer.Option("--to", help="What to write (may be repeated); csv if nothing is said.", show_default=False),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write to; default <run folder>/export.")] = None,
    online: Annotated[
        bool, typer.Option("--online", help="With --to wandb: send it now, instead of writing it for wandb sync.")
    ] = False,
    project: Annotated[str, typer.Option("--project", help="With --to wandb: the project.")] = "ctxctl",
) -> None:
    """Write a scored run for other tools: tables of episodes, checks, inferences, calls and metrics, or Inspect logs.

    Example: python -m eval export runs/eval_probes --to parquet --to inspect

    csv, parquet: one file a table (columns: docs/exports.md). wandb: one run an arm, offline unless --online. inspect: one .eval
    log an arm, for inspect view and its reader (needs the extra inspect).
    """
    from eval.export import export as step

    for path in step(target, overrides or [], to or [Kind.csv], out, "online" if online else "offline", project):
        typer.echo(str(path))


@app.command()
@cli_errors()
def compare(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG.yaml|RUN_FOLDER...", help="Config files or run folders, and key=value overrides of configs."
        ),
    ],
    a: Annotated[str | None, typer.Option("--a", help="First arm of the one pair to compare.")] = None,
    b: Annotated[str | None, typer.Option("--b", help="Second arm: the differences are a - b.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file, .md or .json, instead.")] = None,
) -> None:
    """Compare arms of a scored run, or scored runs with each other; different locks are refused.

    One run: every arm against the config's references, or --a against --b, with gates, adjusted p-values and verdicts. Several
    runs: their locks must agree on every rule; with other backbones they stand side by side, with the same lock they are paired.

    Example: python -m eval compare runs/eval_probes runs/eval_probes_qwen --out comparison.md
    """
    from eval.compare import compare as step
    from eval.compare import load_run, render, write

    overrides = [target for target in targets if "=" in target and not Path(target).exists()]
    names = [target for target in targets if target not in overrides]
    if not names:
        raise UserError("nothing to compare: name a config file or a run folder")
    content = step([load_run(name, overrides) for name in names], a, b)
    command = f"python -m eval {shlex.join(sys.argv[1:])}"
    if out is not None:
        write(content, out, command)
        typer.echo(str(out))
    else:
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False) if as_json else render(content, command))


@app.command("check-stats")
@cli_errors()
def check_stats(
    draws: Annotated[int, typer.Option("--draws", min=100, help="Made-up data sets for every check.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="Of the data sets.")] = 0,
) -> None:
    """Measure coverage, errors and power of the statistics on made-up data: the tables of docs/statistics.md. Takes minutes.

    Example: python -m eval check-stats --draws 1000
    """
    from eval.simulate import tables

    typer.echo(tables(draws, seed))


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


@app.command()
@cli_errors()
def replay(
    config: Perhaps = None, overrides: Overrides = None, arm: Arms = None, sessions: Sessions = None, out: Out = None
) -> None:
    """Build every stored view again and hold it against the exact input that was stored; exit code 1 if one differs.

    Example: python -m eval replay configs/eval_scripted.yaml --arm expert

    Of each failure it also says whether what the answer needed was in the input.
    """
    from eval.replay import replay as step
    from eval.replay import report_lines

    if sessions:
        found, changed = replay_sessions(sessions, out, arm)
    else:
        found, changed = step(_load(config, overrides), arm)
    for line in report_lines(found, changed):
        typer.echo(line)
    if any(r.differences for r in found.values()):
        raise typer.Exit(1)


app.command()(suites)


if __name__ == "__main__":
    app(prog_name="python -m eval")
