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
from collections.abc import Collection
from dataclasses import dataclass

from envs.chat import ChatML
from envs.episode import Episode
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.state import State
from envs.tasks import get_spec
from envs.tasks.base import Injection, Probe, Session, Signal, Variant, content_hash
from envs.tasks.engine import Builder, FamilySpec, Knobs
from envs.tasks.words import Lang, bounded

PROBE_KNOBS = Knobs(fillers=(3, 6), attrs=(4, 6), close=1.0, keep=0.4)
CHANGED_KNOBS = Knobs(fillers=(8, 12), attrs=(4, 6), close=1.0, keep=0.4)
"""A change states two fields: only with more text around them is it worth a fold, and only a folded change can be superseded."""
KINDS = ("static", "changed", "never", "never_open", "other", "keep")
"""Bases: ``static``, ``keep`` (the user wants the value kept) and ``other`` (a later change of other fields) give present and missing,
``changed`` gives present and superseded, ``never`` and ``never_open`` the never-stated controls with and without folds.
"""

JUDGED = ("scope", "verify", "verify_open")
"""Bases of ``envs.tasks.judgement``: several records, one record in a brief, one in view."""


@dataclass
class Base:
    """A played prefix that waits for its question: the same for every question and every sibling."""

    kind: str
    builder: Builder
    session: Session
    """The session up to the prefix, with a stand-in for the question."""
    prefix: tuple[str, ...]
    state: State
    start: int
    subject: str
    rng: random.Random
    chat: ChatML

    @property
    def name(self) -> str:
        body = f"{content_hash(self.session.model_copy(update={'turns': self.session.turns[:-1]}), 10)}"
        return f"{self.builder.spec.id}-{body}"


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
        in_brief = [f for f in state.window.folds if names(f.brief, entity) and spec.pair(attr, value) in f.brief]
        if attr not in shown and ((note and note.value == value) or in_brief):
            held.append(attr)
    return held


def make_base(family: str, seed: int, kind: str, chat: ChatML, lang: Lang = "en") -> Base | None:
    """One base, or None when the expert's prefix ends before the question (it never should)."""
    if kind not in (*KINDS, *JUDGED):
        raise ValueError(f"unknown kind of base {kind!r}: choose one of {', '.join((*KINDS, *JUDGED))}")
    spec = get_spec(family, lang)
    number = KINDS.index(kind) if kind in KINDS else JUDGED.index(kind)
    builder = Builder(spec, seed * len(KINDS) + number, CHANGED_KNOBS if kind == "changed" else PROBE_KNOBS)
    rng = random.Random(f"probe/{spec.id}/{seed}/{kind}")
    if kind == "scope":
        subject = rng.choice([builder.work(close=True) for _ in range(rng.choice((2, 3)))])
    elif kind in ("never_open", "verify_open"):
        subject = builder.work(close=False)
    else:
        subject = builder.work(close=True)
        if kind in ("changed", "other"):
            builder.revise(subject, close=True)
        elif rng.random() < 0.6:
            subject = rng.choice((subject, builder.work(close=True)))
    stand_in = builder.finish({"probe": kind})
    session = stand_in.model_copy(update={"turns": (*stand_in.turns, stand_in.turns[-1])})
    episode, prefix = play_prefix(session, chat)
    return None if episode.done else Base(kind, builder, session, prefix, episode.state, episode.turn, subject, rng, chat)


def ask(base: Base, attr: str, keep: bool = False) -> Session:
    """The session of a base with this question as its last turn."""
    builder = base.builder
    builder.ask(base.subject, attr, keep=keep)
    turn = builder.turns.pop()
    return base.session.model_copy(update={"turns": (*base.session.turns[:-1], turn)})


def drop_field(brief: str, spec: FamilySpec, attr: str, value: str) -> str:
    """A brief without one of its fields."""
    words = spec.words
    head, colon, body = brief.rpartition(words.colon)
    left = [pair for pair in body.split(words.comma) if pair != spec.pair(attr, value)]
    return head + colon + words.comma.join(left) if left else head


def names(text: str, entity: str) -> bool:
    """Whether a text names a record."""
    return re.search(bounded(entity), text) is not None


