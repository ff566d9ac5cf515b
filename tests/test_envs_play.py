"""``python -m envs play``: a person in the place of the policy. Every test plays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import heeds_ctrl_c
from game import filler, make_session, shop
from typer.testing import CliRunner

from envs import hermes
from envs.__main__ import app
from envs.episode import PARSE, Episode, play
from envs.play import COMMANDS, HELP, Game
from envs.play_cli import COLOURS, _Terminal
from envs.play_setup import starter
from envs.play_text import CLIP, news, outcome_lines, reasons, tool_lines, view_lines
from envs.policies.base import Sampled
from envs.policies.expert import Expert
from envs.profiles import PROFILES, get_profile, variant
from envs.runs import append_jsonl, read_jsonl
from envs.tasks import FAMILIES
from envs.tasks.base import Fact, Injection, Probe, Slot
from envs.tasks.engine import Knobs
from envs.tasks.probes import make_probes
from envs.trajectory import Trajectory

ROOT = Path(__file__).parents[1]
BRIEF = "Norra offer for the desks with the price, a code and the usual terms"
QUOTE = "quote item=desks qty=2"


@pytest.fixture
def save(tmp_path):
    return tmp_path / "games" / "play.jsonl"


@pytest.fixture
def run(save):
    """The command with typed lines; returns its result. ``save`` is where the game goes."""

    def command(*args, text=""):
        result = CliRunner().invoke(app, ["play", "--save", str(save), *map(str, args)], input=text)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return command


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A file of one session that was made by hand, without answers to check."""
    path = tmp_path_factory.mktemp("play") / "sessions.jsonl"
    append_jsonl(path, shop(3))
    return path


def typed(*turns):
    return "".join(f"{turn or '.'}\n\n" if turn else ".\n" for turn in turns)


def games(path):
    return read_jsonl(path, model=Trajectory)


def drawn(turns, fillers=24, family="procurement", seed=3):
    knobs = replace(Knobs(), turns=(turns, turns), fillers=(fillers, fillers), close=1.0)
    return FAMILIES[family].generate(seed, knobs)


def hand(chat, session, *lines, profile="core@1", manager=None, **more):
    """A game without a terminal: these lines are typed, then the input ends. Returns the game and what it wrote."""
    rules = get_profile(profile) if isinstance(profile, str) else profile
    left, told = iter(lines), []

    def ask(prompt):
        line = next(left, EOFError)
        if isinstance(line, type):
            raise line
        return line

    game = Game(starter(session, rules, chat, "", manager), ask=ask, tell=told.append, **more)
    game.run()
    return game, "\n".join(told)


# ---- whole games ---------------------------------------------------------------------------------------------------------------


def test_a_whole_session_is_solved_by_typing_the_experts_turns(chat, run, save):
    session = drawn(9)
    episode = Episode(session, get_profile("core@1"), chat)
    play([episode], Expert(chat))
    assert any(i.rewrite for i in episode.inferences)
    result = run(
        "--seed", 3, "--turns", 9, "--knob", "fillers=24", "--knob", "close=1", text=typed(*(i.text for i in episode.inferences))
    )
    assert result.exit_code == 0, result.output
    text = result.output
    assert f"session {session.id}, profile core@1" in text
    assert text.count(": right") == sum(len(t.slots) for t in session.turns)
    assert "✗" not in text
    assert "ended: answered" in text
    assert "quality q 1.00" in text
    assert f"{sum(i.tokens_in + len(i.ids) for i in episode.inferences):,} tokens: " in text
    assert re.search(r"← fold: ok f1 e\d+-e\d+", text)
    assert "lines gone" in text
    assert "out of view" not in text
    (game,) = games(save)
    assert (game.policy, game.reason, game.profile) == ("human", "answered", "core@1")
    assert [(i.hash, i.text, i.outcomes, i.ids) for i in game.inferences] == [
        (i.hash, i.text, i.outcomes, i.ids) for i in episode.inferences
    ]
    shown = CliRunner().invoke(app, ["show", str(save), "-n", "1"])
    assert shown.exit_code == 0
    assert "ended: answered" in shown.output
    assert f"python -m envs show {save} -n 1" in text


