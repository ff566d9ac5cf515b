"""The stages of a long experiment, one after the other, each a list of this project's own commands: ``make results``.

    python -m scripts.results configs/results/stages.yaml            (--list, --only NAME, --until NAME, --retrain)

<out>/stages.json     every stage: status, wall seconds over all its starts, commit of each start, the commands
      logs/<stage>.log  what its commands printed

Every command goes on by itself where it was stopped, so the same call does: after Ctrl-C, a crash or a reboot, finished stages are left
as they are. A stage whose result lies in the repository (``shipped``) is taken from there, with the wall time that it took when it was
made; ``--retrain`` makes it anew.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field, ValidationError, model_validator
from tqdm import tqdm

from envs.config import ConfigError, Strict, UserError, load_config, nearest
from envs.runs import DataError, cli_errors, provenance, read_json, write_json_atomic

MODULES = ("data_gen", "sft", "rl", "eval", "envs", "scripts.results_page")
"""What a command of a stage may begin with."""
BEAT = 10.0
"""Seconds after which the wall time so far is written: a kill loses no more."""
RECORD = "stages.json"


class Stage(Strict):
    """One stage: commands after ``python -m``, run in order."""

    about: str
    commands: list[str] = Field(min_length=1)
    shipped: list[str] = []
    """Files and folders of the repository that are this stage's result: where all are there, it isn't run."""

    @model_validator(mode="after")
    def _ours(self) -> Stage:
        for command in self.commands:
            try:
                first = shlex.split(command)[0]
            except (ValueError, IndexError):
                raise ValueError(f"command {command!r} can't be read: write MODULE ARGUMENTS") from None
            if first not in MODULES:
                raise ValueError(f"command {command!r}: {nearest(first, MODULES)}")
        return self


class Plan(Strict):
    """A file of stages."""

    out: str
    record: str | None = None
    """Record in the repository of how long the shipped stages took."""
    stages: dict[str, Stage] = Field(min_length=1)


class Start(Strict):
    """One attempt at a stage."""

    at: str
    commit: str | None
    dirty: bool | None
    seconds: float = 0.0


class Record(Strict):
    """What became of a stage."""

    status: Literal["running", "failed", "interrupted", "done", "shipped"]
    commands: list[str]
    seconds: float = 0.0
    """Wall time of all starts."""
    starts: list[Start] = []


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
@cli_errors()
def main(
    plan: Annotated[Path, typer.Argument(help="YAML file of the stages.")] = Path("configs/results/stages.yaml"),
    show: Annotated[bool, typer.Option("--list", help="Show the stages, what became of them, and run nothing.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Only this stage; may be repeated.")] = None,
    until: Annotated[str | None, typer.Option(help="Last stage to run.")] = None,
    retrain: Annotated[bool, typer.Option(help="Make what lies in the repository anew.")] = False,
) -> None:
    """Run the stages that are not done yet, in order, and write what each took.

    \b
        make results
        python -m scripts.results configs/results/stages.yaml --list
        python -m scripts.results configs/results/stages.yaml --until sft-s1

    Stop it whenever you like; the same command goes on. A changed command makes its stage owed again.
    """  # noqa: D301
    given = load_config(Plan, plan)
    wanted = chosen(given, only, until)
    records = read_records(given)
    if show:
        typer.echo(table(given, records))
        return
    for name in wanted:
        perform(given, name, records, retrain=retrain)
    typer.echo(table(given, records))


def chosen(plan: Plan, only: list[str] | None, until: str | None) -> list[str]:
    """Names of the stages to run, in order. Raises UserError for an unknown one."""
    names = list(plan.stages)
    for option, given in (("--only", only or []), ("--until", [until] if until else [])):
        for name in given:
            if name not in names:
                raise UserError(f"{option} {name}: {nearest(name, names)}")
    if until:
        names = names[: names.index(until) + 1]
    return [n for n in names if not only or n in only]


def read_records(plan: Plan) -> dict[str, Record]:
    """What is known of the stages: of this machine's runs, and below them of those that shipped. Raises DataError."""
    records: dict[str, Record] = {}
    for path in (Path(plan.record) if plan.record else None, Path(plan.out) / RECORD):
        if path is None or not path.is_file():
            continue
        try:
            records |= {name: Record.model_validate(value) for name, value in read_json(path).items()}
        except ValidationError as error:
            raise DataError(f"{path}: {error.errors(include_url=False)[0]['msg']}: restore or delete it") from None
    return records


