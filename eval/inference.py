"""What may be said of the arms: gates, claims adjusted for their number, verdicts (docs/statistics.md).

A judged arm gets a verdict of its own: *shown* only if it is not less right than plain history (gate: at most 3 points worse,
one-sided 5 %), detects, recovers and keeps its memory free of conflicts better than the untrained policy under the same protocol,
and takes fewer tokens than plain history. Net benefit is against plain: every plain arm, and every plain arm on the judged arm's
own weights, so that training alone does not pass for protocol. Plain history has nothing to detect or mend, so those are judged
against the first reference that manages its own view.

Cost is looked at only where the gate holds. Claims taken one by one are adjusted by Holm over all claims of all judged arms. A
verdict needs every condition at once, so its p-value is the largest of theirs (intersection-union), adjusted by Holm over the arms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from typing import Any, Literal

import numpy as np
from scipy import stats

from envs.profiles import get_profile
from envs.stats import LEVEL, Bounds, Estimate, Unit, by_family, estimate, leave_one_out, paired, paired_p, shared
from eval.config import EvalConfig
from eval.metrics import Metric, Row, shared_units, units_of
from eval.power import GATE_LEVEL

Rule = Literal["better", "lower", "not worse"]
Outcome = Literal["holds", "open", "worse", "not tested", "no data"]
FAMILIES_IN_GENERAL = 8
"""Fewer families than these say nothing of families in general."""
REPEATED = ("pair_success", "task_correct", "session_task_correct")
SIGNIFICANT = 0.05
CONDITIONS: tuple[tuple[str, str, Rule], ...] = (
    ("detection", "detection_f1", "better"),
    ("recovery", "recovered", "better"),
    ("conflicts", "conflicts", "lower"),
)
"""What a verdict asks for against the untrained policy under the same protocol: name, metric, direction."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One hypothesis on one arm: that ``metric`` is better, lower or not worse than ``against``'s, and what the data say to it.

    ``p`` of a *not worse* is one-sided, of the others two-sided; ``evidence`` is the p-value of the claim itself: 1 where the
    difference points the other way, and not below that of its gate. ``adjusted`` is ``evidence`` after Holm, None for gates.
    """

    arm: str
    against: str
    condition: str
    metric: str
    rule: Rule
    outcome: Outcome
    difference: dict[str, Any] | None = None
    level: float = LEVEL
    p: float | None = None
    evidence: float = 1.0
    adjusted: float | None = None
    discordance: float | None = None
    """Share of shared units on which the two arms differ; for shares."""
    families: dict[str, Any] | None = None
    leave_one_out: tuple[float, float] | None = None
    in_general: dict[str, Any] | None = None
    """The t interval over families, of families in general."""


def over_families(
    units: Sequence[Unit], other: Sequence[Unit] | None = None, *, bounds: Bounds, level: float = LEVEL
) -> Estimate | None:
    """A t interval over the family means, or over the families' differences to ``other``: what it says is of families in general.

    It takes the families for a random draw of all there could be. None below two families; no interval where they don't differ.
    """
    if other is None:
        families = by_family(units)
        means, bases = (
            [float(np.divide(*np.sum(list(f.values()), 0))) for f in families.values()],
            sum(map(len, families.values())),
        )
    else:
        fam_a, fam_b, _ = shared(units, other)
        totals = [[np.sum(list(side[name].values()), 0) for side in (fam_a, fam_b)] for name in fam_a]
        means, bases = [float(x[0] / x[1] - y[0] / y[1]) for x, y in totals], sum(map(len, fam_a.values()))
    if len(means) < 2:
        return None
    mean, error = float(np.mean(means)), float(stats.sem(means))
    if error == 0:
        return Estimate(mean, None, None, len(means), bases, "none: families do not differ")
    half = float(stats.t.ppf((1 + level) / 2, len(means) - 1)) * error
    low, high = mean - half, mean + half
    if bounds:
        width = bounds[1] - bounds[0]
        least, most = bounds if other is None else (-width, width)
        low, high = max(low, least), min(high, most)
    elif other is None:
        low = max(low, 0.0)
    return Estimate(mean, low, high, len(means), bases, "t over families")


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: at most 5 % of sets have any true hypothesis below 0.05."""
    adjusted, running = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def pass_all(units: Sequence[Unit], k: int) -> list[Unit]:
    """pass^k, a unit a sample: the chance that ``k`` of its repeats, drawn without putting back, are all successes.

    ``k`` 1 is pass@1, the share of successes. A repeat succeeds where its unit is full (``num`` = ``den``); samples with fewer
    than ``k`` repeats are left out.
    """
    found: dict[str, list[Unit]] = {}
    for unit in units:
        if unit.den > 0:
            found.setdefault(unit.key, []).append(unit)
    return [
        Unit(same[0].family, same[0].base, comb(sum(u.num >= u.den for u in same), k) / comb(len(same), k), 1.0, key)
        for key, same in found.items()
        if len(same) >= k
    ]


