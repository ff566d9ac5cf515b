"""A scored run as plain tables: one row an episode, a check, an inference, a call outcome, a metric's unit, a result.

    run, episodes = open_run("runs/eval_probes")
    tables = make_tables(run, episodes)          # name -> pyarrow.Table; columns: docs/exports.md
    write_csv(tables, Path("out/csv"))

Columns have the names and types of the stored records, whatever a run happens to hold; what is not known is null.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from envs.config import UserError
from envs.runs import DataError, provenance, read_jsonl, write_json_atomic
from envs.scoring import Check, Score
from envs.spending import SPENDERS, spender
from envs.trajectory import Trajectory
from eval.compare import Run, load_run
from eval.metrics import METRICS, Row, ratio_to, units_of
from eval.store import read_arm, stored_key, told

if TYPE_CHECKING:
    import pyarrow as pa

KEY = {"arm": str, "source": str, "sample": str, "repeat": int}
"""What names an episode in every table."""
LABELS = {"family": str, "base": str, "variant": str, "signal": str}
SET = {"profile": str, "prompt": str, "manager": str, "policy": str, "model": str}
"""Settings of the arm, in the table of episodes."""
FUNNEL = ("accessible", "suspected", "located", "used", "mended")
WRITES = ("true", "stale", "false", "seen", "unseen")
PARTS: Mapping[str, tuple[type, Sequence[str]]] = {
    "funnel": (bool, FUNNEL),
    "spent": (int, SPENDERS),
    "writes": (int, WRITES),
}
"""Fields of a score that become a column for each of these names."""
INFERENCE = {
    "number": int, "turn": int, "event": int, "kind": str, "spender": str, "tokens_in": int, "tokens_out": int, "shared": int,
    "cut": bool, "rewrite": bool, "fill": float, "new_messages": int, "left_out": int, "calls": str, "hash": str, "text": str,
}  # fmt: skip
UNITS = {"arm": str, "metric": str, "family": str, "base": str, "key": str, "repeat": int, "num": float, "den": float}
RESULTS = {"arm": str, "reference": str, "metric": str, "mean": float, "lo": float, "hi": float, "n": int}
BY_BASE = ("detection_f1",)
"""Metrics of bases, not of episodes."""
Columns = dict[str, type]


@dataclass(frozen=True, slots=True)
class Episode:
    """A scored episode: its row, its record, and what the scores say beside."""

    row: Row
    record: Trajectory
    cause: str | None
    needed_in_input: bool | None

    @property
    def key(self) -> dict[str, Any]:
        return {name: getattr(self.row, name) for name in KEY}


def open_run(target: str | Path, overrides: Sequence[str] = ()) -> tuple[Run, dict[str, list[Episode]]]:
    """A scored run, by its config or folder, and its episodes by arm.

    Raises LockError and UserError as :func:`eval.compare.load_run`, UserError where episodes came after the scores.
    """
    run = load_run(target, overrides)
    beside = {
        (line["arm"], line["source"], line["sample"], line["repeat"]): (line["cause"], line["needed_in_input"])
        for line in read_jsonl(run.folder / "scores.jsonl")
    }
    found: dict[str, list[Episode]] = {}
    for arm, rows in run.rows.items():
        records = read_arm(run.config.arm_folder(arm), Trajectory, stored_key)
        scored = {row.key for row in rows}
        late = next((key for key, t in records.items() if key not in scored and t.reason != "backend_error"), None)
        gone = next((key for key in scored if key not in records), None)
        if late or gone:
            what = f"{told(late)} has no score" if late else f"{told(gone)} is scored but not stored"  # type: ignore[arg-type]
            raise UserError(f"{run.folder / 'scores.jsonl'}: arm {arm}: {what}: run the score command again")
        found[arm] = [Episode(row, records[row.key], *beside[arm, *row.key]) for row in rows]
    return run, found


# -- tables ----------------------------------------------------------------------------------------------------------


def make_tables(run: Run, episodes: Mapping[str, Sequence[Episode]]) -> dict[str, pa.Table]:
    """``episodes``, ``checks``, ``inferences``, ``calls``, ``units`` and ``results``."""
    everyone = [e for arm in episodes.values() for e in arm]
    units = list(make_units(run))
    made = {
        "episodes": (_episode_columns(units), _episode_rows(run, everyone, units)),
        "checks": ({**KEY, **LABELS, **_model_columns(Check)}, _check_rows(everyone)),
        "inferences": ({**KEY, **LABELS, **INFERENCE}, _inference_rows(everyone)),
        "calls": ({**KEY, **LABELS, "tool": str, "outcome": str, "count": int}, _call_rows(everyone)),
        "units": (UNITS, units),
        "results": (RESULTS, _result_rows(run)),
    }
    return {name: _table(columns, rows, run) for name, (columns, rows) in made.items()}


def _table(columns: Columns, rows: Any, run: Run) -> pa.Table:
    import pyarrow as pa

    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema(
        [(name, types[kind]) for name, kind in columns.items()], metadata={"lock": run.lock.lock, "split": run.results["split"]}
    )
    return pa.Table.from_pylist(list(rows), schema=schema)


def scalar(hint: Any) -> type | None:
    """The plain type of a field, ``None`` allowed or not; None for lists and the like."""
    options = [option for option in get_args(hint) if option is not NoneType]
    if all(isinstance(option, str) for option in options) and options:
        return str  # a Literal
    if get_origin(hint) not in (None, *_UNIONS):
        return None
    kinds = [k for k in (bool, int, float, str) if hint is k or k in options]
    return kinds[-1] if kinds else None


_UNIONS = (get_origin(int | None), get_origin(Any | None))


def _model_columns(model: type[Check] | type[Score]) -> Columns:
    return {name: kind for name, field in model.model_fields.items() if (kind := scalar(field.annotation))}


def _row_columns() -> Columns:
    hints = get_type_hints(Row)
    return {f.name: kind for f in fields(Row) if (kind := scalar(hints[f.name]))}


def _score_columns() -> Columns:
    """Those of Score that no label says already."""
    parts = {f"{field}_{name}": kind for field, (kind, names) in PARTS.items() for name in names}
    labels = {"id", *_row_columns()}
    counted = dict.fromkeys(("checks", "checks_right", "reads"), int)
    return {**{n: k for n, k in _model_columns(Score).items() if n not in labels}, **parts, **counted}


def metric_names(units: Sequence[Mapping[str, Any]]) -> list[str]:
    """Metrics that an episode has a value of; those of sessions without their prefix. Ratios only where there is a plain arm."""
    return [name for name in dict.fromkeys([*METRICS, *(_bare(u["metric"]) for u in units)]) if name not in BY_BASE]


def _bare(metric: str) -> str:
    return metric.removeprefix("session_")


def _episode_columns(units: Sequence[Mapping[str, Any]]) -> Columns:
    metrics = {f"metric_{name}": float for name in metric_names(units)}
    return {**_row_columns(), **SET, "cause": str, "needed_in_input": bool, **_score_columns(), **metrics}


def _episode_rows(run: Run, episodes: Sequence[Episode], units: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    values, names = episode_values(units), metric_names(units)
    for episode in episodes:
        row, score, arm = episode.row, episode.row.score, run.config.arms[episode.row.arm]
        found: dict[str, Any] = {name: getattr(row, name) for name in _row_columns()}
        found |= {name: getattr(episode.record, name) for name in ("profile", "prompt", "manager")}
        found |= {"policy": arm.policy, "model": arm.served_model or arm.model}
        found |= {"cause": episode.cause, "needed_in_input": episode.needed_in_input}
        found |= {name: getattr(score, name) for name in _model_columns(Score) if name not in found}
        for field, (_, parts) in PARTS.items():
            found |= {f"{field}_{name}": getattr(score, field).get(name) for name in parts}
        right = sum(c.verdict == "right" for c in score.checks)
        found |= {"checks": len(score.checks), "checks_right": right, "reads": len(score.reads)}
        yield found | {f"metric_{name}": values.get((row.arm, row.sample, row.repeat, name)) for name in names}


def episode_values(units: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, int, str], float]:
    """``(arm, sample, repeat, metric)`` -> the episode's own value of the metric."""
    sums: dict[tuple[str, str, int, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for unit in units:
        held = sums[unit["arm"], unit["key"], unit["repeat"], _bare(unit["metric"])]
        held[0] += unit["num"]
        held[1] += unit["den"]
    return {key: num / den for key, (num, den) in sums.items() if den}


def _labels(episode: Episode) -> dict[str, Any]:
    return {**episode.key, **{name: getattr(episode.row, name) for name in LABELS}}


def _check_rows(episodes: Sequence[Episode]) -> Iterator[dict[str, Any]]:
    for episode in episodes:
        yield from ({**_labels(episode), **check.model_dump()} for check in episode.row.score.checks)


def _inference_rows(episodes: Sequence[Episode]) -> Iterator[dict[str, Any]]:
    for episode in episodes:
        for number, i in enumerate(episode.record.inferences):
            same = {name: getattr(i, name) for name in INFERENCE if name in type(i).model_fields}
            yield {
                **_labels(episode), **same, "number": number, "spender": spender(i), "tokens_out": len(i.ids),
                "new_messages": len(i.new), "left_out": len(i.out), "calls": " ".join(f"{o.tool or 'none'}:{o.code}" for o in i.outcomes),
            }  # fmt: skip


def _call_rows(episodes: Sequence[Episode]) -> Iterator[dict[str, Any]]:
    for episode in episodes:
        for tool, outcomes in episode.row.score.calls.items():
            yield from ({**_labels(episode), "tool": tool, "outcome": code, "count": n} for code, n in outcomes.items())


def make_units(run: Run) -> Iterator[dict[str, Any]]:
    """What every mean of ``results.json`` is made of."""
    for arm, rows in run.rows.items():
        found = units_of(rows)
        if arm != run.config.plain and run.config.plain in run.rows:
            found |= ratio_to(rows, run.rows[run.config.plain])
        for metric, (_, units) in found.items():
            for unit in units:
                yield {"arm": arm, "metric": metric, **{f.name: getattr(unit, f.name) for f in fields(unit)}}


def _result_rows(run: Run) -> Iterator[dict[str, Any]]:
    """The means of every arm, and its paired differences to the references."""
    for arm, metrics in run.results["arms"].items():
        yield from ({"arm": arm, "reference": None, "metric": name, **value} for name, value in metrics.items())
    for pair in run.results["paired"]:
        yield {"arm": pair["a"], "reference": pair["b"], **{k: pair[k] for k in ("metric", "mean", "lo", "hi", "n")}}


# -- files -----------------------------------------------------------------------------------------------------------


def write_csv(tables: Mapping[str, pa.Table], folder: Path) -> list[Path]:
    """``<folder>/<table>.csv``; null is an empty field, true and false are words. Raises DataError."""
    from pyarrow import csv

    return _write(tables, folder, ".csv", csv.write_csv)


def write_parquet(tables: Mapping[str, pa.Table], folder: Path) -> list[Path]:
    """``<folder>/<table>.parquet``; lock and split are in the schema's metadata. Raises DataError."""
    from pyarrow import parquet

    return _write(tables, folder, ".parquet", parquet.write_table)


def _write(tables: Mapping[str, pa.Table], folder: Path, suffix: str, write: Callable[[pa.Table, str], None]) -> list[Path]:
    paths = {name: folder / f"{name}{suffix}" for name in tables}
    for name, path in paths.items():
        with whole_file(path) as temporary:
            write(tables[name], str(temporary))
    return list(paths.values())


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path``, which becomes it once it is written. Raises DataError."""
    temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise DataError(
            f"{path}: can't be written ({error.strerror or error}): free disk space or choose another --out"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def export(
    target: str,
    overrides: Sequence[str],
    kinds: Sequence[str],
    out: Path | None,
    mode: Literal["online", "offline"],
    project: str,
) -> list[Path]:
    """Write a scored run as each of ``kinds``: ``csv``, ``parquet``, ``wandb``, ``inspect``; returns what was written.

    ``<out>/export.json`` says of which lock, by which code, and how many rows. Raises what :func:`open_run` and the writers do.
    """
    from eval.export_inspect import write_logs
    from eval.export_wandb import track

    run, episodes = open_run(target, overrides)
    out = out or run.folder / "export"
    tables = make_tables(run, episodes)
    written: list[Path] = []
    for kind in dict.fromkeys(str(kind) for kind in kinds):
        folder = out / kind
        if kind == "csv":
            written += write_csv(tables, folder)
        elif kind == "parquet":
            written += write_parquet(tables, folder)
        elif kind == "wandb":
            written += track(run, episodes, tables, folder, mode, project)
        else:
            written += write_logs(run, episodes, folder)
    content = {
        "lock": run.lock.lock, "split": run.results["split"], "name": run.config.name, "provenance": provenance(),
        "rows": {name: table.num_rows for name, table in tables.items()},
    }  # fmt: skip
    write_json_atomic(out / "export.json", content)
    return written
