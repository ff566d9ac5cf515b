"""The stages of a long experiment, one after the other, each a list of this project's own commands: ``make results``.

    python -m scripts.results configs/results/stages.yaml            (--list, --only NAME, --until NAME, --retrain)

<out>/stages.json     every stage: status, wall seconds over all its starts, commit of each start, the commands, hashes of their configs
      logs/<stage>.log  what its commands printed

Every command goes on by itself where it was stopped, so the same call does: after Ctrl-C, a crash or a reboot, finished stages are left
as they are. With ``--jobs 2`` stages that need nothing of each other run side by side, each with its share of the cores: two trainings of a small
model on one core each are together faster than one after the other on two. A stage whose result lies in the repository (``shipped``) is taken from there, with the wall time that it took when it was
made; ``--retrain`` makes it anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, TextIO

import typer
import yaml
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
    needs: list[str] | None = None
    """Stages whose results it takes; null: all before it."""
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

    @model_validator(mode="after")
    def _needs(self) -> Plan:
        names = list(self.stages)
        for number, (name, stage) in enumerate(self.stages.items()):
            for need in stage.needs or []:
                if need not in names[:number]:
                    raise ValueError(f"stage {name} needs {need!r}, which is no stage before it: {nearest(need, names[:number])}")
        return self

    def needs(self, name: str) -> list[str]:
        """The stages that must be done before this one."""
        names = list(self.stages)
        needs = self.stages[name].needs
        return names[: names.index(name)] if needs is None else needs


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
    configs: dict[str, str] = {}
    """Config file of the commands -> hash of what it said; empty in records from before there was one."""
    seconds: float = 0.0
    """Wall time of all starts."""
    starts: list[Start] = []

    def other(self, stage: Stage) -> str:
        """What the stage was done by, if not by what it says now: ``other commands``, ``another CONFIG``, or nothing."""
        if self.commands != stage.commands:
            return "other commands"
        now = said(stage)
        changed = [name for name, digest in self.configs.items() if now.get(name) != digest]
        return f"another {changed[0]}" if changed else ""


def said(stage: Stage) -> dict[str, str]:
    """What the config files of a stage's commands say, as hashes: comments and layout do not count."""
    words = [w for command in stage.commands for w in shlex.split(command) if w.startswith("configs/") and Path(w).is_file()]
    content = {w: yaml.safe_load(Path(w).read_text(encoding="utf-8")) for w in words}
    return {w: hashlib.sha256(json.dumps(c, sort_keys=True, default=str).encode()).hexdigest()[:16] for w, c in content.items()}


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
@cli_errors()
def main(
    plan: Annotated[Path, typer.Argument(help="YAML file of the stages.")] = Path("configs/results/stages.yaml"),
    show: Annotated[bool, typer.Option("--list", help="Show the stages, what became of them, and run nothing.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Only this stage; may be repeated.")] = None,
    until: Annotated[str | None, typer.Option(help="Last stage to run.")] = None,
    retrain: Annotated[bool, typer.Option(help="Make what lies in the repository anew.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Stages side by side, each with its share of the cores.")] = 1,
) -> None:
    """Run the stages that are not done yet, in order, and write what each took.

    \b
        make results
        python -m scripts.results configs/results/stages.yaml --list
        python -m scripts.results configs/results/stages.yaml --until sft-s1 --jobs 2

    Stop it whenever you like; the same command goes on. A changed command or config makes its stage owed again.
    """  # noqa: D301
    given = check(plan)
    wanted = chosen(given, only, until)
    records = read_records(given)
    if show:
        typer.echo(table(given, records))
        return
    with alone(Path(given.out)):
        run_all(given, wanted, records, retrain=retrain, jobs=jobs)
    typer.echo(table(given, records))


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other calls out of the folder. Commands inherit the lock: one that outlives a killed call still keeps them out."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                f"{folder}: another call, or a command that it left behind, is at work there (process {file.read().strip()}): wait for "
                "it, or stop it"
            ) from None
        _HELD.append(file.fileno())
        _tell(file, os.getpid())
        try:
            yield
        finally:
            _HELD.remove(file.fileno())


def _tell(file: TextIO, pid: int) -> None:
    file.seek(0)
    file.truncate()
    file.write(str(pid))
    file.flush()


