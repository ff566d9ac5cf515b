"""All variants of one base: the same prefix, the same question, and one injection each.

What a view can tell of the damage is the probe's ``signal``: ``asked`` (the question names what is absent), ``index`` (a listed gap
holds it), ``conflict`` (two values stand as current), ``unsourced`` (a claim without evidence), ``none`` (no view can tell: a twin session
exists in which the same view is right).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envs.tasks.base import Injection, Probe, Session, Signal, Variant
from envs.tasks.probes import Base, ask, drop_field, names, questions
from envs.tasks.words import WORDS, bounded


def variants_of(base: Base, most: int = 1, hint: bool = False) -> list[Probe]:
    """Every variant that a base gives, for at most ``most`` questions. Bases of kind ``static`` and ``changed`` give most."""
    found: list[Probe] = []
    for number, attr in enumerate(questions(base)[:most]):
        found += _Siblings(base, attr, f"{base.name}.v{number}").all()
    return [p for probe in found for p in (probe, *(_hinted(probe) if hint else ()))]


class _Siblings:
    def __init__(self, base: Base, attr: str, name: str) -> None:
        self.base, self.attr, self.name = base, attr, name
        self.state, self.spec = base.state, base.builder.spec
        self.session = ask(base, attr).model_copy(update={"id": name})
        self.key = self.spec.key(base.subject, attr)
        facts = [f for f in self.session.facts if f.key == self.key]
        self.values = [f.value for f in facts]
        self.note = self.state.note(self.key)
        mine = [f for f in self.state.window.folds if names(f.brief, base.subject)]
        self.change_head = self.spec.change_brief.format(entity=base.subject)
        self.changes = [f for f in mine if f.brief.startswith(self.change_head)]
        self.folds = [f for f in mine if f not in self.changes]

    def probe(self, variant: Variant, signal: Signal, injection: Injection, **more: object) -> Probe:
        """One sibling; its twin is the undamaged one unless ``more`` says otherwise."""
        fields: dict[str, object] = {
            "id": f"{self.name}/{variant}", "base": self.base.name, "family": self.session.family, "variant": variant, "signal": signal,
            "session": self.session, "prefix": self.base.prefix, "start": self.base.start, "injection": injection,
            "twin": f"{self.name}/present", "damaged_key": self.key,
        }  # fmt: skip
        return Probe.model_validate({**fields, **more})

    def all(self) -> list[Probe]:
        """The undamaged sibling first."""
        if not self.folds:
            return []
        made = [self.probe("present", "none", Injection(), damaged_key="")]
        made += self._changed() if self.base.kind == "changed" else [*self._static(), *self._controls()]
        return made

    def _other(self) -> str:
        """Another value, of as many tokens: the twin's prefix then meets the same limits."""
        kind, count = self.spec.attr(self.attr).kind, self.base.chat.count
        size = count(f"{self.spec.words.space}{self.values[-1]}")
        value = self.values[-1]
        for _ in range(200):
            value = self.spec.draw(kind, self.base.rng)
            if value not in self.values and count(f"{self.spec.words.space}{value}") == size:
                return value
        return value

    def _static(self) -> Iterator[Probe]:
        value, fold = self.values[-1], self.folds[0]
        evidence = (fold.keep or (fold.last,))[-1]
        held = {f.id: f.brief for f in self.folds if self.spec.pair(self.attr, value) in f.brief}
        gone = {fid: drop_field(brief, self.spec, self.attr, value) for fid, brief in held.items()}
        no_note: dict[str, tuple[str, int] | None] = {self.key: None} if self.note else {}
        yield self.probe("missing", "asked", Injection(brief=gone, note=no_note))
        yield self.probe("dropped", "index", Injection(drop=(fold.first,), note=no_note))
        yield self.probe("windowed", "index", Injection(window=self.spec.words.stage, note=no_note), windows=True)
        wrong = self._other()
        if held:
            yield self.probe("contradicted", "conflict", Injection(note={self.key: (wrong, evidence)}), wrong_note=True)
            yield from self._unsignalled(value, wrong, held)
        else:
            yield self.probe("corrupted", "unsourced", Injection(claim={self.key: (wrong, evidence)}), wrong_note=True)

    def _unsignalled(self, value: str, wrong: str, held: dict[str, str]) -> Iterator[Probe]:
        """A wrong value that no view can tell from a right one, and the session in which the very same view is right."""
        brief = {
            fid: text.replace(self.spec.pair(self.attr, value), self.spec.pair(self.attr, wrong)) for fid, text in held.items()
        }
        twin = f"{self.name}/corrupted.twin"
        yield self.probe("corrupted", "none", Injection(brief=brief), twin=twin)
        swapped = _swap(self.session, value, wrong)
        if swapped is not None:
            prefix = tuple(_swapped(t, value, wrong) for t in self.base.prefix)
            yield self.probe(
                "present",
                "none",
                Injection(),
                id=twin,
                session=swapped,
                prefix=prefix,
                twin=f"{self.name}/corrupted",
                damaged_key="",
            )

    def _controls(self) -> Iterator[Probe]:
        """What must not be read back: a gap that the question does not touch, a claim about what the log never states."""
        others = [f for f in self.state.window.folds if f not in self.folds]
        if others:
            yield self.probe("irrelevant_gap", "none", Injection(drop=(others[0].first,)), damaged_key="")
        record = self.base.builder.records[self.base.subject]
        absent = [a.name for a in self.spec.attrs if a.name not in record]
        if absent:
            name = self.base.rng.choice(absent)
            key = self.spec.key(self.base.subject, name)
            session = ask(self.base, name).model_copy(update={"id": f"{self.name}.f"})
            claim = {key: (self.spec.draw(self.spec.attr(name).kind, self.base.rng), 0)}
            yield self.probe("fabricated", "unsourced", Injection(claim=claim), session=session, twin=None, damaged_key="")

    def _changed(self) -> Iterator[Probe]:
        change, old = self.changes[0], self.values[0]
        source = (self.folds[0].keep or (self.folds[0].last,))[-1]
        if self.note or self.spec.pair(self.attr, old) in self.folds[0].brief:
            wrong: dict[str, tuple[str, int] | None] = {self.key: (old, source)} if self.note else {}
            injection = Injection(brief={change.id: self.change_head}, note=wrong)
            yield self.probe("superseded", "index", injection, wrong_note=bool(self.note))
        if not self.note:
            yield self.probe("historical", "none", Injection(old={self.key: (old, source)}), damaged_key="")


def _swap(session: Session, value: str, wrong: str) -> Session | None:
    """The session in which ``wrong`` is the true value; None when the value stands for something else too."""
    text = session.model_dump_json()
    if wrong in text:
        return None
    return Session.model_validate_json(_swapped(text, value, wrong))


def _swapped(text: str, value: str, wrong: str) -> str:
    return re.sub(bounded(value), wrong, text)


def _hinted(probe: Probe) -> Iterator[Probe]:
    """The same probe with a hint in the question: whoever finds the fact then did not find it alone."""
    if probe.variant not in ("missing", "dropped", "superseded", "contradicted"):
        return
    words = WORDS[probe.session.lang]
    for hint, sentence in words.hints.items():
        turn = probe.session.turns[-1]
        text = turn.text.replace(words.answer, f"{sentence}{words.joint}{words.answer}")
        session = probe.session.model_copy(update={"turns": (*probe.session.turns[:-1], turn.model_copy(update={"text": text}))})
        yield probe.model_copy(update={"id": f"{probe.id}/{hint}", "session": session, "hint": hint, "twin": None})
