"""The json grammar: well-formed calls, misfits, unknown tools and notices of ``envs.hermes``, and a fuzz of near misses."""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from envs.compact import Call, Parsed
from envs.hermes import NAMES, contract, parse, spell
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


@pytest.mark.parametrize(
    ("name", "arguments", "args", "profile"),
    [(*w, UNI) for w in WELL] + [(*w, LEANED) for w in WELL_LEAN] + [(*w, p) for w in WELL_BUSINESS for p in (UNI, PLAIN)],
)
def test_a_well_formed_call_is_understood(name, arguments, args, profile):
    call = Call(NAMES.get(name, name), args)
    assert parse(block(name, **arguments), False, profile, TOOLS) == Parsed("calls", (call,))
    inner = json.dumps({"name": name, "arguments": json.dumps(arguments)})
    assert only(f"<tool_call>{inner}</tool_call>", profile) == call, "arguments as a JSON string"
    if not arguments:
        assert only(f'<tool_call>{{"name": "{name}"}}</tool_call>', profile) == call, "no arguments"


@pytest.mark.parametrize(
    ("name", "args", "profile"), [(n, a, UNI) for n, _, a in WELL] + [(n, a, LEANED) for n, _, a in WELL_LEAN]
)
def test_spell_is_the_inverse(name, args, profile):
    tool = NAMES[name]
    assert only(spell(tool, args), profile) == Call(tool, args)
    assert only(spell(tool, args, lean=True), profile) == Call(tool, args) or args.get("scope") == "window"
    if tool in CHANGING:
        expected = args | {"expected": "w3"}
        assert only(spell(tool, expected), CHECKED) == Call(tool, expected)


@pytest.mark.parametrize(("name", "args"), [(n, a) for n, _, a in WELL_BUSINESS])
def test_spell_is_the_inverse_for_business_tools(name, args):
    assert only(spell(name, args)) == Call(name, args)


def test_the_canonical_form():
    args = {"first": 2, "last": 5, "text": "two desks", "refs": ("e3",), "expected": "w1"}
    assert spell("fold", args) == (
        '<tool_call>\n{"name": "fold", "arguments": {"expected_window_id": "w1", "from": "e2", "to": "e5", '
        '"brief": "two desks", "keep": ["e3"]}}\n</tool_call>'
    )
    assert spell("read", {"ref": "e2", "last": 5, "page": 1}) == block("read_raw", ref="e2-e5")
    assert spell("note", note("cap", "9000"), lean=True) == block("note", key="cap", value="9000")
    tagged = {"what": "</tool_call> <tool_call>"}
    assert only(spell("recall", tagged), LEANED) == Call("recall", tagged)


def test_numbers_keep_their_digits():
    assert only(raw('{"key": "cap", "value": 9000.50}', "memory_write")).args["value"] == "9000.50"
    digits = "9" * 20_000
    assert only(raw(f'{{"key": "cap", "value": {digits}}}', "memory_write")).args["value"] == digits
    assert only(raw(f'{{"item": "a", "qty": {digits}}}', "quote")).args["qty"] == digits


