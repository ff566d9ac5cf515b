"""A seed suite's table and notes for RESULTS.md, out of the page that ``python -m eval suites --write`` keeps."""

from __future__ import annotations

import re
from pathlib import Path

from envs.config import ConfigError, nearest
from eval.suites import SUITES
from eval.suites.report import cell, read_table, table

MADE = "\n\nMade with:"
"""Where the commands of a section begin."""


def suite_block(page: Path, suite: str) -> str | None:
    """Rows of the arms that were played, and what the suite says of them; None when there are none yet.

    The documents' own rows come last, as they do there. Raises ConfigError for an unknown suite.
    """
    if suite not in SUITES:
        raise ConfigError(f"suites.{suite}: {nearest(suite, SUITES)}")
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    found = re.search(rf"^## {suite}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    rows = read_table(found[1]) if found else []
    theirs = {cell(r.get("arm")) for r in SUITES[suite].theirs}
    if found is None or all(r.get("arm") in theirs for r in rows):
        return None
    _, _, after = found[1].partition(f"<!-- {suite}:end -->")
    notes = after.partition(MADE)[0].strip()
    return "\n\n".join(part for part in (table(rows), notes) if part)
