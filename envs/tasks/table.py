"""A small table behind a business tool: drawn into sqlite3, queried there, shown as rows; one field of the record is its sum."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from envs.tasks.words import ENGLISH, Words


@dataclass(frozen=True, slots=True)
class Table:
    """The rows that a lookup returns beside its sentences."""

    attr: str
    """Field of the record that is the sum of the rows."""
    labels: tuple[str, ...]
    """What the rows are called, in order, over and over."""
    intro: str
    """Words before the rows."""


def draw_rows(table: Table, count: int, rng: random.Random, words: Words = ENGLISH) -> tuple[str, int]:
    """The rows as text, and the sum that the table gives when asked."""
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE figures (place INTEGER, label TEXT, amount INTEGER)")
        drawn = [(n, table.labels[n % len(table.labels)], rng.randrange(12, 99)) for n in range(count)]
        db.executemany("INSERT INTO figures VALUES (?, ?, ?)", drawn)
        rows: Sequence[tuple[str, int]] = db.execute("SELECT label, amount FROM figures ORDER BY place").fetchall()
        (total,) = db.execute("SELECT SUM(amount) FROM figures").fetchone()
    db.close()
    listed = words.comma.join(words.pair(label, str(amount)) for label, amount in rows)
    return f"{table.intro}{words.joint}{listed}{words.stop}", int(total)
