"""A view taken apart into what the scripted policies see: blocks with their event numbers, notes, own turns, the family's spec.

A view repeats most messages of the one before, so everything here is remembered by text. What is remembered is shared by all views:
it is frozen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

from envs.chat import Message
from envs.tasks import ALL_SPECS
from envs.tasks.spec import ENTER, FamilySpec
from envs.tasks.words import WORDS
from envs.text import HAN

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
    notes, _, out = head.rpartition("\nout: ") if "\nout: " in head else (head, "", "none")  # a profile may go without the index
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
