"""What is counted: scored episodes -> units of each metric (definitions: ``METRICS``), and the counts that the report shows.

A metric is a function from the rows of one arm to units; ``envs.stats`` turns units into means and intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from envs.measures import is_alarmed, is_damaged, pairs
from envs.scoring import Score
from envs.stats import Bounds, Unit
from envs.tasks.base import DAMAGED, Signal

SIGNALS = tuple(s for s in get_args(Signal) if s != "none")
VARIANTS = ("present", *DAMAGED, "fabricated", "never_stated", "irrelevant_gap", "historical", "verify")
FUNNEL = ("accessible", "suspected", "located", "used")
HOW = {
    "abstained": "withheld the answer",
    "stale": "stale value",
    "off_target": "another value of the view",
    "fabricated": "fabricated value",
    "absent": "slot missing or repeated",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One scored episode of one arm. ``managed``: the arm has context tools, so that its view can be damaged at all."""

    arm: str
    sample: str
    source: Literal["probe", "session"]
    base: str
    family: str
    variant: str
    signal: str
    twin: str | None
    hinted: bool
    managed: bool
    score: Score
    lang: str = "en"
    """Language of the session."""
    repeat: int = 0
    """Which repeat of its sample it is."""

    @property
    def damaged(self) -> bool:
        """Whether the probe is damaged and its view can tell: what recovery is measured on."""
        return is_damaged(self.variant, self.signal)

    @property
    def detects(self) -> bool:
        """Whether there was damage to detect: plain history has nothing to damage."""
        return self.damaged and self.managed

    @property
    def alarmed(self) -> bool:
        """Whether the policy acted as if something were missing: a read or find, or an answer withheld."""
        return is_alarmed(self.score)