def infer(config: EvalConfig, rows: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    """Everything that is concluded from scored rows by arm: ``claims``, ``verdicts`` by judged arm, ``repeats`` by arm."""
    found = {arm: _claims(config, arm, rows) for arm in judged_arms(config) if rows.get(arm)}
    tested = [claim for claims in found.values() for claim in claims if claim.rule != "not worse"]
    adjusted = dict(zip(map(id, tested), holm([c.evidence for c in tested]), strict=True))
    claims = {
        arm: [replace(c, adjusted=adjusted[id(c)]) if id(c) in adjusted else c for c in claims] for arm, claims in found.items()
    }
    worst = {arm: max(c.evidence for c in of if c.condition != "primary") for arm, of in claims.items()}
    together = dict(zip(worst, holm(list(worst.values())), strict=True))
    return {
        "primary_metric": config.primary_metric,
        "plain": config.plain,
        "protocol": config.protocol,
        "margin": config.inference.margin,
        "claims": [asdict(claim) for of in claims.values() for claim in of],
        "verdicts": {arm: _verdict(of, worst[arm], together[arm]) for arm, of in claims.items()},
        "repeats": {arm: table for arm, of in rows.items() if (table := repeats(config, of))},
    }


def judged_arms(config: EvalConfig) -> list[str]:
    """The main arms: those named, or every model arm under a managed profile but the protocol's reference."""
    if config.inference.judged:
        return list(config.inference.judged)
    managed = [n for n, arm in config.arms.items() if get_profile(arm.profile).managed and n != config.protocol]
    return [n for n in managed if config.arms[n].model] or managed


def plain_arms(config: EvalConfig, arm: str) -> list[str]:
    """The plain arms that ``arm`` is weighed against: the config's, and whole plain history on the arm's own weights."""
    model = config.arms[arm].model
    same = [
        name
        for name, other in config.arms.items()
        if model and other.model == model and not get_profile(other.profile).managed and not other.manager
    ]
    return list(dict.fromkeys([*([config.plain] if config.plain in config.arms else []), *same]))


def compare_arms(config: EvalConfig, a: Sequence[Row], b: Sequence[Row]) -> list[dict[str, Any]]:
    """Every metric that both arms have: difference, interval, p-value (not adjusted), families, one left out, in general."""
    found = []
    for name, metric, left, right in shared_units(a, b):
        told = _told(config, metric, left, right)
        if told["difference"] is not None:
            found.append({"metric": name, "p": _p(config, metric, left, right), **told})
    return found


def repeats(config: EvalConfig, rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """pass@1 and pass^k of each success metric, up to the number of repeats; empty where nothing was played twice."""
    most = max((r.repeat for r in rows), default=0) + 1
    if most < 2:
        return {}
    units = units_of(rows)
    table: dict[str, dict[str, Any]] = {}
    for name in (n for n in REPEATED if n in units):
        for k in range(1, most + 1):
            value = estimate(pass_all(units[name][1], k), bounds=units[name][0].bounds, **_options(config))
            if value is not None:
                table.setdefault(name, {})["pass@1" if k == 1 else f"pass^{k}"] = value.as_dict()
    return table


def _claims(config: EvalConfig, arm: str, rows: Mapping[str, Sequence[Row]]) -> list[Claim]:
    """The gates and claims of one arm, each gate before the cost that it guards."""
    source = "" if any(r.source == "probe" for r in rows[arm]) else "session_"
    protocol = config.protocol if config.protocol != arm else None
    claims = [_claim(config, arm, protocol, rows, "primary", source + config.primary_metric, "better")]
    plains: list[str | None] = [name for name in plain_arms(config, arm) if rows.get(name)]
    plains = plains or [None]
    gates = [_claim(config, arm, plain, rows, "correctness", f"{source}task_correct", "not worse") for plain in plains]
    claims += gates
    for condition, metric, rule in CONDITIONS:
        claims.append(_claim(config, arm, protocol, rows, condition, metric, rule))
    for gate, plain in zip(gates, plains, strict=True):
        claims.append(_claim(config, arm, plain, rows, "tokens", f"{source}tokens", "lower", gate))
    return claims


def _claim(
    config: EvalConfig,
    arm: str,
    against: str | None,
    rows: Mapping[str, Sequence[Row]],
    condition: str,
    metric: str,
    rule: Rule,
    gate: Claim | None = None,
) -> Claim:
    """Test one hypothesis; not looked at where its ``gate`` does not hold."""
    pair = next((p for p in shared_units(rows[arm], rows.get(against or "", ())) if p[0] == metric), None)
    if pair is None or not shared(pair[2], pair[3])[2]:
        return Claim(arm, against or "no such arm", condition, metric, rule, "no data")
    if gate is not None and gate.outcome != "holds":
        return Claim(arm, against or "", condition, metric, rule, "not tested")
    _, kind, a, b = pair
    level = GATE_LEVEL if rule == "not worse" else LEVEL
    told = _told(config, kind, a, b, level)
    value, margin = told["difference"], config.inference.margin
    null = -margin if rule == "not worse" else 0.0
    p = _p(config, kind, a, b, null)
    above = value["mean"] < null if rule == "lower" else value["mean"] > null  # on the side that is claimed
    if p is not None and rule == "not worse":
        p = p / 2 if above else 1 - p / 2
    evidence = 1.0 if p is None or not above else p
    return Claim(
        arm, against or "", condition, metric, rule, _outcome(value, rule, null),
        level=level, p=p, evidence=max(evidence, gate.evidence if gate else 0.0),
        discordance=_discordance(a, b) if kind.bounds else None, **told,
    )  # fmt: skip


def _outcome(value: Mapping[str, Any], rule: Rule, null: float) -> Outcome:
    low, high = value["lo"], value["hi"]
    if low is None or high is None:
        return "open"
    above, below = low > null, high < null
    if rule == "lower":
        above, below = below, above
    return "holds" if above else "worse" if below else "open"


def _verdict(claims: Sequence[Claim], p: float, adjusted: float) -> dict[str, Any]:
    """``shown`` if every condition holds and so do all together after Holm; else ``not shown`` with what failed."""
    failed = [
        f"{c.condition} against {c.against}: {c.outcome}" for c in claims if c.condition != "primary" and c.outcome != "holds"
    ]
    if not failed and adjusted > SIGNIFICANT:
        failed = [f"all conditions together, adjusted for the number of arms: p = {adjusted:.3f}"]
    return {"verdict": "not shown" if failed else "shown", "failed": failed, "p": p, "adjusted": adjusted}


def _told(config: EvalConfig, metric: Metric, a: Sequence[Unit], b: Sequence[Unit], level: float = LEVEL) -> dict[str, Any]:
    """The difference with its interval, each family's, the range with one family left out, and that of families in general."""
    options: dict[str, Any] = {"bounds": metric.bounds, "level": level}
    whole = paired(a, b, **options, **_options(config))
    families: dict[str, Any] = {}
    for name in sorted({u.family for u in a}):
        one = paired([u for u in a if u.family == name], [u for u in b if u.family == name], **options, **_options(config))
        if one is not None:
            families[name] = one.as_dict()
    general = over_families(a, b, **options)
    return {
        "difference": whole and {**whole.as_dict(), "bases": whole.bases, "method": whole.method},
        "families": families,
        "leave_one_out": leave_one_out(a, b),
        "in_general": general and general.as_dict(),
    }


def _p(config: EvalConfig, metric: Metric, a: Sequence[Unit], b: Sequence[Unit], null: float = 0.0) -> float | None:
    return paired_p(a, b, bounds=metric.bounds, null=null, **_options(config))


def _discordance(a: Sequence[Unit], b: Sequence[Unit]) -> float | None:
    other = {(u.key, u.repeat): u.num / u.den for u in b if u.den}
    differ = [u.num / u.den != other[u.key, u.repeat] for u in a if u.den and (u.key, u.repeat) in other]
    return sum(differ) / len(differ) if differ else None


def _options(config: EvalConfig) -> dict[str, Any]:
    return {"resamples": config.bootstrap.resamples, "seed": config.bootstrap.seed}
