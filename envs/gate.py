"""The evidence gate: a business call that uses a keyed value needs the value's source in view, or read in this Run.

It fires once for a key in a Run and then lets the call pass, so it can delay a call but never block it; where no source could be
read it does not fire at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from envs.calls import Host, Rejected
from envs.compact import Call
from envs.log import Event
from envs.state import State


def check_evidence(host: Host, state: State, call: Call, visible: frozenset[int]) -> str:
    """``gate_overridden KEY …`` when the call passes although a source was not looked at, else ``""``.

    ``visible`` are the events whose text stood in the view of the calling turn. Raises Rejected with ``evidence_required`` at the
    first call of the Run that lacks the evidence of a key.
    """
    tool = next(t for t in host.session.tools if t.name == call.tool)
    overridden = []
    for argument, key in tool.evidence:
        if not call.args.get(argument):
            continue
        held = state.note(key, "window") or state.note(key)
        sources = held.refs if held else ()
        if not sources or set(sources) & (visible | _read_in_run(host, state)):
            continue
        if _fired(host, state, key):
            overridden.append(key)
            continue
        raise Rejected(
            "evidence_required",
            f"{argument} rests on {key}, whose source is out of view",
            host.say(state, "read", ref=f"e{sources[0]}"),
        )
    return f"gate_overridden {', '.join(overridden)}" if overridden else ""


def _read_in_run(host: Host, state: State) -> frozenset[int]:
    return frozenset(s for e in _outcomes(host, state) if e.name in ("read", "recall") for s in e.shows)


def _fired(host: Host, state: State, key: str) -> bool:
    """Whether the gate has refused this key in this Run before: the log says so, since a refusal changes nothing else."""
    return any(e.name == "evidence_required" and f" rests on {key}, " in e.text for e in _outcomes(host, state))


def _outcomes(host: Host, state: State) -> Iterator[Event]:
    start = host.log.run_start(state.run)
    if start > host.log.last:
        return
    for position in range(host.log.position(start), len(host.log)):
        event = host.log[position]
        if event.sub and event.run == state.run:
            yield event
