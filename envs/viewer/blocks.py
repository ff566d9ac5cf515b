"""What the page stores of one episode: every line of text once, views as suffixes, and why each event is out of view.

All that needs knowledge of the protocol is decided here, so that the page's script only lays out what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envs.rewards import saving
from envs.scoring import Score, read_slots
from envs.tasks.base import Injection
from envs.trajectory import Inference, Trajectory, unpack_inputs

HOST_ONLY = ("clear", "host_fold", "gate_overridden", "maintenance")
"""Outcomes that are logged but never shown: what they did shows in its own place."""
EMPTY: Mapping[Any, Any] = {}
UNLISTED = "unlisted"
"""Reason of an event that is neither in view nor in an index: a host-only manager left it out, or the profile has no index."""


def reasons_out(out: Iterable[str]) -> dict[int, str]:
    """Event number -> reason, of index entries such as ``e2-e3 f1 1 own 1 tool``."""
    found: dict[int, str] = {}
    for entry in out:
        span, reason = entry.split(" ", 2)[:2]
        first, _, last = span.partition("-")
        found |= dict.fromkeys(range(int(first[1:]), int((last or first)[1:]) + 1), reason)
    return found


def out_of_view(trajectory: Trajectory, inference: Inference, contents: Sequence[str]) -> dict[int, str]:
    """Position in ``trajectory.events`` -> reason, of every event that was made before an inference and is not in its view.

    ``contents`` are the texts of the view's messages. The reason is the index's own word.
    """
    visible, listed = set(inference.visible), reasons_out(inference.out)
    hosts = [f"\n{text}\n" for text in contents]
    found: dict[int, str] = {}
    seen: dict[int, str] = {}
    for position, event in enumerate(trajectory.events[: bound(trajectory, inference)]):
        seq, shown = event["seq"], f"\n{event['text']}\n"
        if not event["sub"]:
            # A host-only manager and a sub-agent's task say nothing of events: their views are looked at.
            there = seq in visible if visible else any(event["text"] in text for text in hosts[1:])
            seen[seq] = "" if there else listed.get(seq, UNLISTED)
            reason = seen[seq]
        else:
            parent = seen.get(event.get("turn") or seq, "")
            quiet = event["name"] in HOST_ONLY or (parent and event["name"] in ("ok", "moved"))
            reason = "" if not quiet and any(shown in text for text in hosts) else parent or "control"
        if reason:
            found[position] = reason
    return found


def bound(trajectory: Trajectory, inference: Inference) -> int:
    """How many events the log held when the inference was made."""
    place = next((p for p, e in enumerate(trajectory.events) if e["seq"] == inference.event and not e["sub"]), 0)
    # A sub-agent's or manager's question comes after the event that it is stored under.
    return place + 1 if inference.kind == "maintenance" else place


class DamagedError(ValueError):
    """The stored inputs of an episode are not those of its inferences."""


def shared_tokens(trajectory: Trajectory) -> list[int | None]:
    """Of every input, how many leading tokens the call before had read or written already; None where no inputs are stored.

    Raises DamagedError.
    """
    if not trajectory.inputs:
        return [None] * len(trajectory.inferences)
    try:
        inputs = unpack_inputs(trajectory.inputs)
    except ValueError as error:
        raise DamagedError(str(error)) from None
    before, found = list[int](), list[int | None]()
    if len(inputs) != len(trajectory.inferences):
        raise DamagedError(f"{len(inputs)} inputs are stored for {len(trajectory.inferences)} inferences")
    for ids, inference in zip(inputs, trajectory.inferences, strict=True):
        different = (n for n, (a, b) in enumerate(zip(before, ids, strict=False)) if a != b)
        found.append(next(different, min(len(before), len(ids))))
        before = [*ids, *inference.ids]
    return found


def block(
    trajectory: Trajectory,
    score: Score | None = None,
    injection: Injection | None = None,
    needed: Mapping[tuple[int, str], bool | None] = EMPTY,
    reference: int | None = None,
) -> dict[str, Any]:
    """One episode as JSON values; ``views_of`` gives its views back.

    ``needed``: turn and slot -> whether what it needed stood in the input it was written from. ``reference``: the cost, in tokens,
    that the saving ``s`` is measured against. Raises DamagedError.
    """
    lines = _Lines()
    views = trajectory.views()
    shared = shared_tokens(trajectory)
    return {
        "events": [_event(event, lines, trajectory) for event in trajectory.events],
        "steps": [
            _step(trajectory, inference, [m.content for m in view], lines) | {"shared": same}
            for inference, view, same in zip(trajectory.inferences, views, shared, strict=True)
        ],
        "turns": [_turn(trajectory, index, score, needed) for index in range(len(trajectory.session.turns))],
        "start": trajectory.start,
        "prefix": trajectory.prefix_events,
        "reason": trajectory.reason,
        "policy": trajectory.policy,
        "prompt": trajectory.prompt,
        "q": None if score is None else round(score.q, 4),
        "s": round(saving(reference, trajectory.tokens), 4) if reference and trajectory.tokens else None,
        "reference": reference,
        "funnel": score.funnel if score else {},
        "truth": trajectory.truth,
        "memory": [[m.scope, m.key, m.value, m.status, m.standing] for m in trajectory.memory],
        "injected": _injected(injection, trajectory) if injection else None,
        "lines": lines.all,
    }


class _Lines:
    """Lines of text, each kept once: the log's texts stand in many views."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._place: dict[str, int] = {}

    def of(self, text: str) -> list[int]:
        found = []
        for line in text.split("\n"):
            if line not in self._place:
                self._place[line] = len(self.all)
                self.all.append(line)
            found.append(self._place[line])
        return found


