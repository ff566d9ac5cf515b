"""The compact syntax: what a turn's raw text says, line by line. Pure parsing; nothing is looked up or changed here.

A line whose first word is a name of the contract is a call. ``word x=…`` or a context tool that the profile lacks is an unknown
tool. Other lines beside calls are remarks. A turn without call lines is the answer. Where the profile checks positions, a
changing call begins with the window the policy believes to be in: ``w1 note key=value @e3``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from envs.profiles import ALL_TOOLS, CHANGING, Profile
from envs.tasks.base import ToolSpec

KEY = r"[a-z0-9_.]{1,40}"
REF = r"[efc][1-9][0-9]{0,5}"
CITES = re.compile(rf" @({REF}(?:, ?{REF})*)$")
NOTE = re.compile(rf"note ({KEY})=(\S.*)$")
FOLD = re.compile(r"fold e([1-9][0-9]{0,5})-e([1-9][0-9]{0,5}) (\S.*)$")
COMPRESS = re.compile(r"compress e([1-9][0-9]{0,5}) (\S.*)$")
BARE = re.compile(r"compress e([1-9][0-9]{0,5})")
READ = re.compile(rf"read ({REF})(?:-e([1-9][0-9]{{0,5}}))?(?: p([1-9][0-9]{{0,3}}))?$")
FIND = re.compile(r"find (\S.*)$")
WINDOW = re.compile(r"w[1-9][0-9]{0,3}")
PLACED = re.compile(rf"({WINDOW.pattern}) ([a-z_]+)(?: |$)")
WINDOW_ARGS = {
    "window_open": ("title", "handoff", "checkpoint"),
    "window_switch": ("id", "checkpoint"),
    "window_close": ("outcome", "next"),
}
OPTIONAL = {"handoff", "checkpoint"}
UNKNOWN = re.compile(r"[a-z_][a-z0-9_]* [A-Za-z_][A-Za-z0-9_]*=")
ARG = re.compile(r" +([A-Za-z_][A-Za-z0-9_]*)=(\"(?:[^\"\\]|\\.)*\"|[^\s\"]\S*)")

SHAPES = {
    "note": "note key=value @e3",
    "fold": "fold e2-e5 brief @e3",
    "compress": "compress e9 summary",
    "read": "read e3",
    "find": "find words",
    "local": "local key=value @e3",
    "window_list": "window_list",
    "window_open": 'window_open title="…" handoff="…" checkpoint="…"',
    "window_switch": 'window_switch id=w1 checkpoint="…"',
    "window_close": 'window_close outcome="…" next=w1',
    "stage_done": "stage_done outcome | key=value @e3",
    "recall": "recall words",
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call line. ``code`` is empty for a well-formed call, else the rejection code with ``why`` and the valid alternative."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""
    why: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A turn: ``calls`` (with remarks beside them), an ``answer``, or a ``notice`` (nothing usable)."""

    kind: Literal["calls", "answer", "notice"]
    calls: tuple[Call, ...] = ()
    remarks: tuple[str, ...] = ()


def parse(text: str, cut: bool, profile: Profile, tools: tuple[ToolSpec, ...]) -> Parsed:
    """Parse the text of one turn. Never raises, whatever the text.

    A turn that is empty, was cut by the token cap, or starts with ``{`` or ``<`` is a notice: none of its lines is carried out,
    because the last call of a cut turn may be half a call.
    """
    body = text.strip()
    if cut or not body or body[0] in "{<":
        return Parsed("notice")
    business = {t.name: t for t in tools}
    calls: list[Call] = []
    remarks: list[str] = []
    for raw in body.split("\n"):
        line, place = raw.strip(), ""
        if profile.position_check and (match := PLACED.match(line)):
            rest = line[len(match[1]) + 1 :]
            if match[2] in (*ALL_TOOLS, *business) or UNKNOWN.match(rest):
                place, line = match[1], rest
        word = line.split(maxsplit=1)[0] if line else ""
        if word in profile.tools:
            calls.append(_placed(_context_call(word, line, profile.compress_by == "agent"), place, profile))
        elif word in business:
            calls.append(_business_call(business[word], line))
        elif word in ALL_TOOLS or UNKNOWN.match(line):
            calls.append(_unknown(word, profile, tools))
        elif line:
            remarks.append(line)
    return Parsed("calls", tuple(calls), tuple(remarks)) if calls else Parsed("answer")


