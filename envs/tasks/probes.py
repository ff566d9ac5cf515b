"""Probes: a frozen prefix played by the expert, an injection, one question. Siblings of a base differ by the injection alone.

A base has two folded stages (one of them about the record in question) and, for ``superseded``, a later change of that record:

- ``present``: nothing is damaged; what is asked stands in a brief or note.
- ``missing``: the brief or note leaves the asked value out. Signal ``asked``: the question names what the view lacks.
- ``superseded``: the old value stands as current and the brief of the change gives no values. Signal ``index``: a listed gap, known
  to be a change, holds the new one.
- ``never_stated``: a control; the log never states what is asked, so abstaining is right. With nothing folded the index is empty and
  reading back is pointless; with folds one look is fair.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from envs.chat import ChatML
from envs.episode import Episode
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.state import State
from envs.tasks import SPECS
from envs.tasks.base import Injection, Probe, Session, Signal, Variant, content_hash
from envs.tasks.engine import Builder, FamilySpec, Knobs

PROBE_KNOBS = Knobs(fillers=(4, 9), attrs=(4, 6), close=1.0, keep=0.4)
KINDS = ("static", "changed", "never", "never_open", "other", "keep")
"""Bases: ``static``, ``keep`` (the user wants the value kept) and ``other`` (a later change of other fields) give present and missing,
``changed`` gives present and superseded, ``never`` and ``never_open`` the never-stated controls with and without folds.
"""


@dataclass(frozen=True, slots=True)
class Base:
    """A base session with its played prefix."""

    session: Session
    prefix: tuple[str, ...]
    state: State
    start: int
    entity: str
    attr: str


def play_prefix(session: Session, chat: ChatML, profile: str = "core@1") -> tuple[Episode, tuple[str, ...]]:
    """The expert plays up to the last user turn. Returns the episode at the question, and the turns that led there."""
    episode, expert = Episode(session, get_profile(profile), chat), Expert(chat)
    prefix: list[str] = []
    while not episode.done and episode.turn < len(session.turns) - 1:
        sampled = expert.act([episode.view()])[0]
        prefix.append(sampled.text)
        episode.step(sampled)
    return episode, tuple(prefix)


def remembered(state: State, spec: FamilySpec, entity: str, record: dict[str, str], shown: set[str]) -> list[str]:
    """Fields of a record that a note or brief holds with their value in force, those in ``shown`` left out."""
    held = []
    for attr, value in record.items():
        note = state.note(spec.key(entity, attr))
        in_brief = [
            f for f in state.window.folds if re.search(rf"\b{entity}\b", f.brief) and f"{spec.attr(attr).noun} {value}" in f.brief
        ]
        if attr not in shown and ((note and note.value == value) or in_brief):
            held.append(attr)
    return held


def make_base(family: str, seed: int, kind: str, chat: ChatML, *, draft: int = 0) -> Base | None:
    """One base, or None when this seed makes none (the expert folded nothing, or kept nothing to ask for)."""
    spec = SPECS[family]
    builder = Builder(spec, seed * len(KINDS) + KINDS.index(kind), PROBE_KNOBS)
    rng = random.Random(f"probe/{family}/{seed}/{kind}/{draft}")
    if kind == "never_open":
        subject = builder.work(close=False)
    else:
        first = builder.work(close=True)
        if kind in ("changed", "other"):
            subject = first
            builder.revise(subject, close=True)
        else:
            subject = rng.choice((first, builder.work(close=True))) if rng.random() < 0.6 else first
    answered = {a for e, a in builder.answered if e == subject}
    record = builder.records[subject]
    if kind.startswith("never"):
        absent = [a.name for a in spec.attrs if a.name not in record]
        if not absent:
            return None
        builder.ask(subject, rng.choice(absent))
    else:
        trial = Builder.finish(builder, {})
        played, _ = play_prefix(trial.model_copy(update={"turns": (*trial.turns, trial.turns[-1])}), chat)
        pool = remembered(played.state, spec, subject, record, answered)
        if kind == "changed":
            pool = [a for a in pool if len(builder.old[spec.key(subject, a)]) > 1]
        elif kind == "other":
            pool = [a for a in pool if len(builder.old[spec.key(subject, a)]) == 1]
        if not pool:
            return None
        builder.ask(subject, rng.choice(pool), keep=kind == "keep")
    session = builder.finish({"probe": kind})
    episode, prefix = play_prefix(session, chat)
    if episode.done:
        return None
    return Base(session, prefix, episode.state, episode.turn, subject, session.turns[-1].slots[0].name)


def drop_field(brief: str, noun: str, value: str) -> str:
    """A brief without one of its fields."""
    text = brief.replace(f"{noun} {value}", "").replace(", ,", ",").replace(": ,", ":").strip(" ,:")
    return re.sub(r",\s*,", ",", text)


def make_probes(family: str, seed: int, kind: str, chat: ChatML) -> list[Probe]:
    """The probes of one base: ``present`` and its damaged sibling, or one control. Empty when the seed makes no base."""
    base = make_base(family, seed, kind, chat)
    if base is None:
        return []
    spec = SPECS[family]
    name = f"{base.session.id}-{content_hash(base.session, 6)}"
    key = spec.key(base.entity, base.attr)

    def probe(variant: Variant, signal: Signal, injection: Injection, wrong_note: bool = False) -> Probe:
        return Probe(
            id=f"{name}/{variant}", base=name, family=family, variant=variant, signal=signal, session=base.session,
            prefix=base.prefix, start=base.start, injection=injection, twin=f"{name}/present" if not kind.startswith("never") else None,
            damaged_key="" if variant in ("present", "never_stated") else key, wrong_note=wrong_note,
        )  # fmt: skip

    if kind.startswith("never"):
        return [probe("never_stated", "asked", Injection())]
    noun = spec.attr(base.attr).noun
    facts = [f for f in base.session.facts if f.key == key]
    value = facts[-1].value
    note = base.state.note(key)
    brief: dict[str, str] = {}
    for fold in base.state.window.folds:
        if f"{noun} {value}" in fold.brief and re.search(rf"\b{base.entity}\b", fold.brief):
            brief[fold.id] = drop_field(fold.brief, noun, value)
    present = probe("present", "none", Injection())
    if kind != "changed":
        return [present, probe("missing", "asked", Injection(brief=brief, note={key: None} if note else {}))]
    change = next(f for f in base.state.window.folds if f.brief.startswith(spec.change_brief.format(entity=base.entity)))
    brief = {change.id: spec.change_brief.format(entity=base.entity)}
    earlier = next(f for f in base.state.window.folds if f.id != change.id)
    source = (earlier.keep or (earlier.last,))[-1]
    old = facts[0].value
    in_old_brief = f"{noun} {old}" in earlier.brief
    if not note and not in_old_brief:
        return []
    wrong = {key: (old, source)} if note else {}
    return [present, probe("superseded", "index", Injection(brief=brief, note=wrong), wrong_note=bool(note))]
