"""``python -m envs play`` as a command: what it saves, its options, and the terminal it runs in. Every test plays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import heeds_ctrl_c
from game import shop
from playing import QUOTE, games, hand, run_fixture, save_fixture, typed  # noqa: F401  (two are fixtures)
from typer.testing import CliRunner

from envs.__main__ import app
from envs.episode import Episode
from envs.play_cli import COLOURS, _Terminal
from envs.runs import append_jsonl

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A file of one session that was made by hand, without answers to check."""
    path = tmp_path_factory.mktemp("play") / "sessions.jsonl"
    append_jsonl(path, shop(3))
    return path


# ---- saving --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "code"), [("/quit\n", 0), ("", 0), (KeyboardInterrupt, 130)])
def test_what_was_played_is_saved_however_the_player_leaves(run, save, monkeypatch, ending, code):
    text = typed("quote item=tables qty=42")
    if ending is KeyboardInterrupt:
        lines = iter(text.split("\n")[:2])

        def ask(self, prompt):
            line = next(lines, None)
            if line is None:
                raise KeyboardInterrupt
            return line

        monkeypatch.setattr(_Terminal, "ask", ask)
    else:
        text += ending
    for number in (1, 2):
        if ending is KeyboardInterrupt:
            lines = iter(["quote item=tables qty=42", ""])
        result = run("--seed", 3, text=text)
        assert result.exit_code == code, result.output
        assert f"saved (unfinished): python -m envs show {save} -n {number}\n" in result.output
    assert [(g.reason, len(g.inferences)) for g in games(save)] == [("unfinished", 1)] * 2
    assert "ended: unfinished" in CliRunner().invoke(app, ["show", str(save), "-n", "2"]).output


def test_a_turn_that_is_broken_off_leaves_the_game_as_it_was(chat, monkeypatch):
    game, _ = hand(chat, shop(3), QUOTE, "")
    before = game.trajectory()
    log = Episode._store

    def stop(*args):
        monkeypatch.setattr(Episode, "_store", log)
        raise KeyboardInterrupt

    monkeypatch.setattr(Episode, "_store", stop)
    with pytest.raises(KeyboardInterrupt):
        game._send("note a=1")
    assert game.trajectory() == before
    assert game.turns == [QUOTE]


def test_a_game_that_cannot_be_saved_where_it_was_meant_to_is_saved_elsewhere(run, save, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    save.parent.mkdir()
    real = os.fsync

    def full(fd):
        monkeypatch.setattr(os, "fsync", real)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = run("--seed", 3, text="x=1\n")
    assert result.exit_code == 2
    assert "No space left on device" in result.output
    (spare,) = tmp_path.glob("ctxctl-play-*/play.jsonl")
    assert str(spare) in result.output
    assert games(spare)[0].reason == "unfinished"
    assert games(save) == []


def test_a_file_that_no_game_could_be_appended_to_is_refused_before_the_game(run, save, stored, tmp_path):
    save.parent.mkdir()
    for content, why in ((b'{"v": 2', "its last line is torn"), (stored.read_bytes(), "holds other records than games")):
        save.write_bytes(content)
        result = run("--seed", 3, text="x=1\n")
        assert result.exit_code == 2
        assert why in result.output
        assert "user turn" not in result.output
        assert save.read_bytes() == content
    assert "it is a folder" in run("--save", tmp_path).output
    (tmp_path / "file").write_text("")
    assert "can't be written" in run("--save", tmp_path / "file" / "x.jsonl").output


def test_stored_lines_are_played(run, save, stored, tmp_path):
    first = run(stored, text=typed(QUOTE, "total=4100"))
    assert "session hand-made, profile core@1" in first.output
    again = run(save, "-n", 1, "--profile", "plain@1", text="total=1\n")
    assert "session hand-made, profile plain@1" in again.output
    assert games(save)[1].session == games(save)[0].session == shop(3)
    broken = tmp_path / "broken.jsonl"
    for line, why in (('{"id": "x"}', "no episode, probe or session"), ("[1]", "no episode"), ("{", "not valid JSON")):
        broken.write_text(line + "\n", encoding="utf-8")
        result = run(broken)
        assert result.exit_code == 2
        assert f"{broken}:1: " in result.output
        assert why in result.output
    append_jsonl(tmp_path / "none.jsonl", shop(1).model_copy(update={"turns": ()}))
    assert "has no user turn" in run(tmp_path / "none.jsonl").output


# ---- options -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ("--profile core", "--profile: unknown profile 'core': choose one of plain@1, core@1"),
        ("--flag index=maybe", "--flag 'index=maybe': index: 'maybe' not accepted"),
        ("--flag indx=true", "--flag 'indx=true': indx: unknown key: did you mean 'index'?"),
        ("--flag name=x", "--flag 'name=x': name: unknown key"),
        ("--flag index", "--flag 'index': not of the form name=value: write e.g. index=false"),
        ("--flag view_budget=0", "--flag view_budget=0: must not be below 1"),
        ("--flag max_folds=-1", "--flag max_folds=-1: must not be below 0"),
        ("--flag tools=[note,fly]", "--flag tools: no context tool 'fly': choose from note"),
        ("--flag compress_by=me", "--flag 'compress_by=me': compress_by: 'me' not accepted: input should be 'model' or 'agent'"),
        ("--flag view_budget=300", "--profile core@1[view_budget=300]: this cannot be played"),
        ("--manager truncate", "--manager truncate: core@1 lets the player manage the view: add --profile plain@1"),
        ("--manager lru --profile plain@1", "--manager: unknown manager 'lru': choose one of truncate"),
        ("--prompt nice", "--prompt: unknown prompt 'nice': choose one of guided"),
        ("--model /no/such", "model '/no/such': no such folder"),
        ("--family cooking", "--family: unknown family 'cooking': choose one of procurement"),
        ("--probe odd", "--probe 'odd': unknown kind of probe: choose one of static"),
        ("--probe changed --seed 3", "--seed 3: it makes no changed probe of procurement: try --seed 4"),
        ("--probe static --turns 3", "--probe static: probes have sizes of their own"),
        ("--undamaged", "--undamaged: only a probe that is drawn"),
        ("--turns many", "--turns 'turns=many': turns: 'many' not accepted: give a whole number, or a range"),
        ("--turns 8-3", "--turns: no such session can be drawn (knob turns: 8..3"),
        ("--knob attrs=9", "--knob: no such session can be drawn"),
        ("--knob colour=9", "--knob 'colour=9': colour: unknown key: did you mean 'close'?"),
        ("--knob turns", "--knob 'turns': not of the form name=value: write e.g. fillers=20"),
        ("-n 2", "--number 2: there is no file"),
        ("FILE -n 0", "there is no line 0, it has 1"),
        ("no.jsonl", "no.jsonl: no such file"),
        ("FILE -n 2", "there is no line 2, it has 1"),
        ("FILE --seed 0", "--seed: a line of"),
        ("FILE --knob close=1", "--knob: a line of"),
        ("FILE --undamaged", "--undamaged: a line of"),
    ],
)
def test_a_wrong_option_is_one_line_that_names_it_and_the_remedy(run, save, stored, args, told):
    result = run(*(stored if a == "FILE" else a for a in args.split()), text="x=1\n")
    assert result.exit_code == 2
    assert told in result.output
    assert result.output.startswith("error: ")
    assert len(result.output.strip().splitlines()) == 1
    assert not save.exists()


