"""How a policy kept its memories and spent its calls: metrics beside the answers, from the stored episode alone."""

from __future__ import annotations

import json
from typing import Any

from envs.text import same_value
from envs.trajectory import Trajectory


def conduct(trajectory: Trajectory) -> dict[str, Any]:
    """The fields of ``Score`` that tell of memory and economy; definitions there."""
    outcomes = [o for i in trajectory.inferences for o in i.outcomes]
    calls = [(o.tool, json.dumps(o.args, sort_keys=True)) for o in outcomes if o.code == "result"]
    return {
        "stale_entries": len(stale_keys(trajectory)),
        "conflicts_flagged": sum("; conflict " in o.text for o in outcomes if o.code == "ok"),
        "repeated_calls": len(calls) - len(set(calls)),
        "recovery_ratio": _recovery(trajectory),
    }


def stale_keys(trajectory: Trajectory) -> list[str]:
    """``scope key`` of every entry that stands as current although the log has put another value in force."""
    earlier: dict[str, list[str]] = {}
    for fact in trajectory.session.facts:
        earlier.setdefault(fact.key, []).append(fact.value)
    found = []
    for entry in trajectory.memory:
        value = trajectory.truth.get(entry.key)
        if entry.status != "current" or value is None or same_value(entry.value, value):
            continue
        if any(same_value(entry.value, v) for v in earlier[entry.key]):
            found.append(f"{entry.scope} {entry.key}")
    return found


def _recovery(trajectory: Trajectory) -> float | None:
    """Characters shown by read-backs over characters of the events that state what is asked."""
    texts = {e["seq"]: e["text"] for e in trajectory.events if not e["sub"]}
    keys = [s.key for t in trajectory.session.turns[trajectory.start :] for s in t.slots if s.key]
    evidence = {e for key in keys for e in trajectory.stated.get(key, ())}
    shown = sum(len(o.text) for i in trajectory.inferences for o in i.outcomes if o.code == "shown" and o.shows)
    size = sum(len(texts[e]) for e in evidence if e in texts)
    return round(shown / size, 4) if shown and size else None