MISFITS = [
    # names, missing
    ("fold", {}, "from, to, brief missing"), ("fold", FOLD | {"breif": "x"}, "no argument breif, the nearest is brief"),
    ("fold", FOLD | {"first": 2}, "no argument first, the nearest is "), ("fold", {"from": "e2", "to": "e5"}, "brief missing"),
    ("window_list", {"all": True}, "no argument all, window_list takes none"), ("today", {"x": 1}, "no argument x, today takes none"),
    ("read_raw", {"ref": "e2", "expected_window_id": "w1"}, "no argument expected_window_id"),
    ("memory_write", {"key": "cap", "value": "1", "refs": ["e3"]}, "no argument refs"), ("quote", {"item": "a"}, "qty missing"),
    ("quote", {"item": "a", "qty": "1", "Item": "b"}, "no argument Item, the nearest is item"), ("recall", {}, "what missing"),
    ("note", {"key": "a", "value": "b", "scope": "public"}, "no argument scope"),
    # memory
    ("memory_write", {"key": "Cap", "value": "1"}, "key must be"), ("memory_write", {"key": "k" * 41, "value": "1"}, "key must be"),
    ("memory_write", {"key": "", "value": "1"}, "key must be"), ("memory_write", {"key": "a\n", "value": "1"}, "key must be"),
    ("memory_write", {"key": "кап", "value": "1"}, "key must be"), ("memory_write", {"key": 5, "value": "1"}, "key must be"),
    ("memory_write", {"key": "a", "value": ""}, "value must be"), ("memory_write", {"key": "a", "value": " \n"}, "value must be"),
    ("memory_write", {"key": "a", "value": "b\nc"}, "value must be"), ("memory_write", {"key": "a", "value": None}, "value must be"),
    ("memory_write", {"key": "a", "value": ["b"]}, "value must be"), ("memory_write", {"key": "a", "value": True}, "value must be"),
    ("memory_write", {"key": "a", "value": {"b": 1}}, "value must be a string"),
    ("memory_write", {"key": "a", "value": "b", "status": "old"}, "status must be 'current', 'historical' or 'open'"),
    ("memory_write", {"key": "a", "value": "b", "scope": "global"}, "scope must be 'public' or 'window'"),
    ("memory_write", {"key": "a", "value": "b", "sources": "e3"}, "sources must be a list of references"),
    ("memory_write", {"key": "a", "value": "b", "sources": [3]}, "sources must be a list of references"),
    ("memory_write", {"key": "a", "value": "b", "sources": ["e03"]}, "sources must be"),
    ("memory_write", {"key": "a", "value": "b", "sources": ["e2-e5"]}, "sources must be"),
    ("memory_write", {"key": "a", "value": "b", "sources": [["e3"]]}, "sources must be"),
    ("memory_write", {"key": "a", "value": "b", "sources": None}, "sources must be"),
    # events, pages, windows
    *[("fold", FOLD | {"from": bad}, "from must be an event such as") for bad in
      ("e0", 0, -2, 2.5, 2.0, "", "e", "e02", "f1", "E2", "e2-e3", " e2", "e1234567", 1234567, True, None, [2], {}, "e٣", "ee2", "x")],
    *[("compress", {"upto": bad, "summary": "all"}, "upto must be an event such as") for bad in ("c1", "e", 0, None, "end", ["e2"])],
    *[("read_raw", {"ref": "e2", "page": bad}, "page must be a whole number") for bad in (0, -1, 1.5, "p2", "", True, None, 10_000, [1])],
    *[("read_raw", {"ref": bad}, "ref must be") for bad in
      ("", "2", 2, "e", "x3", "e2-5", "e2-f1", "f1-e3", "e2-e3-e4", "e2..e5", "e3,e4", "all", None, ["e3"], "e3\n", "[e3]")],
    *[("window_switch", {"id": bad}, "id must be a window such as") for bad in ("", "w0", "w01", "1", 1, "w12345", "W2", None, "w2 ", ["w2"])],
    *[("search_raw", {"query": "a", "window": bad}, "window must be a window") for bad in ("", 1, "x", None)],
    # texts
    *[("fold", FOLD | {"brief": bad}, "brief must be a string") for bad in ("", " \n", 5, None, ["x"], True, {})],
    *[("search_raw", {"query": bad}, "query must be a string") for bad in ("", " ", 5, None, ["a", "b"])],
    *[("window_open", {"title": bad}, "title must be a string") for bad in ("", 5, None, "a\nb")],
    ("window_open", {"title": "a", "handoff": 5}, "handoff must be a string"),
    ("window_open", {"title": "a", "checkpoint": None}, "checkpoint must be a string"),
    ("window_close", {"outcome": "", "next": "w1"}, "outcome must be"), ("window_close", {"outcome": "a", "next": 1}, "next must be"),
    ("window_close", {"outcome": "a"}, "next missing"), ("compress", {"upto": 9}, "summary missing"),
    ("compress", {"upto": 9, "summary": " "}, "summary must be a string"), ("compress", {"upto": 9, "summary": 4}, "summary must be a string"),
    ("compress", {"upto": 9, "summary": "all", "keep": ["e"]}, "keep must be a list of references"),
    ("stage_done", {"outcome": "a", "constraints": "cap"}, "constraints must be a list"),
    ("stage_done", {"outcome": "a", "constraints": [1]}, "constraints must be a list"),
    ("stage_done", {"outcome": "a", "constraints": [""]}, "constraints must be a list"),
    ("stage_done", {"outcome": "a", "constraints": ["a\nb"]}, "constraints must be a list"), ("recall", {"what": ""}, "what must be"),
    # business
    ("quote", {"item": None, "qty": "3"}, "item must be a string"), ("quote", {"item": "a", "qty": ["3"]}, "qty must be a string"),
    ("quote", {"item": {"a": 1}, "qty": "3"}, "item must be a string"), ("quote", {}, "item, qty missing"),
]  # fmt: skip


