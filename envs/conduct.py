"""How a policy kept its memories and spent its calls: metrics beside the answers, from the stored episode alone."""

from __future__ import annotations

import json
import re
from typing import Any

from envs.answers import judge, read_slots
from envs.text import same_value
from envs.trajectory import Trajectory
from envs.truth import Truth

META = re.compile(
    r"\s*(?:\[|\{|<|!|(?:ok|done|none|no hit|no call)\b|(?:out|notes|conflicts):|[efcw]\d+\b|"
    r"(?:note|local|fold|compress|read|find|recall|stage_done|memory_write|read_raw|search_raw|window_\w+)\b)"
)
"""How a line of the protocol begins: a tag, a call, an outcome, a reference, a block of the header."""
EVENT = re.compile(r"\be(\d+)\b")


def conduct(trajectory: Trajectory, truth: Truth) -> dict[str, Any]:
    """The fields of ``Score`` that tell of memory, economy and replies; definitions there."""
    outcomes = [o for i in trajectory.inferences for o in i.outcomes]
    notices = [i for i in trajectory.inferences if i.kind == "notice" and not i.cut]
    return {
        "scope_errors": sum(map(bool, (scope_error(trajectory, truth, turn) for turn in trajectory.replies))),
        "meta_replies": len(notices) + sum(is_meta(trajectory, turn) for turn in trajectory.replies),
        "replies": len(notices) + len(trajectory.replies),
        "stale_entries": len(stale_keys(trajectory)),
        "conflicts_flagged": sum("; conflict " in o.text for o in outcomes if o.code == "ok"),
        "repeated_calls": replayed(trajectory, truth),
        "recovery_ratio": _recovery(trajectory),
    }


def replayed(trajectory: Trajectory, truth: Truth) -> int:
    """Business calls made again, those of a probe's frozen prefix included."""
    first = truth.users[trajectory.start] if trajectory.start < len(truth.users) else 0
    earlier = {call for seq, calls in truth.calls.items() if seq < first for call in calls}
    seen: set[tuple[str, str]] = set()
    again = 0
    for outcome in (o for i in trajectory.inferences for o in i.outcomes if o.code == "result"):
        call = (outcome.tool, json.dumps(outcome.args, sort_keys=True))
        again += call in seen or bool(earlier & set(truth.calls.get(outcome.event, ())))
        seen.add(call)
    return again


def is_meta(trajectory: Trajectory, turn: int) -> bool:
    """Whether a reply gives none of the slots asked and is empty or made of protocol lines alone."""
    reply, slots = trajectory.replies[turn], trajectory.session.turns[turn].slots
    given = read_slots(reply)
    if any(s.name.casefold() in given for s in slots):
        return False
    return all(META.match(line) for line in reply.split("\n") if line.strip())


def scope_error(trajectory: Trajectory, truth: Truth, turn: int) -> str:
    """What a reply claims against the log, or ``""``: ``never_done`` or ``no_such_event``.

    The first: a value for what this turn's call was to find out, though no such call stands in the log.
    """
    asked, reply = trajectory.session.turns[turn], trajectory.replies[turn]
    end = truth.users[turn + 1] if turn + 1 < len(truth.users) else max(truth.events) + 1
    if any(int(n) >= end for n in EVENT.findall(reply)):
        return "no_such_event"
    made = {call for seq, calls in truth.calls.items() if seq < end for call in calls}
    if not asked.calls or made & set(asked.calls):
        return ""
    found = {f"call:{call}" for call in asked.calls}
    keys = {f.key for f in trajectory.session.facts if f.where in found}
    claimed = (s for s in asked.slots if s.key in keys and not s.never)
    return "never_done" if any(judge(s, reply)[0] != "abstained" and judge(s, reply)[1] for s in claimed) else ""


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
