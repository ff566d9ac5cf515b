"""Replies to sessions judged by every kind of check."""

from __future__ import annotations

import pytest
from conftest import SMALL

from envs import session_score
from envs.sessions import load, score


def judged(reply, check, value, **more):
    case = load(SMALL)[4]
    expected = case.expected.model_copy(update={"check": check, "value": value, "aliases": [], "forbidden": [], **more})
    return score(case.model_copy(update={"expected": expected}), reply)


@pytest.mark.parametrize(
    ("reply", "check", "value", "more", "right"),
    [
        ("  'A-1,\n 5'. ", "exact", "a-1, 5", {}, True),
        ("A-1, 5!", "exact", "a-1, 5", {}, False),
        ("49", "exact", 49, {}, True),
        ("gate 5", "exact", "5", {"aliases": ["gate 5"]}, True),
        ("b, not a", "exact", "b, not a", {"forbidden": ["A"]}, False),
        ("310", "all_of", ["31"], {}, False),
        ("31_0", "all_of", ["31"], {}, False),
        ("x31é", "all_of", ["31"], {}, False),
        ("(31); B7", "all_of", ["b7", "31"], {}, True),
        ("310, then 31", "all_of", ["31"], {}, True),
        ("June 4", "all_of", [["4 June", "june  4"]], {}, True),
        ("low tide, pier 3", "all_of", ["Low tide, pier 3", "x"], {}, False),
        ("  T = 25 ", "regex", ["^t\\s*=\\s*25$"], {}, True),
        ("a\nb", "regex", ["a.b", "B"], {}, True),
        ("a\nb", "regex", ["a.b", "c"], {}, False),
        ('so: {"n": 2, "l": ["B.", "a"]} or {"n": 3}', "json", {"l": ["a", "b"], "n": 2}, {}, True),
        ('{"n": 3} or {"n": 2}', "json", {"n": 2}, {}, False),
        ("[broken, [1, 2]", "json", [2, 1], {}, True),
        ("[1, 1, 2]", "json", [1, 2, 2], {}, False),
        ('{"N": 2}', "json", {"n": 2}, {}, False),
        ("nothing", "json", {"n": 2}, {}, False),
        ('["x"]', "json", ["y"], {"aliases": [["X"]]}, True),
        ("[" * 50_000, "json", [1], {}, False),
        ("[" * 900 + "]" * 900, "json", [1], {}, False),
        ("[" * 9000 + "]" * 9000, "json", [1], {}, False),
    ],
)
def test_checks(reply, check, value, more, right):
    assert judged(reply, check, value, **more) is right


def test_a_pattern_without_end_makes_the_reply_wrong(monkeypatch):
    monkeypatch.setattr(session_score, "REGEX_SECONDS", 0.5)
    assert judged("a" * 40 + "!", "regex", ["^(a+)+$"]) is False
    assert judged("x" * 200_000, "all_of", ["y"]) is False