def assert_refused(call: Call, tool: str, why: str, profile: Any = UNI) -> None:
    assert (call.tool, call.code) == (tool, "bad_arguments")
    assert call.why.startswith(why)
    assert dict(call.args) == {}
    assert not only(f"<tool_call>{call.instead}</tool_call>", profile).code, "the alternative is a valid call"
    assert "\n" not in call.why + call.instead


@pytest.mark.parametrize(("name", "arguments", "why"), MISFITS)
def test_a_misfit_of_a_known_tool_is_bad_arguments(name, arguments, why):
    assert_refused(only(block(name, **arguments), ALL), NAMES.get(name, name), why, ALL)


RAW_MISFITS = [
    ('{"from": "e2", "from": "e3", "to": "e5", "brief": "x"}', "from stands twice"),
    ('{"from": NaN, "to": "e5", "brief": "x"}', "NaN is not JSON"),
    ('{"from": "e2", "to": -Infinity, "brief": "x"}', "-Infinity is not JSON"),
    ('{"from": "e2", "to": "e5", "brief": "x", "keep": [NaN]}', "NaN is not JSON"),
    ('{"from": "e2", "to": "e5", "brief": "\\ud800"}', "half of a surrogate pair"),
    ('{"from": "e2", "to": "e5", "brief": "x", "\\udfff": 1}', "half of a surrogate pair"),
    ('{"from": "e2", "to": "e5", "brief": "x", "keep": ["\\ud83d"]}', "half of a surrogate pair"),
    ('{"from": "e2", "to": "e5", "brief": "x", "a\\nb": 1}', "no argument a b, the nearest is "),
    ('{"from": ' + "9" * 9000 + ', "to": "e5", "brief": "x"}', "from must be an event"),
    ('{"from": 1e999, "to": "e5", "brief": "x"}', "from must be an event"),
    ('{"from": ' + "[" * 40 + "]" * 40 + ', "to": "e5", "brief": "x"}', "from must be an event"),
    ('"{}"', "from, to, brief missing"),
    ('"{\\"from\\": NaN}"', "NaN is not JSON"),
    ('"{\\"from\\": 1, \\"from\\": 1}"', "from stands twice"),
    *[
        (bad, "arguments must be an object")
        for bad in ('""', '"x"', '"[]"', '"\\"{}\\""', "[]", "null", "3", "true", '[{"from": 2}]')
    ],
    ('{}, "arguments": {}', "arguments stands twice"),
    ('{}, "brief": "x"', "only name and arguments stand in a call, not brief"),
    ('"' + r"{\"from\": " + "[" * 200 + '"', "arguments must be an object"),
]


