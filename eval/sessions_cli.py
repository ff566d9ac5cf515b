"""``eval run --sessions FILE`` and ``eval replay --sessions FILE``: play, judge, write ``results.json`` and ``report.md``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from envs.config import UserError, load_config
from envs.runs import write_json_atomic, write_text_atomic

if TYPE_CHECKING:
    from envs.sessions import Case
    from eval.freeze import Lock
    from eval.replay import Replayed
    from eval.sessions import SessionsConfig


def run_sessions(
    file: Path, arms: Sequence[str], model: str | None, out: Path | None, settings: Sequence[str], *, shard: str | None, new: bool
) -> None:
    """Play a session file by the named arms, then write and print the table. Raises UserError; exits 1 where episodes are owed."""
    from envs.sessions import load
    from eval.sessions import SessionsConfig, named_arms, run

    if not arms:
        raise UserError("--sessions needs who plays: add --arm expert-read (a script), or --arm base --model smollm2")
    if bad := [s for s in settings if "=" not in s]:
        raise UserError(f"{bad[0]!r}: a config and --sessions don't go together: give one of them, settings as key=value")
    given = named_arms(arms, model)
    config = load_config(SessionsConfig, None, [f"file={file}", *([f"out={out}"] if out else []), *_arms(given), *settings])
    cases = load(config.file)  # a bad file is refused before anything else
    lock, played = run(config, shard=shard, new=new)
    typer.echo(f"{file}: {len(cases)} sessions; lock {lock.short}, frozen for your own data: {config.folder / 'lock.json'}")
    owed = 0
    for name, found in played.items():
        typer.echo(f"{name}: {found.now} played, {found.before} were stored" + (f", {found.owed} OWED" if found.owed else ""))
        owed += found.owed
    whole = config.model_copy(update={"arms": _all_arms(lock, config)})
    report = write_report(whole, lock, cases)
    typer.echo("\n" + table_of(report))
    typer.echo(f"\n{config.folder / 'results.json'} and {config.folder / 'report.md'}")
    if owed:
        typer.echo(
            f"{owed} episodes are owed after infrastructure errors (errors.jsonl): the same command tries them again", err=True
        )
        raise typer.Exit(1)


def _arms(given: dict[str, Any]) -> list[str]:
    import json

    return [f"arms={json.dumps({name: arm.model_dump(mode='json') for name, arm in given.items()})}"]


def _all_arms(lock: Lock, config: SessionsConfig) -> dict[str, Any]:
    """The arms of the lock that have been played, in its order: one may have joined in an earlier call."""
    from eval.sessions import CaseArm

    arms = {name: CaseArm.model_validate(arm) for name, arm in lock.stated["arms"].items()}
    return {name: arm for name, arm in arms.items() if config.arm_folder(name).is_dir()}


def write_report(config: SessionsConfig, lock: Lock, cases: Sequence[Case]) -> str:
    """Judge what is stored and write ``results.json`` and ``report.md``; returns the latter."""
    from eval.session_table import by_damage, failures, figures, markdown
    from eval.sessions import check_arm, expected_keys, stored
    from eval.standing import code_lines, code_warnings
    from eval.store import read_errors, read_meta

    results: dict[str, Any] = {"file": Path(config.file).name, "lock": lock.lock, "sessions": len(cases), "arms": {}}
    results |= {"by_damage": {}, "failures": {}, "health": {}}
    starts: dict[str, list[dict[str, Any]]] = {}
    for name, arm in config.arms.items():
        check_arm(config, lock, name)
        folder = config.arm_folder(name)
        found = stored(config, name)
        expected = expected_keys(cases, arm)
        records = [found[key] for key in expected if key in found]
        results["arms"][name] = figures(cases, records, arm.plain)
        results["by_damage"][name] = by_damage(cases, records)
        results["failures"][name] = failures(cases, records)
        results["health"][name] = {
            "expected": len(expected), "stored": len(records), "infrastructure_errors": len(read_errors(folder)),
        }  # fmt: skip
        starts[name] = [start for _, meta in read_meta(folder) for start in meta["starts"]]
    last = [start for held in starts.values() for start in held] or [lock.provenance]
    decoding = config.decoding
    front = [
        f"sessions: {len(cases)}, of which {sum(bool(c.injection) for c in cases)} with damage",
        f"lock: `{lock.lock}`, frozen with the first run: it says what was played, not that it was stated before",
        *(f"code: {line}" for line in code_lines(lock.provenance, starts)),
        f"versions: {', '.join(f'{k} {v}' for k, v in last[-1].get('versions', {}).items())}",
        f"decoding: temperature {decoding.temperature:g}, at most {decoding.max_new_tokens} new tokens, seed {decoding.seed}, {decoding.dtype}",
        "views: " + ", ".join(f"{name} up to {config.view_budget(arm):,} tokens" for name, arm in config.arms.items()),
        f"made by: `python -m eval {shlex.join(sys.argv[1:])}`",
    ]
    warnings = code_warnings(lock.provenance, starts)
    for name, health in results["health"].items():
        if health["stored"] < health["expected"]:
            warnings.append(f"Arm {name} is incomplete: {health['stored']} of {health['expected']} episodes are stored.")
        if health["infrastructure_errors"]:
            warnings.append(
                f"Arm {name}: {health['infrastructure_errors']} infrastructure errors (errors.jsonl), retried, never scored."
            )
    report = markdown(front, warnings, results)
    write_json_atomic(config.folder / "results.json", results)
    write_text_atomic(config.folder / "report.md", report)
    return report


def table_of(report: str) -> str:
    """The first table of a report, for the terminal."""
    lines = report.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("| arm"))
    end = next(n for n, line in enumerate(lines[start:], start) if not line.startswith("|"))
    return "\n".join(lines[start:end])


def replay_sessions(file: Path, out: Path | None, arms: Sequence[str] | None) -> tuple[dict[str, Replayed], list[str]]:
    """Replay what ``run --sessions`` stored. Raises UserError, and LockError where file or settings are others."""
    from envs.sessions import load
    from eval.freeze import LockError, changed_entries, read_lock_at
    from eval.replay import replay_arm
    from eval.sessions import SessionsConfig, build_lock, chat_of, check_arm, samples_of, stored

    folder = out or Path(f"runs/sessions/{file.stem}")
    lock = read_lock_at(folder / "lock.json")
    stated = {k: v for k, v in lock.stated.items() if k != "file"}
    config = SessionsConfig.model_validate({**stated, "file": str(file), "out": str(folder)})
    if unknown := [a for a in arms or () if a not in config.arms]:
        raise UserError(f"arm {unknown[0]!r}: not in {folder / 'lock.json'}: use one of {', '.join(config.arms)}")
    cases = load(file)
    changed = changed_entries(lock.rules, build_lock(config, cases, weights=False).rules)
    if data := [name for name in changed if name in ("sessions", "budget") or name.startswith("arm.")]:
        raise LockError(f"{folder / 'lock.json'}: {data[0]} changed since the freeze: replay needs what was played, undo it")
    found = {}
    for name in arms or config.arms:
        check_arm(config, lock, name)
        chat = chat_of(config, name)
        records = stored(config, name)
        trajectories = {key: record.trajectory for key, record in records.items()}
        found[name] = replay_arm(name, {s.key: s for s in samples_of(config, cases, name, chat)}, trajectories, chat)
    return found, changed
