"""Training rows from recorded trajectories: one row a segment, labels on sampled tokens only.

Every inference's input is rebuilt from the stored messages and compared with the hash that was taken when it was sampled, so
a row is exactly what a model sees at that place, or there is no row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tqdm import tqdm

from envs.chat import ChatML
from envs.runs import DataError
from envs.segments import record
from envs.trajectory import Trajectory, view_hash

IGNORE = -100


@dataclass(frozen=True, slots=True)
class Row:
    """One segment. ``labels`` equal ``input_ids`` on trained tokens and are -100 elsewhere (not yet shifted)."""

    input_ids: list[int]
    labels: list[int]
    trajectory: str
    segment: int
    group: str
    """The base session: twins and siblings share it, and stay on one side of the held-out split."""
    kind: str
    """Probe variant, or the trajectory's kind: what validation is broken down by."""
    family: str = ""

    @property
    def trained(self) -> int:
        return sum(label != IGNORE for label in self.labels)

    def turns(self) -> list[tuple[int, int]]:
        """Trained turns as ``(start, stop)``: runs of labelled tokens (an environment token stands between two turns)."""
        edges = [i for i in range(1, len(self.labels) + 1) if self._labelled(i) != self._labelled(i - 1)]
        return list(zip(edges[::2], edges[1::2], strict=True))

    def _labelled(self, index: int) -> bool:
        return index < len(self.labels) and self.labels[index] != IGNORE


@dataclass(slots=True)
class Counts:
    """What became of the trajectories."""

    trajectories: int = 0
    inferences: int = 0
    untrained_inferences: int = 0
    """Erroneous steps: in context, out of the loss."""
    segments: int = 0
    dropped_segments: int = 0
    """Segments without a trained token."""
    rows: int = 0
    tokens: int = 0
    trained_tokens: int = 0
    longest: int = 0
    padding_share: float = 0.0
    """Of a batch's tokens, padding; filled in when batches are planned."""
    shared_share: float = 0.0
    """Of the rows' tokens, those computed once for several rows."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def segment_rows(trajectory: Trajectory, chat: ChatML, source: str = "trajectories") -> tuple[list[Row], int]:
    """Rows of one trajectory, and how many of its segments had nothing to train.

    Raises DataError when an input can't be rebuilt to the recorded hash; ``source`` names the file in it.
    """
    triples = []
    for number, (messages, inference) in enumerate(zip(trajectory.views(), trajectory.inferences, strict=True)):
        ids = chat.render(messages)
        if view_hash(ids) != inference.hash:
            raise DataError(
                f"{source}: trajectory {trajectory.id!r}, inference {number}: its rebuilt input has hash {view_hash(ids)} and "
                f"{len(ids)} tokens, recorded were {inference.hash} and {inference.tokens_in}: "
                "another tokenizer or renderer wrote it: "
                "use the model it was generated for, or generate the data again"
            )
        triples.append((ids, inference.ids, inference.trained))
    segments = [s.trimmed() for s in record(triples)]
    kind = trajectory.variant or trajectory.kind or "session"
    group = trajectory.base or trajectory.session.id
    name = trajectory.family
    rows = [Row(s.ids, s.labels(), trajectory.id, k, group, kind, name) for k, s in enumerate(segments) if any(s.mask)]
    return rows, len(segments) - len(rows)


def build_rows(
    trajectories: Sequence[Trajectory], chat: ChatML, max_row_tokens: int, source: str = "trajectories", progress: bool = False
) -> tuple[list[Row], Counts]:
    """Rows of all trajectories, in order.

    Raises DataError for an input that can't be rebuilt, a row over ``max_row_tokens``, or no row at all.
    """
    rows: list[Row] = []
    counts = Counts()
    for trajectory in tqdm(trajectories, desc="rows", unit="trajectory", disable=not progress):
        new, dropped = segment_rows(trajectory, chat, source)
        rows += new
        counts.trajectories += 1
        counts.inferences += len(trajectory.inferences)
        counts.untrained_inferences += sum(not i.trained for i in trajectory.inferences)
        counts.segments += len(new) + dropped
        counts.dropped_segments += dropped
    if not rows:
        raise DataError(
            f"{source}: no trained token in {counts.trajectories} trajectories: "
            "give an expert's trajectories (python -m data_gen --help)"
        )
    counts.rows = len(rows)
    counts.tokens = sum(len(r.input_ids) for r in rows)
    counts.trained_tokens = sum(r.trained for r in rows)
    worst = max(rows, key=lambda r: len(r.input_ids))
    counts.longest = len(worst.input_ids)
    if counts.longest > max_row_tokens:
        over = sum(len(r.input_ids) > max_row_tokens for r in rows)
        raise DataError(
            f"{source}: trajectory {worst.trajectory!r}, segment {worst.segment}: a row of {counts.longest} tokens, more than "
            f"max_row_tokens={max_row_tokens} ({over} of {len(rows)} rows are): rows are never cut: "
            f"set max_row_tokens={counts.longest}, or generate with a smaller view budget"
        )
    return rows, counts


def split_rows(rows: Sequence[Row], share: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Training and held-out rows: whole base sessions, chosen by hash, so no twin of a held-out row is trained on."""
    groups = sorted({r.group for r in rows}, key=lambda g: hashlib.sha256(f"{seed}:{g}".encode()).hexdigest())
    count = min(round(share * len(groups)) or int(share > 0), len(groups) - 1)
    held = set(groups[:count])
    return [r for r in rows if r.group not in held], [r for r in rows if r.group in held]


def padding_share(batches: Iterable[Sequence[Row]], multiple: int) -> float:
    """Share of padding when each batch is padded on the right to its longest row, rounded up to ``multiple``."""
    used = padded = 0
    for batch in batches:
        lengths = [len(r.input_ids) for r in batch]
        used += sum(lengths)
        padded += len(lengths) * -(-max(lengths) // multiple) * multiple
    return 1 - used / padded if padded else 0.0
