"""The files of a set, streamed from the journals: nothing but one chunk and one row group is held in memory."""

from __future__ import annotations

import base64
import contextlib
import heapq
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from data_gen.build import PLAIN, Stream, in_order, quota, streams
from data_gen.config import DataConfig, PlainTokens
from data_gen.equal import cut, of_unit
from data_gen.journal import Journal
from data_gen.near import Separation, Watched
from data_gen.tally import Tally
from envs.config import ConfigError

TRAJECTORIES, RL, VAL = "trajectories.jsonl", "probes.rl.jsonl", "probes.val.jsonl"
PARQUET, UNITS = "trajectories.parquet", "units.parquet"
ROWS, UNIT_ROWS = 256, 4096
"""Rows of a row group: of the trajectories about 4 MB."""

_MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
SCHEMA = pa.schema(
    [
        ("id", pa.string()), ("kind", pa.string()), ("family", pa.string()), ("variant", pa.string()), ("profile", pa.string()), ("lang", pa.string()),
        ("inferences", pa.int64()), ("tokens", pa.int64()), ("messages", pa.list_(_MESSAGE)), ("trajectory", pa.string()),
    ]
)  # fmt: skip
UNIT_SCHEMA = pa.schema([("set", pa.string()), ("unit", pa.string()), ("body", pa.string()), ("sketch", pa.binary())])
"""What proves disjointness: content hash and MinHash (128 little-endian 32-bit numbers) of every unit."""


class Growing:
    """A file that stands under its name only once it is whole."""

    def __init__(self, path: Path) -> None:
        self.path, self.temporary = path, path.with_name(f".{path.name}.tmp")

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()
        if kind is None:
            with self.temporary.open("rb+") as file:
                os.fsync(file.fileno())
            self.temporary.replace(self.path)
        else:
            with contextlib.suppress(OSError):
                self.temporary.unlink()

    def _open(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


class GrowingText(Growing):
    """A JSONL file, line by line."""

    file: TextIO

    def _open(self) -> None:
        self.file = self.temporary.open("w", encoding="utf-8", newline="\n")

    def _close(self) -> None:
        self.file.close()

    def add(self, line: str) -> None:
        self.file.write(line + "\n")


class GrowingTable(Growing):
    """A parquet file, row group by row group."""

    def __init__(self, path: Path, schema: pa.Schema, group: int) -> None:
        super().__init__(path)
        self.schema, self.group = schema, group
        self.rows: list[dict[str, Any]] = []

    def _open(self) -> None:
        self.writer = pq.ParquetWriter(self.temporary, self.schema)

    def _close(self) -> None:
        self._flush()
        self.writer.close()

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if len(self.rows) == self.group:
            self._flush()

    def _flush(self) -> None:
        if self.rows:
            self.writer.write_table(pa.Table.from_pylist(self.rows, schema=self.schema))
            self.rows = []


def shard_units(config: DataConfig, folders: list[Path]) -> dict[Stream, Iterator[dict[str, Any]]]:
    """The units of every stream in order of their numbers, over the journals of all shards (in order of the shards)."""
    n = len(folders)
    sources: dict[Stream, Iterator[dict[str, Any]]] = {}
    for stream, count in streams(config).items():
        parts = []
        for i, folder in enumerate(folders):
            share = quota(config.model_copy(update={"shard": f"{i + 1}/{n}"}), count)
            parts.append(Journal(folder / f"{stream.name}.jsonl").units(share))
        sources[stream] = heapq.merge(*parts, key=lambda u: int(u["number"]))
    return sources


def write_all(out: Path, config: DataConfig, folders: list[Path]) -> tuple[Tally, Separation]:
    """Write trajectories, probes and the proof of disjointness from the journals of all shards."""
    near, tally = config.near_duplicates, Tally()
    wanted = streams(config)
    order = [s for s in in_order(config, {s: c for s, c in wanted.items() if s.purpose != "sft"}) if s.purpose != "sft"]
    held = shard_units(config, folders)
    watched = Watched()
    for stream in order:
        unit = next(held[stream])
        watched.add(unit["name"], stream.purpose, unit["body"], base64.b64decode(unit["sketch"]))
    separation = Separation(watched, near.threshold, near.drop)
    seen: set[int] = set()
    with (
        GrowingText(out / TRAJECTORIES) as lines,
        GrowingTable(out / PARQUET, SCHEMA, ROWS) as table,
        GrowingTable(out / UNITS, UNIT_SCHEMA, UNIT_ROWS) as proof,
    ):
        for stream, units in held.items():
            if stream == PLAIN and config.plain:
                units = _equal(config.plain, units, seen, tally)
            for unit in units if stream.purpose == "sft" else ():
                body, sketch = unit["body"], base64.b64decode(unit["sketch"])
                if (key := int(body, 16)) in seen:
                    tally.repeated += 1
                    continue
                seen.add(key)
                separation.hold_against("sft", body, sketch)
                proof.add({"set": "sft", "unit": unit["name"], "body": body, "sketch": sketch})
                for t in unit["trajectories"]:
                    lines.add(t["text"])
                    table.add({**t["row"], "trajectory": t["text"]})
                    tally.episode(t["row"], t["facts"])
                tally.unit(stream)
        for folder in near.against:
            for row in read_proof(Path(folder)):
                separation.hold_against(folder, row["body"], row["sketch"])
        dropped = separation.close()
        again = shard_units(config, folders)
        with GrowingText(out / RL) as rl, GrowingText(out / VAL) as val:
            for i, stream in enumerate(order):
                unit = next(again[stream])
                if i in dropped:
                    continue
                proof.add({"set": stream.purpose, "unit": watched.names[i], "body": watched.bodies[i], "sketch": watched.rows[i]})
                for p in unit["probes"]:
                    (rl if stream.purpose == "rl" else val).add(p["text"])
                    tally.probe(stream, p)
                tally.unit(stream)
    tally.repeated += separation.repeated
    return tally, separation


def _equal(plain: PlainTokens, units: Iterator[dict[str, Any]], seen: set[int], tally: Tally) -> Iterator[dict[str, Any]]:
    """The sessions under plain history that come nearest to the tokens told, or to those of all that was written before them."""
    goal = plain.tokens or (tally.trained.total() if plain.measure == "trained" else tally.tokens)
    tally.plain_goal = goal
    return cut(units, lambda unit: 0 if int(unit["body"], 16) in seen else of_unit(plain, unit), goal)


def read_proof(folder: Path) -> Iterator[dict[str, Any]]:
    """Content hash and MinHash of every unit of a finished folder. Raises ConfigError when it has none."""
    path = folder / UNITS
    if not path.exists():
        raise ConfigError(f"near_duplicates.against: {path}: no such file: name a finished data folder")
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=UNIT_ROWS):
            yield from batch.to_pylist()