def _unknown(word: str, profile: Profile, tools: tuple[ToolSpec, ...]) -> Call:
    names = (*profile.tools, *(t.name for t in tools))
    return Call(word, code="unknown_tool", why=f"no tool {word[:40]}", instead=", ".join(names) or "an answer")


def _bad(tool: str, why: str, instead: str) -> Call:
    return Call(tool, code="bad_arguments", why=why, instead=instead)


def _cites(body: str) -> tuple[str, tuple[str, ...]]:
    """Split ``brief @e3,e5`` in text and references."""
    match = CITES.search(body)
    if not match:
        return body.strip(), ()
    return body[: match.start()].strip(), tuple(dict.fromkeys(r.strip() for r in match[1].split(",")))


def _context_call(word: str, line: str, by_agent: bool = False) -> Call:
    shape = SHAPES[word]
    if word == "local":
        call = _context_call("note", f"note{line[5:]}")
        if call.code:
            return replace(call, instead=shape)
        return replace(call, args={**call.args, "scope": "window"})
    if word == "window_list":
        return Call(word) if line == word else _bad(word, "window_list takes nothing", shape)
    if word in WINDOW_ARGS:
        return _window_call(word, line, shape)
    if word == "stage_done":
        return _stage_done(line, shape)
    if word == "recall":
        what = line[len(word) :].strip()
        return Call(word, {"what": what}) if what else _bad(word, "recall needs words", shape)
    if word == "note":
        status = ""
        body = line
        for mark in ("old", "open"):
            if line.endswith(f" {mark}") and CITES.search(line[: -len(mark) - 1]):
                status, body = mark, line[: -len(mark) - 1].rstrip()
        match = NOTE.match(body)
        if not match:
            return _bad(word, "a note is key=value with a key of a-z 0-9 _ . up to 40", shape)
        value, refs = _cites(match[2]) if CITES.search(body) else (match[2].strip(), ())
        if not value:
            return _bad(word, "the note has no value", shape)
        return Call(word, {"key": match[1], "value": value, "refs": refs, "status": status})
    if word == "fold":
        match = FOLD.match(line)
        if not match:
            return _bad(word, "a fold names a range of events and a brief", shape)
        brief, refs = _cites(line[line.index(" ", 5) :]) if CITES.search(line) else (match[3].strip(), ())
        return Call(word, {"first": int(match[1]), "last": int(match[2]), "text": brief, "refs": refs})
    if word == "compress":
        if by_agent and (bare := BARE.fullmatch(line)):
            return Call(word, {"upto": int(bare[1]), "text": "", "refs": ()})
        match = COMPRESS.match(line)
        if not match:
            return _bad(word, "compress names the last event to cover and a summary", shape)
        summary, refs = _cites(line[line.index(" ", 9) :]) if CITES.search(line) else (match[2].strip(), ())
        return Call(word, {"upto": int(match[1]), "text": summary, "refs": refs})
    if word == "read":
        match = READ.match(line)
        if not match or (match[2] and match[1][0] != "e"):
            return _bad(word, "read takes one reference or a range, and a page", shape)
        last = int(match[2]) if match[2] else None
        return Call(word, {"ref": match[1], "last": last, "page": int(match[3] or 1)})
    match = FIND.match(line)
    return Call(word, {"query": match[1].strip()}) if match else _bad(word, "find needs words", shape)


def parse_note(text: str) -> Call:
    """The note that ``key=value @e3`` means (what follows the word ``note``)."""
    return _context_call("note", f"note {text.strip()}")


def parse_read(text: str) -> Call:
    """The read-back that ``e3 p2`` means (what follows the word ``read``)."""
    return _context_call("read", f"read {text.strip()}")


def _placed(call: Call, place: str, profile: Profile) -> Call:
    """The call with the window it expects to be in, where the profile asks for it."""
    tool = call.tool
    if not profile.position_check or tool not in CHANGING:
        return call
    if call.code:
        return replace(call, instead=f"{place or 'w1'} {call.instead}")
    if not place:
        return _bad(tool, "say the window you are in", f"w1 {call.instead or SHAPES[tool]}")
    return replace(call, args={**call.args, "expected": place})