def test_families_that_are_held_out_can_be_played(run, save):
    assert run("--family", "travel", "--seed", 5, text="x=1\n").exit_code == 0
    assert games(save)[0].family == "travel"
    assert games(save)[0].reason == "unfinished"


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_every_profile_can_be_played(chat, profile):
    rules = get_profile(profile)
    call = hermes.spell("quote", {"item": "desks", "qty": "2"}) if rules.syntax == "json" else QUOTE
    game, text = hand(chat, shop(2), *call.split("\n"), "", "/state", "/log", "/tools", "/view", "total=4100", "", profile=rules)
    assert "← quote: result e3" in text
    assert "Norra Office offers 2 desks." in text
    assert "user turn 2, view 3" in text
    assert [i.kind for i in game.episode.inferences] == ["calls", "answer"]


def test_json_calls_take_several_lines(run, save):
    block = hermes.spell("quote", {"item": "tables", "qty": "42"})
    assert block.count("\n") == 2
    result = run("--seed", 3, "--profile", "unified@1", text=f"{block}\n\n<tool_call>\n{{'x'}}\n</tool_call>\n\n")
    assert "← quote: result e3" in result.output
    assert "[host] no call and no answer" in result.output
    assert games(save)[0].inferences[0].text == block


def test_under_a_manager_what_it_drops_is_out_of_view(run, save):
    args = ("--seed", 3, "--turns", 4, "--profile", "plain@1", "--flag", "view_budget=180")
    turns = typed("quote item=tables qty=42", "code=PA-4558", "x=1", "y=2")
    for manager in ("truncate", "pinned"):
        result = run(*args, "--manager", manager, "--reveal", text=f"{turns}/log\n/state\n/example\n")
        assert result.exit_code == 0, result.output
        assert f"manager {manager}" in result.output
        assert "e3 quote (manager): Omega Interiors offers the tables, 42 pieces." in result.output
        assert "plain history: no notes" in result.output
        assert "it has no turn for a manager" in result.output
    hidden = run(*args, "--manager", "truncate", text=turns + "/log\n")
    assert "e3 quote  (out of view: manager)\n" in hidden.output
    assert [g.manager for g in games(save)] == ["truncate", "pinned", "truncate"]


def test_the_summary_of_a_sub_agent_is_asked_for(chat):
    rules = variant("core@1", compress_by="agent", min_gain=0)
    long = "Desks of Norra Office, e3: total 4100, code AP-7741; the cap of e1 is 9000"
    game, text = hand(
        chat, shop(3), QUOTE, "", "total=4100", "", "compress e4", "note cap=9000 @e1", "", "/example", long, "",
        profile=rules, whole=True,
    )  # fmt: skip
    assert "You are the sub-agent now" in text
    assert "S│ Summarise the history below" in text
    assert "no turn for a summary" in text
    after = text[text.index("the summary is taken") :]
    assert after.index("← compress: ok c1 e1-e4") < after.index("← note: ok")
    assert f"[c1 e1-e4] {long}" in after
    assert [i.kind for i in game.episode.inferences] == ["calls", "answer", "calls", "maintenance"]
    back, text = hand(
        chat, shop(3), QUOTE, "", "total=4100", "", "compress e4", "", "short", "", "/undo", long, "", profile=rules
    )  # fmt: skip
    assert "← compress refused: ! empty_text" in text
    assert text.count("You are the sub-agent now") == 2
    assert back.episode.state.window.boundary.summary == long


# ---- what is shown, and what is not ---------------------------------------------------------------------------------------------


def test_a_rejection_is_shown_with_its_reason_and_remarks_are_named(run, save):
    result = run("--seed", 3, text=typed("fold e2-e3 much too early\nlet me see", "quote item=tables") + ".\n")
    assert "← fold refused: ! unknown_ref: no e3" in result.output
    assert "← no call, nothing is done with it: let me see" in result.output
    assert "← quote refused: ! bad_arguments: qty missing; try quote item=" in result.output
    assert "← the turn: [host] no call and no answer" in result.output
    assert [o.code for i in games(save)[0].inferences for o in i.outcomes] == ["unknown_ref", "bad_arguments", "notice"]


