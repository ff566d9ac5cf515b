"""Session files: read, checked, judged, and played under every condition. The shared cases are used where they lie, never copied."""

from __future__ import annotations

import copy
import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from envs import session_score, sessions_cli
from envs.__main__ import app
from envs.episode import play
from envs.policies.base import Sampled
from envs.policies.sessions import Echo, EvidenceReader, Says
from envs.runs import DataError, read_jsonl
from envs.session_run import CONDITIONS, CaseEpisode, CaseRecord, conditions_of, run_cases, summarise
from envs.sessions import load, says, score
from envs.show import show_trajectory
from envs.trajectory import view_hash

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("CTXCTL_SHARED") or ROOT / "../shared")
SMALL = ROOT / "tests" / "sessions_small.jsonl"
CASES = SHARED / "cases" / "cases.jsonl"
DATA = sorted((SHARED / "data").glob("*.jsonl"))
IDS = [
    "A1",
    "A3",
    "A4",
    "B1",
    "C1",
    "C2",
    "D1",
    "D4",
    "E1",
    "E2",
    "E4",
    "F1",
    "F2",
    "G1",
    "G2",
    "H2",
    "I1",
    "J1",
    "J2",
    "K1",
    "K2",
    "L2",
]
NO_CASES = pytest.mark.skipif(
    not CASES.is_file(), reason=f"no shared cases at {CASES}: set CTXCTL_SHARED to the folder that has them"
)
NO_DATA = pytest.mark.skipif(not DATA, reason=f"no shared data in {SHARED / 'data'}: set CTXCTL_SHARED to the folder that has it")


def told(view):
    """What a policy reads but for the contract and header."""
    return "\n".join(m.content for m in view.messages[1:])


def played(case, condition, policy, chat):
    episode = CaseEpisode(case, condition, chat)
    play([episode], policy)
    return episode


def check_case(case, chat):
    """What must hold for every case: judged right, damaged as it says, evidence within reach."""
    assert score(case, case.gold_reply)
    assert not score(case, case.bad_reply)
    assert not score(case, "")
    evidence = set(case.expected.evidence)
    for condition in conditions_of(case):
        view = CaseEpisode(case, condition, chat).view()
        text = told(view)
        assert case.final_question in view.messages[-1].content
        assert view.messages[-1].content.endswith(case.final_question), "the question comes last"
        assert ("read e3" in view.messages[0].content) == condition.endswith("_read")
        inserted = [i.text for i in case.injection.insert] if case.injection else []
        if condition == "closed_book":
            assert text == f"[e{len(case.events) + 1} user] {case.final_question}"
            assert "out:" not in view.messages[0].content
        elif condition.startswith("whole_log"):
            assert all(case.event_text(e.n) in text for e in case.events)
            assert evidence <= view.visible
            assert "out: none" in view.messages[0].content
            assert "[host_summary" not in text
        else:
            assert set(view.visible) == {e.n for e in case.events} - case.hidden | {len(case.events) + 1}
            assert all(i in text for i in inserted)
            assert " dropped" in view.messages[0].content
        if not condition.startswith("whole_log"):
            whole = "\n".join(m.content for m in view.messages)
            assert not [t for t in case.expected.needs_raw if says(whole, t)]
    condition = "damaged_read" if case.injection else "whole_log_read"
    episode = played(case, condition, EvidenceReader(case.expected.evidence, case.gold_reply, chat, everything=True), chat)
    record = episode.record("expert-read")
    assert record.right
    assert set(record.reads) == evidence
    shown = "\n".join(sessions_cli.read_back(case, chat).values())
    assert all(says(shown, t) for t in case.expected.needs_raw)
    assert sessions_cli.reachable(case, chat) == sorted(evidence), "to the last character"
    for n in evidence:
        assert episode.log.main(n).text == case.event_text(n)
    assert [view_hash(chat.render(v)) for v in record.trajectory.views()] == [i.hash for i in record.trajectory.inferences]


# -- the shared files ------------------------------------------------------------------------------------------------


@NO_CASES
def test_the_cases_are_all_there():
    assert [c.id for c in load(CASES)] == IDS


@NO_CASES
@pytest.mark.parametrize("name", IDS)
def test_a_case_is_judged_damaged_and_repaired_by_reading(name, chat):
    check_case(next(c for c in load(CASES) if c.id == name), chat)


@NO_CASES
def test_conditions_order_the_cases_as_they_should(chat):
    rows = {r.condition: r for r in summarise(sessions_cli.run_script(load(CASES), CONDITIONS, sessions_cli.Script.read, chat))}
    assert {c: r.right for c, r in rows.items()} == dict(zip(CONDITIONS, (0, 22, 1, 22, 22), strict=True))
    assert rows["whole_log_read"].false_alarms == 0
    assert rows["damaged_read"].reading == 21  # D4's evidence is in view
    for script in ("bad", "echo"):
        records = sessions_cli.run_script(load(CASES), CONDITIONS, sessions_cli.Script(script), chat)
        assert not [r.case for r in records if r.right], script