@pytest.mark.parametrize(("arguments", "why"), RAW_MISFITS)
def test_what_json_itself_spoils_is_bad_arguments_of_its_tool(arguments, why):
    assert_refused(only(raw(arguments)), "fold", why)


@pytest.mark.parametrize("tool", CHANGING)
def test_the_window_position_is_required_where_the_profile_checks_it(tool):
    name, arguments, args = next(w for w in WELL if NAMES[w[0]] == tool)
    missing = only(block(name, **arguments), CHECKED)
    assert_refused(missing, tool, "expected_window_id missing: say the window you are in", CHECKED)
    assert "expected_window_id" in missing.instead
    given = arguments | {"expected_window_id": "w2"}
    assert only(block(name, **given), CHECKED) == Call(tool, args | {"expected": "w2"})
    assert only(block(name, **given), UNI) == Call(tool, args), "ignored without the check"
    assert only(block(name, **arguments, expected_window_id=None), UNI) == Call(tool, args)
    for bad in ("", "2", 2, None, "w0"):
        refused = only(block(name, **arguments, expected_window_id=bad), CHECKED)
        assert_refused(refused, tool, "expected_window_id must be a window such as", CHECKED)


def test_a_helper_that_compresses_needs_no_summary():
    for profile, more in ((AGENT, {}), (CHECKED_AGENT, {"expected": "w1"})):
        args = {"upto": 9, "text": "", "refs": ("e3",), **more}
        assert "summary" not in spell("compress", args)
        assert only(spell("compress", args), profile) == Call("compress", args)
        assert "summary" not in only(block("compress"), profile).instead
    assert only(block("compress", upto=9, summary=""), AGENT).args["text"] == ""
    assert only(block("compress", upto=9, summary="all"), AGENT).args["text"] == "all"


UNKNOWN = [
    "read", "find", "frob", "Fold", "fold ", "", "stage_done", "recall", "x" * 90, "multi_tool_use.parallel", "функция", "a\nb",
]  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_tool_that_the_profile_lacks_is_unknown(name):
    call = only(f"<tool_call>{json.dumps({'name': name, 'arguments': {}})}</tool_call>")
    shown = name[:40].replace("\n", " ")
    assert call == Call(shown, code="unknown_tool", why=f"no tool {shown}", instead=call.instead)
    assert call.instead == (
        "memory_write, fold, compress, read_raw, search_raw, window_list, window_open, window_switch, window_close, quote, today"
    )


def test_names_are_available_by_profile():
    core = make_profile(CORE)
    assert only(block("window_list"), core).code == "unknown_tool"
    assert only(block("memory_write", key="a", value="b", scope="window"), core).args["scope"] == "window"
    assert only(block("note", key="a", value="b"), UNI) == Call("note", note("a", "b")), "understood, not told"
    assert only(block("fold"), PLAIN).instead == "quote, today"
    assert only(block("frob"), LEANED).instead == "stage_done, recall, note, quote, today"
    assert parse(block("frob"), False, PLAIN, ()).calls[0].instead == "an answer"


def test_a_business_tool_never_stands_for_a_context_tool():
    tools = tuple(ToolSpec(name=n, args=("a",)) for n in ("find", "fold", "read_raw", "recall"))
    for name in ("find", "fold", "read_raw", "recall"):
        assert parse(block(name, a="1"), False, PLAIN, tools).calls == (Call(name, {"a": "1"}),)
    assert [parse(block(n, a="1"), False, UNI, tools).calls[0].code for n in ("find", "fold", "recall")] == [
        "unknown_tool", "bad_arguments", "",
    ]  # fmt: skip


