"""What the scripted policies read off a view: its blocks, and the facts that its sentences state. Nothing but the view goes in.

A view repeats most messages of the one before, so everything here is remembered by text. What is remembered is shared by all views:
it is frozen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, wraps
from types import MappingProxyType
from typing import Literal, TypeVar

from envs.chat import Message
from envs.tasks import ALL_SPECS
from envs.tasks.spec import ENTER, FamilySpec
from envs.tasks.surface import find_all, find_first
from envs.tasks.words import WORDS
from envs.text import HAN

T = TypeVar("T")
Kind = Literal["user", "result", "paged", "read", "fold", "boundary", "cleared", "hit", "ack", "reject", "host"]

_TAGS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("read", re.compile(r"\[e(?P<first>\d+)(?:-e(?P<last>\d+))?(?: (?P<name>\w+))?\] p(?P<page>\d+)/(?P<pages>\d+)$")),
    ("user", re.compile(r"\[e(?P<first>\d+) user\] (?P<text>.*)$")),
    ("cleared", re.compile(r"\[e(?P<first>\d+) (?P<name>\w+)\] cleared \d+ tokens$")),
    ("result", re.compile(r"\[e(?P<first>\d+) (?P<name>\w+)\] (?P<text>.*)$")),
    ("fold", re.compile(r"\[(?P<id>f\d+) e(?P<first>\d+)-e(?P<last>\d+)\] (?P<text>.*)$")),
    ("boundary", re.compile(r"\[(?P<id>c\d+) e(?P<first>\d+)-e(?P<last>\d+)\] (?P<text>.*)$")),
    ("hit", re.compile(r"\[e(?P<first>\d+)\] (?P<text>.*)$")),
    ("host", re.compile(r"\[host\] (?P<text>.*)$")),
    ("reject", re.compile(r"! (?P<text>.*)$")),
    ("ack", re.compile(r"(?P<text>ok(?: \w+)*|no hit)$")),
)
NOTE_KEY = re.compile(r"[a-z0-9_.]{1,40}")
NOTE_REFS = re.compile(r"@e\d+(?:,e\d+)*")
NOTE_MARKS = ("old", "open", "candidate", "pending")
KEPT = re.compile(r" @(e\d+(?:,e\d+)*)$")
PART = re.compile(r" \(e(\d+) p(\d+)-(\d+)/(\d+)\)")
SLOTS = re.compile(rf"(?:{'|'.join(w.answer for w in WORDS.values())})((?: ?\w+=\?)+)\s*$")
REMEMBERED = 32_768
"""Messages and texts held: those of a thousand episodes in lock-step."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the view: ``first``/``last`` are event numbers, ``place`` its order in the view."""

    kind: Kind
    text: str
    place: int
    first: int = 0
    last: int = 0
    name: str = ""
    keep: tuple[int, ...] = ()
    page: int = 1
    pages: int = 1
    start: int = 1
    """First page of a joined read-back; ``page`` is then its last."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A note as the header or an own turn shows it: its value and source event."""

    value: str
    source: int
    status: str = ""


Notes = tuple[tuple[str, Noted], ...]


@dataclass(frozen=True, slots=True)
class Own:
    """One of the policy's own turns in view, and the notes that it takes."""

    text: str
    place: int
    notes: Notes


@dataclass(frozen=True)
class Seen:
    """A view, taken apart."""

    managed: bool
    spec: FamilySpec
    blocks: list[Block]
    own: list[Own]
    notes: dict[str, Noted]
    out: str

    @cached_property
    def reads(self) -> list[Block]:
        """Read-backs and paged results in view, neighbouring pages of one reference joined (pages concatenate to the logged text)."""
        joined: list[Block] = []
        for block in sorted(self.of("read", "paged"), key=lambda b: (b.first, b.last, b.page)):
            held = joined[-1] if joined and (joined[-1].first, joined[-1].last) == (block.first, block.last) else None
            if held and block.page == held.page + 1:
                joined[-1] = replace(held, text=held.text + block.text, page=block.page, place=max(held.place, block.place))
            elif not held or block.page > held.page:
                joined.append(replace(block, start=block.page))
        return joined

    @cached_property
    def _by_kind(self) -> dict[Kind, list[Block]]:
        found: dict[Kind, list[Block]] = {}
        for block in self.blocks:
            found.setdefault(block.kind, []).append(block)
        return found

    def of(self, *kinds: Kind) -> Sequence[Block]:
        """The blocks of these kinds, in order."""
        if len(kinds) == 1:
            return self._by_kind.get(kinds[0], [])
        return [b for b in self.blocks if b.kind in kinds]

    @property
    def question(self) -> Block:
        """The newest user message."""
        return self.of("user")[-1]


def read_view(messages: Sequence[Message]) -> Seen:
    """Take a view apart. Under plain history, texts carry no tags: what follows a turn with calls is its result."""
    system = messages[0].content
    managed, spec = "\nnotes:" in system, spec_of(messages)
    held, out = _header(system) if managed else ((), "none")
    blocks, own, notes = list[Block](), list[Own](), dict(held)
    for place, message in enumerate(messages[1:], 1):
        if message.role == "assistant":
            turn = _own_turn(message.content, place)
            own.append(turn)
            # A note turn may stand in the history still when the header has a newer value of its key.
            notes.update((k, n) for k, n in turn.notes if k not in notes or notes[k].source <= n.source)
        elif managed:
            before, found = _host_blocks(message.content, place)
            if before and blocks:
                blocks[-1] = replace(blocks[-1], text=blocks[-1].text + before)
            last = own[-1] if own and own[-1].place == place - 1 else None
            blocks += _results_by_page(spec, last.text, found) if last else found
        else:
            last = own[-1] if own and own[-1].place == place - 1 else None
            called = last is not None and _calls(spec, last.text)
            blocks += _plain_blocks(message.content, place, called)
    return Seen(managed, spec, blocks, own, notes, out)


