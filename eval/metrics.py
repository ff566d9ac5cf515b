"""What is measured: scored episodes -> units of each metric (definitions: ``METRICS``).

A metric is a function from the rows of one arm to units; ``envs.stats`` turns units into means and intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from envs.fidelity import FAITHFUL
from envs.measures import ANSWERS, answers, is_alarmed, is_damaged, pairs
from envs.scoring import Check, Score
from envs.stats import Bounds, Unit
from envs.tasks.base import DAMAGED, Signal

SIGNALS = tuple(s for s in get_args(Signal) if s != "none")
VARIANTS = ("present", *DAMAGED, "fabricated", "never_stated", "irrelevant_gap", "historical", "verify")


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
    hint: str = "none"
    length: str = ""
    """Band of the session's length (``envs.lengths.LENGTHS``)."""
    repeat: int = 0
    """Which repeat of its sample it is."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What it is paired by across arms."""
        return self.source, self.sample, self.repeat

    @property
    def damaged(self) -> bool:
        """Whether the probe is damaged, its view can tell and its question does not: what recovery is measured on."""
        return is_damaged(self.variant, self.signal) and not self.hinted

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
    repeats: dict[int, list[Row]] = {}
    for row in rows:
        repeats.setdefault(row.repeat, []).append(row)
    return [_unit(row, won) for same in repeats.values() for row, won in pairs(same)]


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
    controls = {r.sample for r in _controls(rows)}
    for row in rows:
        if row.detects:
            true, others = int(row.score.funnel["suspected"]), 1
        elif row.sample in controls:
            true, others = 0, int(row.alarmed)
        else:
            continue
        held = sums.setdefault((row.family, row.base), [0, 0])
        held[0] += 2 * true
        held[1] += true + others
    return [Unit(family, base, num, den, f"{family}/{base}") for (family, base), (num, den) in sums.items()]


def _controls(rows: Sequence[Row]) -> list[Row]:
    """Undamaged probes with a view that could be damaged; twins of what no view can tell belong to verification."""
    unsignalled = {r.twin for r in rows if _is_unsignalled(r)}
    return [r for r in rows if r.variant == "present" and r.managed and r.sample not in unsignalled]


def _is_unsignalled(row: Row) -> bool:
    return row.signal == "none" and row.variant in DAMAGED


def _verified(value: Callable[[Score], float]) -> Units:
    """Over what only a look at the source can tell: damaged probes that no view can tell, their twins, and ``verify`` probes."""

    def units(rows: Sequence[Row]) -> list[Unit]:
        twins = {r.twin for r in rows if _is_unsignalled(r)}
        return [_unit(r, value(r.score)) for r in rows if r.variant == "verify" or _is_unsignalled(r) or r.sample in twins]

    return units


ASKED: dict[str, tuple[Callable[[Check], bool], str]] = {
    "changed": (lambda c: c.changed, "that had another value before"),
    "conditional": (lambda c: c.question == "exception", "that turn on an exception to a rule"),
    "undeclared": (lambda c: c.source == "detail", "that no text had declared important"),
}
"""What managers of a view lose first, by kind: which checks ask for it, and how the report says so."""


def _asked(which: Callable[[Check], bool]) -> Units:
    """Right answers among the checks of a kind."""
    return _ratio(lambda s: sum(c.credit >= 1 for c in s.checks if which(c)), lambda s: sum(map(which, s.checks)))


def _answered(kind: str) -> Units:
    def units(rows: Sequence[Row]) -> list[Unit]:
        given = [(r, [answer for _, _, answer in answers(r.score)]) for r in rows]
        return [_unit(r, found.count(kind), len(found)) for r, found in given if found]

    return units


def _calls(score: Score, *codes: str) -> int:
    """Calls with one of these outcomes, or all of them; what was no call is none."""
    return sum(n for tool, found in score.calls.items() if tool != "none" for code, n in found.items()
               if (code in codes if codes else code != "gate_overridden"))  # fmt: skip


def _protocol(score: Score) -> int:
    return sum(score.spent.get(name, 0) for name in ("reading", "managing", "refused", "host"))


def _unit(row: Row, num: float, den: float = 1.0) -> Unit:
    return Unit(row.family, row.base, float(num), float(den), row.sample, row.repeat)


