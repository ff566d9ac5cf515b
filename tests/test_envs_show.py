"""``python -m envs show``: what it prints, and how it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from game import Game, roomy, shop
from typer.testing import CliRunner

from envs.__main__ import app
from envs.runs import append_jsonl

BRIEF = "Norra offer for the desks with the price, a code and the usual terms"


@pytest.fixture(scope="module")
def file(chat, tmp_path_factory):
    """A file of two episodes: one managed by hand, one short."""
    game = Game(shop(2), chat, roomy())
    game.say("quote item=desks qty=2")
    game.say("read e99", f"fold e2-e3 {BRIEF} @e3", "note cap=9000 @e1")
    game.say("")
    game.say("total=4100")
    game.say("total=unknown")
    path = tmp_path_factory.mktemp("show") / "trajectories.jsonl"
    append_jsonl(path, game.episode.trajectory("by-hand", kind="recovery"))
    other = Game(shop(1), chat)
    other.say("total=1")
    append_jsonl(path, other.episode.trajectory("other").model_copy(update={"id": "second-one"}))
    return path


def run(*args):
    return CliRunner().invoke(app, ["show", *map(str, args)])


def test_it_prints_view_call_outcome_and_what_is_left_out(file):
    result = run(file)
    assert result.exit_code == 0
    text = result.output
    assert "hand-made  family procurement  profile core@1  policy by-hand  kind recovery" in text
    assert "ended: answered" in text
    for number in range(1, 6):
        assert f"inference {number}  turn" in text
    assert "S│ Do the task." in text
    assert "U│ [e1 user] Quote 2 desks." in text
    assert "▶ quote item=desks qty=2" in text
    assert "← result: e3: Norra Office offers 2 desks." in text
    assert "← unknown_ref: ! unknown_ref: no e99" in text
    assert "← ok: ok f1 e2-e3" in text
    assert "left out: nothing" in text
    assert "left out: e2-e3 f1 1 own 1 tool; e4 control" in text
    assert "(view rewritten)" in text
    assert "▶ (empty)" in text
    assert "← notice: [host] no call and no answer" in text
    assert "not in view: e3 tool: Norra Office offers 2 desks." in text
    assert "q = " in text


def test_number_find_and_whole(file):
    assert "second-one" in run(file, "-n", 2).output
    assert "second-one" in run(file, "--find", "second").output
    assert "hand-made" in run(file, "--number", "1").output
    brief, whole = run(file).output, run(file, "--whole").output
    assert "messages as before" in brief
    assert "messages as before" not in whole
    assert whole.count("Quote 2 desks.") > brief.count("Quote 2 desks.")


@pytest.mark.parametrize("number", ["0", "3", "-1", "999"])
def test_a_number_out_of_range_is_one_clear_line(file, number):
    result = run(file, "--number", number)
    assert result.exit_code == 2
    assert f"there is no line {number}, it has 2: choose 1 to 2" in result.output
    assert str(file) in result.output
    assert "Traceback" not in result.output


def test_a_missing_file_a_torn_line_a_wrong_record_and_an_empty_file(file, tmp_path):
    missing = run(tmp_path / "no.jsonl")
    assert (missing.exit_code, "no such file" in missing.output) == (2, True)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(file.read_bytes()[:-200])
    result = run(torn)
    assert result.exit_code == 2
    assert f"{torn}:2: not valid JSON" in result.output
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"id": "x"}\n', encoding="utf-8")
    result = run(wrong)
    assert result.exit_code == 2
    assert f"{wrong}:1: " in result.output
    assert "Trajectory needs it" in result.output
    empty = tmp_path / "empty.jsonl"
    empty.write_text("", encoding="utf-8")
    result = run(empty)
    assert result.exit_code == 2
    assert "holds no episode" in result.output
    assert run(tmp_path).exit_code == 2
    assert run(file, "--find", "nowhere").exit_code == 2
    for output in (missing.output, result.output):
        assert "Traceback" not in output
        assert len(output.strip().splitlines()) == 1


def test_it_is_a_command_that_teaches_itself(file):
    env = {**os.environ, "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "envs", "show", str(file)], cwd=root, env=env, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert "left out: e2-e3 f1 1 own 1 tool; e4 control" in done.stdout
    assert "Example: python -m envs show" in CliRunner().invoke(app, ["show", "--help"]).output