@NO_DATA
@pytest.mark.parametrize("path", DATA, ids=lambda p: p.stem)
def test_shared_data_is_judged_and_within_reach(path, chat):
    cases = load(path)
    assert len(cases) in (24, 30)
    for case in cases:
        assert score(case, case.gold_reply), case.id
        assert not score(case, case.bad_reply), case.id
        assert not score(case, case.final_question), case.id
        assert sessions_cli.reachable(case, chat) == sorted(case.expected.evidence), case.id
    check_case(cases[0], chat)
    rows = summarise(sessions_cli.run_script(cases, CONDITIONS, sessions_cli.Script.read, chat))
    n = len(cases)
    assert [r.right for r in rows] == [0, n, 0, n, n]


# -- our own small file ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    return {c.id: c for c in load(SMALL)}


@pytest.mark.parametrize("name", ["kiln", "parallel", "choir", "label", "whole"])
def test_a_small_case_is_judged_damaged_and_repaired_by_reading(name, small, chat):
    check_case(small[name], chat)


def test_a_case_without_damage_is_a_control(small):
    assert conditions_of(small["whole"]) == ("closed_book", "whole_log", "whole_log_read")


def test_the_damaged_view_to_the_letter(small, chat):
    view = CaseEpisode(small["kiln"], "damaged_read", chat).view()
    assert [(m.role, m.content) for m in view.messages] == [
        (
            "system",
            "Do the task. Each line is one call, or your whole turn is the answer.\nnote key=value @e3 | read e3 | find words\n"
            "notes: none\nout: e2-e5 dropped 1 user 2 own 1 tool",
        ),
        (
            "user",
            "[e1 system] You help in a pottery.\n[host_summary fold] A firing of bowls was planned and the kiln looked at.\n"
            "[e6 notice] shift change\n[e7 user] I take over from Ilse. What was planned?\n[e8 user] Temperature and kiln?",
        ),
    ]
    blind = CaseEpisode(small["kiln"], "damaged", chat).view()
    assert blind.messages[1:] == view.messages[1:]
    assert blind.messages[0].content == view.messages[0].content.replace("note key=value @e3 | read e3 | find words\n", "")


def test_roles_sessions_and_calls_in_the_whole_log(small, chat):
    text = told(CaseEpisode(small["choir"], "whole_log", chat).view())
    assert "[e1 user altos] Rehearsals" in text
    assert "[e4 memory tenors] rehearsal = Friday" in text
    messages = CaseEpisode(small["kiln"], "whole_log", chat).view().messages
    assert messages[2].role == "assistant"
    assert messages[2].content == 'Checking the kiln.\nkiln_state kiln=Vesta fields=["load", "door"] deep=true'
    text = told(CaseEpisode(small["parallel"], "whole_log", chat).view())
    assert r'weigh crate=S note="left door, \"top\""' in text
    assert "[e4 weigh of e2] 31.5 kg\n[e5 weigh of e3] 28.0 kg" in text, "whose result it is"


def test_an_orphan_result_stands_without_its_call(small, chat):
    view = CaseEpisode(small["parallel"], "damaged", chat).view()
    assert "crate=R" not in told(view)
    assert "[e4 weigh of e2] 31.5 kg" in told(view)
    assert "out: e1-e2 dropped 1 user 1 own" in view.messages[0].content


def test_no_call_makes_such_damage_or_mends_it(small, chat):
    episode = CaseEpisode(small["choir"], "damaged_read", chat)
    before = told(episode.view())

    def say(text):
        episode.step(Sampled(chat.turn_ids(text), text))
        return [o.code for o in episode.inferences[-1].outcomes]

    assert say("fold e1-e5 the rehearsals\ncompress e5 all of it") == ["unknown_tool", "unknown_tool"]
    assert say("note day=Friday @e3\nread e3-e4\nfind rehearsals") == ["ok", "shown", "shown"]
    assert episode.log.main(3).text in episode.inferences[-1].outcomes[1].text
    assert say("note day=Tuesday @e1") == ["ok"], "it supersedes: the view is made anew"
    after = episode.view()
    assert told(after).startswith(before), "the damage lies over the view as before"
    assert "day=Tuesday @e1" in after.messages[0].content
    assert "e1-e4 dropped 2 user" in after.messages[0].content
    say('{"day": "Tuesday", "moved": false}')
    record = episode.record("hand")
    assert (record.right, record.reason, record.reads) == (True, "answered", [1, 3, 4])


@pytest.mark.parametrize(
    "reply", ["read the log", "note that", "answer T=25", '{"a": 1}', "<b>x</b>", "fold e1-e2 x", "kiln_state kiln=Vesta"]
)
def test_without_tools_every_turn_is_the_answer(reply, small, chat):
    episode = played(small["kiln"], "damaged", Says(reply, chat), chat)
    assert episode.replies == {0: reply}
    assert "read" not in episode.system