def planted():
    """A probe with marks in all that is out of view when the player takes over: result, old brief, control turn, truth, future."""
    session = make_session(
        ["Quote desks zquser0. Answer: total=?", "Ask zquser1. Answer: total=?", "Later zqfuture0. Answer: total=?"],
        {"quote item=desks qty=2": f"Norra zqresult0. The total is 4100. {filler(24)}", "revise item=desks": "zqresult1"},
        slots=[(Slot(name="total", accept=("zqaccept0",), key="zqkey1", stale=("zqstale0",)),)] * 3,
        facts=[Fact(key="zqkey1", value="zqvalue0", where="turn:0")],
        tags=("zqtag0",),
        knobs={"zqknob0": 1},
    )
    prefix = (QUOTE, f"fold e2-e3 {BRIEF} zqbrief0 @e3\nnote gone=zqnote0 @e1\nnote held=zqnote1 @e1", "total=4100")
    injection = Injection(brief={"f1": BRIEF}, note={"gone": None, "held": ("zqwrong0", 1)})
    return Probe(
        id="zqbase0.0/missing", base="base-0", family="procurement", variant="missing", signal="asked", session=session, prefix=prefix,
        start=1, injection=injection, damaged_key="zqkey0",
    )  # fmt: skip


def test_reveal_shows_what_the_view_lacks_and_without_it_no_byte_of_it_is_printed(run, save, tmp_path):
    path = tmp_path / "probes.jsonl"
    append_jsonl(path, planted())
    looks = "/view\n/state\n/log\n/tools\n/help\n/example\n"
    hidden = run(path, text=f"{looks}note a=1\n\n{looks}/undo\nnote b=2\n\n{looks}")
    assert hidden.exit_code == 0, hidden.output
    assert set(re.findall(r"zq\w+", hidden.output)) == {"zquser0", "zquser1", "zqwrong0"}
    assert "missing" not in hidden.output
    assert "e3 quote  (out of view: f1)\n" in hidden.output
    assert "a probe of base-0" in hidden.output
    answered = run(path, text=f"total=1\n\ntotal=zqstale0\n\n{looks}")
    assert "ended: answered" in answered.output
    assert set(re.findall(r"zq\w+", answered.output)) == {"zquser0", "zquser1", "zqwrong0", "zqfuture0", "zqstale0"}
    open_ = run(path, "--reveal", text=looks)
    assert {"zqresult0", "zqbrief0", "zqnote0", "zqnote1"} <= set(re.findall(r"zq\w+", open_.output))
    assert not re.search("zqfuture|zqtag|zqknob|zqresult1", open_.output), "what nobody asked for is not in the log"
    assert "e3 quote (f1): Norra zqresult0. The total is 4100." in open_.output
    assert f"damaged f1 e2-e3: {BRIEF} zqbrief0 @e3" in open_.output
    assert f"now f1: {BRIEF}\n" in open_.output
    assert "damaged note gone=zqnote0 @e1 candidate  now gone" in open_.output
    assert "damaged note held=zqnote1 @e1 candidate  now held=zqwrong0 @e1\n" in open_.output
    later = run(path, text="/reveal\n/reveal\n/log\nx=1\n\n")
    assert "damaged f1" in later.output
    assert later.output.count("zqresult0") == 1, "switched off again, the log hides it"
    assert [g.policy for g in games(save)] == ["human+example+undo", "human", "human+reveal"]


def test_the_events_told_to_be_in_view_are_those_of_the_view(chat, expert_episodes, probes):
    for episode in expert_episodes[::5]:
        again = Episode(episode.session, episode.profile, chat)
        for inference in episode.inferences:
            view = again.view()
            told = reasons(again, view.messages)
            assert {e.seq for e, why in told if not e.sub and not why} == set(view.visible)
            again.step(Sampled(tuple(inference.ids), inference.text))
    for _, group in probes[::4]:
        episode = Episode.from_probe(group[-1], get_profile("core@1"), chat)
        told = reasons(episode, episode.view().messages)
        assert {e.seq for e, why in told if not e.sub and not why} == set(episode.view().visible)


def test_a_result_that_lands_in_a_window_just_left_is_not_printed(chat):
    session = make_session(["Quote. Answer: total=?"] * 2, {QUOTE: "Norra zqresult0. Total 4100."})
    lines = (QUOTE, 'w1 local k=zqmine @e1\nw1 window_open title="b" checkpoint="zqleft"', "", "/view", "/state", "/log")
    lines = tuple(part for line in lines for part in line.split("\n"))
    _, text = hand(chat, session, *lines, profile="unified@4-compact")
    assert "← quote: result e3" in text
    assert "← window_open: ok w2 open" in text
    assert "zqresult0" not in text
    assert "zqleft" not in text
    _, text = hand(chat, session, *lines, profile="unified@4-compact", reveal=True)
    assert "e3 quote (w1): Norra zqresult0. Total 4100." in text
    assert "w1 checkpoint: zqleft" in text
    assert "w1 note: k=zqmine @e1" in text


