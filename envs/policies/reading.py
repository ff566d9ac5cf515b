"""What the scripted policies read in a view's texts: the facts that its sentences state, requests, summaries. Nothing but the view goes in.

Everything is remembered by text (``envs.policies.seen`` says why); what is remembered is frozen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from types import MappingProxyType
from typing import TypeVar

from envs.policies.seen import REMEMBERED, SLOTS
from envs.tasks import ALL_SPECS
from envs.tasks.spec import FamilySpec
from envs.tasks.surface import find_all, find_first

T = TypeVar("T")
PART = re.compile(r" \(e(\d+) p(\d+)-(\d+)/(\d+)\)")


def remembered(read: Callable[[FamilySpec, str], T]) -> Callable[[FamilySpec, str], T]:
    """Remember what a text states, by the family's id: hashing all the words of a spec takes longer than reading the text."""

    @lru_cache(maxsize=REMEMBERED)
    def by_name(family: str, text: str) -> T:
        return read(ALL_SPECS[family], text)

    @wraps(read)
    def reader(spec: FamilySpec, text: str) -> T:
        return by_name(spec.id, text)

    return reader


def entity_fields(spec: FamilySpec) -> dict[str, str]:
    """Patterns of the placeholders that stand for a record, a quantity and a source."""
    names = "|".join(spec.entities)
    phrase = spec.entity_phrase.replace("{e}", f"(?:{names})")
    return {"entity": phrase, "qty": r"\d+", "source": "|".join(spec.sources)}


def bare(spec: FamilySpec, phrase: str) -> str:
    """The entity's name out of its phrase (``the desks`` -> ``desks``)."""
    return phrase.removeprefix(spec.entity_phrase.format(e=""))


@dataclass(frozen=True, slots=True)
class Part:
    """What a brief says of pages that were read: ``(e3 p1-4/9)``."""

    event: int
    first: int
    last: int
    pages: int
    whole: bool = True
    """Every field that these pages state is listed."""
    without: str = ""
    """Noun of the field that was looked for in vain."""
    tail: str = ""
    """The sentence that the last page breaks off in."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A text about one record: which, by whom, which fields it gives, and whether it reports a change."""

    entity: str
    source: str
    fields: Mapping[str, str]
    changed: bool
    part: Part | None = None


@remembered
def result_facts(spec: FamilySpec, text: str) -> Stated | None:
    """What a business result states; None for anything else."""
    for heads, changed in ((spec.heads, False), (spec.change_heads, True)):
        match = find_first(heads, text, entity_fields(spec))
        if match:
            got = match.groupdict()
            return Stated(bare(spec, got["entity"]), got.get("source") or "", fields_of(spec, text), changed)
    return None


@remembered
def fields_of(spec: FamilySpec, text: str) -> Mapping[str, str]:
    """The fields that the sentences of a result state."""
    hits = {a.name: find_first(a.says, text, {"v": spec.pattern(a.kind)}) for a in spec.attrs}
    values = {name: hit["v"] for name, hit in hits.items() if hit}
    values |= {a.name: spec.words.none for a in spec.attrs if a.name not in values and any(n in text for n in a.none)}
    return MappingProxyType(values)


def brief_text(spec: FamilySpec, entity: str, source: str, fields: Mapping[str, str], changed: bool) -> str:
    """The expert's brief of a stage."""
    head = (spec.change_brief if changed else spec.brief).format(entity=entity, source=source)
    words = spec.words
    body = words.comma.join(spec.pair(a, v) for a, v in fields.items())
    return f"{head}{words.colon}{body}" if body else head + words.unlisted


@remembered
def brief_facts(spec: FamilySpec, text: str) -> Stated | None:
    """What a brief states, when it has the form of ``brief_text``."""
    fields = {**entity_fields(spec), "entity": "|".join(spec.entities)}
    for template, changed in ((spec.change_brief, True), (spec.brief, False)):
        match = find_first((template,), text, fields)
        if match:
            got, rest, part = match.groupdict(), text[match.end() :], None
            if m := PART.match(rest):
                words = spec.words
                rest, _, tail = rest[m.end() :].partition(words.tail)
                missed = re.search(re.escape(words.without).replace(r"\{noun\}", "([^;；]+)"), rest)
                event, first, last, pages = (int(x) for x in m.groups())
                part = Part(event, first, last, pages, words.more not in rest, missed[1] if missed else "", tail)
            return Stated(got["entity"], got.get("source") or "", pairs(spec, rest), changed, part)
    return None


