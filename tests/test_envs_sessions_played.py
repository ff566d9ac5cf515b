"""Sessions played under every condition, and the command that does it. The shared cases are used where they lie, never copied."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import SMALL
from typer.testing import CliRunner

from envs import sessions_cli
from envs.__main__ import app
from envs.episode import play
from envs.policies.base import Sampled
from envs.policies.sessions import Echo, EvidenceReader, Says
from envs.runs import read_jsonl
from envs.session_run import CONDITIONS, CaseEpisode, CaseRecord, conditions_of, run_cases, summarise
from envs.sessions import load, says, score
from envs.show import show_trajectory
from envs.trajectory import view_hash

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("CTXCTL_SHARED") or ROOT / "../shared")
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