def questions(base: Base) -> list[str]:
    """Fields that a base of this kind may ask for, in random order: held with their value in force, or never stated."""
    builder, spec = base.builder, base.builder.spec
    record = builder.records[base.subject]
    if any(f.brief.endswith(spec.words.unlisted) for f in base.state.window.folds):
        return []  # a change whose brief lists no values: even the undamaged view asks for a read
    if base.kind.startswith("never"):
        pool = [a.name for a in spec.attrs if a.name not in record]
    else:
        pool = remembered(base.state, spec, base.subject, record, {a for e, a in builder.answered if e == base.subject})
        stated = {a: len(builder.old[spec.key(base.subject, a)]) for a in pool}
        if base.kind in ("changed", "other"):
            pool = [a for a in pool if (stated[a] > 1) == (base.kind == "changed")]
    base.rng.shuffle(pool)
    return pool


def make_probes(family: str, seed: int, kind: str, chat: ChatML, most: int = 1, lang: Lang = "en") -> list[Probe]:
    """The probes of one base: ``present`` and its damaged sibling for each of at most ``most`` questions, or the controls of a
    never-stated kind. Empty when the seed makes no base (nothing folded, or nothing kept to ask for).
    """
    base = make_base(family, seed, kind, chat, lang)
    return probes_of(base, most) if base else []


def probes_of(base: Base, most: int = 1) -> list[Probe]:
    """The probes of a base, see ``make_probes``."""
    probes: list[Probe] = []
    for number, attr in enumerate(questions(base)[:most]):
        probes += _siblings(base, attr, f"{base.name}.{number}")
    return probes


def _siblings(base: Base, attr: str, name: str) -> list[Probe]:
    kind, state, spec = base.kind, base.state, base.builder.spec
    session = ask(base, attr, keep=kind == "keep")
    session = session.model_copy(update={"id": name})
    key = spec.key(base.subject, attr)

    def probe(variant: Variant, signal: Signal, injection: Injection, wrong_note: bool = False) -> Probe:
        return Probe(
            id=f"{name}/{variant}", base=base.name, family=session.family, variant=variant, signal=signal, session=session,
            prefix=base.prefix, start=base.start, injection=injection, twin=None if kind.startswith("never") else f"{name}/present",
            damaged_key="" if variant in ("present", "never_stated") else key, wrong_note=wrong_note,
        )  # fmt: skip

    if kind.startswith("never"):
        return [probe("never_stated", "asked", Injection())]
    facts = [f for f in session.facts if f.key == key]
    value, note = facts[-1].value, state.note(key)
    mine = [f for f in state.window.folds if names(f.brief, base.subject)]
    present = probe("present", "none", Injection())
    if kind != "changed":
        brief = {f.id: drop_field(f.brief, spec, attr, value) for f in mine if spec.pair(attr, value) in f.brief}
        return [present, probe("missing", "asked", Injection(brief=brief, note={key: None} if note else {}))]
    change_head = spec.change_brief.format(entity=base.subject)
    change = next(f for f in mine if f.brief.startswith(change_head))
    earlier = next(f for f in mine if f.id != change.id)
    old = facts[0].value
    if not note and spec.pair(attr, old) not in earlier.brief:
        return []  # no old value stands anywhere: nothing would be superseded
    wrong: dict[str, tuple[str, int] | None] = {key: (old, (earlier.keep or (earlier.last,))[-1])} if note else {}
    return [present, probe("superseded", "index", Injection(brief={change.id: change_head}, note=wrong), wrong_note=bool(note))]


def open_questions(base: Base, most: int, asked: Collection[str] = ()) -> list[Probe]:
    """Further questions on the undamaged view of a base, ``asked`` ones left out: fields that the brief lost on its own, or that were never stated.

    They are ``present`` or ``never_stated`` probes without a damaged sibling where the view holds the value or no event does, and
    ``missing`` ones, with nothing injected, where only reading back helps.
    """
    builder, spec = base.builder, base.builder.spec
    record = builder.records[base.subject]
    held = remembered(base.state, spec, base.subject, record, set())
    names = [a.name for a in spec.attrs if a.name not in asked]
    base.rng.shuffle(names)
    probes = []
    for number, attr in enumerate(names[:most]):
        variant: Variant = "never_stated" if attr not in record else "present" if attr in held else "missing"
        session = ask(base, attr).model_copy(update={"id": f"{base.name}.q{number}"})
        probes.append(
            Probe(
                id=f"{base.name}.q{number}/{variant}", base=base.name, family=session.family, variant=variant, signal="asked",
                session=session, prefix=base.prefix, start=base.start,
                damaged_key=spec.key(base.subject, attr) if variant == "missing" else "",
            )
        )  # fmt: skip
    return probes
