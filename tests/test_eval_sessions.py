"""``eval run --sessions``: a user's own conversations by any arm, under every condition, without a config."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from envs.chat import get_chat
from envs.config import UserError
from envs.episode import play
from envs.managers import get_manager
from envs.policies.sessions import Says
from envs.runs import DataError, read_json, read_jsonl
from envs.session_run import CONDITIONS, CaseEpisode, CaseRecord
from envs.sessions import load
from eval.__main__ import app
from eval.freeze import LockError
from eval.session_table import failures, figures, share
from eval.sessions import CaseArm, SessionsConfig, build_lock, named_arms, run, stored

SMALL = Path(__file__).parent / "sessions_small.jsonl"
SHARED = Path(os.environ.get("CTXCTL_SHARED") or Path(__file__).parents[2] / "shared")
FEW = ["decoding.max_new_tokens=8", "decoding.dtype=float32"]


def call(*words):
    return CliRunner().invoke(app, ["run", *map(str, words)])


def test_scripts_show_floor_ceiling_and_what_read_back_gives(tmp_path):
    done = call(
        "--sessions", SMALL, "--arm", "expert-read", "--arm", "gold", "--arm", "bad", "--arm", "echo", "--out", tmp_path / "run"
    )
    assert done.exit_code == 0, done.output
    assert "frozen for your own data" in done.output
    assert (
        "closed book (floor of guessing) | whole log (ceiling) | damaged, no read-back (floor) | damaged, read-back"
        in done.output
    )
    results = read_json(tmp_path / "run" / "results.json")
    right = {arm: [found[c]["right"] for c in CONDITIONS[:4]] for arm, found in results["arms"].items()}
    assert right == {"expert-read": [0, 5, 0, 4], "gold": [5, 5, 4, 4], "bad": [0, 0, 0, 0], "echo": [0, 0, 0, 0]}
    assert all(found["false_alarms"]["alarms"] == 0 for found in results["arms"].values())
    assert results["arms"]["expert-read"]["damaged_read"]["reading"] == 4
    report = (tmp_path / "run" / "report.md").read_text()
    for needed in (
        "lock: `",
        "code: freeze: commit",
        "code: arms expert-read, gold, bad, echo: commit",
        "temperature 0",
        "4/4 = 1.00 [0.40, 1.00]",
        "fold_omit",
    ):
        assert needed in report
    assert "## Wrong replies of expert-read" not in report  # the floor is no failure
    assert "| kiln | damaged_read | e2 | no | - | [e8 user] Temperature and kiln? |" in report


def test_reading_everything_again_is_counted_as_false_alarms(tmp_path):
    class Reads(Says):
        def text(self, view):
            if "read e3" in view.messages[0].content and "p1/" not in view.messages[-1].content:
                return "read e1"
            return "who knows"

    cases = load(SMALL)
    episodes = [CaseEpisode(c, "whole_log_read", get_chat()) for c in cases]
    for episode in episodes:
        play([episode], Reads("", get_chat()))
    found = figures(cases, [e.record("reads") for e in episodes], plain=False)["false_alarms"]
    assert (found["alarms"], found["cases"], found["share"]) == (5, 5, 1.0)


def test_a_model_and_managers_play_under_every_condition(tmp_path):
    out = tmp_path / "run"
    arms = ["base", "prompt", "plain", "pinned", "llm_summary", "other=tiny", "own={policy: hf, model: tiny, profile: plain@1}"]
    words = [word for arm in arms for word in ("--arm", arm)]
    done = call("--sessions", SMALL, *words, "--model", "tiny", "--out", out, "manager_budget=200", *FEW)
    assert done.exit_code == 0, done.output
    results = read_json(out / "results.json")["arms"]
    assert set(results) == {"base", "prompt", "plain", "pinned", "llm_summary", "other", "own"}
    for name, found in results.items():
        assert [found[c]["cases"] for c in CONDITIONS[:4]] == [5, 5, 4, 4], name
        plain = name in ("plain", "pinned", "llm_summary", "own")
        assert found["damaged_read"]["no_read_back"] is plain
        assert (found["false_alarms"] is None) is plain
    assert "†" in (out / "report.md").read_text()
    records = {name: read_jsonl(out / "arms" / name / "episodes.jsonl", model=CaseRecord) for name in results}
    assert len(records["base"]) == 23
    assert len(records["plain"]) == 14  # what has no tools is not played twice
    systems = {n: next(r[0].trajectory.views())[0].content for n, r in records.items()}
    assert systems["base"] != systems["prompt"]
    assert "read e3" not in systems["plain"]
    assert systems["other"] == systems["base"]
    peak = {n: max(i.tokens_in for record in r for i in record.trajectory.inferences) for n, r in records.items()}
    assert peak["pinned"] <= 200
    replayed = CliRunner().invoke(app, ["replay", "--sessions", str(SMALL), "--out", str(out)])
    assert replayed.exit_code == 0, replayed.output
    assert "pinned: 14 of 14 episodes come out the same" in replayed.output


def test_a_plain_history_shows_what_the_condition_shows():
    cases, chat = {c.id: c for c in load(SMALL)}, get_chat()

    def texts(condition, **more):
        view = CaseEpisode(cases["kiln"], condition, chat, plain=True, **more).view()
        return "\n".join(m.content for m in view.messages)

    whole, damaged, closed = (texts(c) for c in ("whole_log", "damaged", "closed_book"))
    assert "1186 degrees" in whole
    assert "[e2" not in whole
    assert "1186 degrees" not in damaged
    assert damaged.index("[host_summary fold] A firing of bowls") < damaged.index("shift change")
    assert closed.splitlines()[-1] == "Temperature and kiln?"
    assert "pottery" not in closed
    assert "1186" not in texts("damaged", manager=get_manager("recent"), budget=300)
    with pytest.raises(ValueError, match="plain history has no read-back"):
        CaseEpisode(cases["kiln"], "damaged_read", chat, plain=True)


def test_evidence_in_the_input_is_told_in_view_read_back_and_plain():
    from envs.policies.sessions import EvidenceReader

    cases, chat = {c.id: c for c in load(SMALL)}, get_chat()

    def record(condition, policy, **more):
        episode = CaseEpisode(cases["kiln"], condition, chat, **more)
        play([episode], policy)
        return episode.record("x")

    wrong = Says("no idea", chat)
    assert record("whole_log", wrong).evidence_in_input == [2]
    assert record("damaged", wrong).evidence_in_input == []
    assert record("damaged_read", EvidenceReader([2], "no idea", chat)).evidence_in_input == [2]
    assert record("whole_log", wrong, plain=True).evidence_in_view == [2]
    assert record("damaged", wrong, plain=True).evidence_in_input == []
    told = failures(
        list(cases.values()), [record("damaged_read", EvidenceReader([2], "no idea", chat)), record("whole_log", wrong)]
    )
    assert [f["needed_in_input"] for f in told] == [True, True]


def test_a_killed_run_goes_on_and_an_arm_may_join(tmp_path):
    config = SessionsConfig(file=str(SMALL), out=str(tmp_path), arms=named_arms(["gold"], None))
    _, played = run(config)
    assert (played["gold"].before, played["gold"].now) == (0, 23)
    path = config.arm_folder("gold") / "episodes.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    _, played = run(config)
    assert 0 < played["gold"].now < 23
    assert path.read_bytes() == whole
    lock, played = run(SessionsConfig(file=str(SMALL), out=str(tmp_path), arms=named_arms(["echo"], None)))
    assert played["echo"].now == 23
    assert {"arm.gold", "arm.echo"} <= set(lock.rules)
    _, played = run(config)
    assert (played["gold"].before, played["gold"].now) == (23, 0)
    done = call("--sessions", SMALL, "--arm", "gold", "--out", tmp_path)
    assert set(read_json(tmp_path / "results.json")["arms"]) == {"gold", "echo"}, done.output


def test_shards_of_a_session_file(tmp_path):
    config = SessionsConfig(file=str(SMALL), out=str(tmp_path), arms=named_arms(["gold"], None))
    for part in ("1/2", "2/2"):
        run(config, shard=part)
    assert len(stored(config, "gold")) == 23
    assert run(config)[1]["gold"].now == 0


def test_a_changed_file_or_rule_is_refused_until_new(tmp_path):
    file, out = tmp_path / "mine.jsonl", tmp_path / "run"
    file.write_bytes(SMALL.read_bytes())
    assert call("--sessions", file, "--arm", "gold", "--out", out).exit_code == 0
    file.write_bytes(SMALL.read_bytes().replace(b"in a pottery", b"in a Pottery"))
    config = SessionsConfig(file=str(file), out=str(out), arms=named_arms(["gold"], None))
    with pytest.raises(LockError, match=r"sessions changed since the freeze.*another --out, or --new"):
        run(config)
    other = config.model_copy(update={"file": str(SMALL), "decoding": config.decoding.model_copy(update={"seed": 4})})
    with pytest.raises(LockError, match="decoding changed since the freeze"):
        run(other)
    done = call("--sessions", file, "--arm", "gold", "--out", out, "--new")
    assert done.exit_code == 0
    assert "gold: 23 played" in done.output
    assert len(list((out / "earlier").iterdir())) == 1


def test_a_bad_file_is_refused_whole_naming_line_and_field(tmp_path, capfd):
    file = tmp_path / "mine.jsonl"
    lines = SMALL.read_text().splitlines()
    spoiled = json.loads(lines[2])
    spoiled["events"][0]["role"] = "robot"
    file.write_text("\n".join([*lines[:2], json.dumps(spoiled), *lines[3:]]))
    done = call("--sessions", file, "--arm", "gold", "--out", tmp_path / "run")
    assert done.exit_code == 2
    told = done.output + capfd.readouterr().err
    assert f"{file}:3: events.0.role: 'robot': " in told
    assert "user" in told  # what is expected
    assert not (tmp_path / "run").exists()  # its good lines are not played either
    with pytest.raises(DataError):
        run(SessionsConfig(file=str(file), arms=named_arms(["gold"], None)))


@pytest.mark.parametrize(
    ("names", "model", "told"),
    [
        (["expert"], None, "no such arm: use one of gold, bad, expert-read, echo, base, prompt, plain, truncate"),
        (["base"], None, "needs a model: add --model smollm2"),
        (["pinned"], None, "needs a model"),
        (["gold", "gold"], None, "given twice"),
        (["x={policy: expert}"], None, "the others play generated tasks"),
        (["x={policy: hf, model: tiny, profile: unified@4}"], None, "a model under core@1 or plain@1"),
        (["x={policy: hf"], None, "flow mapping"),
        (["a/b=tiny"], None, "use letters, digits"),
    ],
)
def test_an_arm_that_makes_no_sense_is_refused(names, model, told):
    with pytest.raises(UserError, match=told.replace("(", r"\(")):
        named_arms(names, model)


def test_the_command_line_says_what_is_missing(tmp_path, capfd):
    def told(*words):
        done = call(*words)
        assert done.exit_code == 2
        return done.output + capfd.readouterr().err

    assert "give a CONFIG.yaml, or --sessions FILE.jsonl" in told()
    assert "--sessions needs who plays" in told("--sessions", SMALL)
    assert "a config and --sessions don't go together" in told("configs/eval_scripted.yaml", "--sessions", SMALL, "--arm", "gold")
    assert "belong to --sessions" in told("configs/eval_scripted.yaml", "--model", "tiny")
    assert "no such file" in told("--sessions", tmp_path / "none.jsonl", "--arm", "gold")
    assert "budgit" in told("--sessions", SMALL, "--arm", "gold", "--out", tmp_path, "budgit=2000")


def test_a_file_without_damage_says_so(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(line for line in SMALL.read_text().splitlines() if '"id": "whole"' in line))
    done = call("--sessions", file, "--arm", "gold", "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert done.output.count("no session has damage") == 2


def test_nothing_of_nothing_has_no_share():
    assert share(0, 0) == {"share": None, "lo": None, "hi": None}
    assert share(3, 4)["share"] == 0.75


def test_a_served_model_is_an_arm_and_its_server_may_move():
    def lock(port):
        arm = f"there={{policy: openai, base_url: 'http://localhost:{port}/v1', served_model: m}}"
        config = SessionsConfig(file=str(SMALL), arms=named_arms([arm], None))
        return build_lock(config, load(SMALL), weights=False).rules["arm.there"]

    assert lock(8000) == lock(9000)


def test_one_arm_is_a_script_or_an_arm():
    with pytest.raises(ValueError, match="not both"):
        CaseArm()


@pytest.mark.parametrize("name", ["cases/cases.jsonl", "data/tau2_retail_lookup.jsonl", "data/structmemeval_accounting.jsonl"])
def test_public_sessions_have_floor_and_ceiling(name, tmp_path):
    if not (SHARED / name).is_file():
        pytest.skip(f"{name} is not on this machine")
    cases = load(SHARED / name)[:6]
    file = tmp_path / "few.jsonl"
    file.write_text("\n".join((SHARED / name).read_text().splitlines()[:6]))
    config = SessionsConfig(file=str(file), out=str(tmp_path / "run"), arms=named_arms(["expert-read"], None))
    run(config)
    found = figures(cases, list(stored(config, "expert-read").values()), plain=False)
    assert found["damaged_read"]["right"] == found["damaged_read"]["cases"] == found["whole_log"]["right"] == 6
    assert found["damaged"]["right"] <= 1
    assert found["closed_book"]["right"] == 0 == found["false_alarms"]["alarms"]
