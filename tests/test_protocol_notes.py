"""Notes under core@1, from raw turns: their standing, their sources, and what the header shows of them."""

from __future__ import annotations

import pytest
from game import BRIEF, Game, make_session, roomy, shop, two_quotes


@pytest.fixture
def game(chat):
    return two_quotes(Game(shop(), chat))


def test_a_first_note_needs_only_its_ok_and_the_header_waits_for_a_rewrite(game):
    before = game.header
    assert game.say("note cap=9000 @e1")[0].text == "ok"
    assert game.last == "ok"
    assert game.header == before == ["notes: none", "out: none"]
    assert not game.episode.inferences[-1].rewrite
    game.say(f"fold e2-e3 {BRIEF}")
    assert game.header[:2] == ["notes:", "cap=9000 @e1"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("note cap=9000 @e1", "ok"),
        ("note total=4100 @e3", "ok"),
        ("note total=4100 @e1,e3", "ok"),
        ("note cap=9001 @e1", "ok candidate"),
        ("note total=4100 @e1", "ok candidate"),
        ("note total=4100", "ok candidate"),
        ("note mine=4100 @e4", "ok candidate"),
        ("note who=NORRA   office @e3", "ok"),
        ("note who=Ｎｏｒｒａ @e3", "ok"),
    ],
)
def test_standing_of_a_note(game, line, text):
    assert game.say(line)[0].text == text
    game.say(f"fold e2-e3 {BRIEF}")
    mark = text.removeprefix("ok").strip()
    noted = game.header[1]
    assert noted.endswith(mark) if mark else "candidate" not in noted


def test_a_tools_value_is_pending_against_the_users_and_stays_so(chat):
    responses = {
        "quote item=a qty=1": "The cap is 9500.",
        "quote item=b qty=1": "The cap is 9600.",
        "quote item=c qty=1": "The cap is 9000.",
    }
    game = Game(make_session(["The cap is 9000. Answer: cap=?"], responses), chat, roomy())
    game.say("quote item=a qty=1", "quote item=b qty=1", "quote item=c qty=1")
    assert game.say("note cap=9000 @e1")[0].text == "ok"
    assert game.say("note cap=9500 @e3")[0].text == "ok pending"
    assert game.header[1] == "cap=9500 @e3 pending was @e1"
    assert game.say("note cap=9600 @e4")[0].text == "ok pending", "the user's value stays the authority"
    assert game.say("note cap=9600 @e3,e4")[0].text == "ok pending", "also when written once more"
    assert game.say("note cap=9000 @e5")[0].text == "ok", "a tool that agrees with the user"
    assert game.say("note cap=9000 @e1")[0].text == "ok"


def test_a_superseding_note_is_a_rewrite_and_refers_to_the_old_source(game):
    game.say("note total=4100 @e3")
    game.say("note total=4211 @e7")
    assert game.episode.inferences[-1].rewrite
    assert game.header[1] == "total=4211 @e7 was @e3"
    assert "note total=4211" not in game.body, "the rewriting turn left the view"
    game.say("note total=4212 @e7 open")
    assert game.header[1] == "total=4212 @e7 open was @e7", "the policy's word comes before the host's standing"


def test_notes_stand_in_insertion_order(game):
    for line in ("note b=1", "note a=2", "note c=3", "note a=4"):
        game.say(line)
    assert [line.split("=")[0] for line in game.header[1:-1]] == ["b", "a", "c"]


def test_old_and_open_are_shown(game):
    game.say("note cap=9000 @e1 open", "note total=4100 @e3 old", "note total=4101 @e3 old")
    assert game.header[1:3] == ["cap=9000 @e1 open", "total=4101 @e3 old was @e3"]


def test_a_note_may_cite_a_covered_event_and_a_fold(game):
    game.say(f"fold e2-e3 {BRIEF}")
    assert game.say("note total=4100 @f1")[0].text == "ok"
    assert game.episode.state.note("total").refs == (3, 2), "the event that states the value comes first"
    assert game.say("note code=AP-7741 @e3")[0].text == "ok"


def test_citing_a_read_back_resolves_to_the_original(game):
    game.say("read e3")
    assert game.say("note total=4100 @e8")[0].text == "ok"
    assert game.episode.state.note("total").refs == (3,)


def test_too_many_sources_are_bad_arguments(chat):
    session = make_session(["Quote. Answer: a=?"], {f"quote item=i{n} qty=1": "4100" for n in range(9)})
    game = Game(session, chat)
    game.say(*[f"quote item=i{n} qty=1" for n in range(9)])
    assert game.refused("note t=4100 @e2,e3,e4,e5,e6,e7,e8,e9,e10").code == "bad_arguments"


def test_a_kept_reference_outside_the_range_is_bad_arguments(game):
    assert game.refused(f"fold e2-e3 {BRIEF} @e7").code == "bad_arguments"
    assert game.refused(f"compress e3 {BRIEF} @e7").code == "bad_arguments"