def _event(event: Mapping[str, Any], lines: _Lines, trajectory: Trajectory) -> dict[str, Any]:
    sub = event["sub"]
    stored = {
        "n": f"e{event['seq']}" + (f".{sub}" if sub else ""), "role": event["role"], "name": event["name"], "window": event["window"],
        "run": event["run"], "turn": event.get("turn") or event["seq"], "text": lines.of(event["text"]),
    }  # fmt: skip
    states = [key for key, where in trajectory.stated.items() if not sub and event["seq"] in where]
    return stored | ({"states": states} if states else {})


def _step(trajectory: Trajectory, inference: Inference, contents: Sequence[str], lines: _Lines) -> dict[str, Any]:
    return {
        "turn": inference.turn,
        "event": inference.event,
        "at": bound(trajectory, inference),
        "keep": inference.keep,
        "new": [[m.role, lines.of(m.content)] for m in inference.new],
        "hash": inference.hash,
        "in": inference.tokens_in,
        "sampled": len(inference.ids),
        "fill": inference.fill,
        "kind": inference.kind,
        "text": lines.of(inference.text),
        "cut": inference.cut,
        "trained": inference.trained,
        "error": getattr(inference, "error", ""),
        "rewrite": inference.rewrite,
        "outcomes": [
            {"tool": o.tool, "code": o.code, "text": lines.of(o.text), "event": o.event, "shows": o.shows}
            for o in inference.outcomes
        ],
        "index": inference.out,
        "hidden": _ranges(out_of_view(trajectory, inference, contents)),
    }


def _ranges(reasons: Mapping[int, str]) -> list[tuple[int, int, str]]:
    """Neighbours of one reason as ``(first, last, reason)``."""
    found: list[tuple[int, int, str]] = []
    for position, reason in sorted(reasons.items()):
        if found and found[-1][1:] == (position - 1, reason):
            found[-1] = (found[-1][0], position, reason)
        else:
            found.append((position, position, reason))
    return found


def _turn(
    trajectory: Trajectory, index: int, score: Score | None, needed: Mapping[tuple[int, str], bool | None]
) -> dict[str, Any]:
    turn, reply = trajectory.session.turns[index], trajectory.replies.get(index)
    total = sum(c.weight for c in score.checks) if score else 0.0
    given = read_slots(reply) if reply is not None else {}
    checks = {c.slot: c for c in score.checks if c.turn == index} if score else {}
    slots = []
    for slot in turn.slots:
        check = checks.get(slot.name)
        slots.append(
            {
                "name": slot.name, "key": slot.key, "accept": slot.accept, "stale": slot.stale, "never": slot.never,
                "constraint": slot.constraint, "given": [v.strip() for v in given.get(slot.name.casefold(), [])],
                "verdict": check.verdict if check else "", "how": check.how if check else "",
                "in_view": check.in_view if check else None, "needed": needed.get((index, slot.name)),
                "credit": check.credit if check else None, "weight": check.weight if check else None,
                "earned": round(check.credit * check.weight / total, 4) if check and total else None,
            }
        )  # fmt: skip
    return {"question": turn.question, "slots": slots, "reply": reply}


def _injected(injection: Injection, trajectory: Trajectory) -> dict[str, Any]:
    """What the injection did, in words, and what of it can be found in a view."""
    made = {e["text"].split(" ")[1]: e["turn"] for e in trajectory.events if e["sub"] and e["text"].startswith(("ok f", "ok c"))}
    told: list[list[str]] = []
    for name, brief in injection.brief.items():
        by = f" (made in e{made[name]})" if name in made else ""
        told.append([f"{name}{by} now reads", brief])
    entries = (("stands as", injection.note), ("is claimed to be", injection.claim), ("is kept as old:", injection.old))
    for how, notes in entries:
        for key, entry in notes.items():
            where = f" @e{entry[1]}" if entry and entry[1] else ", without a source" if entry else ""
            told.append([f"note {key} {how}", f"{entry[0]}{where}"] if entry else [f"note {key}", "is gone"])
    told += [[f"e{turn}", "its whole exchange is gone from the view, fold and all"] for turn in injection.drop]
    if injection.window:
        told.append(["new window", f"{injection.window}; everything before sits in another window"])
    lines = [f"{key}={entry[0]}" for _, notes in entries for key, entry in notes.items() if entry]
    return {
        "told": told,
        "notes": lines,
        "briefs": list(injection.brief.values()),
        "folds": list(injection.brief),
        "window": injection.window,
    }
