"""The segment recorder that rollouts, SFT rows and RL rows share.

An episode is a list of append-only *segments*: a stretch of inferences between two rewrites of the view. Inside a segment the
next context is the held ids plus a suffix, so a segment is one training row: ``prompt`` (the view at its start), then sampled
tokens (mask 1) and appended environment tokens (mask 0). Segments are cut by comparing token ids, not by trusting a flag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Segment:
    """One append-only stretch: ``prompt_ids`` then ``completion_ids`` with ``mask`` and sampling ``logps`` of equal length."""

    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)

    def append(self, ids: Sequence[int], trained: bool, logps: Sequence[float] | None = None) -> None:
        """Append ids. ``logps`` are the sampling log-probabilities (nats), 0 for environment tokens."""
        if logps is not None and len(logps) != len(ids):
            raise ValueError(f"{len(logps)} log-probabilities for {len(ids)} tokens")
        self.completion_ids += ids
        self.mask += [int(trained)] * len(ids)
        self.logps += list(logps) if logps is not None else [0.0] * len(ids)

    def trimmed(self) -> Segment:
        """The segment without what follows its last trained token: no loss depends on it."""
        end = max((i + 1 for i, m in enumerate(self.mask) if m), default=0)
        return Segment(self.prompt_ids, self.completion_ids[:end], self.mask[:end], self.logps[:end])

    @property
    def ids(self) -> list[int]:
        return self.prompt_ids + self.completion_ids

    def labels(self) -> list[int]:
        """Labels of the row for a causal LM: -100 on everything but the trained tokens."""
        return [-100] * len(self.prompt_ids) + [t if m else -100 for t, m in zip(self.completion_ids, self.mask, strict=True)]


class Recorder:
    """Cuts the inferences of one episode into segments by comparing token ids."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []

    def begin(self, context_ids: Sequence[int]) -> None:
        """The context of the next inference; a context that does not extend the held ids starts a new segment."""
        if self.segments:
            held = self.segments[-1].ids
            if list(context_ids[: len(held)]) == held:
                self.segments[-1].append(list(context_ids[len(held) :]), trained=False)
                return
        self.segments.append(Segment(list(context_ids)))

    def end(self, ids: Sequence[int], logps: Sequence[float] | None = None, trained: bool = True) -> None:
        """The sampled ids of the inference; ``trained=False`` keeps an erroneous step in context and out of the loss."""
        self.segments[-1].append(list(ids), trained=trained, logps=logps)


def record(inferences: Iterable[tuple[Sequence[int], Sequence[int], bool]]) -> list[Segment]:
    """Segments of ``(context_ids, sampled_ids, trained)`` triples, in order."""
    recorder = Recorder()
    for context, sampled, trained in inferences:
        recorder.begin(context)
        recorder.end(sampled, trained=trained)
    return recorder.segments