def run_all(plan: Plan, wanted: Sequence[str], records: dict[str, Record], *, retrain: bool, jobs: int) -> None:
    """Run the wanted stages, at most ``jobs`` at once; a stage waits for those it needs among them.

    After a failure nothing new is begun, what runs is waited for, and the failure is raised.
    """
    cores = len(os.sched_getaffinity(0))
    threads = str(max(1, cores // jobs)) if jobs > 1 else None
    waiting, running = list(wanted), dict[Future[None], str]()
    failure: BaseException | None = None
    with ThreadPoolExecutor(jobs) as pool:
        while running or (waiting and failure is None):
            for name in list(waiting) if failure is None else []:
                blocked = any(need in waiting or need in running.values() for need in plan.needs(name))
                if len(running) < jobs and not blocked:
                    waiting.remove(name)
                    running[pool.submit(perform, plan, name, records, retrain=retrain, threads=threads)] = name
            try:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
            except KeyboardInterrupt:
                tqdm.write("   interrupted: waiting for the commands under way to end at a safe place", file=sys.stderr)
                for process in list(_RUNNING):
                    process.send_signal(signal.SIGINT)
                failure = failure or KeyboardInterrupt()
                continue
            for future in finished:
                del running[future]
                told = future.exception()
                failure = told if told is not None and not isinstance(failure, UserError) else failure
    if failure is not None:
        raise failure


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


def perform(plan: Plan, name: str, records: dict[str, Record], *, retrain: bool, threads: str | None = None) -> None:
    """Run a stage unless it is done, its commands with so many threads. Raises UserError when one of them fails."""
    stage, before = plan.stages[name], records.get(name)
    own = Path(plan.out) / RECORD
    here = own.is_file() and name in read_json(own)
    if here and before and before.status == "done" and not before.other(stage):
        tqdm.write(f"== {name}: done before ({before.seconds:.0f} s)", file=sys.stderr)
        return
    begun_here = here and before is not None and before.status != "shipped"
    if stage.shipped and not retrain and not begun_here and all(Path(p).exists() for p in stage.shipped):
        known = before if before else Record(status="shipped", commands=stage.commands, configs=said(stage))
        records[name] = known.model_copy(update={"status": "shipped"})
        _write(plan, records)
        tqdm.write(f"== {name}: taken from {', '.join(stage.shipped)} (--retrain makes it anew)", file=sys.stderr)
        return
    about, configs = provenance(), said(stage)
    old = before.starts if here and before and not before.other(stage) else []
    start = Start(
        at=datetime.now(UTC).isoformat(timespec="seconds"), commit=about.get("git_commit"), dirty=about.get("git_dirty")
    )

    def note(status: Literal["running", "failed", "interrupted", "done"], seconds: float) -> None:
        starts = [*old, start.model_copy(update={"seconds": round(seconds, 1)})]
        records[name] = Record(
            status=status,
            commands=stage.commands,
            configs=configs,
            seconds=round(sum(s.seconds for s in starts), 1),
            starts=starts,
        )
        _write(plan, records)

    log = Path(plan.out) / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    tqdm.write(f"== {name}: {stage.about} (log: {log})", file=sys.stderr)
    began = time.monotonic()
    note("running", 0.0)
    for number, command in enumerate(stage.commands, 1):
        tqdm.write(f"   {number}/{len(stage.commands)}  python -m {command}", file=sys.stderr)
        code = _run(command, log, lambda: note("running", time.monotonic() - began), threads)
        if code:
            stopped = code in (130, -signal.SIGINT)
            note("interrupted" if stopped else "failed", time.monotonic() - began)
            why = "interrupted" if stopped else f"failed (exit code {code}): {last_line(log)}"
            raise UserError(f"stage {name}: python -m {command}: {why}: see {log}; the same command goes on from here")
    note("done", time.monotonic() - began)


_WRITING = threading.Lock()
_HELD: list[int] = []
"""Descriptor of the folder's lock, which commands inherit."""
_RUNNING: list[subprocess.Popen[bytes]] = []


def _write(plan: Plan, records: dict[str, Record]) -> None:
    with _WRITING:
        known = {name: records[name].model_dump() for name in plan.stages if name in records}
        write_json_atomic(Path(plan.out) / RECORD, known)


def _run(command: str, log: Path, beat: Callable[[], None], threads: str | None) -> int:
    """Run a command with its output in the log; its last line stands beside a clock on a terminal. Returns its exit code."""
    arguments = [sys.executable, "-m", *shlex.split(command)]
    share = {"OMP_NUM_THREADS": threads} if threads else {}
    with log.open("a") as stream, tqdm(bar_format="   {elapsed} {postfix}", leave=False, file=sys.stderr) as clock:
        stream.write(f"$ python -m {command}\n")
        stream.flush()
        # In a group of its own: Ctrl-C reaches the command once, from run_all.
        process = subprocess.Popen(
            arguments, stdout=stream, stderr=subprocess.STDOUT, env={**os.environ, **share}, pass_fds=_HELD, process_group=0
        )
        _RUNNING.append(process)
        last = time.monotonic()
        try:
            while True:
                try:
                    return process.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    clock.set_postfix_str(last_line(log)[:100])
                    if time.monotonic() - last > BEAT:
                        beat()
                        last = time.monotonic()
        finally:
            _RUNNING.remove(process)


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
        if record is not None and status in ("done", "shipped") and (other := record.other(stage)):
            status += f", by {other}"
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
