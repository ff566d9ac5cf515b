"""The worst episodes of a run, cut to what a reader needs: log, last view, and what the policy made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.trajectory import Trajectory
from eval.config import MODEL_POLICIES, EvalConfig
from eval.store import Key, read_arm, stored_key
from eval.view import link_to

CLIP = 700
EVENTS = 40


def worst_episodes(config: EvalConfig, scores: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """At most ``config.worst`` failed episodes, lowest quality first, arms in turn; model arms alone where there are any."""
    models = [name for name, arm in config.arms.items() if arm.policy in MODEL_POLICIES]
    queues = []
    for arm in models or list(config.arms):
        failed = [row for row in scores if row["arm"] == arm and not row["score"]["task_correct"]]
        queues.append(sorted(failed, key=lambda row: (row["score"]["q"], -row["score"]["tokens"], row["sample"])))
    picked: list[Mapping[str, Any]] = []
    while any(queues) and len(picked) < config.worst:
        picked += [queue.pop(0) for queue in queues if queue][: config.worst - len(picked)]
    stored = {
        arm: _stored(config, arm, {row["sample"] for row in picked if row["arm"] == arm})
        for arm in {row["arm"] for row in picked}
    }
    shown = [(row, stored[row["arm"]][row["source"], row["sample"], row["repeat"]]) for row in picked]
    return [
        {**_excerpt(row, t), "link": link_to(config.folder, row["arm"], row["sample"], row["repeat"], len(t.inferences))}
        for row, t in shown
    ]


def _stored(config: EvalConfig, arm: str, samples: set[str]) -> dict[Key, Trajectory]:
    return {key: t for key, t in read_arm(config.arm_folder(arm), Trajectory, stored_key).items() if key[1] in samples}


def _excerpt(row: Mapping[str, Any], trajectory: Trajectory) -> dict[str, Any]:
    score, last = row["score"], trajectory.inferences[-1] if trajectory.inferences else None
    view = list(trajectory.views())[-1] if last else []
    own = {m.content for m in view if m.role == "assistant"}
    host = "\n".join(m.content for m in view if m.role == "user")
    said = [f"{i.text}\n{_outcomes(i)}".strip() for i in trajectory.inferences[-1:]]
    events = trajectory.events[-EVENTS:]
    log = [
        {"head": _head(e), "text": _clip(e["text"]), "seen": e["text"] in (own if e["role"] == "assistant" else host)}
        for e in events
    ]
    if len(trajectory.events) > EVENTS:
        log.insert(0, {"head": f"{len(trajectory.events) - EVENTS} earlier events", "text": "not shown", "seen": False})
    checks = (f"turn {c['turn'] + 1} {c['slot']} {c['how']}" for c in score["checks"] if c["credit"] < 1)
    return {
        "arm": row["arm"],
        "sample": row["sample"],
        "what": ", ".join(part for part in (row["family"], row["variant"] or "whole session", row["signal"]) if part),
        "cause": row["cause"] or "no check",
        "numbers": f"{score['tokens']:,} tokens, {score['inferences']} inferences, {len(score['reads'])} reads",
        "checks": ", ".join(checks) or "none",
        "log": log,
        "view": [{"head": m.role, "text": _clip(m.content)} for m in view],
        "view_tokens": last.tokens_in if last else 0,
        "said": "\n".join(said) or "nothing: the episode ended before its first inference",
    }


def _outcomes(inference: Any) -> str:
    return "\n".join(f"-> {outcome.tool} {outcome.code}".replace("  ", " ") for outcome in inference.outcomes)


def _head(event: Mapping[str, Any]) -> str:
    number = f"e{event['seq']}" + (f".{event['sub']}" if event.get("sub") else "")
    return f"{number} {event.get('name') or event['role']}"


def _clip(text: str) -> str:
    return text if len(text) <= CLIP else f"{text[:CLIP]} … ({len(text) - CLIP} more characters)"