def test_only_what_is_new_is_printed_unless_all_is_wanted(run):
    text = typed("quote item=tables qty=42", "code=PA-4558")
    brief, whole = run("--seed", 3, text=text).output, run("--seed", 3, "--whole", text=text).output
    again = run("--seed", 3, text=text + "/view\n").output
    assert "… 6 lines as before" in brief
    assert "as before" not in whole
    assert whole.count("budget cap of 2058") == 3
    assert brief.count("budget cap of 2058") == 1
    assert again.count("budget cap of 2058") == 2
    assert brief.count("code=PA-4558") == 1, "the player's own turn is echoed once"


def test_news_keeps_the_order_and_leaves_out_what_was_typed(chat):
    game = Episode(shop(2), get_profile("core@1"), chat)
    first = view_lines(game.view().messages)
    game.step(Sampled(chat.turn_ids(QUOTE), QUOTE))
    second = view_lines(game.view().messages)
    fresh = [line for line in second if line not in first]
    assert news(first, second)[1:] == fresh
    assert news(first, second, [("own", f"A│ {QUOTE}")])[1:] == fresh[1:]
    assert news(second, second) == [("dim", f"… {len(second)} lines as before")]
    assert news(second, first)[-1] == ("dim", "… 2 lines gone")


def test_the_verdict_says_what_was_wrong_and_only_revealed_what_is_right(run, save):
    turns = typed("quote item=tables qty=42", "code=AP-1111", "delivery=unknown", "cap=2058")
    result = run("--seed", 3, "--turns", 3, text=turns)
    assert "✗ code: wrong: a value that stood in no view" in result.output
    assert "✗ delivery: not answered (unknown)" in result.output
    assert "✗ cap: wrong: a value that is no longer in force" in result.output
    assert "0 of 3 slots right in 3 user turns" in result.output
    assert "right is" not in result.output
    assert "user turn 1 of" not in result.output
    shown = run("--seed", 3, "--turns", 3, "--reveal", text=turns)
    assert "right is PA-4558, stated in e3" in shown.output
    assert "user turn 1 of 3" in shown.output
    assert [g.policy for g in games(save)] == ["human", "human+reveal"]


def test_a_damaged_probe_is_scored_at_its_end(chat, run):
    seed = next(s for s in range(9) if make_probes("procurement", s, "static", chat))
    probe = make_probes("procurement", seed, "static", chat)[-1]
    episode = Episode.from_probe(probe, get_profile("core@1"), chat)
    play([episode], Expert(chat))
    turns = typed(*(i.text for i in episode.inferences))
    result = run("--probe", "static", "--seed", seed, text=turns)
    assert f"a probe of {probe.base}, " in result.output
    assert "damaged probe (missing): recovered; reached: accessible" in result.output
    twin = run("--probe", "static", "--seed", seed, "--undamaged", text="total=1\n\n")
    assert "probe without damage (present)" in twin.output
    plain = run("--probe", "static", "--seed", seed, "--profile", "plain@1", "--reveal")
    assert "has no folds, so nothing is damaged" in plain.output


# ---- typing --------------------------------------------------------------------------------------------------------------------


def test_lines_make_turns_and_the_end_of_the_input_sends_the_last_one(chat):
    game, text = hand(
        chat, shop(4), "", "  ", QUOTE, "", "total=4100", "/state", "more", ".", ".", "//quit", "", "note a=1", profile="core@1"
    )  # fmt: skip
    assert game.turns == [QUOTE, "total=4100\nmore", "", "/quit", "note a=1"]
    assert "the turn has 1 line so far; an empty line sends it" in text
    game, _ = hand(chat, shop(1), "total=\ud800x\r\n", "")
    assert game.turns == ["total=?x"]
    assert game.trajectory().model_dump_json()


def test_commands_are_carried_out_and_wrong_ones_named(chat):
    for command in COMMANDS:
        assert f"{command} " in HELP
    game, text = hand(
        chat, shop(2), "/help", "/HELP", "/example", "/vew", "/xyzzy", QUOTE, "", f"fold e2-e3 {BRIEF} @e3", "note cap=9000 @e1", "",
        "/state", "/log", "/quit", "total=1", "",
    )  # fmt: skip
    assert text.count("An empty line sends the turn") == 2
    assert "no command /vew: did you mean /view?" in text
    assert "no command /xyzzy: /help lists them" in text
    assert f"fold f1 e2-e3: {BRIEF} @e3" in text
    assert "  cap=9000 @e1" in text
    assert "version 2, window w1 main, 1 rewrite" in text
    assert " e3 quote  (out of view: f1)\n" in text
    assert len(game.turns) == 2, "what stands after /quit is not read"


