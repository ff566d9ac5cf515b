"""Tables of the seed suites and the page that holds them (``docs/seeds.md``), written by the command alone.

A page keeps the rows of arms that were not played again, so the suites can be run one arm at a time, on any machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

from envs.config import UserError
from envs.runs import write_text_atomic
from eval.suites.base import SUITES, Row, Suite

KEYS = ("lang", "arm", "part")
"""Columns that tell rows apart."""
HEAD = """# Seed suites

The experiments that this project starts from, rebuilt in English and Chinese with texts of our own; figures and identifiers are those
of the three documents (an engineering post-mortem, a bench of 28 records, an article on layered context). All acceptance is
mechanical: `eval/suites/rules.py`, with replies that must pass and near misses that must fail in `tests/test_suite_rules.py`. Rows of an
arm called `document` are the documents' own numbers, made with other models and texts; they stand beside ours, not against them.
The sessions are never trained on, but their kind of task is (in-family): they say nothing about unseen families.

Read `smollm2` as SmolLM2-135M-Instruct without any training here, greedy, bf16, window 8,192 tokens. Scripts (`pass`, `no_balance`, …) show
that a suite can be passed and failed; they are no models. Chinese costs SmolLM2 about 1.6 tokens a character.

Tokens are input and output over all inferences, undiscounted; recorded (forced) turns and refused calls count. *in view*: the value that
the reply rests on stood in the first view of the turn, whatever the model then said; *right*: the turn's core rules hold. A reply cut by
the token cap is no answer, here as in the protocol. *ended* is the episode's reason: `answered`, a limit, or `context_overflow`.
"""


def cell(value: Any) -> str:
    """A value as a table cell."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2f}"
    return str(value).replace("|", "/").replace("\n", " ")


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a Markdown table; columns in order of their first appearance."""
    columns = list(dict.fromkeys(c for r in rows for c in r))
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    lines += ["| " + " | ".join(cell(r.get(c)) for c in columns) + " |" for r in rows]
    return "\n".join(lines)


def read_table(text: str) -> list[dict[str, str]]:
    """The rows of the first Markdown table in a text."""
    lines = list(takewhile(lambda t: t.startswith("|"), dropwhile(lambda t: not t.startswith("|"), text.split("\n"))))
    if len(lines) < 2:
        return []
    head, _, *body = ([c.strip() for c in line.strip().strip("|").split("|")] for line in lines)
    return [dict(zip(head, row, strict=False)) for row in body]


def merged(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], suite: Suite) -> list[Row]:
    """Old rows without those played again, new ones, the document's own last; by language, in order of appearance."""
    fresh = {tuple(cell(r.get(k)) for k in KEYS[:2]) for r in new}
    theirs = {cell(r.get("arm")) for r in suite.theirs}
    kept = [dict(r) for r in old if tuple(cell(r.get(k)) for k in KEYS[:2]) not in fresh and cell(r.get("arm")) not in theirs]
    # Columns are renamed or dropped only together: a row without the suite's columns is of an earlier page.
    if new:
        kept = [r for r in kept if set(r) <= set(new[0]) | {c for t in suite.theirs for c in t} | set(KEYS)]
    ours = sorted([*kept, *(dict(r) for r in new)], key=lambda r: cell(r.get("lang")))
    columns = list(dict.fromkeys(c for r in (*new, *ours) for c in r))  # a new column stands where the suite puts it
    ours = [{c: r[c] for c in columns if c in r} for r in ours]
    ours[:1] = [{c: r.get(c) for c in columns} for r in ours[:1]]
    return [*ours, *({c: r.get(c) for c in [*columns, *r]} for r in suite.theirs)]


def section(suite: Suite, rows: Sequence[Row], commands: Sequence[str]) -> str:
    """One suite's part of the page."""
    made = "\n".join(f"- `{c}`" for c in commands)
    notes = "\n\n".join([*suite.notes(rows), *([suite.theirs_note] if suite.theirs_note else [])])
    parts = [
        f"## {suite.name}", suite.about, f"<!-- {suite.name}:start -->\n{table(rows)}\n<!-- {suite.name}:end -->", notes,
        f"Made with:\n\n{made}" if made else "",
    ]  # fmt: skip
    return "\n\n".join(p for p in parts if p) + "\n"


def write_page(path: Path, new: Mapping[str, Sequence[Row]], command: str) -> None:
    """Put the rows of the suites played into the page, and keep all else that it holds. Raises UserError for a folder."""
    if path.is_dir():
        raise UserError(f"{path}: is a folder: name a Markdown file, e.g. docs/seeds.md")
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    parts = []
    for suite in SUITES.values():
        found = re.search(rf"^## {suite.name}$(.*?)(?=^## |\Z)", old, re.MULTILINE | re.DOTALL)
        held = found[1] if found else ""
        rows = merged(read_table(held), new.get(suite.name, ()), suite)
        commands = re.findall(r"^- `(python -m eval suites [^`]*)`$", held, re.MULTILINE)
        commands = list(dict.fromkeys([*commands, *([command] if suite.name in new else [])]))
        parts.append(section(suite, rows, commands))
    write_text_atomic(path, HEAD + "\n" + "\n".join(parts))
