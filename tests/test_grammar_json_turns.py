"""The json grammar on whole turns: answers, notices of ``envs.hermes``, several blocks, and a fuzz of near misses."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import pytest
from grammar_json import (
    ALL,
    CHANGING,
    CHECKED,
    CHECKED_AGENT,
    LEANED,
    PLAIN,
    TOOLS,
    UNI,
    WELL,
    WELL_BUSINESS,
    WELL_LEAN,
    assert_refused,
    block,
    only,
    raw,
)

from envs.compact import Parsed
from envs.hermes import NAMES, parse, spell

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
