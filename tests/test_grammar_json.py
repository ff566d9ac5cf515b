"""The json grammar: well-formed calls, misfits and unknown tools of ``envs.hermes``, and the contract that tells them."""

from __future__ import annotations

import json

import pytest
from grammar_json import (
    AGENT,
    ALL,
    CHANGING,
    CHECKED,
    CHECKED_AGENT,
    CORE,
    FOLD,
    LEANED,
    PLAIN,
    TOOLS,
    UNI,
    WELL,
    WELL_BUSINESS,
    WELL_LEAN,
    assert_refused,
    block,
    make_profile,
    note,
    only,
    raw,
)

from envs.compact import Call, Parsed
from envs.hermes import NAMES, contract, parse, spell
from envs.tasks.base import ToolSpec


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