GOOD = block("read_raw", ref="e3")
NOTICES = [
    "", " ", "\n \n\t", "<", "<b>total=5</b>", "{", '{"name": "read_raw", "arguments": {"ref": "e3"}}', "[", '[{"name": "fold"}]',
    "<tool_call>", "</tool_call>", GOOD.removesuffix("</tool_call>"), GOOD.removeprefix("<tool_call>"), "total=5 </tool_call>",
    "Let me see.\n<tool_call>\n", "Let me see. <tool_call", "ok <Tool_Call>{}</Tool_Call>", "ok <tool_calls>[]</tool_calls>",
    "<tool_call></tool_call>", "<tool_call>{}</tool_call>", "<tool_call>[]</tool_call>", "<tool_call>null</tool_call>",
    f"<tool_call>[{GOOD[12:-13]}]</tool_call>", "<tool_call>read e3</tool_call>", "<tool_call>{name: 'fold'}</tool_call>",
    *[f'<tool_call>{{"name": {bad}}}</tool_call>' for bad in ("5", "null", "NaN", '["fold"]', '"\\ud800"', '"fold", "name": "fold"', "[" * 100_000)],
    '<tool_call>{"tool": "fold"}</tool_call>', '<tool_call>{"name": "fold"</tool_call>', '<tool_call>{"name": "fold",}</tool_call>',
    '<tool_call>{"name": "fold"} {"name": "fold"}</tool_call>', '<tool_call>```json\n{"name": "fold"}\n```</tool_call>',
    '<tool_call>{"name": "fold", "arguments": ' + '{"a": ' * 5000 + "1" + "}" * 5000 + "}</tool_call>",
    "<tool_call>" + "9" * 5000 + "</tool_call>", '<tool_call>"\ud800"</tool_call>', "<tool_call>\ufeff{}</tool_call>",
    "<tool_call>" + '"\\' * 100_000 + "</tool_call>", "<tool_call>" * 10_000, "<function=fold>{}</function>", "<think>hm</think>\ntotal=5",
]  # fmt: skip


@pytest.mark.parametrize("text", NOTICES, ids=range(len(NOTICES)))
def test_markup_without_a_readable_block_is_a_notice(text):
    assert parse(text, False, UNI, TOOLS) == Parsed("notice")


@pytest.mark.parametrize("text", [GOOD, "total=5", "", GOOD * 3])
def test_a_cut_turn_is_a_notice(text):
    assert parse(text, True, UNI, TOOLS) == Parsed("notice")


@pytest.mark.parametrize(
    "text",
    ["total=5", "unknown", "read e3", "note cap=9000 @e1", "It is {5}.", "5 < 6", "a tool call", "👍", "\x00", "\ud800", '"x"'],
)
def test_a_turn_without_markup_is_the_answer(text):
    assert parse(text, False, UNI, TOOLS) == Parsed("answer")


def test_several_blocks_and_remarks():
    text = f"I will look.\n{GOOD}\nthen\n\n  {block('window_list')}{block('frob')}done"
    parsed = parse(text, False, UNI, TOOLS)
    assert [(c.tool, c.code) for c in parsed.calls] == [("read", ""), ("window_list", ""), ("frob", "unknown_tool")]
    assert parsed.remarks == ("I will look.", "then", "done")


@pytest.mark.parametrize(
    ("text", "codes", "why"),
    [
        (f"{GOOD}<tool_call>{{</tool_call>", ("", "bad_arguments"), "block 2 is not a JSON object with a name"),
        (f"<tool_call>[]</tool_call>{GOOD}", ("bad_arguments", ""), "block 1 is not a JSON object with a name"),
        (f"{GOOD}\n<tool_call>\n{{", ("", "bad_arguments"), "block 2 lacks one of its tags"),
        (f"{GOOD}</tool_call>", ("", "bad_arguments"), "block 2 lacks one of its tags"),
        (f"<tool_call>\n{GOOD}", ("bad_arguments", ""), "block 1 lacks one of its tags"),
        (f"<tool_call>{{}}</tool_call>{block('frob')}", ("bad_arguments", "unknown_tool"), "block 1 is not"),
    ],
)
def test_an_unreadable_block_beside_a_readable_one_is_rejected(text, codes, why):
    parsed = parse(text, False, UNI, TOOLS)
    assert tuple(c.code for c in parsed.calls) == codes
    bad = next(c for c in parsed.calls if c.code == "bad_arguments")
    assert_refused(bad, "", why)
    assert parsed.remarks == ()