def _each(value: Callable[[Score], float], which: Callable[[Row], bool] = lambda row: True) -> Units:
    return lambda rows: [_unit(row, value(row.score)) for row in rows if which(row)]


def _ratio(num: Callable[[Score], float], den: Callable[[Score], float]) -> Units:
    """Only of episodes that have anything to count."""
    return lambda rows: [_unit(row, num(row.score), whole) for row in rows if (whole := den(row.score))]


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
    "view_retention": Metric(
        _ratio(lambda s: s.constraints_in_view, lambda s: s.constraint_total),
        SHARE,
        "constraints in force that stood in the view that was answered from; a diagnostic",
    ),
    "quality": Metric(_each(lambda s: s.q), (-0.25, 1.0), "weighted mean over checks: right 1, abstained 0, wrong -0.25"),
    "information": Metric(
        _ratio(lambda s: sum(c.informed for c in s.checks if not c.never), lambda s: sum(not c.never for c in s.checks)),
        SHARE,
        "answers whose needed inputs stood in a view of their turn, at first or read back",
    ),
    **{f"asked_{kind}": Metric(_asked(which), SHARE, f"answers {about}: right") for kind, (which, about) in ASKED.items()},
    **{f"answer_{kind}": Metric(_answered(kind), SHARE, f"questions by what the answer was: {kind}") for kind in ANSWERS},
    "tokens": Metric(_each(lambda s: s.tokens), AMOUNT, "input + output over all inferences of an episode, undiscounted"),
    "verdict_tokens": Metric(
        _each(lambda s: s.verdict_tokens),
        AMOUNT,
        "the same without the turns after the first failed one, which change no verdict",
    ),
    "prefill": Metric(
        lambda rows: [_unit(r, r.score.prefill) for r in rows if r.score.prefill is not None],
        AMOUNT,
        "input tokens that the call before did not hold: what a prefix cache leaves to compute",
    ),
    "peak": Metric(_each(lambda s: s.peak), AMOUNT, "largest single input of an episode, in tokens"),
    "protocol_share": Metric(
        _ratio(_protocol, lambda s: s.tokens), SHARE, "tokens of inferences that read, managed, were refused or made summaries"
    ),
    "inferences": Metric(_each(lambda s: s.inferences), AMOUNT, "inferences an episode"),
    "reads": Metric(
        _each(lambda s: len(s.reads), lambda r: r.managed), AMOUNT, "reads and finds an episode whose result shows a logged event"
    ),
    "spontaneous": Metric(
        _each(lambda s: s.spontaneous, lambda r: r.managed), AMOUNT, "accepted context calls that nobody asked for, an episode"
    ),
    "tool_success": Metric(
        _ratio(lambda s: _calls(s, "ok", "shown", "result"), lambda s: _calls(s)), SHARE, "calls that were accepted"
    ),
    "malformed_rate": Metric(
        _ratio(lambda s: min(s.malformed, s.inferences), lambda s: s.inferences),
        SHARE,
        "share of inferences with malformed output",
    ),
    "refusal_recovery": Metric(
        _ratio(lambda s: s.refusals_mended, lambda s: s.refusals), SHARE, "refused turns after which the next was accepted whole"
    ),
    "write_fidelity": Metric(
        _ratio(lambda s: sum(s.writes.get(k, 0) for k in FAITHFUL), lambda s: sum(s.writes.values())),
        SHARE,
        "values of memories and figures of briefs that the ledger or what they were made from bears out",
    ),
    "silent_failure": Metric(
        _ratio(lambda s: s.silent_failures, lambda s: s.rewrites_checked),
        SHARE,
        "accepted folds and compressions that lost a fact in force without a mark",
    ),
    "active_share": Metric(
        _ratio(lambda s: s.entries_active, lambda s: s.entries),
        SHARE,
        "memory entries that stand as current with a value in force",
    ),
    "conflicts": Metric(
        _each(lambda s: s.conflicts, lambda r: r.managed), AMOUNT, "keys that memory ends with in conflict, or against the ledger"
    ),
    "scope_error": Metric(_ratio(lambda s: s.scope_errors, lambda s: s.replies), SHARE, "replies that claim what the log denies"),
    "replayed": Metric(_each(lambda s: s.repeated_calls), AMOUNT, "business calls made again while their result is in the log"),
    "meta_reply": Metric(
        _ratio(lambda s: s.meta_replies, lambda s: s.replies), SHARE, "replies that are empty or made of protocol tokens"
    ),
    "termination": Metric(_each(lambda s: s.reason == "answered"), SHARE, "episodes that ended with an answer, not a limit"),
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
        lambda rows: [_unit(r, r.alarmed) for r in _controls(rows)],
        SHARE,
        "present controls with a read, a find or a withheld answer",
    ),
    "detection_f1": Metric(detection_f1, SHARE, "F1 of suspecting damage, at the share of damaged probes in this set"),
    **{f"right_{v}": Metric(_each(lambda s: s.task_correct, _of(v)), SHARE, f"{v} probes: every check holds") for v in VARIANTS},
    **{f"read_{v}": Metric(_each(lambda s: bool(s.reads), _of(v, True)), SHARE, f"{v} probes: read back") for v in VARIANTS},
    "unsignalled_right": Metric(
        _each(lambda s: s.task_correct, _is_unsignalled),
        SHARE,
        "damaged probes that no view can tell: right (verification, kept out of detection)",
    ),
    "verification_right": Metric(
        _verified(lambda s: s.task_correct), SHARE, "these, their twins, and questions whose source is to be checked: right"
    ),
    "verification_read": Metric(_verified(lambda s: bool(s.reads)), SHARE, "the same: read back"),
    "verification_tokens": Metric(_verified(lambda s: s.tokens), AMOUNT, "the same: tokens an episode"),
}


