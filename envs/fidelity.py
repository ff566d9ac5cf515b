"""What a policy wrote down, against the ledger and against what it saw: memories, briefs, and facts that a rewrite lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from envs.chat import Message
from envs.text import holds, normalise, same_value
from envs.trajectory import Inference, StoredEntry, StoredOutcome, Trajectory
from envs.truth import Truth

WRITES = ("note", "local", "memory_write")
REWRITES = ("fold", "compress")
FAITHFUL = ("true", "seen")
REF = re.compile(r"\be(\d+)(?:-e(\d+))?\b")
RANGE = re.compile(r"\[[fc]\d+ e\d+(?:-e\d+)?\]")
"""The tag of a fold or boundary: like the index, it says what is out of view, not what that was."""
FIGURE = re.compile(r"[A-Za-z0-9]+(?:[./:-][A-Za-z0-9]+)*")
"""A number or code, where it holds a digit: what of a brief can be looked up without reading prose."""
PROTOCOL = re.compile(r"[efcpw]\d+(?:[-/][efcpw]?\d+)*")
"""References and page numbers: ``e3-e9``, ``p1-4/9``."""


def fidelity(trajectory: Trajectory, truth: Truth, views: Sequence[Sequence[Message]], texts: Sequence[str]) -> dict[str, Any]:
    """The fields of ``Score`` that tell of memories, briefs and rewrites; definitions there.

    ``views``: of every inference; ``texts``: the same as normalised text.
    """
    writes: Counter[str] = Counter()
    checked = silent = 0
    for place, inference in enumerate(trajectory.inferences):
        for outcome in inference.outcomes:
            if outcome.code != "ok":
                continue
            if outcome.tool in WRITES and outcome.args.get("key"):
                writes[_write(truth, inference, outcome, texts[place])] += 1
            elif outcome.tool in REWRITES:
                covered = covered_by(outcome, trajectory)
                writes.update(_figures(outcome, covered, truth, texts[place]))
                if place + 1 < len(views):  # else the episode ended in the turn that rewrote: nobody saw what was lost
                    checked += 1
                    silent += bool(lost(truth, inference.event, covered, views[place + 1], texts[place + 1]))
    ends = {key: fact.value for key, fact in truth.in_force(max(truth.events, default=0)).items()} if trajectory.memory else {}
    return {
        "writes": dict(writes),
        "rewrites_checked": checked,
        "silent_failures": silent,
        "entries": len(trajectory.memory),
        "entries_active": sum(_active(e, truth, ends) for e in trajectory.memory),
        "conflicts": len(conflicting(trajectory, truth)),
    }


def _write(truth: Truth, inference: Inference, outcome: StoredOutcome, view: str) -> str:
    """``true``, ``stale`` or ``false`` where the ledger knows the key; else ``seen`` or ``unseen``: in the view it was written in."""
    key, value = str(outcome.args["key"]), str(outcome.args.get("value", ""))
    if key in truth.values:
        fact = truth.in_force(inference.event).get(key)
        if fact and same_value(fact.value, value):
            return "true"
        earlier = any(same_value(value, v) for v in truth.values[key])
        marked = outcome.args.get("status") in ("old", "historical")
        return "true" if earlier and marked else "stale" if earlier else "false"
    return "seen" if holds(view, normalise(value)) else "unseen"


def covered_by(outcome: StoredOutcome, trajectory: Trajectory) -> list[int]:
    """Events that an accepted fold or compression covers, as the host reported it back (``ok f1 e2-e3``)."""
    found = REF.search(outcome.text)
    if not found:
        return []
    first, last = int(found[1]), int(found[2] or found[1])
    if outcome.tool != "compress":
        return list(range(first, last + 1))
    mains = {e["seq"]: e["window"] for e in trajectory.events if not e["sub"]}
    return [s for s in range(first, last + 1) if mains.get(s) == mains.get(last)]  # other windows keep theirs


def _figures(outcome: StoredOutcome, covered: Sequence[int], truth: Truth, view: str) -> Iterator[str]:
    """Each number or code of a brief: ``seen`` in what it covers or in the view, else ``unseen``."""
    source = ""
    for word in FIGURE.findall(normalise(str(outcome.args.get("text", "")))):
        if not any(c.isdigit() for c in word) or PROTOCOL.fullmatch(word):
            continue
        source = source or f"{normalise(' '.join(truth.events[s]['text'] for s in covered if s in truth.events))} {view}"
        yield "seen" if holds(source, word) else "unseen"


def lost(truth: Truth, seq: int, covered: Sequence[int], after: Sequence[Message], text: str) -> list[str]:
    """Keys in force that covered events state and the next view neither shows nor points at.

    A mark is a reference to the stating event in a brief, a summary, a kept reference or a note, or to an own turn in which such a
    reference can be read. The omission index is none: it says that a range is out of view, not that this fact is.
    """
    in_force = truth.in_force(seq)
    facts = [
        (event, fact)
        for event in covered
        for fact in truth.stated.get(event, ())
        if in_force.get(fact.key) is fact and not fact.key.endswith(".once")  # consent for once is used up with its turn
    ]
    if not facts:
        return []
    gone = [(event, fact) for event, fact in facts if not holds(text, normalise(fact.value))]
    marked = references(after, truth) if gone else set()
    return [fact.key for event, fact in gone if event not in marked]


def references(view: Sequence[Message], truth: Truth) -> set[int]:
    """Events that a view names outside the index, and those that own turns among them name in turn."""
    # Of the system message the memories alone: the contract names events as examples, and the index is no mark.
    head = view[0].content.rpartition("\nnotes:")[2].partition("\nout: ")[0] if view and "\nnotes:" in view[0].content else ""
    todo = list(_named(RANGE.sub("", "\n".join([head, *(m.content for m in view[1:] if m.role == "user")]))))
    found: set[int] = set()
    while todo:
        seq = todo.pop()
        if seq not in found:
            found.add(seq)
            event = truth.events.get(seq)
            if event and event["role"] == "assistant":
                todo += _named(event["text"])
    return found


def _named(text: str) -> Iterator[int]:
    for match in REF.finditer(text):
        first, last = int(match[1]), int(match[2] or match[1])
        yield from range(first, min(last, first + 1000) + 1)


def conflicting(trajectory: Trajectory, truth: Truth) -> set[str]:
    """Keys that memory holds as current with two values at the end, or with another than the ledger's in force."""
    found: set[str] = set()
    held: dict[str, str] = {}
    for entry in trajectory.memory:
        if entry.status != "current":
            continue
        value = trajectory.truth.get(entry.key)
        known = entry.key in truth.values
        if (known and (value is None or not same_value(entry.value, value))) or not same_value(
            held.setdefault(entry.key, entry.value), entry.value
        ):
            found.add(entry.key)
    return found


def _active(entry: StoredEntry, truth: Truth, in_force: dict[str, str]) -> bool:
    """Whether an entry stands as current with a value in force: its key's, or any where the ledger doesn't know the key."""
    if entry.status != "current":
        return False
    values = [in_force[entry.key]] if entry.key in in_force else [] if entry.key in truth.values else list(in_force.values())
    return any(same_value(entry.value, v) for v in values)