def test_the_outcome_does_not_depend_on_the_stack():
    text = raw('{"from": ' + "[" * 60 + "]" * 60 + "}")

    def deep(n: int) -> Parsed:
        return deep(n - 1) if n else parse(text, False, UNI, TOOLS)

    assert deep(0) == deep(sys.getrecursionlimit() - 400)
    assert deep(0).kind == "calls"


def test_the_contract_in_qwens_form(chat):
    text = contract(CHECKED, TOOLS)
    head, rest = text.split("<tools>\n")
    assert head.startswith("# Tools\n\nYou may call one or more functions")
    assert rest.endswith('<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>')
    functions = [json.loads(line)["function"] for line in rest.split("\n</tools>")[0].split("\n")]
    names = [
        "memory_write",
        "fold",
        "compress",
        "read_raw",
        "search_raw",
        "window_list",
        "window_open",
        "window_switch",
        "window_close",
    ]
    assert [f["name"] for f in functions] == [*names, "quote", "today"]
    for function in functions[:9]:
        assert function["description"].endswith(".")
        properties = function["parameters"]["properties"]
        assert all(p["description"].endswith(".") for p in properties.values())
        assert ("expected_window_id" in properties) == (NAMES[function["name"]] in CHANGING)
    assert functions[1]["parameters"]["required"] == ["expected_window_id", "from", "to", "brief"]
    assert functions[1]["parameters"]["properties"]["from"]["type"] == "string"
    assert functions[3]["parameters"]["properties"]["page"]["type"] == "integer"
    assert functions[9]["parameters"] == {
        "type": "object", "properties": {"item": {"type": "string"}, "qty": {"type": "string"}}, "required": ["item", "qty"],
    }  # fmt: skip
    assert "expected_window_id" not in contract(UNI, TOOLS)
    sizes = [chat.count(contract(p, ())) for p in (UNI, CHECKED)]
    print("tokens of the nine tools, without and with the position:", sizes)
    assert all(1200 <= n <= 1500 for n in sizes)


def test_the_contract_follows_the_profile():
    assert contract(PLAIN, ()) == ""
    lean = contract(LEANED, ())
    assert [json.loads(line)["function"]["name"] for line in lean.split("\n") if line.startswith('{"type')] == [
        "stage_done",
        "recall",
        "note",
    ]
    summary = [json.loads(x)["function"]["parameters"]["required"] for x in contract(AGENT, ()).split("\n") if '"compress"' in x]
    assert summary == [["upto"]]


BITS = [
    "<tool_call>", "</tool_call>", "{", "}", "[", "]", '"', "'", ",", ":", "\\", "\n", "null", "true", "NaN", "1e999", "e3", "\\ud800", "\ud800",
    "林", "👍", "\u2028", "\x00", "\ufeff", "“", '"name"', '"arguments"', "read e3", "note cap=9000 @e1", "fold e2-e5 brief", "```json\n", "<|im_end|>",
    '"arguments": "{}"', "\\n", "\\u0041", "-", "0", "9" * 5000, "[" * 3000, '{"a":' * 300, "<think>", "expected_window_id",
]  # fmt: skip


