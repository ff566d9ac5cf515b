"""Tool results made smaller before they are cut: rows aggregated, fields and rows limited."""

from __future__ import annotations

import io
import json
from typing import Any

MAX_FIELDS, MAX_ROWS, MAX_GROUPS = 20, 50, 12
SAMPLE = 3
"""Rows shown beside the aggregates when a table is cut."""


def trim_result(text: str, most_rows: int = MAX_ROWS) -> str:
    """A result with at most 20 fields and ``most_rows`` rows. A longer table is summed up by its categories first.

    JSON lists and objects and delimited tables are understood; any other text comes back as it is.
    """
    rows = _rows(text)
    if rows is None:
        return _trim_object(text)
    if len(rows) <= most_rows and len(rows.columns) <= MAX_FIELDS:
        return text
    rows = rows.iloc[:, :MAX_FIELDS]
    lines = [f"{len(rows)} rows: {', '.join(map(str, rows.columns))}", *_aggregates(rows)]
    if len(rows) <= most_rows:
        lines.append(rows.to_csv(index=False).strip())
    else:
        lines += ["first rows:", rows.head(SAMPLE).to_csv(index=False).strip()]
    return "\n".join(lines)


def _rows(text: str) -> Any:
    """The text as a data frame, or None when it is no table."""
    import pandas as pd

    body = text.strip()
    if body.startswith("["):
        try:
            held = json.loads(body)
        except ValueError:
            return None
        return pd.DataFrame(held) if held and all(isinstance(r, dict) for r in held) else None
    lines = body.split("\n")
    if len(lines) < 4:
        return None
    for mark in ("\t", "|", ",", ";"):
        counts = {line.count(mark) for line in lines}
        if len(counts) == 1 and counts != {0}:
            try:
                return pd.read_csv(io.StringIO(body), sep=mark, skipinitialspace=True)
            except ValueError:
                return None
    return None


def _aggregates(rows: Any) -> list[str]:
    """Totals of every number column, by every category column of few values."""
    numbers = [c for c in rows.columns if rows[c].dtype.kind in "if"]
    groups = [c for c in rows.columns if c not in numbers and rows[c].nunique() <= MAX_GROUPS]
    lines = [f"total {c}: {rows[c].sum():.12g} (min {rows[c].min():.12g}, max {rows[c].max():.12g})" for c in numbers]
    for group in groups:
        for number in numbers:
            sums = rows.groupby(group)[number].sum()
            lines.append(f"{number} by {group}: " + ", ".join(f"{k} {v:.12g}" for k, v in sums.items()))
        if not numbers:
            lines.append(f"rows by {group}: " + ", ".join(f"{k} {v}" for k, v in rows[group].value_counts().items()))
    return lines


def _trim_object(text: str) -> str:
    if not text.lstrip().startswith("{"):
        return text
    try:
        held = json.loads(text)
    except ValueError:
        return text
    if not isinstance(held, dict) or len(held) <= MAX_FIELDS:
        return text
    kept = {k: held[k] for k in list(held)[:MAX_FIELDS]}
    return json.dumps({**kept, "…": f"{len(held) - MAX_FIELDS} more fields"}, ensure_ascii=False)
