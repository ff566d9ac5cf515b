"""``python -m envs sessions FILE``: check a session file, and play it with a script under every condition."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from envs.chat import ChatML, get_chat
from envs.config import UserError
from envs.episode import play
from envs.policies.sessions import Echo, EvidenceReader, Says
from envs.profiles import MODEL_WINDOW
from envs.runs import cli_errors, write_jsonl_atomic
from envs.session_run import CONDITIONS, READING, CaseEpisode, CaseRecord, Condition, conditions_of, summarise
from envs.sessions import Case, load


class Script(StrEnum):
    """Scripted policies that can play a case."""

    gold = "gold"
    bad = "bad"
    read = "expert-read"
    echo = "echo"


def script_policy(script: Script, case: Case, chat: ChatML) -> Says:
    """A fresh policy for one episode of a case."""
    if script is Script.read:
        return EvidenceReader(case.expected.evidence, case.gold_reply, chat)
    if script is Script.echo:
        return Echo(chat)
    return Says(case.gold_reply if script is Script.gold else case.bad_reply, chat)


def read_back(case: Case, chat: ChatML, budget: int = MODEL_WINDOW) -> dict[int, str]:
    """What ``read eN`` gives back of each evidence event in the damaged view, its pages joined."""
    condition: Condition = "damaged_read" if case.injection else "whole_log_read"
    episode = CaseEpisode(case, condition, chat, budget=budget)
    play([episode], EvidenceReader(sorted(set(case.expected.evidence)), case.gold_reply, chat, everything=True))
    pages: dict[int, str] = {}
    for inference in episode.inferences:
        for outcome in inference.outcomes:
            if outcome.code == "shown":
                pages[outcome.shows[0]] = pages.get(outcome.shows[0], "") + outcome.text.partition("\n")[2]
    return pages


def reachable(case: Case, chat: ChatML, budget: int = MODEL_WINDOW) -> list[int]:
    """Evidence events that read-back gives back to the last character."""
    return [n for n, text in sorted(read_back(case, chat, budget).items()) if text == case.event_text(n)]


def run_script(
    cases: Sequence[Case], conditions: Sequence[Condition], script: Script, chat: ChatML, budget: int = MODEL_WINDOW
) -> list[CaseRecord]:
    """Play every case under its conditions with a script; records by case, then condition."""
    records = []
    for case in cases:
        for condition in conditions:
            if condition in conditions_of(case):
                episode = CaseEpisode(case, condition, chat, budget=budget)
                play([episode], script_policy(script, case, chat))
                records.append(episode.record(script.value))
    return records


def table(records: Sequence[CaseRecord], reached: dict[str, list[int]]) -> str:
    """A Markdown table of all records, then one of the conditions."""
    lines = [
        "| id | kind | condition | verdict | tokens | evidence in view | reachable by read-back |",
        "| --- | --- | --- | --- | ---: | ---: | ---: |",
    ]
    for r in records:
        verdict = "right" if r.right else "wrong" if r.reason == "answered" else f"wrong ({r.reason})"
        found = f"{len(reached[r.case])}/{len(r.evidence)}" if r.condition in READING else "-"
        seen = f"{len(r.evidence_in_view)}/{len(r.evidence)}"
        lines.append(f"| {r.case} | {r.kind} | {r.condition} | {verdict} | {r.tokens:,} | {seen} | {found} |")
    lines += [
        "",
        "| condition | cases | right | tokens a case | read back | false alarms |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in summarise(records):
        alarms = "-" if row.false_alarms is None else f"{row.false_alarms}/{row.cases}"
        lines.append(
            f"| {row.condition} | {row.cases} | {row.right}/{row.cases} | {row.tokens / row.cases:,.0f} | {row.reading}/{row.cases} | {alarms} |"
        )
    return "\n".join(lines)


def sessions(
    file: Annotated[Path, typer.Argument(help="JSONL file of sessions (docs/sessions.md)")],
    condition: Annotated[str, typer.Option(help=f"one of {', '.join(CONDITIONS)}, or all")] = "all",
    policy: Annotated[Script, typer.Option(help="the script that plays")] = Script.read,
    validate: Annotated[bool, typer.Option("--validate", help="only check the file")] = False,
    budget: Annotated[int, typer.Option(min=1536, help="largest view in tokens")] = MODEL_WINDOW,
    write: Annotated[Path | None, typer.Option(help="write the records to this JSONL file")] = None,
) -> None:
    """Check a session file, then play it with a script under every condition.

    Example: python -m envs sessions my_sessions.jsonl --policy expert-read
    """
    with cli_errors():
        chosen: list[Condition] = [c for c in CONDITIONS if condition in (c, "all")]
        if not chosen:
            raise UserError(f"--condition {condition!r}: choose one of {', '.join(CONDITIONS)}, or all")
        cases = load(file)
        typer.echo(f"{file}: {len(cases)} sessions, each with its gold reply accepted and its bad reply refused")
        if validate:
            return
        chat = get_chat()
        records = run_script(cases, chosen, policy, chat, budget)
        if not records:
            raise UserError(f"{file}: no session has damage, so nothing is played under {condition}: use --condition whole_log")
        typer.echo("\n" + table(records, {c.id: reachable(c, chat, budget) for c in cases}))
        if write:
            write_jsonl_atomic(write, records)


def register(app: typer.Typer) -> None:
    """Add the command to ``python -m envs``."""
    app.command()(sessions)