def mutate(rng: random.Random, text: str, others: list[str]) -> str:
    at, kind = rng.randrange(len(text) + 1), rng.randrange(12)
    end = min(len(text), at + rng.choice((1, 1, 1, 2, 5, 20)))
    if kind == 0:
        return text[:at] + text[end:]
    if kind == 1:
        return text[:end] + text[at:end] + text[end:]
    if kind == 2:
        return text[:at] + text[at : at + 2][::-1] + text[at + 2 :]
    if kind == 3:
        return text[:at] if rng.random() < 0.5 else text[at:]
    if kind == 4:
        return text.replace('"', rng.choice(("'", "“", "", '\\"')), rng.choice((1, 3, -1)))
    if kind == 5:
        return f"<tool_call>{text}</tool_call>" if rng.random() < 0.5 else text.replace('"arguments": ', '"arguments": [', 1)
    if kind in (6, 7):
        value = rng.choice(
            ("5", "-1", "2.5", "null", "true", "[]", "{}", '""', '"e0"', '["e3"]', '"x"', "NaN", '"\\ud800"', '{"a": 1, "a": 2}')
        )
        spots = [i for i in range(len(text)) if text.startswith('": ', i)]
        spot = rng.choice(spots) + 3 if spots else at
        stops = [i for i in (text.find(", ", spot), text.find("}", spot)) if i >= 0]
        return text[:spot] + value + text[min(stops, default=len(text)) :]
    if kind in (8, 9):
        return text[:at] + rng.choice(BITS) + text[rng.choice((at, end)) :]
    other = rng.choice(others)
    if kind == 10:
        return text[:at] + other[rng.randrange(len(other)) :]
    return f"{text}\n{other}" if rng.random() < 0.5 else text[:at] + other + text[at:]


def check(text: str, profile: Any, cut: bool) -> Parsed:
    """What holds of every text."""
    parsed = parse(text, cut, profile, TOOLS)
    assert parsed.kind in ("calls", "answer", "notice")
    assert (parsed.kind == "calls") == bool(parsed.calls)
    assert parsed.kind == "calls" or not parsed.remarks
    assert all(r and r == r.strip() and "\n" not in r for r in parsed.remarks)
    assert parsed.kind == "notice" or not cut
    for call in parsed.calls:
        if call.code:
            assert call.code in ("bad_arguments", "unknown_tool")
            assert call.why
            assert call.instead
            line = call.tool + call.why + call.instead
            assert "\n" not in line
            assert len(call.tool) <= 40
            assert len(call.why) < 160
            line.encode()
            assert not call.args
            if call.code == "bad_arguments":
                assert not only(f"<tool_call>{call.instead}</tool_call>", profile).code
        else:
            assert not call.why + call.instead
            assert call.tool in profile.tools or call.tool in ("quote", "today")
            assert only(spell(call.tool, call.args), profile) == call, "what was accepted can be said again"
            json.dumps(dict(call.args), ensure_ascii=False).encode()
    return parsed


def test_near_misses_never_raise():
    seed = 20260728
    print("seed", seed)
    rng = random.Random(seed)
    lean = [block(n, **a) for n, a, _ in WELL_LEAN]
    unified = [block(n, **a) for n, a, _ in WELL]
    checked = [block(n, **a, **({"expected_window_id": "w1"} if NAMES[n] in CHANGING else {})) for n, a, _ in WELL]
    business = [block(n, **a) for n, a, _ in WELL_BUSINESS]
    plain = ["total=4100", "read e3", "note cap=9000 @e1", 'quote item="a b" qty=3', "I will look it up."]
    settings = [
        (UNI, unified),
        (CHECKED, checked),
        (CHECKED_AGENT, checked),
        (LEANED, lean),
        (PLAIN, business),
        (ALL, unified + lean),
    ]
    seen: dict[str, int] = {}
    for n in range(5000):
        profile, blocks = settings[n % len(settings)]
        pool = blocks + business + plain
        text = "\n".join(rng.choice(pool) for _ in range(rng.choice((1, 1, 1, 2, 3))))
        for _ in range(rng.choice((1, 1, 2, 3, 6))):
            text = mutate(rng, text, pool)
        parsed = check(text, profile, cut=rng.random() < 0.02)
        for what in [parsed.kind, *(c.code or "accepted" for c in parsed.calls)]:
            seen[what] = seen.get(what, 0) + 1
    print(seen)
    assert min(seen[k] for k in ("calls", "answer", "notice", "accepted", "bad_arguments", "unknown_tool")) > 50, (
        "every way was taken"
    )