def test_with_tools_a_turn_is_the_answer_unless_it_calls_one(small, chat):
    for reply in ("answer T=25", '{"a": 1}', "<b>x</b>", "kiln_state kiln=Vesta"):
        assert played(small["kiln"], "damaged_read", Says(reply, chat), chat).replies == {0: reply}
    episode = played(small["kiln"], "damaged_read", Says("read e2", chat), chat)
    assert (episode.record("x").right, episode.reason, episode.replies) == (False, "limit_run", {})
    assert not played(small["kiln"], "damaged", Says("", chat), chat).record("x").right


def test_reading_on_the_whole_log_is_a_false_alarm(small, chat):
    episode = played(small["kiln"], "whole_log_read", EvidenceReader([2], "1186, Vesta", chat, everything=True), chat)
    assert episode.record("x").false_alarm
    assert summarise([episode.record("x")])[0].false_alarms == 1


def test_cases_are_played_in_lock_step_by_one_policy(small, chat):
    records = run_cases(list(small.values()), CONDITIONS, Echo(chat), "echo", chat)
    assert len(records) == 4 * 5 + 3
    assert not any(r.right or r.reads for r in records)
    assert sum(r.inferences for r in records) == len(records)


def test_a_view_over_budget_ends_the_case(small, chat):
    long = small["whole"].model_copy(update={"final_question": "word " * 2000 + "?"})
    episode = CaseEpisode(long, "whole_log", chat, budget=1536)
    assert episode.done
    record = episode.record("x")
    assert (record.reason, record.right, record.evidence_in_view) == ("context_overflow", False, [])


def test_long_evidence_is_read_page_by_page(small, chat):
    events = list(small["label"].events)
    events[0] = events[0].model_copy(
        update={"text": "Small print, line by line.\n" * 300 + "The code is QF-8.\n[e1 user] p9/9\nend"}
    )
    case = small["label"].model_copy(update={"events": events})
    assert sessions_cli.reachable(case, chat) == [1]


# -- judging ---------------------------------------------------------------------------------------------------------


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


# -- files with mistakes ---------------------------------------------------------------------------------------------

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


# -- command line and documentation ----------------------------------------------------------------------------------


def test_the_command_checks_plays_and_writes(tmp_path):
    done = CliRunner().invoke(app, ["sessions", str(SMALL), "--validate"])
    assert done.exit_code == 0
    assert done.output.count("\n") == 1
    out = tmp_path / "records.jsonl"
    done = CliRunner().invoke(app, ["sessions", str(SMALL), "--write", str(out)])
    assert done.exit_code == 0, done.output
    assert "| kiln | value lost | damaged_read | right |" in done.output
    assert "| whole_log_read | 5 | 5/5 |" in done.output
    records = read_jsonl(out, model=CaseRecord)
    assert len(records) == 23
    assert {r.condition for r in records} == set(CONDITIONS)
    done = CliRunner().invoke(app, ["sessions", str(SMALL), "--condition", "damaged", "--policy", "gold"])
    assert done.output.count("| damaged | right |") == 4


def test_the_command_tells_mistakes_on_one_line(tmp_path, capfd):
    path = tmp_path / "mine.jsonl"
    path.write_text(changed("expected.forbiden", []))
    assert CliRunner().invoke(app, ["sessions", str(path)]).exit_code == 2
    assert CliRunner().invoke(app, ["sessions", str(SMALL), "--condition", "blind"]).exit_code == 2


def test_the_example_of_the_documentation_loads_and_plays(tmp_path, chat):
    text = (ROOT / "docs" / "sessions.md").read_text(encoding="utf-8")
    path = tmp_path / "my_sessions.jsonl"
    path.write_text(re.search(r"```jsonl\n(.*?)```", text, re.DOTALL)[1], encoding="utf-8")
    cases = load(path)
    assert [c.id for c in cases] == ["ferry-1", "ferry-2"]
    for case in cases:
        check_case(case, chat)
    assert "[e3 book]" in told(CaseEpisode(cases[0], "whole_log", chat).view())
    assert "out: e1-e3 dropped 1 user 1 own 1 tool" in CaseEpisode(cases[0], "damaged", chat).view().messages[0].content
    assert all(c in text for c in CONDITIONS)


def test_find_reaches_every_role_but_calls(small, chat):
    for name, words, hit in (
        ("kiln", "shift", "e6"),
        ("kiln", "pottery", "e1"),
        ("choir", "tuesday", "e2"),
        ("kiln", "vesta ready", "e5"),
    ):
        episode = CaseEpisode(small[name], "damaged_read", chat)
        episode.step(Sampled(chat.turn_ids(f"find {words}"), f"find {words}"))
        assert f"[{hit}]" in episode.inferences[0].outcomes[0].text, words


def test_a_record_can_be_shown(small, chat):
    reader = EvidenceReader([2], small["kiln"].gold_reply, chat)
    text = show_trajectory(played(small["kiln"], "damaged_read", reader, chat).record("expert-read").trajectory)
    assert "▶ read e2" in text
    assert "left out: e2-e5 dropped" in text
