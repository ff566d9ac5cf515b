"""``python -m envs play``: whole games, turn by turn, what is typed and how they end. Every test plays."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from game import make_session, shop
from playing import BRIEF, QUOTE, games, hand, run_fixture, save_fixture, typed  # noqa: F401  (two are fixtures)
from typer.testing import CliRunner

from envs import hermes
from envs.__main__ import app
from envs.episode import Episode, play
from envs.play import COMMANDS, HELP
from envs.policies.expert import Expert
from envs.profiles import PROFILES, get_profile, variant
from envs.tasks import FAMILIES
from envs.tasks.engine import Knobs


def drawn(turns, fillers=24, family="procurement", seed=3):
    knobs = replace(Knobs(), turns=(turns, turns), fillers=(fillers, fillers), close=1.0)
    return FAMILIES[family].generate(seed, knobs)


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