Units = Callable[[Sequence[Row]], list[Unit]]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric by its units, its bounds (None for an amount) and the definition that the report prints."""

    units: Units
    bounds: Bounds
    about: str


def pair_success(rows: Sequence[Row]) -> list[Unit]:
    """One unit a damaged probe: 1 if its pair succeeds (:func:`envs.measures.pairs`)."""
    return [_unit(row, won) for row, won in pairs(rows)]


def turn_accuracy(rows: Sequence[Row]) -> list[Unit]:
    """Share of turns with checks in which every check holds."""
    units = []
    for row in rows:
        turns: dict[int, bool] = {}
        for check in row.score.checks:
            turns[check.turn] = turns.get(check.turn, True) and check.credit >= 1
        units.append(_unit(row, sum(turns.values()), len(turns)))
    return units


def detection_f1(rows: Sequence[Row]) -> list[Unit]:
    """2TP / (TP + FP + damaged), a unit a base: damaged probes with a signal against their ``present`` controls."""
    sums: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        if row.detects:
            true, others = int(row.score.funnel["suspected"]), 1
        elif row.variant == "present" and row.managed:
            true, others = 0, int(row.alarmed)
        else:
            continue
        held = sums.setdefault((row.family, row.base), [0, 0])
        held[0] += 2 * true
        held[1] += true + others
    return [Unit(family, base, num, den, f"{family}/{base}") for (family, base), (num, den) in sums.items()]


def _unit(row: Row, num: float, den: float = 1.0) -> Unit:
    return Unit(row.family, row.base, float(num), float(den), row.sample)


def _each(value: Callable[[Score], float], which: Callable[[Row], bool] = lambda row: True) -> Units:
    return lambda rows: [_unit(row, value(row.score)) for row in rows if which(row)]


def _ratio(num: Callable[[Score], float], den: Callable[[Score], float]) -> Units:
    return lambda rows: [_unit(row, num(row.score), den(row.score)) for row in rows]


def _of(variant: str, managed: bool = False) -> Callable[[Row], bool]:
    return lambda row: row.variant == variant and (row.managed or not managed)


def _signalled(signal: str) -> Callable[[Row], bool]:
    return lambda row: row.detects and row.signal == signal


SHARE: Bounds = (0.0, 1.0)
AMOUNT: Bounds = None

COMMON: dict[str, Metric] = {
    "task_correct": Metric(_each(lambda s: s.task_correct), SHARE, "every check holds"),
    "turn_accuracy": Metric(turn_accuracy, SHARE, "share of turns in which every check holds"),
    "constraint_retention": Metric(
        _ratio(lambda s: s.constraint_right, lambda s: s.constraint_total),
        SHARE,
        "replies that depend on a constraint in force obey its current value",
    ),
    "quality": Metric(_each(lambda s: s.q), (-0.25, 1.0), "weighted mean over checks: right 1, abstained 0, wrong -0.25"),
    "tokens": Metric(_each(lambda s: s.tokens), AMOUNT, "input + output over all inferences of an episode, undiscounted"),
    "peak": Metric(_each(lambda s: s.peak), AMOUNT, "largest single input of an episode, in tokens"),
    "inferences": Metric(_each(lambda s: s.inferences), AMOUNT, "inferences an episode"),
    "reads": Metric(
        _each(lambda s: len(s.reads), lambda r: r.managed), AMOUNT, "reads and finds an episode whose result shows a logged event"
    ),
    "malformed_rate": Metric(
        _ratio(lambda s: min(s.malformed, s.inferences), lambda s: s.inferences),
        SHARE,
        "share of inferences with malformed output",
    ),
    "within_budget": Metric(_each(lambda s: s.within_budget), SHARE, "no limit reached"),
}

METRICS: dict[str, Metric] = {
    "pair_success": Metric(
        pair_success,
        SHARE,
        "damaged probe recovered and its present twin right with no read-back; a unit is base x damaged variant",
    ),
    **COMMON,
    "recovered": Metric(
        _each(lambda s: s.recovered, lambda r: r.damaged),
        SHARE,
        "damaged probes: evidence read, reply right and, where a memory was wrong, mended",
    ),
    "detection_recall": Metric(
        _each(lambda s: s.funnel["suspected"], lambda r: r.detects), SHARE, "damaged probes with a signal that were suspected"
    ),
    **{
        f"detection_recall_{signal}": Metric(
            _each(lambda s: s.funnel["suspected"], _signalled(signal)), SHARE, f"the same, of probes with signal {signal} alone"
        )
        for signal in SIGNALS
    },
    "detection_false_alarm": Metric(
        lambda rows: [_unit(r, r.alarmed) for r in rows if r.variant == "present" and r.managed],
        SHARE,
        "present controls with a read, a find or a withheld answer",
    ),
    "detection_f1": Metric(detection_f1, SHARE, "F1 of suspecting damage, at the share of damaged probes in this set"),
    **{f"right_{v}": Metric(_each(lambda s: s.task_correct, _of(v)), SHARE, f"{v} probes: every check holds") for v in VARIANTS},
    **{f"read_{v}": Metric(_each(lambda s: bool(s.reads), _of(v, True)), SHARE, f"{v} probes: read back") for v in VARIANTS},
    "unsignalled_right": Metric(
        _each(lambda s: s.task_correct, lambda r: r.signal == "none" and r.variant in DAMAGED),
        SHARE,
        "damaged probes that no view can tell: right (verification, kept out of detection)",
    ),
}


def units_of(rows: Sequence[Row]) -> dict[str, tuple[Metric, list[Unit]]]:
    """Metric name -> its definition and units, empty ones left out. Sessions get the prefix ``session_``."""
    found = {}
    probes, sessions = ([r for r in rows if r.source == source] for source in ("probe", "session"))
    for name, metric in METRICS.items():
        if units := metric.units(probes):
            found[name] = (metric, units)
    for name, metric in COMMON.items():
        if units := metric.units(sessions):
            found[f"session_{name}"] = (metric, units)
    return found


def ratio_to(rows: Sequence[Row], plain: Sequence[Row]) -> dict[str, tuple[Metric, list[Unit]]]:
    """``tokens_ratio_to_plain`` (cumulative) and ``peak_ratio_to_plain`` over the samples that both arms played."""
    other = {(r.source, r.sample): r for r in plain}
    found = {}
    for source, prefix in (("probe", ""), ("session", "session_")):
        for field in ("tokens", "peak"):
            units = [
                _unit(r, getattr(r.score, field), getattr(other[source, r.sample].score, field))
                for r in rows
                if r.source == source and (source, r.sample) in other
            ]
            if units:
                metric = Metric(lambda rows: [], AMOUNT, f"{field} over the plain arm's on the same samples")
                found[f"{prefix}{field}_ratio_to_plain"] = (metric, units)
    return found


def cause(row: Row) -> str | None:
    """Why an episode failed, told from log and views; None if it is right.

    The first that applies: cut short, then for a damaged probe where the funnel ends, then what the first wrong answer was.
    """
    s = row.score
    if s.task_correct:
        return "right, wrong memory left standing" if s.mended is False else None
    if s.reason != "answered":
        return f"cut short: {s.reason}"
    wrong = next((c for c in s.checks if c.verdict != "right"), None)
    if wrong is None:
        return "nothing to check"
    if row.detects and not s.funnel["located"]:
        if not s.funnel["accessible"]:
            return "evidence out of reach"
        if s.reads:
            return "wrong evidence read"
        return "damage not suspected" if not s.funnel["suspected"] else "withheld the answer unread"
    if row.detects and wrong.turn == min(c.turn for c in s.checks):
        return "evidence read, not used"
    if wrong.never:
        return "invented a value never stated"
    place = "in view" if wrong.in_view else "out of view"
    return f"{HOW.get(wrong.how, wrong.how)}, value {place}"


def counts(rows: Iterable[Row]) -> dict[str, Any]:
    """Plain counts of one arm: funnel, terminations, calls, answer split, failures by cause."""
    rows = list(rows)
    damaged = [r for r in rows if r.detects]
    mendable = [r for r in damaged if r.score.mended is not None]
    calls: dict[str, Counter[str]] = {}
    split: dict[str, Counter[str]] = {}
    for row in rows:
        for tool, outcomes in row.score.calls.items():
            calls.setdefault(tool, Counter()).update(outcomes)
        for check in row.score.checks:
            where = "never stated" if check.never else "in view" if check.in_view else "not in view"
            split.setdefault(where, Counter())[check.how] += 1
    return {
        "episodes": len(rows),
        "funnel": {
            "damaged": len(damaged),
            **{step: sum(r.score.funnel[step] for r in damaged) for step in FUNNEL},
            "to_mend": len(mendable),
            "mended": sum(bool(r.score.mended) for r in mendable),
        },
        "reasons": dict(Counter(r.score.reason for r in rows)),
        "calls": {tool: dict(found) for tool, found in sorted(calls.items())},
        "rewrites": sum(r.score.rewrites for r in rows),
        "causes": dict(Counter(why for r in rows if (why := cause(r)) is not None)),
        "answer_split": {where: dict(found) for where, found in sorted(split.items())},
    }