def test_it_is_a_command_that_teaches_itself():
    result = CliRunner().invoke(app, ["play", "--help"], env={"COLUMNS": "200"})
    assert "Example: python -m envs play" in result.output
    for word in ("static, changed", "--undamaged", "NAME=VALUE", "runs/play.jsonl", "--reveal"):
        assert word in result.output


def test_flags_knobs_and_prompt_reach_the_game(run, save):
    args = ("--seed", 3, "--turns", "2-2", "--flag", "index=false", "--flag", "fill_marks=[10]", "--prompt", "guided")
    result = run(*args, "--knob", "attrs=[4, 4]", text=".\n")
    assert result.exit_code == 0, result.output
    (game,) = games(save)
    assert game.profile == "core@1[fill_marks=(10,),index=False]"
    assert game.prompt == "guided"
    assert len(game.session.turns) == 2
    assert "out: none" not in result.output
    assert "[host] fill " in result.output


# ---- the terminal --------------------------------------------------------------------------------------------------------------


class Screen:
    """Standard output as a terminal would be."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("given", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)]
)
def test_colours_only_on_a_terminal_that_wants_them(monkeypatch, given, coloured):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Screen())
    terminal = _Terminal()
    painted = [terminal.paint(style, "text") for style in COLOURS]
    assert all(("\x1b[" in text) == coloured for text in painted)
    assert terminal.paint("plain", "text") == "text"
    monkeypatch.setattr(Screen, "isatty", lambda self: False)
    assert _Terminal().paint("bad", "text") == "text"


def start(save, *args, **env):
    return subprocess.Popen(
        [sys.executable, "-m", "envs", "play", "--seed", "3", "--save", str(save), *args], cwd=ROOT, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeds_ctrl_c, env={**os.environ, "HF_HUB_OFFLINE": "1", **env},
    )  # fmt: skip


def test_a_script_plays_through_pipes_in_a_narrow_terminal_of_another_encoding(save):
    game = start(save, "--turns", "1", COLUMNS="5", PYTHONIOENCODING="ascii")
    out, err = game.communicate("quote item=t\u00e9 qty=1\n\n".encode("latin-1") + b"quote item=tables qty=42\n\ncode=PA-4558\n")
    assert game.returncode == 0, err
    text = out.decode("ascii")
    assert "U| [e1 user] We are buying the tables, 42 pieces" in text
    assert "\n-----\nuser turn 1, view 1" in text
    assert "> quote item=t? qty=1" in text
    assert "+ code: right" in text
    assert "\x1b" not in text
    assert games(save)[0].reason == "answered"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_saves_the_game(save, name):
    game = start(save)
    game.stdin.write(b"quote item=tables qty=42\n\n")
    game.stdin.flush()
    for line in game.stdout:
        if b"[e3 quote]" in line:
            break
    game.send_signal(getattr(signal, name))
    out, err = game.communicate(timeout=60)
    assert game.returncode == 130, err
    assert b"saved (unfinished)" in out
    assert len(games(save)[0].inferences) == 1
