"""Results by stratum: the same few metrics over the samples of each language, hint level, signal, length, variant and family apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from envs.lengths import LENGTHS
from envs.stats import Unit, estimate
from eval.metrics import Row, units_of

METRICS = ("tool_success", "information", "pair_success", "task_correct", "recovered", "tokens")
COLUMNS = (*METRICS, *(f"session_{name}" for name in METRICS if name not in ("pair_success", "recovered")))
"""Tool success, information, task, cost: none stands in for another."""
DIMENSIONS: dict[str, Callable[[Row], str]] = {
    "language": lambda r: r.lang,
    "hint": lambda r: r.hint if r.source == "probe" else "",
    "signal": lambda r: r.signal if r.source == "probe" else "",
    "length": lambda r: r.length,
    "variant": lambda r: r.variant if r.source == "probe" else "",
    "family": lambda r: r.family,
}
"""Dimension -> the level of a row; an empty one belongs to none."""


def strata(rows: Sequence[Row], options: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Dimension -> level -> metric -> estimate. Dimensions with a single level say nothing new and are left out.

    Only under ``hint`` do hinted probes count as damaged, and never for pairs: whoever finds a fact after a hint did not find it alone.
    """
    whole, hinted = (units_of(r, COLUMNS) for r in (rows, [replace(r, hinted=False) for r in rows]))
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for dimension, level_of in DIMENSIONS.items():
        level: dict[tuple[str, str], str] = {(r.source, r.sample): level_of(r) for r in rows}
        levels = _in_order(set(level.values()) - {""})
        if len(levels) < 2:
            continue
        chosen = {**hinted, **{n: whole[n] for n in ("pair_success",) if n in whole}} if dimension == "hint" else whole
        for name, (metric, units) in chosen.items():
            source = "session" if name.startswith("session_") else "probe"
            groups: dict[str, list[Unit]] = {}
            for unit in units:
                groups.setdefault(level[source, unit.key], []).append(unit)
            for at in levels:
                value = estimate(groups.get(at, []), bounds=metric.bounds, **options)
                if value is not None:
                    found.setdefault(dimension, {}).setdefault(at, {})[name] = value.as_dict()
    return {dimension: {at: values[at] for at in _in_order(set(values))} for dimension, values in found.items()}


def _in_order(levels: set[str]) -> list[str]:
    lengths = [name for name, _ in LENGTHS]
    return sorted(levels, key=lambda at: (lengths.index(at) if at in lengths else -1, at != "none", at))
