"""Profiles, well-formed calls and short ways to parse them: what the tests of the json grammar share."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

from envs.compact import Call
from envs.hermes import parse
from envs.profiles import Profile, get_profile
from envs.tasks.base import ToolSpec

CORE = ("note", "fold", "compress", "read", "find")
UNIFIED = (*CORE, "window_list", "window_open", "window_switch", "window_close")
LEAN = ("stage_done", "recall", "note")
CHANGING = ("note", "fold", "compress", "window_open", "window_switch", "window_close")
TOOLS = (ToolSpec(name="quote", args=("item", "qty")), ToolSpec(name="today", args=()))


def make_profile(tools: tuple[str, ...], position_check: bool = False, compress_by: str = "model") -> Any:
    flags = {"position_check": position_check, "compress_by": compress_by}
    if set(flags) <= {f.name for f in dataclasses.fields(Profile)}:
        return dataclasses.replace(get_profile("core@1"), tools=tools, **flags)
    return SimpleNamespace(tools=tools, **flags)


UNI, CHECKED, LEANED, PLAIN = make_profile(UNIFIED), make_profile(UNIFIED, True), make_profile(LEAN), make_profile(())
AGENT, ALL = make_profile(UNIFIED, compress_by="agent"), make_profile((*UNIFIED, "stage_done", "recall"))
CHECKED_AGENT = make_profile(UNIFIED, True, "agent")


def raw(arguments: str, name: str = "fold") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def block(name: str, /, **arguments: object) -> str:
    return raw(json.dumps(arguments, ensure_ascii=False), name)


def only(text: str, profile: Any = UNI) -> Call:
    parsed = parse(text, False, profile, TOOLS)
    assert parsed.kind == "calls"
    assert len(parsed.calls) == 1
    return parsed.calls[0]


def note(key: str, value: str, scope: str = "public", status: str = "", refs: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"scope": scope, "key": key, "value": value, "status": status, "refs": refs}


FOLD = {"from": "e2", "to": "e5", "brief": "two desks"}
WELL = [
    ("memory_write", {"key": "cap", "value": "9000"}, note("cap", "9000")),
    ("memory_write", {"scope": "window", "key": "a.b_2", "value": "x = y @ home"}, note("a.b_2", "x = y @ home", "window")),
    ("memory_write", {"key": "k" * 40, "value": " 林舟 👍 "}, note("k" * 40, "林舟 👍")),
    ("memory_write", {"key": "cap", "value": "9000", "status": "historical"}, note("cap", "9000", status="old")),
    ("memory_write", {"key": "cap", "value": "9000", "status": "open", "sources": []}, note("cap", "9000", status="open")),
    (
        "memory_write",
        {"key": "cap", "value": "9000", "sources": ["e3", "f1", "e3", "c2"]},
        note("cap", "9000", refs=("e3", "f1", "c2")),
    ),
    ("memory_write", {"key": "cap", "value": 9000, "status": "current", "scope": "public"}, note("cap", "9000")),
    ("memory_write", {"key": "cap", "value": -0.5}, note("cap", "-0.5")),
    ("memory_write", {"key": "cap", "value": "9000\n"}, note("cap", "9000")),
    ("fold", FOLD, {"first": 2, "last": 5, "text": "two desks", "refs": ()}),
    ("fold", FOLD | {"from": 2, "to": "5", "keep": ["e3"]}, {"first": 2, "last": 5, "text": "two desks", "refs": ("e3",)}),
    ("fold", FOLD | {"brief": "two\ndesks "}, {"first": 2, "last": 5, "text": "two\ndesks", "refs": ()}),
    ("compress", {"upto": "e9", "summary": "all"}, {"upto": 9, "text": "all", "refs": ()}),
    ("compress", {"upto": 9, "summary": "all", "keep": ["e3", "f1"]}, {"upto": 9, "text": "all", "refs": ("e3", "f1")}),
    ("read_raw", {"ref": "e2"}, {"ref": "e2", "last": None, "page": 1}),
    ("read_raw", {"ref": "f1", "page": 2}, {"ref": "f1", "last": None, "page": 2}),
    ("read_raw", {"ref": "c1", "page": "3"}, {"ref": "c1", "last": None, "page": 3}),
    ("read_raw", {"ref": "e2-e5"}, {"ref": "e2", "last": 5, "page": 1}),
    ("search_raw", {"query": " approval code"}, {"query": "approval code"}),
    ("search_raw", {"query": "code", "window": "w2"}, {"query": "code", "in_window": "w2"}),
    ("window_list", {}, {}),
    ("window_open", {"title": "venue"}, {"title": "venue", "handoff": "", "checkpoint": ""}),
    (
        "window_open",
        {"title": "venue", "handoff": "cap 9000", "checkpoint": "desks done"},
        {"title": "venue", "handoff": "cap 9000", "checkpoint": "desks done"},
    ),
    ("window_switch", {"id": "w2"}, {"id": "w2", "checkpoint": ""}),
    ("window_switch", {"id": "w1234", "checkpoint": "half"}, {"id": "w1234", "checkpoint": "half"}),
    ("window_close", {"outcome": "booked", "next": "w1"}, {"outcome": "booked", "next": "w1"}),
]
WELL_LEAN = [
    ("stage_done", {"outcome": "booked"}, {"outcome": "booked", "constraints": ()}),
    (
        "stage_done",
        {"outcome": "booked", "constraints": ["cap 9000", "no rush"]},
        {"outcome": "booked", "constraints": ("cap 9000", "no rush")},
    ),
    ("recall", {"what": "the code"}, {"what": "the code"}),
    (
        "note",
        {"key": "cap", "value": 9000, "status": "open", "sources": ["e3"]},
        note("cap", "9000", status="open", refs=("e3",)),
    ),
]
WELL_BUSINESS = [
    ("quote", {"item": "two chairs", "qty": "3"}, {"item": "two chairs", "qty": "3"}),
    ("quote", {"qty": 3, "item": ""}, {"item": "", "qty": "3"}),
    ("quote", {"item": True, "qty": 1.50}, {"item": "true", "qty": "1.5"}),
    ("quote", {"item": 'a "b" 漢 \\ \n', "qty": "3"}, {"item": 'a "b" 漢 \\ \n', "qty": "3"}),
    ("today", {}, {}),
]


def assert_refused(call: Call, tool: str, why: str, profile: Any = UNI) -> None:
    assert (call.tool, call.code) == (tool, "bad_arguments")
    assert call.why.startswith(why)
    assert dict(call.args) == {}
    assert not only(f"<tool_call>{call.instead}</tool_call>", profile).code, "the alternative is a valid call"
    assert "\n" not in call.why + call.instead
