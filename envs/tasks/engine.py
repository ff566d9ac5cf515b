"""What the record-keeping families share: stages over records that business tools hold, values that change, later questions.

A family file says its words (``FamilySpec``); this module draws sessions from them. Futures are drawn independently of what any
policy keeps: about 70 % of later questions ask what the text declared important, the rest a detail.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Literal

from envs.tasks.base import Fact, Session, Slot, Turn, content_hash
from envs.tasks.later import ask_bundle, ask_ruled_out, rule_out
from envs.tasks.rules import RuleBook
from envs.tasks.spec import (
    LARGE,
    LONG,
    RICH,
    SEVERAL_FILLERS,
    SEVERAL_RECORDS,
    Compare,
    FamilySpec,
    Knobs,
    Rule,
    UserFact,
    near,
)
from envs.tasks.surface import Attr
from envs.tasks.table import draw_rows


@dataclass
class Builder:
    """Draws one session turn by turn. ``future`` feeds the later questions, so that a prefix can be given another future."""

    spec: FamilySpec
    seed: int
    knobs: Knobs = field(default_factory=Knobs)
    future_seed: int | None = None

    def __post_init__(self) -> None:
        self.knobs.validate()
        self.words = self.spec.words
        self.rng = random.Random(f"{self.spec.id}/{self.seed}")
        self.turns: list[Turn] = []
        self.facts: list[Fact] = []
        self.responses: dict[str, str] = {}
        self.records: dict[str, dict[str, str]] = {}
        self.source: dict[str, str] = {}
        self.kept: list[tuple[str, str]] = []
        self.answered: set[tuple[str, str]] = set()
        self.old: dict[str, list[str]] = {}
        self.caps: list[str] = []
        self.ruled_out: dict[tuple[str, str], str] = {}
        self.bundle = max(self.knobs.bundle, self.spec.bundle)
        self.free = self.rng.sample(self.spec.entities, len(self.spec.entities))
        self.closes = self.rng.random() < self.knobs.close
        self.n_fillers = self.rng.randint(*self.knobs.fillers)
        self.book = RuleBook(self.spec, self.rng)
        self.ruled = bool(self.knobs.rule) and self.spec.rule is not None and self.rng.random() < self.knobs.rule

    # ---- texts ----------------------------------------------------------------------------------------------------------

    def _result(self, head: str, stated: dict[str, str]) -> str:
        sentences = [self._says(self.spec.attr(a), v) for a, v in stated.items()]
        if self.knobs.guesses and self.rng.random() < self.knobs.guesses:
            sentences += self._guess(stated)
        body = sentences + self._small_print(max(1, self.n_fillers))
        self.rng.shuffle(body)
        return self.words.joint.join([head, *body])

    def _small_print(self, count: int) -> list[str]:
        """Sentences that state nothing; none comes again before all were there."""
        drawn: list[str] = []
        while len(drawn) < count:
            drawn += self.rng.sample(self.spec.fillers, min(count - len(drawn), len(self.spec.fillers)))
        return drawn

    def _says(self, attr: Attr, value: str) -> str:
        return self.rng.choice(attr.none) if value == self.words.none else self.rng.choice(attr.says).format(v=value)

    def _guess(self, stated: dict[str, str]) -> list[str]:
        """An unconfirmed value of a field, never the true one."""
        able = [a for a in self.spec.attrs if a.guesses]
        if not able:
            return []
        attr = self.rng.choice(able)
        return [self.rng.choice(attr.guesses).format(v=self._other(attr.kind, stated.get(attr.name, "")))]

    def _value(self, name: str) -> str:
        attr = self.spec.attr(name)
        if (
            self.knobs.none
            and attr.none
            and not (self.spec.compare and self.spec.compare.attr == name)
            and self.rng.random() < self.knobs.none
        ):
            return self.words.none
        return self.spec.draw(attr.kind, self.rng)

    def _pick(self) -> str:
        """The next record: with the knob, a near twin of one met before."""
        if self.knobs.twins and self.rng.random() < self.knobs.twins:
            twins = [e for e in self.free if any(near(e, r) for r in self.records)]
            if twins:
                self.free.remove(twins[0])
                return twins[0]
        return self.free.pop()

    def _state(self, entity: str, stated: dict[str, str], where: str) -> None:
        for attr, value in stated.items():
            key = self.spec.key(entity, attr)
            earlier = self.old.setdefault(key, [])
            self.facts.append(Fact(key=key, value=value, where=where, version=len(earlier) + 1))
            earlier.append(value)

    def slot(self, entity: str, attr: str, source: Literal["kept", "detail", "fresh"]) -> Slot:
        spec = self.spec.attr(attr)
        key = self.spec.key(entity, attr)
        value = self.records[entity].get(attr)
        out = self.ruled_out.get((entity, attr))
        if out is not None and out == value:  # nothing is in force
            return Slot(name=attr, accept=self.words.unknown, key=key, stale=(out,), never=True, kind=spec.kind, source=source)
        if value is None:
            return Slot(name=attr, accept=self.words.unknown, key=key, never=True, kind=spec.kind, source="detail")
        stale = tuple(v for v in self.old.get(key, ())[:-1] if v != value)
        accept = self.spec.accepted(spec.kind, value, spec.says)
        return Slot(name=attr, accept=accept, key=key, stale=stale, kind=spec.kind, source=source)

    # ---- turns ----------------------------------------------------------------------------------------------------------

    def work(self, ask: str | None = None, close: bool | None = None, constraint: bool = False) -> str:
        """A stage: look up a new record, tell one of its fields. Returns the entity."""
        spec, rng = self.spec, self.rng
        entity = self._pick()
        names = rng.sample([a.name for a in spec.attrs], rng.randint(*self.knobs.attrs))
        record = {n: self._value(n) for n in names}
        rows = ""
        if spec.table and spec.table.attr in record:
            rows, total = draw_rows(spec.table, rng.randint(*self.knobs.rows), rng, self.words)
            record[spec.table.attr] = str(total)
        self.records[entity] = dict(record)
        source = self.source[entity] = rng.choice(spec.sources)
        qty = str(rng.randrange(3, 90))
        args = [entity, qty][: len(spec.lookup.args)]
        call = " ".join([spec.lookup.name, *(f"{n}={v}" for n, v in zip(spec.lookup.args, args, strict=True))])
        head = rng.choice(spec.heads).format(source=source, entity=spec.phrase(entity), qty=qty)
        self.responses[call] = self.words.joint.join(t for t in (self._result(head, record), rows) if t)
        self._state(entity, record, f"call:{call}")
        ask = ask or rng.choice(names)
        lines = [rng.choice(spec.work).format(entity=spec.phrase(entity), qty=qty)]
        if constraint and not self.caps:
            lines.append(self.state_cap())
        if self.ruled and not self.book.value:
            lines.append(self._told(self.book.state(len(self.turns))))
        if rng.random() < self.knobs.keep:
            important = rng.choice([n for n in names if n != ask])
            self.kept.append((entity, important))
            lines.append(rng.choice(self.words.keeps).format(noun=spec.attr(important).noun))
        lines.append(rng.choice(self.words.tells).format(noun=spec.attr(ask).noun))
        if self.closes if close is None else close:
            lines.append(rng.choice(self.words.closes))
        self.answered.add((entity, ask))
        self.add(lines, (self.slot(entity, ask, "fresh"),), (call,))
        return entity

    def revise(self, entity: str, attrs: list[str] | None = None, ask: str | None = None, close: bool | None = None) -> list[str]:
        """A stage that changes two fields of a record. Returns the changed fields."""
        spec, rng = self.spec, self.rng
        call = f"{spec.change.name} {spec.change.args[0]}={entity}"
        changed = attrs or rng.sample(sorted(self.records[entity]), 2)
        new = {a: self._other(spec.attr(a).kind, self.records[entity][a]) for a in changed}
        self.records[entity].update(new)
        head = rng.choice(spec.change_heads).format(source=self.source[entity], entity=spec.phrase(entity))
        self.responses[call] = self._result(head, new)
        self._state(entity, new, f"call:{call}")
        ask = ask or rng.choice(changed)
        self.answered.add((entity, ask))
        lines = [
            rng.choice(spec.changes).format(entity=spec.phrase(entity)),
            rng.choice(self.words.tells).format(noun=spec.attr(ask).noun),
        ]
        if self.closes if close is None else close:
            lines.append(rng.choice(self.words.closes))
        self.add(lines, (self.slot(entity, ask, "fresh"),), (call,))
        return changed

    def _other(self, kind: str, value: str) -> str:
        """Another value of a kind."""
        while (new := self.spec.draw(kind, self.rng)) == value:
            pass
        return new

    def state_cap(self) -> str:
        """A sentence that states the user's constraint, or changes it; the fact belongs to the turn being written."""
        fact, rng = self.spec.user_fact, self.rng
        value = self.spec.draw(fact.kind, rng) if not self.caps else self._other(fact.kind, self.caps[-1])
        sentence = rng.choice(fact.changes if self.caps else fact.says).format(v=value)
        self.caps.append(value)
        version = len(self.caps)
        where = f"turn:{len(self.turns)}"
        self.facts.append(Fact(key=fact.key, value=value, where=where, version=version, source="user", kind="constraint"))
        return sentence

    def cap_slot(self) -> Slot:
        fact = self.spec.user_fact
        stale = tuple(v for v in self.caps[:-1] if v != self.caps[-1])
        return Slot(
            name=fact.key, accept=self.spec.accepted(fact.kind, self.caps[-1], fact.says), key=fact.key, stale=stale, constraint=True, kind=fact.kind,
            source="kept",
        )  # fmt: skip

    def change_cap(self, also: str) -> None:
        """A turn that changes the user's constraint and asks a field of a record."""
        sentence = self.state_cap()
        entity, attr = self.subject(also)
        self.ask_line([sentence], entity, attr)

    def _told(self, said: tuple[str, Fact]) -> str:
        sentence, fact = said
        self.facts.append(fact)
        return sentence

    def rule_turn(self, only: str = "") -> None:
        """A turn about the user's rule: a new exception, its end or return, consent for once, or a question; ``only``: this move."""
        rng, book, turn = self.rng, self.book, len(self.turns)
        entities = list(self.records)
        free = [e for e in entities if e not in book.exceptions]
        live = [e for e in book.exceptions if e not in book.withdrawn]
        moves = [("ask", entities)] + [("except", free)] * bool(free and len(book.exceptions) < 2)
        moves += [("withdraw", live)] * bool(live) + [("reinstate", sorted(book.withdrawn))] * bool(book.withdrawn)
        moves += [("once", free)] * bool(free and not book.spent)
        move, pool = rng.choice([m for m in moves if only in ("", m[0])])
        entity = rng.choice(pool)
        if move == "ask":
            return self.ask_rule(entity)
        made = {"except": book.other_value, "withdraw": book.withdraw, "reinstate": book.reinstate, "once": book.grant_once}[move]
        lines = [self._told(made(entity, turn)), rng.choice(book.rule.asks).format(entity=self.spec.phrase(entity))]
        return self.add(lines, (book.slot(entity, once=move == "once"),), (), question="exception")

    def ask_rule(self, entity: str, verify: bool = False) -> None:
        """Which value of the rule holds for a record; with ``verify`` the user wants it checked against its source."""
        lines = [self.rng.choice(self.book.rule.asks).format(entity=self.spec.phrase(entity))]
        lines += [self.rng.choice(self.words.verifies).format(noun=self.book.rule.noun)] if verify else []
        self.add(lines, (self.book.slot(entity),), (), question="exception")

    def ask_across(self, one: str, two: str) -> None:
        """Which of two records has the larger amount, and by how much."""
        assert self.spec.compare is not None
        attr = self.spec.compare.attr
        a, b = int(self.records[one][attr]), int(self.records[two][attr])
        larger = one if a >= b else two
        slots = (
            Slot(
                name="which",
                accept=(larger, self.spec.phrase(larger)),
                key=self.spec.key(larger, attr),
                source="derived",
                kind="entity",
            ),
            Slot(
                name="gap",
                accept=self.spec.accepted("amount", str(abs(a - b))),
                key=self.spec.key(larger, attr),
                source="derived",
            ),
        )
        phrases = {"entity": self.spec.phrase(one), "other": self.spec.phrase(two)}
        self.add([self.rng.choice(self.spec.across).format(**phrases)], slots, (), question="across")

    def ask_sum(self) -> None:
        """The sum of the amounts of all records so far."""
        assert self.spec.compare is not None
        attr = self.spec.compare.attr
        total = sum(int(r[attr]) for r in self.records.values())
        key = self.spec.key(next(iter(self.records)), attr)
        slot = Slot(name="sum", accept=self.spec.accepted("amount", str(total)), key=key, source="derived")
        self.add([self.rng.choice(self.spec.totals)], (slot,), (), question="aggregate")

    def _ask_several(self) -> bool:
        """A question over several records, where the session has any that it can be asked of."""
        compare = self.spec.compare
        able = [e for e, r in self.records.items() if compare and compare.attr in r]
        if len(able) < 2 or self.n_fillers > SEVERAL_FILLERS:
            return False
        if self.spec.totals and len(able) == len(self.records) <= SEVERAL_RECORDS and self.rng.random() < 0.5:
            self.ask_sum()
        elif self.spec.across:
            self.ask_across(*self.rng.sample(able, 2))
        else:
            return False
        return True

    def ask(self, entity: str, attr: str, keep: bool = False, verify: bool = False) -> None:
        """A later question; the user may add that the value will be needed again, or that it must be checked against its source."""
        self.ask_line([], entity, attr, keep, verify)

    def ask_line(self, lines: list[str], entity: str, attr: str, keep: bool = False, verify: bool = False) -> None:
        noun = self.spec.attr(attr).noun
        source: Literal["kept", "detail"] = "kept" if (entity, attr) in self.kept else "detail"
        other = self.spec.attr(attr).other
        paraphrased = bool(self.knobs.paraphrased and other) and self.rng.random() < self.knobs.paraphrased
        template = self.rng.choice(other) if paraphrased else self.rng.choice(self.words.asks)
        lines = [*lines, template.format(noun=noun, entity=self.spec.phrase(entity))]
        if keep:
            lines.append(self.rng.choice(self.words.keeps).format(noun=noun))
        slot = self.slot(entity, attr, source)
        tag = "negation" if slot.accept == self.words.nones else "paraphrased" if paraphrased else "single"
        tag = "ruled_out" if tag == "single" and self.spec.attr(attr).excluded else tag
        if verify or (self.knobs.verify and not keep and self.rng.random() < self.knobs.verify):
            lines.append(self.rng.choice(self.words.verifies).format(noun=noun))
            tag = "verify"
        self.add(lines, (slot,), (), question=tag)

    def ask_cap(self) -> None:
        self.add([self.rng.choice(self.spec.user_fact.asks)], (self.cap_slot(),), ())

    def ask_compare(self, entity: str) -> None:
        """Is the record's amount over the cap, and what lies between them."""
        compare = self.spec.compare
        assert compare is not None
        amount, cap = int(self.records[entity][compare.attr]), int(self.caps[-1])
        key = self.spec.key(entity, compare.attr)
        slots = (
            Slot(
                name="over",
                accept=self.words.yes if amount > cap else self.words.no,
                key=self.spec.user_fact.key,
                constraint=True,
                source="derived",
            ),
            Slot(
                name="gap",
                accept=self.spec.accepted("amount", str(abs(amount - cap))),
                key=key,
                constraint=True,
                source="derived",
            ),
        )
        text = self.rng.choice(compare.asks).format(entity=self.spec.phrase(entity))
        self.add([text], slots, (), question="derived")

    def add(self, lines: list[str], slots: tuple[Slot, ...], calls: tuple[str, ...] = (), question: str = "single") -> None:
        answer = self.words.answer_line([s.name for s in slots])
        self.turns.append(Turn(text=self.words.joint.join([*lines, answer]), slots=slots, calls=calls, question=question))

    def subject(self, which: str) -> tuple[str, str]:
        """A record and field for a later question: what was declared important (70 %) or a detail."""
        kept = [(e, a) for e, a in self.kept if a in self.records[e]]
        detail = [
            (e, a) for e, r in self.records.items() for a in sorted(r) if (e, a) not in kept and (e, a) not in self.answered
        ]
        pool = kept if kept and (which == "kept" or not detail) else detail or kept
        pool = pool or [(e, a) for e, r in self.records.items() for a in sorted(r)]
        return self.rng.choice(pool)

    # ---- whole sessions -------------------------------------------------------------------------------------------------

    def session(self) -> Session:
        """A session of ``knobs.turns`` turns: stages, changes and later questions."""
        rng, knobs = self.rng, self.knobs
        n = rng.randint(*knobs.turns)
        with_cap = rng.random() < 0.6
        split = max(1, (n + 1) // 2)
        self.work(constraint=with_cap)
        while len(self.turns) < n:
            if len(self.turns) == split and self.future_seed is not None:
                # Another future for the same prefix: everything after this point is drawn anew.
                rng = self.rng = random.Random(f"{self.spec.id}/{self.seed}/future/{self.future_seed}")
            self._next(rng, last=len(self.turns) == n - 1)
        return self.finish({"split_turn": split})

    def _next(self, rng: random.Random, last: bool) -> None:
        knobs, draw_ = self.knobs, rng.random()
        revisable = [
            e for e, r in self.records.items() if f"{self.spec.change.name} {self.spec.change.args[0]}={e}" not in self.responses
        ]
        if self.book.value and rng.random() < 0.25:
            self.rule_turn()
        elif (knobs.several and draw_ > 1 - knobs.several and self._ask_several()) or self._of_several(rng):
            pass
        elif self.caps and draw_ < knobs.constraint:
            self.change_cap("kept") if len(self.caps) < 3 and not last else self._ask_constraint(rng)
        elif draw_ < knobs.constraint + knobs.ask or last or not self.free:
            roll = rng.random()
            if self.caps and (roll < 0.25 or (last and len(self.caps) > 1)):
                self._ask_constraint(rng)
            elif roll > 0.9:
                self._ask_never(rng)
            else:
                self.ask(*self.subject("kept" if rng.random() < 0.7 else "detail"))
        elif draw_ < knobs.constraint + knobs.ask + knobs.change and revisable:
            self.revise(rng.choice(revisable))
        else:
            self.work()

    def _of_several(self, rng: random.Random) -> bool:
        """A turn with several questions, or about a value that is ruled out, as far as the knobs ask for them."""
        if self.bundle and rng.random() < self.bundle and ask_bundle(self):
            return True
        if not self.knobs.rule_out or rng.random() >= self.knobs.rule_out * (3 if self.ruled_out else 1):
            return False
        return (rng.random() < 0.7 and ask_ruled_out(self)) or rule_out(self)

    def _ask_constraint(self, rng: random.Random) -> None:
        compare = self.spec.compare
        able = [e for e, r in self.records.items() if compare and compare.attr in r]
        if able and rng.random() < 0.5:
            self.ask_compare(rng.choice(able))
        else:
            self.ask_cap()

    def _ask_never(self, rng: random.Random) -> None:
        entity = rng.choice(list(self.records))
        absent = [a.name for a in self.spec.attrs if a.name not in self.records[entity]]
        self.ask(entity, rng.choice(absent)) if absent else self.ask(*self.subject("kept"))

    def finish(self, knobs: dict[str, Any]) -> Session:
        """The session as frozen data; its id is a content hash."""
        session = Session(
            id="", family=self.spec.name, lang=self.spec.lang, seed=self.seed, tools=(self.spec.lookup, self.spec.change), responses=self.responses,
            turns=tuple(self.turns), facts=tuple(self.facts), tags=tuple(sorted({t.question for t in self.turns})), knobs=knobs,
        )  # fmt: skip
        return session.model_copy(update={"id": f"{self.spec.id}-{content_hash(session, 10)}"})


__all__ = [
    "LARGE",
    "LONG",
    "RICH",
    "SEVERAL_FILLERS",
    "SEVERAL_RECORDS",
    "Builder",
    "Compare",
    "FamilySpec",
    "Knobs",
    "Rule",
    "UserFact",
    "near",
]