def test_the_expert_shows_what_it_would_do(chat, run, save):
    result = run("--seed", 3, text="/example\n")
    assert "  quote item=tables qty=42\n" in result.output
    assert "no turn for unified@1" in run("--seed", 3, "--profile", "unified@1", text="/example\n").output
    run("--seed", 3, "--profile", "plain@1", text="/example\nquote item=tables qty=42\n\n")
    assert games(save)[0].policy == "human+example"
    _, text = hand(chat, make_session(["Hello. Answer: a=?"], {}, tools=()), "/example")
    assert "the expert cannot read this view" in text


def test_undo_plays_the_game_again_without_the_last_turn(chat, run, save):
    session = shop(3)
    game, text = hand(chat, session, "/undo", QUOTE, "", "note a=1", "", "half", "/undo", "/undo", "note a=2", "")
    straight, _ = hand(chat, session, QUOTE, "", "note a=2", "")
    assert "there is no turn to take back" in text
    assert "the lines that were not sent are dropped" in text
    assert "taken back; 1 turn played" in text
    assert game.turns == straight.turns
    assert game.episode.state == straight.episode.state
    assert game.episode.log.digest() == straight.episode.log.digest()
    assert game.trajectory().inferences == straight.trajectory().inferences
    result = run(
        "--seed", 3, "--turns", 1, text=typed("code=1") + "hello\n/view\n/undo\n" + typed("code=unknown") + "/undo\n/quit\n"
    )
    assert result.output.count("ended: answered") == 2
    assert "the game is over: /undo takes the last turn back" in result.output
    assert "the game is over: there is no view" in result.output
    assert "nothing was played, nothing is saved" in result.output
    assert not save.exists()


def test_a_game_ends_at_its_limits(chat):
    game, text = hand(chat, shop(2), *"...", "/log")
    assert game.episode.reason == "limit_notices"
    assert "user turn 1, not answered" in text
    assert "ended: limit_notices (too many turns that were no call and no answer)" in text
    _, text = hand(chat, shop(2), "x", "/view", profile=variant("plain@1", view_budget=20))
    assert "the game is over before its first turn: context_overflow" in text
    _, text = hand(chat, shop(2), f"note a={'7' * 120}", "")
    assert "a model that writes 96 at most would have been cut" in text


@pytest.mark.parametrize("rules", [*PROFILES.values(), variant("core@1", compress_by="agent"), variant("unified@4", compress_by="agent")],
                         ids=lambda p: p.name)  # fmt: skip
def test_every_example_of_the_contract_is_a_call(rules):
    tools = shop(1).tools
    lines = [text for style, text in tool_lines(rules, tools) if style == "own"][:-1]
    text = "\n".join(lines).replace("…", "x")
    parsed = PARSE[rules.syntax](text, False, rules, tools)
    assert parsed.remarks == ()
    assert [c for c in parsed.calls if c.code] == []
    names = {c.tool for c in parsed.calls}
    assert names == (set(rules.tools) | {t.name for t in tools}) - {"local"}


def test_control_characters_do_not_reach_the_terminal(chat):
    session = make_session(["Quote \x1b[31mred\x07\r. Answer: total=?"], {QUOTE: "a\x9b2Jb\tc"})
    _, text = hand(chat, session, QUOTE, "", "/log", "/view", reveal=True)
    assert r"Quote \x1b[31mred\x07\x0d." in text
    assert "a\\x9b2Jb\tc" in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)


def test_long_outcomes_and_texts_are_clipped_on_one_line(chat):
    _, text = hand(chat, shop(1), QUOTE, "", "/log")
    line = next(x for x in text.split("\n") if x.startswith(" e3 quote"))
    assert line.endswith("…")
    assert len(line) <= CLIP + 12
    game = Episode(shop(1), variant("unified@4", min_gain=0), chat)
    said = hermes.spell("window_list", {})
    game.step(Sampled(chat.turn_ids(said), said))
    assert outcome_lines(game.inferences[-1].outcomes) == [("good", "← window_list: shown")]


# ---- saving ----------------------------------------------------------------------------------------------------------------------


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
