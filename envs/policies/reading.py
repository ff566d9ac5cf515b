"""What the scripted policies read off a view: its blocks, and the facts that its sentences state. Nothing but the view goes in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from envs.chat import Message
from envs.tasks import SPECS
from envs.tasks.engine import ASKS, CLOSES, KEEPS, TELLS, FamilySpec
from envs.tasks.surface import PATTERNS, find_all

Kind = Literal["user", "result", "read", "fold", "boundary", "cleared", "hit", "ack", "reject", "host"]

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
NOTE_LINE = re.compile(r"([a-z0-9_.]{1,40})=(.*?)(?: @(e\d+(?:,e\d+)*))?(?: (old|open|candidate|pending))?(?: was @e(\d+))?$")
KEPT = re.compile(r" @(e\d+(?:,e\d+)*)$")
UNLISTED = "; the values are not listed here"
"""End of a brief that had no room for values."""
SLOTS = re.compile(r"Answer:((?: \w+=\?)+)\s*$")


@dataclass(slots=True)
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


@dataclass(slots=True)
class Own:
    """One of the policy's own turns in view."""

    text: str
    place: int


@dataclass(slots=True)
class Noted:
    """A note as the header or an own turn shows it: its value and source event."""

    value: str
    source: int


@dataclass
class Seen:
    """A view, taken apart."""

    managed: bool
    blocks: list[Block] = field(default_factory=list)
    own: list[Own] = field(default_factory=list)
    notes: dict[str, Noted] = field(default_factory=dict)
    out: str = "none"

    def reads(self) -> list[Block]:
        """Read-backs in view, the pages of one reference joined (pages concatenate to the logged text)."""
        joined: dict[tuple[int, int], Block] = {}
        for block in sorted(self.of("read"), key=lambda b: (b.first, b.last, b.page)):
            held = joined.setdefault((block.first, block.last), replace(block, text="", page=0))
            if block.page == held.page + 1:
                held.text, held.page, held.place = held.text + block.text, block.page, max(held.place, block.place)
        return list(joined.values())

    def of(self, *kinds: Kind) -> list[Block]:
        return [b for b in self.blocks if b.kind in kinds]

    @property
    def question(self) -> Block:
        """The newest user message."""
        return self.of("user")[-1]


def read_view(messages: Sequence[Message]) -> Seen:
    """Take a view apart. Under plain history, texts carry no tags: what follows a turn with calls is its result."""
    system = messages[0].content
    seen = Seen(managed="\nnotes:" in system)
    if seen.managed:
        _read_header(system, seen)
    spec = spec_of(messages)
    for place, message in enumerate(messages[1:], 1):
        if message.role == "assistant":
            seen.own.append(Own(message.content, place))
            for line in message.content.split("\n"):
                if line.startswith("note ") and (m := NOTE_LINE.match(line[5:])):
                    seen.notes[m[1]] = Noted(m[2], int(m[3].split(",")[0][1:]) if m[3] else 0)
        elif seen.managed:
            _read_host(message.content, seen, place)
        else:
            _read_plain(message.content, seen, place, spec)
    return seen


def _read_header(system: str, seen: Seen) -> None:
    head = system[system.rindex("\nnotes:") + 1 :]
    notes, _, seen.out = head.rpartition("\nout: ")
    for line in notes.split("\n")[1:]:
        if m := NOTE_LINE.match(line):
            seen.notes[m[1]] = Noted(m[2], int(m[3].split(",")[0][1:]) if m[3] else 0)


def _read_host(content: str, seen: Seen, place: int) -> None:
    open_read: Block | None = None
    for line in content.split("\n"):
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
            block = Block(kind, text, place, first, int(got.get("last") or first), got.get("name") or got.get("id") or "", keep)
            seen.blocks.append(block)
            if kind == "read":
                block.page, block.pages = int(got["page"]), int(got["pages"])
            open_read = block if kind == "read" else None
            break
        else:
            if open_read:
                open_read.text += ("\n" if open_read.text else "") + line
            elif seen.blocks:
                seen.blocks[-1].text += "\n" + line


def _read_plain(content: str, seen: Seen, place: int, spec: FamilySpec) -> None:
    calls = [spec.lookup.name, spec.change.name]
    after_call = seen.own and seen.own[-1].place == place - 1 and seen.own[-1].text.split(" ", 1)[0] in calls
    for line in content.split("\n"):
        is_user = bool(SLOTS.search(line)) or not after_call
        seen.blocks.append(Block("user" if is_user else "result", line, place, place, place))


def spec_of(messages: Sequence[Message]) -> FamilySpec:
    """The family, told by the business tools of the contract line. Raises ValueError when no known family has them."""
    lines = messages[0].content.split("\n")
    for spec in SPECS.values():
        if f"{spec.lookup.signature} | {spec.change.signature}" in lines:
            return spec
    raise ValueError("no family known to the scripted policies has the tools of this contract: " + " / ".join(lines[:4]))


