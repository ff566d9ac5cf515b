"""Later turns beyond single questions: several independent questions at once, and values that the user rules out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.tasks.base import Fact, Slot
from envs.tasks.spec import SEVERAL_FILLERS

if TYPE_CHECKING:
    from envs.tasks.engine import Builder

BUNDLED = (2, 4)
"""Independent questions of one turn: slots ``q1``, ``q2``, … in the order of the text."""


def ask_bundle(builder: Builder) -> bool:
    """A turn with several independent questions about different records; False where the session has too few for one."""
    rng, words = builder.rng, builder.words
    if len(builder.records) < BUNDLED[0] or builder.n_fillers > SEVERAL_FILLERS:
        return False
    count = min(rng.randint(*BUNDLED), len(builder.records))
    lines, slots = [], []
    for number, entity in enumerate(rng.sample(list(builder.records), count), 1):
        attr = _asked(builder, entity)
        noun = builder.spec.attr(attr).noun
        lines.append(rng.choice(words.asks).format(noun=noun, entity=builder.spec.phrase(entity)))
        slot = builder.slot(entity, attr, "kept" if (entity, attr) in builder.kept else "detail")
        slots.append(slot.model_copy(update={"name": f"q{number}"}))
    builder.add(lines, tuple(slots), question="bundle")
    return True


def _asked(builder: Builder, entity: str) -> str:
    """The field that one of several questions asks for: what was declared important (70 %) or another."""
    fields = [a for a in sorted(builder.records[entity]) if (entity, a) not in builder.ruled_out]
    kept = [a for e, a in builder.kept if e == entity and a in fields]
    return builder.rng.choice(kept if kept and builder.rng.random() < 0.7 else fields)


def rule_out(builder: Builder) -> bool:
    """A turn that rules a stated value out, then asks for it or for another field; False where there is no value to rule out.

    From then on nothing is in force for the field until a later change states it anew.
    """
    rng, spec = builder.rng, builder.spec
    compare = spec.compare.attr if spec.compare else ""
    able = [
        (e, a) for e, r in builder.records.items() for a, v in sorted(r.items())
        if a != compare and not spec.attr(a).excluded and v != builder.words.none and (e, a) not in builder.ruled_out
    ]  # fmt: skip
    if not able or len(builder.ruled_out) > 1:
        return False
    entity, attr = rng.choice(able)
    value = builder.records[entity][attr]
    text = rng.choice(builder.words.rule_outs).format(noun=spec.attr(attr).noun, v=value, entity=spec.phrase(entity))
    key = spec.key(entity, attr)
    version = len(builder.old.get(key, ())) + 1
    builder.facts.append(
        Fact(key=key, value=value, where=f"turn:{len(builder.turns)}", version=version, source="user", kind="evidence", status="withdrawn")
    )  # fmt: skip
    builder.ruled_out[entity, attr] = value
    builder.ask_line([text], *builder.subject("detail"))
    return True


def ask_ruled_out(builder: Builder) -> bool:
    """Asks which value was ruled out, or for the field itself, of which nothing is in force; False where nothing was ruled out."""
    rng, spec = builder.rng, builder.spec
    live = [(e, a) for (e, a), v in builder.ruled_out.items() if builder.records[e].get(a) == v]
    if not live:
        return False
    entity, attr = rng.choice(live)
    noun, value = spec.attr(attr).noun, builder.ruled_out[entity, attr]
    templates, slot = (
        (builder.words.ruled_asks, struck(builder, entity, attr, value))
        if rng.random() < 0.6
        else (builder.words.asks, builder.slot(entity, attr, "kept"))
    )
    text = rng.choice(templates).format(noun=noun, entity=spec.phrase(entity))
    builder.add([text], (slot,), question="ruled_out")
    return True


def struck(builder: Builder, entity: str, attr: str, value: str) -> Slot:
    """The slot of a question for the value that was ruled out."""
    spec = builder.spec.attr(attr)
    accept = builder.spec.accepted(spec.kind, value)
    return Slot(name=attr, accept=accept, key=builder.spec.key(entity, attr), kind=spec.kind, source="kept")