def _window_call(word: str, line: str, shape: str) -> Call:
    names = WINDOW_ARGS[word]
    call = _arguments(word, names, line, shape, {n for n in names if n in OPTIONAL})
    if call.code:
        return call
    target = {"window_switch": "id", "window_close": "next"}.get(word)
    if target and not WINDOW.fullmatch(call.args[target]):
        return _bad(word, f"{target} is a window such as w1", shape)
    return call


def _stage_done(line: str, shape: str) -> Call:
    outcome, *constraints = [part.strip() for part in line[len("stage_done") :].split(" | ")]
    if not outcome:
        return _bad("stage_done", "say the outcome", shape)
    for text in constraints:
        note = parse_note(text)
        if note.code:
            return _bad("stage_done", f"constraint {text[:40]!r}: {note.why}", shape)
    return Call("stage_done", {"outcome": outcome, "constraints": tuple(constraints)})


def _business_call(tool: ToolSpec, line: str) -> Call:
    return _arguments(tool.name, tool.args, line, " ".join((tool.name, *(f"{a}=…" for a in tool.args))))


def _arguments(tool_name: str, names: tuple[str, ...], line: str, shape: str, optional: Collection[str] = ()) -> Call:
    """A call of the form ``name arg=value …``; left out optional arguments are empty."""
    args: dict[str, str] = {}
    rest = line[len(tool_name) :]
    while rest.strip():
        match = ARG.match(rest)
        if not match:
            return _bad(tool_name, f"arguments are name=value, quoted when they hold spaces, not {rest.strip()[:40]!r}", shape)
        name, value = match[1], match[2]
        if value.startswith('"'):
            try:
                value = str(json.loads(value))
                value.encode()  # half of a surrogate pair is valid JSON but no text
            except ValueError:
                return _bad(tool_name, f"{name[:40]} is not a JSON string", shape)
        if name not in names:
            return _bad(tool_name, f"no argument {name[:40]}", shape)
        if name in args:
            return _bad(tool_name, f"{name} stands twice", shape)
        args[name] = value
        rest = rest[match.end() :]
        if rest and not rest.startswith(" "):
            return _bad(tool_name, "a space must stand between arguments", shape)
    missing = [a for a in names if a not in args and a not in optional]
    if missing:
        return _bad(tool_name, f"{', '.join(missing)} missing", shape)
    return Call(tool_name, {**dict.fromkeys(optional, ""), **args})


def canonical_call(tool: ToolSpec, args: Mapping[str, Any]) -> str:
    """The call in its canonical spelling, arguments in the tool's order: the key of the world's responses."""
    parts = [tool.name]
    for name in tool.args:
        value = str(args[name])
        parts.append(
            f"{name}={value}" if value and not re.search(r'[\s"]', value) else f"{name}={json.dumps(value, ensure_ascii=False)}"
        )
    return " ".join(parts)


def spell(tool: str, args: Mapping[str, Any]) -> str:
    """The line of a context call: the inverse of ``parse`` for well-formed calls (``args`` by their internal names)."""
    place = f"{args['expected']} " if args.get("expected") else ""
    refs = f" @{','.join(args['refs'])}" if args.get("refs") else ""
    if tool == "note":
        word = "local" if args.get("scope") == "window" else "note"
        mark = f" {args['status']}" if args.get("status") and refs else ""
        return f"{place}{word} {args['key']}={args['value']}{refs}{mark}"
    if tool == "fold":
        return f"{place}fold e{args['first']}-e{args['last']} {args['text']}{refs}"
    if tool == "compress":
        return f"{place}compress e{args['upto']} {args['text']}".rstrip() + refs
    if tool == "read":
        last = f"-e{args['last']}" if args.get("last") else ""
        page = f" p{args['page']}" if args.get("page", 1) > 1 else ""
        return f"read {args['ref']}{last}{page}"
    if tool == "find":
        return f"find {args['query']}"
    if tool == "recall":
        return f"recall {args['what']}"
    if tool == "stage_done":
        return " | ".join([f"stage_done {args['outcome']}", *args.get("constraints", ())])
    given = (f"{n}={json.dumps(args[n], ensure_ascii=False)}" for n in WINDOW_ARGS.get(tool, ()) if args.get(n))
    return " ".join([f"{place}{tool}", *given])