@remembered
def pairs(spec: FamilySpec, text: str) -> Mapping[str, str]:
    """Fields given as ``noun value`` in a brief or summary."""
    found = {}
    for attr in spec.attrs:
        if attr.noun in text and (m := _pair(spec.id, attr.name).search(text)):
            found[attr.name] = m[1]
    return MappingProxyType(found)


def every_value(spec: FamilySpec, name: str, text: str) -> tuple[str, ...]:
    """All values that a brief or summary gives a field, in order: more than one, and it contradicts itself."""
    return tuple(_pair(spec.id, name).findall(text)) if spec.attr(name).noun in text else ()


def names_field(spec: FamilySpec, name: str, text: str) -> bool:
    """Whether a brief names a field, whatever it then says of it."""
    words, noun = spec.words, spec.attr(name).noun
    return any(f"{before}{noun}{words.space}" in text for before in (words.colon, words.comma))


@lru_cache
def _pair(family: str, name: str) -> re.Pattern[str]:
    spec = ALL_SPECS[family]
    attr, words = spec.attr(name), spec.words
    before = "|".join(re.escape(x) for x in (words.colon, words.comma))
    after = "".join(re.escape(x.strip()) for x in (words.comma, words.entry, words.stop))
    return re.compile(
        rf"(?:^|{before}){re.escape(attr.noun)}{words.space}({spec.pattern(attr.kind)}|{words.none})(?=$|[{after}])"
    )


@dataclass(frozen=True, slots=True)
class Pointer:
    """One entry of a summary: the events that hold a record, and the fields that it gives."""

    events: tuple[int, ...]
    fields: Mapping[str, str]
    changes: tuple[str, ...] = ()
    """All fields that the newest event changes, where the summary says so."""


@lru_cache
def _pointer(colon: str) -> re.Pattern[str]:
    """One entry of a summary: ``desks e3,e8: total 9500``; ``desks e3,e8 (total)`` where all that e8 changed is the total."""
    return re.compile(rf"(\w+) (e\d+(?:,e\d+)*)(?: \(([^)]*)\))?(?:{re.escape(colon)}(.*))?$")


@remembered
def summary(spec: FamilySpec, text: str) -> Mapping[str, Pointer]:
    """The entries of a summary by record."""
    found = {}
    words = spec.words
    pointer = _pointer(words.colon)
    for entry in text.split(words.entry):
        if m := pointer.match(entry):
            events, nouns = tuple(int(e[1:]) for e in m[2].split(",")), (m[3] or "").split(words.comma)
            changes = tuple(a.name for a in spec.attrs if a.noun in nouns)
            found[m[1]] = Pointer(events, pairs(spec, m[4] or ""), changes)
    return MappingProxyType(found)


LIST = re.compile(r'(?:^compress e\d+ |"summary": ")(.*?)(?: @e\d+(?:,e\d+)*)?(?:"|$)', re.MULTILINE)


def list_text(turn: str) -> str:
    """The summary that an own turn read back gave, in either syntax; empty when it gave none."""
    match = LIST.search(turn)
    return match[1] if match else ""


@dataclass(frozen=True, slots=True)
class Request:
    """What the newest user message asks for."""

    slots: tuple[str, ...]
    call: str = ""
    entity: str = ""
    asked: str = ""
    """Field asked of ``entity``; empty for questions about the user's own constraint."""
    constraint: bool = False
    compare: bool = False
    ruled: bool = False
    """Asks which value of the user's rule holds for ``entity``."""
    across: tuple[str, ...] = ()
    """Two records whose amounts are compared."""
    total: bool = False
    many: tuple[tuple[str, str], ...] = ()
    """Record and field of each of several independent questions, in order; their slots are ``q1``, ``q2``, …"""
    struck: bool = False
    """Asks which value of ``asked`` was ruled out."""
    verify: bool = False
    """Asks for a look at the source, in words or by what is at stake."""
    enter: bool = False
    """Wants the value of ``asked`` entered in the register."""
    keep: tuple[str, ...] = ()
    close: bool = False