def perform(plan: Plan, name: str, records: dict[str, Record], *, retrain: bool) -> None:
    """Run a stage unless it is done. Raises UserError when one of its commands fails."""
    stage, before = plan.stages[name], records.get(name)
    own = Path(plan.out) / RECORD
    here = own.is_file() and name in read_json(own)
    if here and before and before.status == "done" and before.commands == stage.commands:
        tqdm.write(f"== {name}: done before ({before.seconds:.0f} s)", file=sys.stderr)
        return
    begun_here = here and before is not None and before.status != "shipped"
    if stage.shipped and not retrain and not begun_here and all(Path(p).exists() for p in stage.shipped):
        known = before if before else Record(status="shipped", commands=stage.commands)
        records[name] = known.model_copy(update={"status": "shipped"})
        _write(plan, records)
        tqdm.write(f"== {name}: taken from {', '.join(stage.shipped)} (--retrain makes it anew)", file=sys.stderr)
        return
    about = provenance()
    old = before.starts if here and before and before.commands == stage.commands else []
    start = Start(
        at=datetime.now(UTC).isoformat(timespec="seconds"), commit=about.get("git_commit"), dirty=about.get("git_dirty")
    )

    def note(status: Literal["running", "failed", "interrupted", "done"], seconds: float) -> None:
        starts = [*old, start.model_copy(update={"seconds": round(seconds, 1)})]
        records[name] = Record(
            status=status, commands=stage.commands, seconds=round(sum(s.seconds for s in starts), 1), starts=starts
        )
        _write(plan, records)

    log = Path(plan.out) / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    tqdm.write(f"== {name}: {stage.about} (log: {log})", file=sys.stderr)
    began = time.monotonic()
    note("running", 0.0)
    for number, command in enumerate(stage.commands, 1):
        tqdm.write(f"   {number}/{len(stage.commands)}  python -m {command}", file=sys.stderr)
        code = _run(command, log, lambda: note("running", time.monotonic() - began))
        if code:
            stopped = code in (130, -signal.SIGINT)
            note("interrupted" if stopped else "failed", time.monotonic() - began)
            why = "interrupted" if stopped else f"failed (exit code {code}): {last_line(log)}"
            raise UserError(f"stage {name}: python -m {command}: {why}: see {log}; the same command goes on from here")
    note("done", time.monotonic() - began)


def _write(plan: Plan, records: dict[str, Record]) -> None:
    known = {name: records[name].model_dump() for name in plan.stages if name in records}
    write_json_atomic(Path(plan.out) / RECORD, known)


def _run(command: str, log: Path, beat: Any) -> int:
    """Run a command with its output in the log; its last line stands beside a clock on a terminal. Returns its exit code."""
    arguments = [sys.executable, "-m", *shlex.split(command)]
    with log.open("a") as stream, tqdm(bar_format="   {elapsed} {postfix}", leave=False, file=sys.stderr) as clock:
        stream.write(f"$ python -m {command}\n")
        stream.flush()
        process = subprocess.Popen(arguments, stdout=stream, stderr=subprocess.STDOUT, env={**os.environ})
        last = time.monotonic()
        while True:
            try:
                return process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                clock.set_postfix_str(last_line(log)[:100])
                if time.monotonic() - last > BEAT:
                    beat()
                    last = time.monotonic()
            except KeyboardInterrupt:
                # The command got the signal too and ends by itself at a safe place.
                tqdm.write("   interrupted: waiting for the command to end at a safe place", file=sys.stderr)
                try:
                    return process.wait() or 130
                except KeyboardInterrupt:
                    process.kill()
                    process.wait()
                    return 130


def last_line(log: Path) -> str:
    """The last line of a log that says something; a progress bar's last state counts as a line."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - 4096))
        text = stream.read().decode("utf-8", "replace")
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def table(plan: Plan, records: dict[str, Record]) -> str:
    """The stages as a Markdown table with their wall times, in minutes."""
    lines = ["| stage | what | status | minutes |", "| --- | --- | --- | ---: |"]
    total = 0.0
    for name, stage in plan.stages.items():
        record = records.get(name)
        status: str = "owed" if record is None else record.status
        if record is not None and record.commands != stage.commands and status in ("done", "shipped"):
            status += ", by other commands"
        seconds = record.seconds if record else 0.0
        total += seconds
        lines.append(f"| {name} | {stage.about} | {status} | {seconds / 60:.1f} |")
    lines.append(f"| all | | | {total / 60:.1f} |")
    return "\n".join(lines)


def check(path: Path) -> Plan:
    """The plan in ``path``, with every config file that its commands name there. Raises ConfigError."""
    plan = load_config(Plan, path)
    for name, stage in plan.stages.items():
        for command in stage.commands:
            for word in shlex.split(command):
                if word.startswith("configs/") and not Path(word).is_file():
                    raise ConfigError(f"{path}: stages.{name}: {word}: not there: correct the command")
    return plan


if __name__ == "__main__":
    app()
