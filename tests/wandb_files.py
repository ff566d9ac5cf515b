"""Read what wandb wrote to disk offline: the tests ask the files, not the calls."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envs.tracking import offline_runs

BLOCK = 32768


def records(file: Path) -> Iterator[Any]:
    """The records of a ``.wandb`` file: LevelDB's log format after a header of seven bytes."""
    from wandb.proto import wandb_internal_pb2

    data, at, held = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:  # no room for a header: the rest of the block is padding
            at += BLOCK - at % BLOCK
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        held += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(held)
            held = b""
            yield record


def history(run_dir: Path) -> list[dict[str, Any]]:
    """All figures that a run folder's offline runs hold, in the order of their writing; ``_step`` is the step."""
    rows = []
    for folder in offline_runs(run_dir):
        file, until = next(folder.glob("run-*.wandb")), time.monotonic() + 2
        while all(r.WhichOneof("record_type") != "exit" for r in records(file)) and time.monotonic() < until:
            time.sleep(0.05)  # finish() returns a moment before the file is whole; that of a killed run never is
        for record in records(file):
            if record.WhichOneof("record_type") == "history":
                rows.append({i.key or i.nested_key[0]: json.loads(i.value_json) for i in record.history.item})
    return rows


def figures(run_dir: Path) -> list[tuple[int, str]]:
    """``(step, name)`` of every figure, in the order of the steps' writing."""
    return [(int(row["_step"]), name) for row in history(run_dir) for name in sorted(row) if not name.startswith("_")]
