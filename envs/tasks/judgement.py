"""Probes of judgement: when part of the history is all there is in view, and when the user's rule or the stakes ask for the source.

**Scope** ("I see a subset"): several records, of which the view holds some and the index lists the rest as dropped or in another
window. Where the question touches what is missing it must be read first (``dropped``, ``windowed``, a sum over all records), where
what is in view or noted suffices reading would be wasteful (``irrelevant_gap``), and what no event states stays ``unknown`` after a
look at the gap (``never_stated``).

**Verify**: the user wants a value checked against its source, or has it entered in a register, which cannot be undone. The source is
read although a brief or note gives the value (``verify``); some of these memories are wrong, which no view can tell. The same
question without the rule is the control (``present``): there it must not be read. ``enter`` names the memory key that its value rests
on, so that the evidence gate, where the profile has it, refuses the call until the source was looked at.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from envs.compact import canonical_call
from envs.state import Fold
from envs.tasks.base import Fact, Injection, Probe, Session, Signal, Slot, Turn, Variant
from envs.tasks.probes import Base, ask, names, remembered
from envs.tasks.spec import ENTER

Note = dict[str, tuple[str, int] | None]


class _Judging:
    """What both kinds share: a base, who makes its probes, and where its records lie."""

    def __init__(self, base: Base) -> None:
        self.base, self.builder, self.spec = base, base.builder, base.builder.spec
        self.rng = random.Random(f"judgement/{base.name}")

    def fold(self, entity: str) -> Fold | None:
        """The fold that holds a record."""
        return next((f for f in self.base.state.window.folds if names(f.brief, entity)), None)

    def held(self, entity: str) -> list[str]:
        """Fields whose value in force stands in the record's brief or in a note."""
        asked = {a for e, a in self.builder.answered if e == entity}
        return remembered(self.base.state, self.spec, entity, self.builder.records[entity], asked)

    def asked(self, put: Callable[[], None]) -> Session:
        """The base's session with the question that ``put`` makes the builder write."""
        put()
        turn = self.builder.turns.pop()
        return self.base.session.model_copy(update={"turns": (*self.base.session.turns[:-1], turn)})

    def probe(
        self, name: str, variant: Variant, session: Session, injection: Injection, signal: Signal = "none", **more: object
    ) -> Probe:
        """One probe; the base's prefix goes before it."""
        body = f"{self.base.name}.{name}"
        fields: dict[str, object] = {
            "id": f"{body}/{variant}", "base": self.base.name, "family": session.family, "variant": variant, "signal": signal,
            "session": session.model_copy(update={"id": body}), "prefix": self.base.prefix, "start": self.base.start, "injection": injection,
        }  # fmt: skip
        return Probe.model_validate({**fields, **more})


def scope_probes(base: Base) -> list[Probe]:
    """Questions on partial views of a base of kind ``scope``; none where a record was not folded."""
    return list(_Scope(base).all())


class _Scope(_Judging):
    def all(self) -> Iterator[Probe]:
        """What must be read first, then the controls."""
        records = self.builder.records
        folds = {e: f for e in records if (f := self.fold(e))}
        if len(folds) < len(records) or len(records) < 2:
            return
        subject = self.base.subject
        rest = [e for e in records if e != subject]
        attr = self.rng.choice(sorted(records[subject]))
        key = self.spec.key(subject, attr)
        forgotten: Note = {key: None} if self.base.state.note(key) else {}
        about = self.asked(lambda: self.builder.ask(subject, attr))
        # As a retrieval would leave it: one other record in view, or all others.
        kept = self.rng.choice(rest)
        some = tuple(f.first for e, f in folds.items() if e != kept)
        yield self.probe("subset", "dropped", about, Injection(drop=some, note=forgotten), "index", damaged_key=key)
        one = Injection(drop=(folds[subject].first,), note=forgotten)
        yield self.probe("gap", "dropped", about, one, "index", damaged_key=key)
        elsewhere = Injection(window=self.spec.words.stage, note=forgotten)
        yield self.probe("elsewhere", "windowed", about, elsewhere, "index", damaged_key=key, windows=True)
        source = (folds[subject].keep or (folds[subject].last,))[-1]
        noted: Note = {key: (records[subject][attr], source)}
        # Enough is in view: the brief of the record asked for, or a note of the very value.
        if fields := self.held(kept):
            session = self.asked(lambda: self.builder.ask(kept, self.rng.choice(fields)))
            yield self.probe("enough", "irrelevant_gap", session, Injection(drop=some))
        yield self.probe("noted", "irrelevant_gap", about, Injection(drop=some, note=noted))
        yield self.probe("carried", "irrelevant_gap", about, Injection(window=self.spec.words.stage, note=noted), windows=True)
        if absent := [a.name for a in self.spec.attrs if a.name not in records[subject]]:
            session = self.asked(lambda: self.builder.ask(subject, self.rng.choice(absent)))
            yield self.probe("unknown", "never_stated", session, Injection(drop=(folds[subject].first,)), "index")
        yield from self._over_all(folds, rest)

    def _over_all(self, folds: dict[str, Fold], rest: list[str]) -> Iterator[Probe]:
        """Questions over several records, one of which is out of view: the part in view gives a wrong sum."""
        compare, records = self.spec.compare, self.builder.records
        if compare is None or any(compare.attr not in r for r in records.values()):
            return
        puts: dict[str, Callable[[], None]] = {}
        if self.spec.totals:
            puts["sum"] = self.builder.ask_sum
        if self.spec.across:
            puts["across"] = lambda: self.builder.ask_across(self.base.subject, rest[0])
        for name, put in puts.items():
            session = self.asked(put)
            key = session.turns[-1].slots[0].key
            entity = next(e for e in records if self.spec.key(e, compare.attr) == key)
            gone: Note = {key: None} if self.base.state.note(key) else {}
            injection = Injection(drop=(folds[entity].first,), note=gone)
            yield self.probe(name, "dropped", session, injection, "index", damaged_key=key)