# ---- what sentences state ---------------------------------------------------------------------------------------------------


def entity_fields(spec: FamilySpec) -> dict[str, str]:
    """Patterns of the placeholders that stand for a record, a quantity and a source."""
    names = "|".join(spec.entities)
    phrase = spec.entity_phrase.replace("{e}", f"(?:{names})")
    return {"entity": phrase, "qty": r"\d+", "source": "|".join(spec.sources)}


def bare(spec: FamilySpec, phrase: str) -> str:
    """The entity's name out of its phrase (``the desks`` -> ``desks``)."""
    return phrase.removeprefix(spec.entity_phrase.format(e=""))


@dataclass(frozen=True, slots=True)
class Stated:
    """A text about one record: which, by whom, which fields it gives, and whether it reports a change."""

    entity: str
    source: str
    fields: dict[str, str]
    changed: bool


def result_facts(spec: FamilySpec, text: str) -> Stated | None:
    """What a business result states; None for anything else."""
    for heads, changed in ((spec.heads, False), (spec.change_heads, True)):
        match = next(find_all(heads, text, entity_fields(spec)), None)
        if match:
            found = {}
            for attr in spec.attrs:
                hit = next(find_all(attr.says, text, {"v": PATTERNS[attr.kind]}), None)
                if hit:
                    found[attr.name] = hit["v"]
            got = match.groupdict()
            return Stated(bare(spec, got["entity"]), got.get("source") or "", found, changed)
    return None


def brief_text(spec: FamilySpec, entity: str, source: str, fields: dict[str, str], changed: bool) -> str:
    """The expert's brief of a stage."""
    head = (spec.change_brief if changed else spec.brief).format(entity=entity, source=source)
    body = ", ".join(f"{spec.attr(a).noun} {v}" for a, v in fields.items())
    return f"{head}: {body}" if body else head + UNLISTED


def brief_facts(spec: FamilySpec, text: str) -> Stated | None:
    """What a brief states, when it has the form of ``brief_text``."""
    fields = {**entity_fields(spec), "entity": "|".join(spec.entities)}
    for template, changed in ((spec.change_brief, True), (spec.brief, False)):
        match = next(find_all((template,), text, fields), None)
        if match:
            got = match.groupdict()
            return Stated(got["entity"], got.get("source") or "", pairs(spec, text[match.end() :]), changed)
    return None


def pairs(spec: FamilySpec, text: str) -> dict[str, str]:
    """Fields given as ``noun value`` in a brief or summary."""
    found = {}
    for attr in spec.attrs:
        if m := re.search(rf"(?:^|[:,] ){re.escape(attr.noun)} ({PATTERNS[attr.kind]})(?=$|[,;.])", text):
            found[attr.name] = m[1]
    return found


@dataclass(slots=True)
class Request:
    """What the newest user message asks for."""

    slots: list[str]
    call: str = ""
    entity: str = ""
    change: bool = False
    asked: str = ""
    """Field asked of ``entity``; empty for questions about the user's own constraint."""
    constraint: bool = False
    compare: bool = False
    keep: list[str] = field(default_factory=list)
    close: bool = False


def read_request(spec: FamilySpec, text: str) -> Request:
    """Read a user message by the family's templates."""
    slots = SLOTS.search(text)
    request = Request([s.split("=")[0] for s in slots[1].split()] if slots else [])
    fields = entity_fields(spec)
    nouns = {"noun": "|".join(a.noun for a in spec.attrs)}
    by_noun = {a.noun: a.name for a in spec.attrs}
    for templates, change in ((spec.work, False), (spec.changes, True)):
        for m in find_all(templates, text, fields):
            request.entity, request.change = bare(spec, m["entity"]), change
            tool = spec.change if change else spec.lookup
            given = [request.entity, m.groupdict().get("qty") or ""][: len(tool.args)]
            request.call = " ".join([tool.name, *(f"{n}={v}" for n, v in zip(tool.args, given, strict=True))])
    request.keep = [by_noun[m["noun"]] for m in find_all(KEEPS, text, nouns)]
    request.close = any(c in text for c in CLOSES)
    for m in find_all(ASKS, text, {**fields, **nouns}):
        request.entity, request.asked = bare(spec, m["entity"]), by_noun[m["noun"]]
    if spec.compare:
        for m in find_all(spec.compare.asks, text, fields):
            request.entity, request.asked, request.compare = bare(spec, m["entity"]), spec.compare.attr, True
    if request.call:
        for m in find_all(TELLS, text, nouns):
            request.asked = by_noun[m["noun"]]
    request.constraint = any(a in text for a in spec.user_fact.asks)
    return request


def user_fact(spec: FamilySpec, text: str) -> str | None:
    """The user's constraint, when the message states or changes it."""
    fact = spec.user_fact
    found = [m["v"] for m in find_all((*fact.says, *fact.changes), text, {"v": PATTERNS[fact.kind]})]
    return found[-1] if found else None
