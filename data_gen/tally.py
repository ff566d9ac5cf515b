"""Running counts of a set: what the card shows, kept while the files are written."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from data_gen.build import DataSet, Stream
from data_gen.records import facts, row


@dataclass
class Tally:
    """Counts by kind, family, variant and set; lengths as exact histograms."""

    episodes: Counter[str] = field(default_factory=Counter)
    inferences: Counter[str] = field(default_factory=Counter)
    masked: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """Erroneous steps by label."""
    families: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    variants: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    languages: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    units: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By set: units by kind."""
    probes: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    """``tool outcome`` -> calls."""
    turns: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    inputs: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    outputs: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    totals: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """By kind: cumulative tokens of an episode, rounded down to tens."""
    tokens: int = 0
    total: Counter[str] = field(default_factory=Counter)
    """By kind: input and output tokens over all inferences."""
    trained: Counter[str] = field(default_factory=Counter)
    """By kind: sampled tokens that carry loss."""
    plain_goal: int = 0
    """Tokens that plain history was to come to, where the config asks for it."""
    repeated: int = 0
    """Units left out because their own set holds the same session already."""

    def episode(self, row: dict[str, Any], facts: dict[str, Any]) -> None:
        """Count one trajectory."""
        kind = row["kind"]
        self.episodes[kind] += 1
        self.inferences[kind] += row["inferences"]
        self.masked[kind] += facts["masked"]
        self.errors.update(facts["errors"])
        self.families["sft"][row["family"]] += 1
        self.languages["sft"][row["lang"]] += 1
        self.variants["sft"][row["variant"] or "session"] += 1
        self.actions.update(facts["actions"])
        self.turns[kind][facts["turns"]] += 1
        self.inputs[kind].update(facts["inputs"])
        self.outputs[kind].update(facts["outputs"])
        self.totals[kind][row["tokens"] // 10 * 10] += 1
        self.tokens += row["tokens"]
        self.total[kind] += row["tokens"]
        self.trained[kind] += facts["trained"]

    def probe(self, stream: Stream, probe: dict[str, Any]) -> None:
        """Count one RL or validation probe."""
        self.probes[stream.purpose] += 1
        self.families[stream.purpose][probe["family"]] += 1
        self.languages[stream.purpose][probe["lang"]] += 1
        self.variants[stream.purpose][probe["variant"]] += 1

    def unit(self, stream: Stream) -> None:
        """Count one unit that went into the files."""
        self.units[stream.purpose][stream.kind] += 1

    @classmethod
    def of(cls, data: DataSet) -> Tally:
        """The counts of a set in memory; it does not know the units."""
        tally = cls()
        for trajectory in data.trajectories:
            tally.episode(row(trajectory), facts(trajectory))
        for purpose, probes in (("rl", data.rl_probes), ("val", data.val_probes)):
            for probe in probes:
                tally.probe(Stream(purpose, ""), {"family": probe.family, "variant": probe.variant, "lang": probe.session.lang})
        return tally


def quantile(histogram: Counter[int], share: float) -> int:
    """The value that ``share`` of a histogram lies at or below."""
    left = max(1, round(share * histogram.total()))
    for value in sorted(histogram):
        left -= histogram[value]
        if left <= 0:
            return value
    return 0


def spread(histogram: Counter[int]) -> str:
    """Minimum, median, 90th percentile and maximum as text."""
    return " / ".join(str(quantile(histogram, p)) for p in (0.0, 0.5, 0.9, 1.0)) if histogram else "-"
