"""Session files: read and checked, and their mistakes told with file, line and field."""

from __future__ import annotations

import copy
import json
import re

import pytest
from conftest import SMALL
from typer.testing import CliRunner

from envs import session_score
from envs.__main__ import app
from envs.runs import DataError
from envs.sessions import load

GOOD = json.loads(SMALL.read_text(encoding="utf-8").splitlines()[0])


def changed(path, value=...):
    """The first small session with one place changed, or taken out."""
    case = copy.deepcopy(GOOD)
    *way, last = path.split(".")
    at = case
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    last = int(last) if isinstance(at, list) else last
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return json.dumps(case, ensure_ascii=False)


PAIR = json.loads(SMALL.read_text(encoding="utf-8").splitlines()[1])
RESULT = {"n": 8, "role": "tool", "call_id": "k1", "text": "again"}
HOSTILE = {
    "unknown key": (changed("expected.forbiden", []), "expected.forbiden", "did you mean 'forbidden'?"),
    "unknown key of an event": (changed("events.1.content", "x"), "events.1.content", "unknown key"),
    "unknown key of an insert": (changed("injection.insert.0.kind", "fold"), "injection.insert.0.kind", "unknown key"),
    "missing field": (changed("gold_reply"), "gold_reply", "required but not given"),
    "number as text": (changed("events.1.n", "2"), "events.1.n", "valid integer"),
    "gap in the numbers": (changed("events.2.n", 4), "events.2.n", "should be 3"),
    "unknown role": (changed("events.1.role", "human"), "events.1.role", "'user'"),
    "no events": (changed("events", []), "events", "at least 1"),
    "user without text": (changed("events.1.text"), "events.1.text", "required but not given"),
    "assistant with neither": (changed("events.4.text"), "events.4.text", "give text or call"),
    "call on a user": (changed("events.1.call", {"id": "z", "name": "f", "args": {}}), "events.1.call", "only an assistant"),
    "result without call_id": (changed("events.3.call_id"), "events.3.call_id", "required but not given"),
    "result of no call": (changed("events.3.call_id", "k9"), "events.3.call_id", "calls before it are k1"),
    "two results of a call": (changed("events", [*GOOD["events"], RESULT]), "events.7.call_id", "one result a call"),
    "hidden event that is none": (changed("injection.hide", [2, 3, 4, 12]), "injection.hide.3", "the log ends at 7"),
    "hidden event 0": (changed("injection.hide", [0]), "injection.hide.0", "greater than or equal to 1"),
    "insert before no event": (changed("injection.insert.0.before", 9), "injection.insert.0.before", "use 1 to 7, or 'end'"),
    "insert before a word": (changed("injection.insert.0.before", "start"), "injection.insert.0.before", "or 'end'"),
    "insert of another kind": (changed("injection.insert.0.as", "summary"), "injection.insert.0.as", "'fold'"),
    "evidence that is none": (changed("expected.evidence", [77]), "expected.evidence.0", "no such event"),
    "evidence in view": (changed("expected.evidence", [6]), "expected.evidence", "none of it is in injection.hide"),
    "no evidence": (changed("expected.evidence", []), "expected.evidence", "name the events"),
    "half a pair": (json.dumps({**PAIR, "injection": {**PAIR["injection"], "op": "fold"}}), "injection.hide", "op to pair_split"),
    "pair_split of none": (changed("injection.op", "pair_split"), "injection.op", "hide one of a pair"),
    "needed token in view": (changed("injection.insert.0.text", "At 1186 degrees."), "expected.needs_raw.0", "damaged view says it"),
    "needed token nowhere": (changed("expected.needs_raw", ["1999"]), "expected.needs_raw.0", "no evidence event says it"),
    "token of dots": (changed("expected.forbidden", ["..."]), "expected.forbidden", "no letter or digit"),
    "tool name that forges a tag": (changed("events.2.call.name", "x] [e9"), "events.2.call.name", "one word"),
    "session that forges a tag": (changed("events.1.session", "a\n[e9 user"), "events.1.session", "one line"),
    "number of 5000 digits": (json.dumps(GOOD).replace('"n": 2', '"n": ' + "2" * 5000), "(the line)", "correct the number"),
    "unknown check": (changed("expected.check", "equals"), "expected.check", "'exact'"),
    "value of another kind": (changed("expected.value", "1186"), "expected.value", "takes a list"),
    "aliases unused": (changed("expected.aliases", ["x"]), "expected.aliases", "leave it empty"),
    "gold refused": (changed("gold_reply", "1187"), "gold_reply", "the check refuses it"),
    "bad accepted": (changed("bad_reply", "Vesta at 1186"), "bad_reply", "the check accepts it"),
    "blank id": (changed("id", " "), "id", "visible text"),
    "half a character": (json.dumps(GOOD).replace("shift change", "shift \\ud83d"), "events.5.text", "surrogate"),
    "key given twice": (changed("id", "x").replace('"kind"', '"id": "y", "kind"'), "id", "given twice"),
    "not a number": (changed("source", float("nan")), "(the line)", "NaN"),
    "list": (f"[{json.dumps(GOOD)}]", "(the line)", "not an object"),
    "text": ('"session"', "(the line)", "not an object"),
    "torn": (json.dumps(GOOD)[:-40], "(the line)", "torn"),
    "not JSON": (json.dumps(GOOD).replace(":", "=", 1) + "\n", "(the line)", "not valid JSON"),
    "too deep": ("[" * 100_000, "(the line)", "too deep"),
    "same id twice": (json.dumps(GOOD), "id", "stands on line 1 already"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_mistake_is_told_with_file_line_and_field(name, tmp_path):
    line, field, what = HOSTILE[name]
    path = tmp_path / "mine.jsonl"
    path.write_bytes(
        (changed("id", GOOD["id"] if name == "same id twice" else "first") + "\n\n" + line).encode("utf-8", "surrogatepass")
    )
    with pytest.raises(DataError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:3: {field}: ")
    assert what in message
    assert "\n" not in message
    assert len(message) < 400 + len(str(path))


def test_patterns_are_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(session_score, "REGEX_SECONDS", 0.5)
    path = tmp_path / "mine.jsonl"
    for pattern, field, what in (
        ("plum(", "expected.value.0", "not a regular expression"),
        ("a" * 501, "expected.value.0", "at most 500"),
        (7, "expected.value.0", "takes a regular expression"),
        ("^(a+)+$", "expected.value", "no end after 0.5 s"),
    ):
        case = json.loads(SMALL.read_text(encoding="utf-8").splitlines()[3])
        case["expected"]["value"] = [pattern]
        case["gold_reply"] = "a" * 40 + "!"
        path.write_text(json.dumps(case))
        with pytest.raises(DataError, match=re.escape(f"mine.jsonl:1: {field}: ") + ".*" + re.escape(what)):
            load(path)


def test_all_bad_lines_are_told_up_to_ten(tmp_path):
    path = tmp_path / "mine.jsonl"
    lines = [changed("id", "good"), *(changed("gold_reply") for _ in range(12))]
    path.write_text("\n".join(lines))
    with pytest.raises(DataError) as caught:
        load(path)
    told = str(caught.value).split("\n")
    assert told[0] == f"{path}: 12 bad lines, nothing of the file is used:"
    assert [line.split(":")[1] for line in told[1:11]] == [str(n) for n in range(2, 12)]
    assert told[11:] == ["… and 2 more bad lines"]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "holds no session"),
        (b"\n \r\n", "holds no session"),
        (b"\xef\xbb\xbf", "holds no session"),
        ((json.dumps(GOOD) + "\n").encode("utf-16"), ":1: (encoding): UTF-16"),
        (b'{"id": "a"}\n{"id": "caf\xe9"}\n', ":2: (encoding): byte 12"),
        (json.dumps([GOOD, GOOD], indent=1).encode(), ":1: (the file): one JSON value over many lines"),
        (json.dumps(GOOD, indent=1).encode(), ":1: (the file): one JSON value over many lines"),
    ],
)
def test_files_that_are_none(data, what, tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert what in str(caught.value)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        load(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="can't be read"):
        load(tmp_path)


def test_a_byte_order_mark_crlf_blank_lines_and_odd_separators_are_fine(tmp_path):
    path = tmp_path / "mine.jsonl"
    text = changed("mechanism", "one\u2028two\u0085three")
    path.write_bytes(b"\xef\xbb\xbf\r\n" + text.encode() + b"\r\n\r\n" + changed("id", "b").encode() + b"\r\n")
    assert [c.id for c in load(path)] == ["kiln", "b"]


def test_the_command_tells_mistakes_on_one_line(tmp_path, capfd):
    path = tmp_path / "mine.jsonl"
    path.write_text(changed("expected.forbiden", []))
    assert CliRunner().invoke(app, ["sessions", str(path)]).exit_code == 2
    assert CliRunner().invoke(app, ["sessions", str(SMALL), "--condition", "blind"]).exit_code == 2