def _calls(spec: FamilySpec, text: str) -> bool:
    """Whether an own turn begins with a business call."""
    return text.split(" ", 1)[0] in (spec.lookup.name, spec.change.name, ENTER.name)


def _results_by_page(spec: FamilySpec, call: str, blocks: tuple[Block, ...]) -> Sequence[Block]:
    """The blocks after a turn; after a business call, a first page is a result too large to be shown whole, not a read-back."""
    if not any(b.kind == "read" for b in blocks) or not _calls(spec, call):
        return blocks
    return [replace(b, kind="paged") if b.kind == "read" and b.page == 1 else b for b in blocks]


def _notes(lines: Sequence[str]) -> Notes:
    return tuple(note for line in lines if (note := _note(line)))


def _note(line: str) -> tuple[str, Noted] | None:
    """``key=value[ @e3,e5][ old][ was @e1]``, taken off from the end: a regex that tries every length of the value is far slower."""
    key, mark, rest = line.partition("=")
    if not mark or not NOTE_KEY.fullmatch(key):
        return None
    words = rest.split(" ")
    if len(words) > 2 and words[-2] == "was" and NOTE_REFS.fullmatch(words[-1]) and "," not in words[-1]:
        del words[-2:]
    status = words.pop() if len(words) > 1 and words[-1] in NOTE_MARKS else ""
    refs = words.pop()[1:] if len(words) > 1 and NOTE_REFS.fullmatch(words[-1]) else None
    return key, Noted(" ".join(words), _first_event(refs), status)


def _first_event(refs: str | None) -> int:
    return int(refs.split(",")[0][1:]) if refs else 0


@lru_cache(maxsize=REMEMBERED)
def _header(system: str) -> tuple[Notes, str]:
    """Notes and omission index at the end of the system message."""
    head = system[system.rindex("\nnotes:") + 1 :]
    notes, _, out = head.rpartition("\nout: ")
    return _notes(notes.split("\n")[1:]), out


@lru_cache(maxsize=REMEMBERED)
def _own_turn(text: str, place: int) -> Own:
    return Own(text, place, _notes([line[5:] for line in text.split("\n") if line.startswith("note ")]))


@lru_cache(maxsize=REMEMBERED)
def _host_blocks(content: str, place: int) -> tuple[str, tuple[Block, ...]]:
    """The blocks of one host message, after the lines before its first tag: those continue the block before."""
    before, blocks = "", list[Block]()
    for line in content.split("\n"):
        block = _tagged(line, place)
        held = blocks[-1] if blocks else None
        # The events of a range that is read back bring their tags along: they are part of its text.
        quoted = held and held.kind == "read" and held.first < held.last and block and held.first <= block.first <= held.last
        if block and not quoted:
            blocks.append(block)
        elif held:
            opens = held.kind == "read" and not held.text
            blocks[-1] = replace(held, text=line if opens else f"{held.text}\n{line}")
        else:
            before += f"\n{line}"
    return before, tuple(blocks)


def _tagged(line: str, place: int) -> Block | None:
    """The block that a line begins; None for a line without a tag."""
    for kind, pattern in _TAGS:
        if not (m := pattern.match(line)):
            continue
        got = m.groupdict()
        text = got.get("text") or ""
        keep: tuple[int, ...] = ()
        if kind in ("fold", "boundary") and (k := KEPT.search(text)):
            keep = tuple(int(r[1:]) for r in k[1].split(","))
            text = text[: k.start()]
        first = int(got.get("first") or 0)
        name = got.get("name") or got.get("id") or ""
        page, pages = int(got.get("page") or 1), int(got.get("pages") or 1)
        return Block(kind, text, place, first, int(got.get("last") or first), name, keep, page, pages)
    return None


@lru_cache(maxsize=REMEMBERED)
def _plain_blocks(content: str, place: int, after_call: bool) -> tuple[Block, ...]:
    """The lines of one message under plain history, which has no event numbers: the place stands for them."""
    return tuple(
        Block("user" if SLOTS.search(line) or not after_call else "result", line, place, place, place)
        for line in content.split("\n")
    )


def spec_of(messages: Sequence[Message]) -> FamilySpec:
    """The family, told by the business tools of the contract line, in the language of what follows.

    Raises ValueError when no known family has these tools.
    """
    return _spec_of(messages[0].content, "zh" if any(_han(m.content) for m in messages[1:]) else "en")


@lru_cache(maxsize=REMEMBERED)
def _han(text: str) -> bool:
    return HAN.search(text) is not None


@lru_cache(maxsize=REMEMBERED)
def _spec_of(system: str, lang: str) -> FamilySpec:
    lines = system.split("\n")
    specs = [s for s in ALL_SPECS.values() if s.lang == lang]
    for spec in specs:
        tools = f"{spec.lookup.signature} | {spec.change.signature}"
        if tools in lines or f"{tools} | {ENTER.signature}" in lines:
            return spec
    for spec in specs:
        if all(f'"name": "{tool.name}"' in system for tool in (spec.lookup, spec.change)):
            return spec
    raise ValueError("no family known to the scripted policies has the tools of this contract: " + " / ".join(lines[:4]))


# ---- what sentences state ---------------------------------------------------------------------------------------------------


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