def units_of(rows: Sequence[Row], only: Collection[str] | None = None) -> dict[str, tuple[Metric, list[Unit]]]:
    """Metric name -> its definition and units, empty ones left out; ``only`` these names. Sessions get the prefix ``session_``."""
    found = {}
    probes, sessions = ([r for r in rows if r.source == source] for source in ("probe", "session"))
    for prefix, metrics, items in (("", METRICS, probes), ("session_", COMMON, sessions)):
        for name, metric in metrics.items():
            if items and (only is None or prefix + name in only) and (units := metric.units(items)):
                found[prefix + name] = (metric, units)
    return found


def shared_units(a: Sequence[Row], b: Sequence[Row]) -> Iterator[tuple[str, Metric, list[Unit], list[Unit]]]:
    """Name, definition and both sides' units of every metric that both arms have, over the episodes that both played."""
    keys = {r.key for r in a} & {r.key for r in b}
    left, right = (units_of([r for r in side if r.key in keys]) for side in (a, b))
    for name, (metric, units) in left.items():
        if name in right:
            yield name, metric, units, right[name][1]


def ratio_to(rows: Sequence[Row], plain: Sequence[Row]) -> dict[str, tuple[Metric, list[Unit]]]:
    """Over the samples that both arms played: ``tokens_ratio_to_plain`` (cumulative) and ``peak_ratio_to_plain``; then the
    cumulative one without turns after the first failed one, and over the samples that both arms finished.
    """
    other = {r.key: r for r in plain}
    both = [(r, other[r.key]) for r in rows if r.key in other]
    finished = [(a, b) for a, b in both if a.score.reason == b.score.reason == "answered"]
    found = {}
    for name, field, pairs_of, about in (
        ("tokens_ratio_to_plain", "tokens", both, "tokens over the plain arm's on the same samples"),
        ("peak_ratio_to_plain", "peak", both, "peak over the plain arm's on the same samples"),
        ("verdict_tokens_ratio_to_plain", "verdict_tokens", both, "the same without the turns after the first failed one"),
        ("finished_tokens_ratio_to_plain", "tokens", finished, "tokens over the plain arm's, where both ended with an answer"),
    ):
        for source, prefix in (("probe", ""), ("session", "session_")):
            pairs_here = [(a.score, b.score, a) for a, b in pairs_of if a.source == source]
            units = [_unit(row, getattr(a, field), getattr(b, field)) for a, b, row in pairs_here]
            if units:
                found[prefix + name] = (Metric(lambda rows: [], AMOUNT, about), units)
    return found