def verify_probes(base: Base) -> list[Probe]:
    """Questions and entries in a register on what a base of kind ``verify`` or ``verify_open`` holds, with their controls."""
    judging = _Verify(base)
    return list(judging.in_view() if base.kind == "verify_open" else judging.all())


class _Verify(_Judging):
    def all(self) -> Iterator[Probe]:
        """The rule and its control, a brief that is wrong, and the register with a right and a wrong note."""
        subject, fold = self.base.subject, self.fold(self.base.subject)
        fields = [a for a in self.held(subject) if fold and self._in_brief(fold, a)]
        if not fold or not fields:
            return
        attr = self.rng.choice(fields)
        key, value = self.spec.key(subject, attr), self.builder.records[subject][attr]
        while (wrong := self.spec.draw(self.spec.attr(attr).kind, self.rng)) == value:
            pass
        source = (fold.keep or (fold.last,))[-1]
        ruled = self.asked(lambda: self.builder.ask(subject, attr, verify=True))
        bare = ask(self.base, attr)
        gone: Note = {key: None} if self.base.state.note(key) else {}
        false = {fold.id: fold.brief.replace(self.spec.pair(attr, value), self.spec.pair(attr, wrong))}
        yield self.probe("plain", "present", bare, Injection(note=gone))
        yield self.probe("rule", "verify", ruled, Injection(note=gone))
        yield self.probe("rule.wrong", "verify", ruled, Injection(brief=false, note=gone), damaged_key=key, wrong_note=True)
        entered = _entered(self.base, attr, self.rng)
        yield self.probe("enter", "verify", entered, Injection(note={key: (value, source)}))
        note: Note = {key: (wrong, source)}
        yield self.probe("enter.wrong", "verify", entered, Injection(note=note, brief=false), damaged_key=key, wrong_note=True)

    def in_view(self) -> Iterator[Probe]:
        """The source stands in view: rule and register ask for no further look."""
        subject = self.base.subject
        answered = {a for e, a in self.builder.answered if e == subject}
        attr = self.rng.choice(sorted(set(self.builder.records[subject]) - answered))
        ruled = self.asked(lambda: self.builder.ask(subject, attr, verify=True))
        yield self.probe("rule", "present", ruled, Injection())
        yield self.probe("enter", "present", _entered(self.base, attr, self.rng), Injection())

    def _in_brief(self, fold: Fold, attr: str) -> bool:
        return self.spec.pair(attr, self.builder.records[self.base.subject][attr]) in fold.brief


def _entered(base: Base, attr: str, rng: random.Random) -> Session:
    """The session whose last turn has the value of a field entered in the register; only the right value gets a receipt."""
    spec, entity = base.builder.spec, base.subject
    receipt, key = spec.draw("code", rng), spec.key(entity, "receipt")
    call = canonical_call(ENTER, {"record": entity, "value": base.builder.records[entity][attr]})
    text = rng.choice(spec.words.enters).format(noun=spec.attr(attr).noun, entity=spec.phrase(entity))
    slot = Slot(name="receipt", accept=(receipt,), key=key, kind="code")
    line = spec.words.joint.join([text, spec.words.answer_line(["receipt"])])
    turn = Turn(text=line, slots=(slot,), calls=(call,), question="verify")
    tool = ENTER.model_copy(update={"missing": spec.words.refusal, "evidence": (("value", spec.key(entity, attr)),)})
    return base.session.model_copy(
        update={
            "tools": (*base.session.tools, tool), "responses": {**base.session.responses, call: spec.words.receipt.format(v=receipt)},
            "turns": (*base.session.turns[:-1], turn), "facts": (*base.session.facts, Fact(key=key, value=receipt, where=f"call:{call}")),
        }
    )  # fmt: skip
