"""Stored episodes -> ``scores.jsonl``, ``results.json`` and ``details.json``, without a model.

``results.json`` holds ``{"lock", "split", "arms": {arm: {metric: {"mean", "lo", "hi", "n"}}}, "paired": [...]}``;
``details.json`` what else the report shows: counts, families, excluded and owed episodes, how each interval was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from envs.chat import get_chat
from envs.config import UserError
from envs.profiles import get_profile
from envs.runs import read_json, read_jsonl, write_json_atomic, write_jsonl_atomic
from envs.scoring import Score
from envs.scoring import score as score_trajectory
from envs.stats import Estimate, Unit, estimate, leave_one_out, paired
from envs.tasks.base import Probe
from envs.trajectory import Trajectory
from eval.config import EvalConfig
from eval.counts import cause, counts
from eval.freeze import Lock, LockError, check_score, load_samples
from eval.metrics import Metric, Row, ratio_to, units_of
from eval.strata import length_of, strata

Key = tuple[str, str]
FAMILY_METRICS = ("pair_success", "task_correct", "tokens", "session_task_correct", "session_tokens")


def score(config: EvalConfig) -> dict[str, Any]:
    """Score every stored episode and write the three files; returns the content of ``results.json``.

    Raises LockError when the scorer, the samples or the stated rules are not those of the lock, or an arm was played under
    another lock; UserError when nothing was played.
    """
    lock = check_score(config)
    probes, sessions = load_samples(config)
    expected: list[Key] = [("probe", p.id) for p in probes] + [("session", s.id) for s in sessions]
    by_id = {p.id: p for p in probes}
    chat = get_chat(config.tokenizer)
    scripts = {p.id: p.session for p in probes} | {s.id: s for s in sessions}
    lengths = {sample: length_of(script, chat) for sample, script in scripts.items()}
    rows: dict[str, list[Row]] = {}
    health: dict[str, dict[str, Any]] = {}
    for arm in config.arms:
        check_arm(config, arm, lock)
        rows[arm], health[arm] = _score_arm(config, arm, expected, by_id, lengths)
    if not any(rows.values()):
        raise UserError(f"{config.folder / 'arms'}: no episode is stored: run the run command first")
    write_jsonl_atomic(
        config.folder / "scores.jsonl", ({**asdict(r), "cause": cause(r)} for found in rows.values() for r in found)
    )
    results, details = summarise(config, lock.lock, rows)
    details["health"] = health
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
    }
    return results, details


def check_arm(config: EvalConfig, arm: str, lock: Lock) -> None:
    """Refuse episodes that were played under another lock: different locks are never compared. Raises LockError."""
    meta = config.arm_folder(arm) / "meta.json"
    if not meta.is_file():
        if (config.arm_folder(arm) / "episodes.jsonl").exists():
            raise LockError(f"{meta}: missing, so the lock of arm {arm} is unknown: play the arm again in a new run folder")
        return
    played = read_json(meta).get("lock", "")
    if played != lock.lock:
        raise LockError(
            f"{meta}: arm {arm} was played under lock {played[:12]}, not {lock.short}: different locks are never compared, "
            "play the arm again under this one"
        )


def stored_key(trajectory: Trajectory) -> Key:
    """What a stored episode is an episode of."""
    return ("probe", trajectory.probe) if trajectory.probe else ("session", trajectory.session.id)


def _score_arm(
    config: EvalConfig, arm: str, expected: Sequence[Key], probes: Mapping[str, Probe], lengths: Mapping[str, str]
) -> tuple[list[Row], dict[str, Any]]:
    folder = config.arm_folder(arm)
    path = folder / "episodes.jsonl"
    # Never mended here: the run that writes the file may still be going on.
    stored = read_jsonl(path, model=Trajectory) if path.is_file() else []
    errors = _errors(folder / "errors.jsonl")
    failed: set[Key] = {(source, sample) for e in errors for source, sample in e["samples"]}
    known, rows = set(expected), dict[Key, Row]()
    for trajectory in tqdm(stored, desc=f"score {arm}", unit="episode", disable=len(stored) < 50):
        key = stored_key(trajectory)
        if key in rows:
            raise UserError(f"{path}: {key[0]} {key[1]!r} is stored twice: delete one of the lines")
        if key not in known:
            raise UserError(f"{path}: {key[0]} {key[1]!r} is not among the frozen ones: the file belongs to another run")
        scored = score_trajectory(trajectory)
        if scored.infrastructure:
            failed.add(key)
            continue
        rows[key] = _row(arm, trajectory, probes, scored, lengths[key[1]])
    owed = [key for key in expected if key not in rows]
    health = {
        "expected": len(expected),
        "scored": len(rows),
        "excluded_infrastructure": sum(key in failed for key in owed),
        "not_played": sum(key not in failed for key in owed),
        "infrastructure_errors": len(errors),
    }
    return list(rows.values()), health


def _row(arm: str, trajectory: Trajectory, probes: Mapping[str, Probe], scored: Score, length: str) -> Row:
    source, sample = stored_key(trajectory)
    probe = probes.get(sample) if source == "probe" else None
    return Row(
        arm=arm,
        sample=sample,
        source="probe" if probe else "session",
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


def _errors(path: Path) -> list[dict[str, Any]]:
    return read_jsonl(path) if path.is_file() else []


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
            shared = {(r.source, r.sample) for r in rows[arm]} & {(r.source, r.sample) for r in rows[reference]}
            sides = [units_of([r for r in rows[side] if (r.source, r.sample) in shared]) for side in (arm, reference)]
            for name in sides[0]:
                if name not in sides[1]:
                    continue
                metric, units = sides[0][name]
                value: Estimate | None = paired(units, sides[1][name][1], bounds=metric.bounds, **options)
                if value is not None:
                    yield {"a": arm, "b": reference, "metric": name, **value.as_dict()}
