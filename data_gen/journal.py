"""The journal of a run: one JSONL file a stream, one line a finished chunk, in order. It survives a kill and decides what is owed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_gen.build import Stream
from data_gen.config import PlainTokens
from data_gen.equal import of_unit
from envs.runs import DataError, append_jsonl


@dataclass
class Journal:
    """The finished chunks of one stream."""

    path: Path
    made: int = 0
    """Accepted units so far."""
    next: int = 0
    """First candidate that is owed."""
    tokens: int = 0
    """Tokens of the accepted units, where their measure is told."""
    plain: PlainTokens | None = None
    """How tokens are measured."""

    @classmethod
    def open(cls, folder: Path, stream: Stream, plain: PlainTokens | None = None) -> Journal:
        """Read how far the stream is; a torn last line is cut off. Raises DataError where a line is missing or broken."""
        journal = cls(folder / f"{stream.name}.jsonl", plain=plain)
        if journal.path.exists():
            _mend(journal.path)
            for chunk in journal.chunks():
                if chunk["first"] != journal.next:
                    raise DataError(f"{journal.path}: candidates from {journal.next} are missing: delete {folder} to start anew")
                journal._count(chunk)
        return journal

    def append(self, chunk: dict[str, Any]) -> None:
        """Add the next chunk; when this returns the disk has it."""
        append_jsonl(self.path, chunk)
        self._count(chunk)

    def _count(self, chunk: dict[str, Any]) -> None:
        self.made += len(chunk["units"])
        self.next = chunk["next"]
        if self.plain:
            self.tokens += sum(of_unit(self.plain, unit) for unit in chunk["units"])

    def chunks(self) -> Iterator[dict[str, Any]]:
        """The chunks in order, one in memory at a time."""
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    try:
                        yield json.loads(line)
                    except ValueError:
                        raise DataError(
                            f"{self.path}:{number}: not valid JSON: delete {self.path.parent} to start anew"
                        ) from None
        except FileNotFoundError:
            return

    def units(self, count: int) -> Iterator[dict[str, Any]]:
        """The first ``count`` units."""
        for chunk in self.chunks():
            for unit in chunk["units"]:
                if count == 0:
                    return
                count -= 1
                yield unit


def _mend(path: Path) -> None:
    """Cut off a last line whose writing was interrupted."""
    with path.open("r+b") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 65_536)
            file.seek(start)
            cut = file.read(end - start).rfind(b"\n")
            if cut >= 0:
                end = start + cut + 1
                break
            end = start
        if end != size:
            file.truncate(end)
            os.fsync(file.fileno())
