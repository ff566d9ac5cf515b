"""The compact syntax: what a turn's raw text says, line by line. Pure parsing; nothing is looked up or changed here.

A line whose first word is a name of the contract is a call. ``word x=…`` or a context tool that the profile lacks is an unknown
tool. Other lines beside calls are remarks. A turn without call lines is the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from envs.profiles import ALL_TOOLS, Profile
from envs.tasks.base import ToolSpec

KEY = r"[a-z0-9_.]{1,40}"
REF = r"[efc][1-9][0-9]{0,5}"
CITES = re.compile(rf" @({REF}(?:, ?{REF})*)$")
NOTE = re.compile(rf"note ({KEY})=(\S.*)$")
FOLD = re.compile(r"fold e([1-9][0-9]{0,5})-e([1-9][0-9]{0,5}) (\S.*)$")
COMPRESS = re.compile(r"compress e([1-9][0-9]{0,5}) (\S.*)$")
READ = re.compile(rf"read ({REF})(?:-e([1-9][0-9]{{0,5}}))?(?: p([1-9][0-9]{{0,3}}))?$")
FIND = re.compile(r"find (\S.*)$")
UNKNOWN = re.compile(r"[a-z_][a-z0-9_]* [A-Za-z_][A-Za-z0-9_]*=")
ARG = re.compile(r" +([A-Za-z_][A-Za-z0-9_]*)=(\"(?:[^\"\\]|\\.)*\"|[^\s\"]\S*)")

SHAPES = {
    "note": "note key=value @e3",
    "fold": "fold e2-e5 brief @e3",
    "compress": "compress e9 summary",
    "read": "read e3",
    "find": "find words",
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
        line = raw.strip()
        word = line.split(maxsplit=1)[0] if line else ""
        if word in profile.tools:
            calls.append(_context_call(word, line))
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


def _context_call(word: str, line: str) -> Call:
    shape = SHAPES[word]
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


def _business_call(tool: ToolSpec, line: str) -> Call:
    shape = " ".join((tool.name, *(f"{a}=…" for a in tool.args)))
    args: dict[str, str] = {}
    rest = line[len(tool.name) :]
    while rest.strip():
        match = ARG.match(rest)
        if not match:
            return _bad(tool.name, f"arguments are name=value, quoted when they hold spaces, not {rest.strip()[:40]!r}", shape)
        name, value = match[1], match[2]
        if value.startswith('"'):
            try:
                value = str(json.loads(value))
                value.encode()  # half of a surrogate pair is valid JSON but no text
            except ValueError:
                return _bad(tool.name, f"{name[:40]} is not a JSON string", shape)
        if name not in tool.args:
            return _bad(tool.name, f"no argument {name[:40]}", shape)
        if name in args:
            return _bad(tool.name, f"{name} stands twice", shape)
        args[name] = value
        rest = rest[match.end() :]
        if rest and not rest.startswith(" "):
            return _bad(tool.name, "a space must stand between arguments", shape)
    missing = [a for a in tool.args if a not in args]
    if missing:
        return _bad(tool.name, f"{', '.join(missing)} missing", shape)
    return Call(tool.name, args)


def canonical_call(tool: ToolSpec, args: Mapping[str, Any]) -> str:
    """The call in its canonical spelling, arguments in the tool's order: the key of the world's responses."""
    parts = [tool.name]
    for name in tool.args:
        value = str(args[name])
        parts.append(
            f"{name}={value}" if value and not re.search(r'[\s"]', value) else f"{name}={json.dumps(value, ensure_ascii=False)}"
        )
    return " ".join(parts)
