"""Where an episode's tokens went, and what became of its refused calls: from the stored episode alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from envs.trajectory import Inference, Trajectory

SPENDERS = ("answering", "working", "reading", "managing", "refused", "host")
"""Answers · business calls · reads and finds · notes, folds, windows · turns of which nothing was accepted · summaries that the host
asked for, by a sub-agent or for a manager."""
MANAGED = ("ok", "shown")
READS = ("read", "find", "recall", "read_raw", "search_raw")
OFFERS_READ = re.compile(r"; try .*\bread")


def spender(inference: Inference) -> str:
    """What an inference was for, by what became of it: the first of :data:`SPENDERS` from the business side that applies."""
    if inference.kind == "maintenance":
        return "host"
    if inference.kind == "answer":
        return "answering"
    codes = {o.code for o in inference.outcomes}
    if codes & {"result", "gate_overridden"}:
        return "working"
    if not codes & set(MANAGED):
        return "refused"
    return "managing" if "ok" in codes else "reading"


def spending(trajectory: Trajectory) -> dict[str, Any]:
    """The fields of ``Score`` that tell of tokens by spender, cached prefixes and refusals; definitions there."""
    spent = dict.fromkeys(SPENDERS, 0)
    for inference in trajectory.inferences:
        spent[spender(inference)] += inference.tokens_in + len(inference.ids)
    fresh = [i.tokens_in - i.shared for i in trajectory.inferences if i.shared is not None]
    refusals = list(_refusals(trajectory))
    return {
        "spent": spent,
        "prefill": sum(fresh) if len(fresh) == len(trajectory.inferences) else None,
        "refusals": len(refusals),
        "refusals_mended": sum(refusals),
        **_context_calls(trajectory),
    }


def is_refused(inference: Inference) -> bool:
    """Whether any call of a turn was refused, or the turn was neither call nor answer."""
    return inference.kind == "notice" or any(is_rejection(o.code) for o in inference.outcomes)


def is_rejection(code: str) -> bool:
    """Whether an outcome says that the host refused the call."""
    return code not in (*MANAGED, "result", "gate_overridden", "notice")


def _refusals(trajectory: Trajectory) -> Iterator[bool]:
    """For every refused turn whether the policy's next turn of the same Run was accepted whole."""
    turns = [i for i in trajectory.inferences if i.kind != "maintenance"]
    for place, inference in enumerate(turns):
        if is_refused(inference):
            after = turns[place + 1] if place + 1 < len(turns) else None
            yield after is not None and after.turn == inference.turn and not is_refused(after)


def _context_calls(trajectory: Trajectory) -> dict[str, int]:
    """Accepted context calls, and those among them that nobody asked for: no hint, no user's wish to check, no refusal offered them."""
    accepted = spontaneous = 0
    offered: set[int] = set()
    for inference in trajectory.inferences:
        turn = trajectory.session.turns[inference.turn] if inference.turn < len(trajectory.session.turns) else None
        asked = trajectory.hint != "none" or (turn is not None and turn.question == "verify")
        for outcome in inference.outcomes:
            if outcome.code in MANAGED:
                accepted += 1
                spontaneous += not (outcome.tool in READS and (asked or inference.turn in offered))
        if any(OFFERS_READ.search(o.text) for o in inference.outcomes if is_rejection(o.code)):
            offered.add(inference.turn)
    return {"context_calls": accepted, "spontaneous": spontaneous}