@remembered
def read_request(spec: FamilySpec, text: str) -> Request:
    """Read a user message by the family's templates."""
    slots = SLOTS.search(text)
    call = entity = asked = ""
    compare = False
    fields = entity_fields(spec)
    nouns = {"noun": "|".join(a.noun for a in spec.attrs)}
    by_noun = {a.noun: a.name for a in spec.attrs}
    ruled_nouns = {"noun": "|".join([nouns["noun"], *([spec.rule.noun] if spec.rule else [])])}
    for templates, tool in ((spec.work, spec.lookup), (spec.changes, spec.change)):
        for m in find_all(templates, text, fields):
            entity = bare(spec, m["entity"])
            given = [entity, m.groupdict().get("qty") or ""][: len(tool.args)]
            call = " ".join([tool.name, *(f"{n}={v}" for n, v in zip(tool.args, given, strict=True))])
    asks = [(bare(spec, m["entity"]), by_noun[m["noun"]]) for m in find_all(spec.words.asks, text, {**fields, **nouns})]
    if asks:
        entity, asked = asks[-1]
    struck = find_all(spec.words.ruled_asks, text, {**fields, **nouns})
    for m in struck:
        entity, asked = bare(spec, m["entity"]), by_noun[m["noun"]]
    enter = find_all(spec.words.enters, text, {**fields, **nouns})
    for m in enter:
        entity, asked = bare(spec, m["entity"]), by_noun[m["noun"]]
    if spec.compare:
        for m in find_all(spec.compare.asks, text, fields):
            entity, asked, compare = bare(spec, m["entity"]), spec.compare.attr, True
    for attr in spec.attrs:
        for m in find_all(attr.other, text, fields):
            entity, asked = bare(spec, m["entity"]), attr.name
    ruled = False
    across: tuple[str, ...] = ()
    for m in find_all(spec.rule.asks if spec.rule else (), text, fields):
        entity, ruled = bare(spec, m["entity"]), True
    for m in find_all(spec.across, text, {**fields, "other": fields["entity"]}):
        across = (bare(spec, m["entity"]), bare(spec, m["other"]))
    if call:
        for m in find_all(spec.words.tells, text, nouns):
            asked = by_noun[m["noun"]]
    return Request(
        slots=tuple(s.split("=")[0] for s in slots[1].split()) if slots else (),
        call=call,
        entity=entity,
        asked=asked,
        constraint=any(a in text for a in spec.user_fact.asks),
        compare=compare,
        ruled=ruled,
        across=across,
        total=any(t in text for t in spec.totals),
        many=tuple(asks) if slots and "q1=?" in slots[1] else (),
        struck=bool(struck),
        enter=bool(enter),
        verify=bool(enter) or bool(find_all(spec.words.verifies, text, ruled_nouns)),
        keep=tuple(by_noun[m["noun"]] for m in find_all(spec.words.keeps, text, nouns)),
        close=any(c in text for c in spec.words.closes),
    )


def slot_kind(spec: FamilySpec, request: Request, slot: str) -> str:
    """Kind of value that a slot asks for."""
    of_many = {f"q{n}": attr for n, (_, attr) in enumerate(request.many, 1)}
    attr = of_many.get(slot, slot)
    kind = next((a.kind for a in spec.attrs if a.name == attr), "")
    return kind or (spec.user_fact.kind if slot == spec.user_fact.key else "amount")


@remembered
def struck_values(spec: FamilySpec, text: str) -> tuple[tuple[str, str, str], ...]:
    """Record, field and value of everything that a user message rules out."""
    found = []
    for attr in spec.attrs:
        templates = tuple(t.replace("{noun}", attr.noun) for t in spec.words.rule_outs)
        for m in find_all(templates, text, {**entity_fields(spec), "v": spec.pattern(attr.kind)}):
            found.append((bare(spec, m["entity"]), attr.name, m["v"]))
    return tuple(found)


@remembered
def user_fact(spec: FamilySpec, text: str) -> str | None:
    """The user's constraint, when the message states or changes it."""
    fact = spec.user_fact
    found = [m["v"] for m in find_all((*fact.says, *fact.changes), text, {"v": spec.pattern(fact.kind)})]
    return found[-1] if found else None
