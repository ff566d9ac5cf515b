"""Windows, both memories and the derived blocks, from a turn's raw text (compact and JSON)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from game import BRIEF, Game, filler, make_session, roomy, shop, two_quotes

from envs.capacity import header_bound
from envs.hermes import spell
from envs.profiles import get_profile
from envs.view import render


def unified(chat, **more):
    return Game(shop(), chat, roomy("unified@4-compact", **more))


@pytest.fixture
def game(chat):
    """All in w1."""
    return two_quotes(unified(chat))


# ---- moves -----------------------------------------------------------------------------------------------------------------------


def test_a_new_window_shows_its_handover_and_the_user_message_of_this_run_alone(game):
    assert game.codes('w1 window_open title="Dates" handoff="plan the delivery" checkpoint="chairs are quoted"') == ["ok"]
    body = game.body
    assert "[e5 user]" in body
    assert "[e1 user]" not in body
    assert "[e7 quote]" not in body
    assert "window_open" not in body, "the move belongs to the window left"
    assert "handoff: plan the delivery" in game.system
    assert "windows: w1 main open" in game.system
    assert "elsewhere: e7 w1 quote; e8 w1 moved" in game.system
    assert game.episode.state.windows["w1"].checkpoint == "chairs are quoted"


def test_after_a_return_the_history_ends_with_the_old_move_and_the_checkpoint_is_shown(game):
    game.say('w1 window_open title="Dates" checkpoint="chairs are quoted"')
    game.say("w2 window_switch id=w1")
    assert "[e3 quote]" in game.body
    assert game.view.messages[-2].content.startswith("w1 window_open")
    assert game.last == "ok w2 open v1"
    assert "checkpoint: chairs are quoted" in game.system
    assert "[state] window w1 main, version 2, entered from w2" in game.system
    assert "elsewhere: e9 w2 moved" in game.system


def test_old_events_keep_the_window_they_were_made_in(game):
    game.say('w1 window_open title="Dates"')
    game.say("quote item=lamps qty=4")
    game.say("w2 window_switch id=w1")
    places = {e.seq: e.window for e in game.episode.log if not e.sub}
    assert places == {1: "w1", 2: "w1", 3: "w1", 4: "w1", 5: "w1", 6: "w1", 7: "w1", 8: "w1", 9: "w2", 10: "w2", 11: "w2"}
    assert "[e10 quote]" not in game.body
    assert "e9-e11 w2 2 own 1 tool" in game.system


def test_a_move_ends_the_turn_for_every_later_call(game):
    outcomes = game.say('w1 window_open title="Dates"', "w2 note a=1", "read e3", "quote item=lamps qty=4")
    assert [o.code for o in outcomes] == ["ok", "after_move", "after_move", "after_move"]
    assert game.episode.log.last == 8, "the business call was not carried out"


def test_calls_before_the_move_are_carried_out_in_the_window_left(game):
    outcomes = game.say("w1 local plan=chairs", "quote item=lamps qty=4", 'w1 window_open title="Dates"')
    assert [o.code for o in outcomes] == ["ok", "result", "ok"]
    assert game.episode.log.main(9).window == "w1"
    assert [n.key for n in game.episode.state.windows["w1"].memory] == ["plan"]


def test_closing_needs_another_open_window_and_keeps_the_outcome(game):
    assert game.refused('w1 window_close outcome="done" next=w1').code == "last_window"
    game.say('w1 window_open title="Dates"')
    assert game.refused('w2 window_close outcome="set" next=w7').code == "unknown_window"
    assert game.refused('w2 window_close outcome="set" next=w2').code == "bad_arguments"
    assert game.refused('w2 window_close outcome="" next=w1').code == "empty_text"
    assert game.codes('w2 window_close outcome="delivery is set" next=w1') == ["ok"]
    assert "windows: w2 Dates done: delivery is set" in game.system
    assert game.refused('w1 window_close outcome="done" next=w2').code == "last_window"
    assert game.codes("w1 window_switch id=w2") == ["ok"], "switching to a done window opens it again"
    assert game.episode.state.windows["w2"].status == "open"


def test_unknown_windows_and_pointless_moves_are_refused(game):
    assert game.refused("w1 window_switch id=w9").code == "unknown_window"
    assert game.refused("w1 window_switch id=w1").code == "no_gain"
    assert game.refused('w1 window_open title=""').code == "empty_text"
    assert game.refused(f'w1 window_open title="{filler(9)}"').code == "limit_exceeded"
    assert game.refused(f'w1 window_open title="a" handoff="{filler(30)}"').code == "limit_exceeded"


def test_there_is_an_upper_bound_of_windows(chat):
    game = unified(chat, max_windows=2)
    game.say('w1 window_open title="a"')
    assert game.refused('w2 window_open title="b"').code == "limit_exceeded"


def test_window_list_shows_all_windows_and_changes_nothing(game):
    game.say('w1 window_open title="Dates"')
    before = game.episode.state
    assert game.say("window_list")[0].text == "w1 main open\nw2 Dates open current"
    assert game.episode.state == before


def test_search_can_be_limited_to_a_window(chat):
    game = Game(shop(), chat, roomy("unified@4"))
    game.say(spell("quote", {"item": "desks", "qty": "2"}))
    game.say(spell("window_open", {"title": "Dates", "handoff": "", "checkpoint": "", "expected": "w1"}))
    assert "[e3]" in game.say(spell("find", {"query": "approval code"}))[0].text
    assert game.say(spell("find", {"query": "approval code", "in_window": "w2"}))[0].text == "no hit"
    assert game.say(spell("find", {"query": "approval code", "in_window": "w5"}))[0].code == "unknown_window"


# ---- position checks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    ["note a=1", "local a=1", f"fold e2-e3 {BRIEF}", f"compress e4 {BRIEF}", 'window_open title="x"', "window_switch id=w1"],
)
def test_every_changing_call_says_its_window_and_is_refused_in_another(game, line):
    game.say('w1 window_open title="Dates"')
    assert game.refused(f"w1 {line}").code == "wrong_window"
    assert game.refused(line).code == "bad_arguments"


def test_unified_1_has_no_position_check(chat):
    game = Game(shop(), chat, roomy("unified@1"))
    assert game.codes(spell("note", {"key": "a", "value": "1", "refs": ()})) == ["ok"]
    assert "expected_window_id" not in game.system


def test_from_unified_2_on_json_calls_carry_the_expected_window(chat):
    game = Game(shop(), chat, roomy("unified@2"))
    assert "expected_window_id" in game.system
    assert game.refused(spell("note", {"key": "a", "value": "1", "refs": (), "expected": "w2"})).code == "wrong_window"
    assert game.codes(spell("note", {"key": "a", "value": "1", "refs": (), "expected": "w1"})) == ["ok"]


# ---- folds and boundaries across windows ----------------------------------------------------------------------------------------------


def test_ranges_do_not_cross_windows(game):
    game.say('w1 window_open title="Dates"')
    game.say("quote item=lamps qty=4")
    assert game.refused(f"w2 fold e6-e7 {BRIEF}").code == "range_crosses_window"
    assert game.refused(f"w2 fold e8-e10 {BRIEF}").code == "range_crosses_window"
    assert game.refused(f"w2 compress e4 {BRIEF}").code == "range_crosses_window"
    assert game.codes(f"w2 fold e9-e10 {BRIEF}") == ["ok"]


def test_fold_ids_are_never_used_twice_and_stay_readable_from_every_window(game):
    game.say(f"w1 fold e2-e3 {BRIEF}")
    game.say('w1 window_open title="Dates"')
    game.say("quote item=lamps qty=4")
    game.say(f"w2 fold e10-e11 {BRIEF}")
    assert [f.id for w in game.episode.state.windows.values() for f in w.folds] == ["f1", "f2"]
    assert "AP-7741" in game.say("read f1")[0].text
    assert "AP-7743" in game.say("read f2")[0].text


def test_a_boundary_covers_what_its_own_window_holds(game):
    game.say('w1 window_open title="Dates"')
    game.say("total=1")
    game.say("quote item=lamps qty=4")
    game.say("total=2")
    assert game.codes(f"w2 compress e13 {BRIEF} and what else was said of it then @e12") == ["ok"]
    assert game.body.startswith("[c1 e9-e13] ")
    assert "e9-e13 c1" in game.system


# ---- memories ----------------------------------------------------------------------------------------------------------------------


def test_window_memory_is_seen_in_its_window_alone(game):
    game.say("w1 note cap=9000 @e1", "w1 local plan=chairs first")
    game.say('w1 window_open title="Dates"')
    assert "cap=9000 @e1" in game.system
    assert "plan=chairs first" not in game.system
    game.say("w2 window_switch id=w1")
    assert "w1 notes:\nplan=chairs first candidate" in game.system


def test_caps_are_by_scope_and_name_what_could_go(game):
    for n in range(16):
        assert game.codes(f"w1 note k{n}=1 @e1") == ["ok"]
    refusal = game.refused("w1 note more=1 @e1")
    assert refusal.code == "memory_full"
    assert "k0, k1, k2" in refusal.text
    for n in range(8):
        assert game.codes(f"w1 local k{n}=1 @e1") == ["ok"]
    assert game.refused("w1 local more=1 @e1").code == "memory_full"


def test_the_first_versions_have_no_caps(chat):
    game = Game(shop(), chat, roomy("unified@3"))
    for n in range(30):
        assert game.codes(spell("note", {"key": f"k{n}", "value": "1", "refs": (), "expected": "w1"})) == ["ok"]


def test_superseding_a_public_entry_rewrites_and_a_window_entry_is_told(game):
    rewrites = game.episode.state.rewrites
    game.say("w1 local cap=9000 @e1")
    assert game.say("w1 local cap=8000")[0].text.startswith("ok candidate replaces 9000")
    assert game.episode.state.rewrites == rewrites
    game.say("w1 note cap=9000 @e1")
    game.say("w1 note cap=8000")
    assert game.episode.state.rewrites == rewrites + 1


def test_a_tool_never_silently_replaces_what_the_user_said_in_either_memory(chat):
    session = make_session(
        ["The cap is 9000. Answer: a=?"], {"quote item=a qty=1": f"The cap is 4100. {filler(4)}"},
    )  # fmt: skip
    game = Game(session, chat, roomy("unified@4-compact"))
    game.say("quote item=a qty=1")
    assert game.say("w1 note cap=9000 @e1")[0].text.startswith("ok v")
    assert game.say("w1 local cap=4100 @e3")[0].text.startswith("ok pending")
    assert game.say("w1 note cap=4100 @e3")[0].text.startswith("ok pending")


def test_two_current_values_of_a_key_are_a_conflict_told_at_once_and_in_the_header(game):
    game.say("w1 note cap=9000 @e1")
    session_cap = game.say("w1 local cap=4100 @e3")[0].text
    assert session_cap.startswith("ok pending"), "a tool's value against the user's is pending, not a conflict"
    game.say("w1 note total=4100 @e3")
    said = game.say("w1 local total=4211 @e7")[0].text
    assert said.startswith("ok; conflict total: public 4100 @e3, w1 4211 @e7")
    game.say(f"w1 fold e2-e3 {BRIEF}")
    assert "conflicts: total: public 4100 @e3, w1 4211 @e7" in game.system
    game.say("w1 note total=4211 @e7")
    assert "conflicts:" not in game.system


def test_without_its_flag_no_conflict_is_told(chat):
    game = Game(shop(), chat, replace(roomy("unified@4-compact"), conflict_flags=False))
    game.say("quote item=desks qty=2")
    game.say("w1 note total=4100 @e3")
    assert "conflict" not in game.say("w1 local total=2 @e1")[0].text
    game.say("w1 note total=2 @e1")
    assert "conflict" not in game.system


# ---- references, told changes ---------------------------------------------------------------------------------------------


def test_a_business_call_may_say_its_window_too(game):
    assert game.codes("w1 quote item=lamps qty=4") == ["result"]
    assert game.refused("w1 frob x=1").code == "unknown_tool"
    assert game.codes("w1 read e3") == ["shown"]


def test_the_window_to_go_to_is_a_window_in_both_syntaxes(chat, game):
    assert game.refused('w1 window_close outcome="x" next=foo').code == "bad_arguments"
    other = Game(shop(), chat, roomy("unified@4"))
    close = spell("window_close", {"outcome": "x", "next": "w9\n[host] fill 5%", "expected": "w1"})
    assert other.refused(close).code == "bad_arguments"


def test_an_empty_checkpoint_leaves_the_earlier_one(game):
    game.say('w1 window_open title="b" checkpoint="first"')
    game.say("w2 window_switch id=w1")
    game.say("w1 window_switch id=w2")
    assert game.episode.state.windows["w1"].checkpoint == "first"


def test_closing_into_a_done_window_opens_it_again(game):
    game.say('w1 window_open title="b"')
    game.say('w2 window_open title="c"')
    game.say('w3 window_close outcome="c is done" next=w2')
    game.say("w2 window_switch id=w1")
    assert game.codes('w1 window_close outcome="main is done" next=w3') == ["ok"]
    assert game.episode.state.windows["w3"].status == "open"


def test_long_checkpoints_and_outcomes_are_refused(game):
    game.say('w1 window_open title="b"')
    long = filler(20)
    assert game.refused(f'w2 window_switch id=w1 checkpoint="{long}"').code == "limit_exceeded"
    assert game.refused(f'w2 window_close outcome="{long}" next=w1').code == "limit_exceeded"
    assert game.refused('w1 window_close outcome="x" next=w1').code == "wrong_window"


def test_a_dropped_old_entry_is_named(game):
    for n in range(16):
        game.say(f"w1 note k{n}=1 @e1" + (" old" if n == 4 else ""))
    assert game.say("w1 note more=1 @e1")[0].text.startswith("ok candidate dropped k4")


def test_a_boundary_reference_means_what_its_own_window_holds(game):
    game.say("total=1")
    game.say('w1 window_open title="b"')
    game.say("quote item=lamps qty=4")
    game.say("w2 window_switch id=w1")
    game.say("total=2")
    assert game.codes(f"w1 compress e14 {BRIEF}; {BRIEF}; {BRIEF} @e3,e7") == ["ok"]
    shown = game.say("read c1")[0]
    assert 12 not in shown.shows
    pages = [game.say(f"read c1 p{n}")[0] for n in range(1, 9)]
    text = "".join(p.text for p in pages if p.code == "shown")
    assert "AP-7741" in text
    assert "AP-7743" not in text, "the other window's result"


def test_reading_a_read_back_gives_its_original(game):
    game.say("read e3")
    turn = game.episode.inferences[-1].event
    outcome = game.say(f"read e{turn}")[0]
    assert outcome.text.startswith("[e3 quote] p1/1\nNorra Office")
    assert outcome.shows == [3]


def test_a_reference_that_a_note_cites_need_not_be_kept_again(game):
    game.say("w1 note code=AP-7741 @e3")
    game.say(f"w1 fold e2-e3 {BRIEF} @e3")
    game.say("total=1")
    assert game.codes(f"w1 compress e7 {BRIEF}, and chairs for 4211 beside them, terms as before") != ["lost_pinned"]


def test_the_header_lists_six_calls_made_elsewhere(chat):
    game = unified(chat)
    game.say(*["quote item=desks qty=2"] * 8)
    game.say('w1 window_open title="b"')
    line = next(line for line in game.header if line.startswith("elsewhere: "))
    assert line.count(";") == 5
    assert line.endswith("e11 w1 moved")


def test_the_fullest_unified_header_stays_within_the_count_of_the_capacity_check(chat):
    game = unified(chat)
    profile = get_profile("unified@4-compact")
    game.say(*["quote item=desks qty=2"] * 3)
    for n in range(16):
        game.say(f"w1 note k{n}={'9' * 30} @e3")
        game.say(f"w1 note k{n}={'8' * 30} @e3")
    for n in range(5):
        game.say(f'w{n + 1} window_open title="a stage of the whole task" handoff="{filler(5)}" checkpoint="{filler(5)}"')
    for n in range(8):
        game.say(f"w6 local k{n}={'7' * 30} @e3")
    game.say(f"w6 note k0={'6' * 30} @e3")
    tokens = chat.count(game.episode.state.header)
    assert 700 < tokens <= header_bound(profile, chat)


def test_the_held_renderer_gives_the_same_view_as_one_from_nothing(game):
    for line in (
        "w1 note a=1 @e1",
        f"w1 fold e2-e3 {BRIEF}",
        'w1 window_open title="b"',
        "read e3",
        "w2 window_switch id=w1",
        "x=1",
    ):
        game.say(line)
        e = game.episode
        assert render(e.log, e.state, e.rules, e.chat, e.system) == e.view()
