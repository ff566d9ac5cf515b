"""Stored episodes -> ``scores.jsonl``, ``results.json`` and ``details.json``, without a model.

``results.json`` holds ``{"lock", "split", "arms": {arm: {metric: {"mean", "lo", "hi", "n"}}}, "paired": [...]}``;
``details.json`` what else the report shows: counts, families, excluded and owed episodes, how each interval was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tqdm import tqdm

from envs.chat import get_chat
from envs.config import UserError
from envs.lengths import length_of
from envs.profiles import get_profile
from envs.runs import write_json_atomic, write_jsonl_atomic
from envs.scoring import Score
from envs.scoring import score as score_trajectory
from envs.stats import Estimate, Unit, estimate, leave_one_out, paired
from envs.tasks.base import Probe
from envs.trajectory import Trajectory
from eval.config import EvalConfig
from eval.counts import cause, counts
from eval.crossover import crossover
from eval.freeze import Lock, LockError, check_score, load_samples
from eval.inference import infer
from eval.metrics import Metric, Row, ratio_to, shared_units, units_of
from eval.needed import needed_of, summary
from eval.store import Key, parts, read_arm, read_errors, read_meta, stored_key, told
from eval.strata import strata

FAMILY_METRICS = ("pair_success", "task_correct", "tokens", "session_task_correct", "session_tokens")


def score(config: EvalConfig) -> dict[str, Any]:
    """Score every stored episode and write the three files; returns the content of ``results.json``.

    Raises LockError when the scorer, the samples or the stated rules are not those of the lock, or an arm was played under
    another lock; UserError when nothing was played.
    """
    lock = check_score(config)
    probes, sessions = load_samples(config)
    keys = [("probe", p.id) for p in probes] + [("session", s.id) for s in sessions]
    expected: list[Key] = [(*key, repeat) for repeat in range(config.repeats) for key in keys]
    by_id = {p.id: p for p in probes}
    chat = get_chat(config.tokenizer)
    scripts = {p.id: p.session for p in probes} | {s.id: s for s in sessions}
    lengths = {sample: length_of(script, chat) for sample, script in scripts.items()}
    rows: dict[str, list[Row]] = {}
    health: dict[str, dict[str, Any]] = {}
    needed: dict[str, dict[Key, bool | None]] = {}
    for arm in config.arms:
        check_arm(config, arm, lock)
        rows[arm], needed[arm], health[arm] = _score_arm(config, arm, expected, by_id, lengths)
    if not any(rows.values()):
        raise UserError(f"{config.folder / 'arms'}: no episode is stored: run the run command first")
    write_jsonl_atomic(
        config.folder / "scores.jsonl",
        ({**asdict(r), "cause": cause(r), "needed_in_input": needed[arm][r.key]} for arm, found in rows.items() for r in found),
    )
    results, details = summarise(config, lock.lock, rows)
    details["health"] = health
    details["needed_in_input"] = {arm: summary(found.values()) for arm, found in needed.items()}
    write_json_atomic(config.folder / "details.json", details)
    write_json_atomic(config.folder / "results.json", results)
    return results


def summarise(config: EvalConfig, lock: str, rows: Mapping[str, Sequence[Row]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """``results.json`` and ``details.json`` of scored rows by arm."""
    options: dict[str, Any] = {"resamples": config.bootstrap.resamples, "seed": config.bootstrap.seed}
    arms: dict[str, dict[str, Any]] = {}
    made: dict[str, dict[str, Any]] = {}
    families: dict[str, dict[str, Any]] = {}
    by_stratum: dict[str, dict[str, Any]] = {}
    about: dict[str, str] = {}
    for arm, found in rows.items():
        units = units_of(found)
        if arm != config.plain and config.plain in rows:
            units |= ratio_to(found, rows[config.plain])
        arms[arm], made[arm] = {}, {}
        for name, (metric, items) in units.items():
            value = estimate(items, bounds=metric.bounds, **options)
            if value is not None:
                arms[arm][name] = value.as_dict()
                made[arm][name] = {"method": value.method, "bases": value.bases}
                about[name] = metric.about
        families[arm] = {name: _families(*units[name], options) for name in FAMILY_METRICS if name in units}
        by_stratum[arm] = strata(found, options)
    results = {"lock": lock, "split": config.split, "arms": arms, "paired": list(_paired(config, rows, options))}
    details = {
        "lock": lock,
        "primary_metric": config.primary_metric,
        "about": about,
        "intervals": made,
        "counts": {
            arm: {s: counts(r for r in found if r.source == s) for s in ("probe", "session")} for arm, found in rows.items()
        },
        "families": families,
        "strata": by_stratum,
        "crossover": crossover(rows, config.plain, options),
        "inference": infer(config, rows),
    }
    return results, details


def check_arm(config: EvalConfig, arm: str, lock: Lock) -> None:
    """Refuse episodes that were played under another lock: different locks are never compared. Raises LockError."""
    folder = config.arm_folder(arm)
    told_of = dict(read_meta(folder))
    for meta in (part / "meta.json" for part in parts(folder)):
        if meta not in told_of and (meta.parent / "episodes.jsonl").exists():
            raise LockError(f"{meta}: missing, so the lock of arm {arm} is unknown: play the arm again in a new run folder")
    for meta, content in told_of.items():
        if (played := content.get("lock", "")) != lock.lock:
            raise LockError(
                f"{meta}: arm {arm} was played under lock {played[:12]}, not {lock.short}: different locks are never compared, "
                "play the arm again under this one"
            )


def _score_arm(
    config: EvalConfig, arm: str, expected: Sequence[Key], probes: Mapping[str, Probe], lengths: Mapping[str, str]
) -> tuple[list[Row], dict[Key, bool | None], dict[str, Any]]:
    folder = config.arm_folder(arm)
    stored = read_arm(folder, Trajectory, stored_key)
    errors = read_errors(folder)
    failed: set[Key] = {(source, sample, repeat) for e in errors for source, sample, repeat in e["samples"]}
    known, rows, needed = set(expected), dict[Key, Row](), dict[Key, bool | None]()
    for key, trajectory in tqdm(stored.items(), desc=f"score {arm}", unit="episode", disable=len(stored) < 50):
        if key not in known:
            raise UserError(f"{folder}: {told(key)} is not among the frozen ones: the file belongs to another run")
        scored = score_trajectory(trajectory)
        if scored.infrastructure:
            failed.add(key)
            continue
        rows[key], needed[key] = _row(arm, trajectory, probes, scored, lengths[key[1]]), needed_of(trajectory, scored)
    owed = [key for key in expected if key not in rows]
    health = {
        "expected": len(expected),
        "scored": len(rows),
        "excluded_infrastructure": sum(key in failed for key in owed),
        "not_played": sum(key not in failed for key in owed),
        "infrastructure_errors": len(errors),
    }
    return list(rows.values()), needed, health


def _row(arm: str, trajectory: Trajectory, probes: Mapping[str, Probe], scored: Score, length: str) -> Row:
    source, sample, repeat = stored_key(trajectory)
    probe = probes.get(sample) if source == "probe" else None
    return Row(
        arm=arm,
        sample=sample,
        source="probe" if probe else "session",
        repeat=repeat,
        base=probe.base if probe else sample,
        family=trajectory.family,
        variant=probe.variant if probe else "",
        signal=probe.signal if probe else "",
        twin=probe.twin if probe else None,
        hinted=bool(probe and probe.hint != "none"),
        managed=get_profile(trajectory.profile).managed,
        score=scored,
        lang=trajectory.session.lang,
        hint=probe.hint if probe else "none",
        length=length,
    )


def _families(metric: Metric, units: Sequence[Unit], options: Mapping[str, Any]) -> dict[str, Any]:
    by_family: dict[str, list[Unit]] = {}
    for unit in units:
        by_family.setdefault(unit.family, []).append(unit)
    each = {name: estimate(items, bounds=metric.bounds, **options) for name, items in sorted(by_family.items())}
    left_out = leave_one_out(units)
    return {
        "families": {name: value.as_dict() for name, value in each.items() if value is not None},
        "leave_one_out": None if left_out is None else list(left_out),
    }


def _paired(config: EvalConfig, rows: Mapping[str, Sequence[Row]], options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every arm against every reference arm, metric by metric, on the samples that both played."""
    done: set[frozenset[str]] = set()
    for reference in config.references:
        for arm in rows:
            if reference not in rows or arm == reference or frozenset((arm, reference)) in done:
                continue
            done.add(frozenset((arm, reference)))
            for name, metric, units, others in shared_units(rows[arm], rows[reference]):
                value: Estimate | None = paired(units, others, bounds=metric.bounds, **options)
                if value is not None:
                    yield {"a": arm, "b": reference, "metric": name, **value.as_dict()}
