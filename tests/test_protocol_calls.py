"""Every rejection code that core@1 can reach, from raw turns."""

from __future__ import annotations

import pytest
from game import BRIEF, Game, filler, instead, make_session, roomy, shop, two_quotes


@pytest.fixture
def fresh(chat):
    """e1 user, e2 call, e3 result."""
    game = Game(shop(), chat)
    game.say("quote item=desks qty=2")
    return game


@pytest.fixture
def game(chat):
    return two_quotes(Game(shop(), chat))


# ---- rejections ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "read e8", "read e99", "read e2-e99", "read f1", "read c1", "read f9 p2", "note cap=9000 @e99", "note cap=9000 @e1,e99",
        "note cap=9000 @f1", "note cap=9000 @e8", f"fold e2-e99 {BRIEF}", f"fold e98-e99 {BRIEF}", f"fold e6-e7 {BRIEF} @e99",
        f"compress e99 {BRIEF}", f"compress e4 {BRIEF} @c1", "note cap=9000 @e999999",
    ],
)  # fmt: skip
def test_unknown_ref(game, line):
    refusal = game.refused(line)
    assert refusal.code == "unknown_ref"
    assert "e7" in refusal.text or "such as e1" in refusal.text


@pytest.mark.parametrize(
    "line", [f"fold e2-e3 {BRIEF} again", f"fold e2-e2 {BRIEF}", f"fold e3-e4 {BRIEF}", f"fold e2-e4 {BRIEF}"]
)
def test_range_overlaps_fold(game, line):
    game.say(f"fold e2-e3 {BRIEF}")
    refusal = game.refused(line)
    assert refusal.code == "range_overlaps_fold"
    assert "f1 covers e2-e3" in refusal.text


def test_a_boundary_inside_a_fold_overlaps_it_and_the_alternative_works(game):
    game.say(f"fold e2-e4 {BRIEF} and the answer that was given @e3")
    for upto in (2, 3):
        refusal = game.refused(f"compress e{upto} {BRIEF}")
        assert refusal.code == "range_overlaps_fold"
        assert instead(refusal) == "compress e4 summary"
    # What remains is a fold of few tokens: covering it again cannot gain, which is another code.
    assert game.refused(f"compress e4 {BRIEF} with all its terms @e3").code == "no_gain"


def test_range_splits_call_and_the_alternative_works(game):
    refusal = game.refused(f"compress e2 {BRIEF}")
    assert refusal.code == "range_splits_call"
    assert instead(refusal) == "compress e3 summary"
    assert game.codes(f"compress e3 {BRIEF}") == ["ok"]


def test_a_fold_is_widened_to_whole_exchanges_and_reported_back(game):
    assert game.say(f"fold e3-e3 {BRIEF}")[0].text == "ok f1 e2-e3"
    assert f"[f1 e2-e3] {BRIEF}" in game.body
    assert "e2-e3 f1 1 own 1 tool" in game.out


@pytest.mark.parametrize("line", [f"fold e1-e3 {BRIEF}", f"fold e2-e7 {BRIEF}", f"fold e4-e5 {BRIEF}", f"fold e5-e5 {BRIEF}"])
def test_range_has_user_message(game, line):
    assert game.refused(line).code == "range_has_user_message"


@pytest.mark.parametrize(
    "line", [f"fold e6-e8 {BRIEF}", f"fold e8-e8 {BRIEF}", f"compress e5 {BRIEF}", f"compress e7 {BRIEF}", f"compress e8 {BRIEF}"]
)
def test_range_unfinished(game, line):
    refusal = game.refused(line)
    assert refusal.code == "range_unfinished"
    if line.startswith("compress"):
        assert instead(refusal) == "compress e4 summary"


def test_nothing_can_be_compressed_in_the_first_run(fresh):
    refusal = fresh.refused(f"compress e3 {BRIEF}")
    assert refusal.code == "range_unfinished"
    assert instead(refusal).startswith("fold e")


@pytest.mark.parametrize(
    "line",
    ["fold e2-e3 x", "fold e2-e3 too short", "fold e2-e3 @e3", "compress e4 x", "compress e4 a summary of it", "compress e4 @e3"],
)
def test_empty_text(game, line):
    refusal = game.refused(line)
    assert refusal.code == "empty_text"
    assert "at least" in refusal.text


def test_empty_text_counts_four_percent_of_what_is_covered(chat):
    session = make_session(["Quote it. Answer: total=?"], {"quote item=a qty=1": filler(60)})
    game = Game(session, chat)
    game.say("quote item=a qty=1")
    eight = "an offer of Norra with its usual terms"
    assert 8 <= chat.count(eight) < 0.04 * chat.count(filler(60))
    assert game.refused(f"fold e2-e3 {eight}").code == "empty_text"
    assert game.codes(
        f"fold e2-e3 {eight} of trade, packaging, returns, and some more such small print of theirs that nobody needs"
    ) == ["ok"]


def test_lost_pinned_by_a_fold_and_the_alternative_works(game):
    game.say("note total=4100 @e3 open")
    refusal = game.refused(f"fold e2-e3 {BRIEF}")
    assert refusal.code == "lost_pinned"
    assert instead(refusal) == "fold e2-e3 brief @e3"
    assert game.codes(f"fold e2-e3 {BRIEF} @e3") == ["ok"]


def test_lost_pinned_by_a_boundary_that_loses_a_folds_kept_reference(game):
    game.say(f"fold e2-e3 {BRIEF} @e3")
    refusal = game.refused(f"compress e4 {BRIEF}")
    assert refusal.code == "lost_pinned"
    assert instead(refusal) == "compress e4 summary @e3"


def test_lost_pinned_by_a_second_boundary_that_loses_the_firsts_kept_reference(chat):
    game = Game(shop(), chat, roomy())
    for i, item in enumerate(("desks", "chairs", "lamps")):
        game.say(f"quote item={item} qty={i + 2}")
        game.say("total=1")
    assert game.codes(f"compress e4 {BRIEF} @e3") == ["ok"]
    refusal = game.refused(f"compress e8 {BRIEF} and the chairs")
    assert refusal.code == "lost_pinned"
    assert game.codes(f"compress e8 {BRIEF} and the chairs @e3") == ["ok"]


def test_lost_pinned_cannot_be_passed_by_keeping_eight_other_references(chat):
    session = make_session(
        ["Quote. Answer: a=?"] * 2, {f"quote item=i{n} qty=1": f"Item i{n}: total {4100 + n}. {filler(4, n)}" for n in range(9)}
    )
    game = Game(session, chat)
    game.say(*[f"quote item=i{n} qty=1" for n in range(9)])
    game.say("a=1")
    game.say("note total=4100 @e3 open")
    brief = "Norra offers for nine items, each with its total, some small print on packaging and terms of returns"
    refusal = game.refused(f"fold e2-e11 {brief} @e4,e5,e6,e7,e8,e9,e10,e11")
    assert refusal.code == "lost_pinned"
    assert instead(refusal) == "fold e2-e11 brief @e3,e4,e5,e6,e7,e8,e9,e10"
    assert game.codes(f"fold e2-e11 {brief} @e3,e4,e5,e6,e7,e8,e9,e10") == ["ok"]


def test_what_must_be_kept_may_be_named_in_the_text(game):
    game.say("note total=4100 @e3 open")
    assert game.codes(f"fold e2-e3 {BRIEF}, see e3") == ["ok"]


def test_no_gain_for_a_text_of_more_than_a_quarter(game):
    long = " ".join([BRIEF] * 8)
    refusal = game.refused(f"fold e2-e3 {long}")
    assert refusal.code == "no_gain"
    assert "at most" in refusal.text


def test_no_gain_for_a_short_range(chat):
    session = make_session(
        ["Quote it. Answer: total=?"] * 2,
        {"quote item=a qty=1": "Total 4100, code AP-1, thirty days, packed, and so on, see there."},
    )
    game = Game(session, chat)
    game.say("quote item=a qty=1")
    refusal = game.refused("fold e2-e3 an offer for a with all its terms")
    assert refusal.code == "no_gain"
    assert "saves" in refusal.text or "at most" in refusal.text


def test_no_gain_for_more_than_eight_kept_references(chat):
    session = make_session(["Quote. Answer: a=?"], {f"quote item=i{n} qty=1": f"Item i{n}: {filler(4, n)}" for n in range(9)})
    game = Game(session, chat)
    game.say(*[f"quote item=i{n} qty=1" for n in range(9)])
    refusal = game.refused(
        "fold e2-e11 Norra offers for nine items, each with its total, some small print on packaging and terms of trade @e3,e4,e5,e6,e7,e8,e9,e10,e11"
    )
    assert refusal.code == "no_gain"
    assert "at most 8" in refusal.text


def test_no_gain_for_a_note_that_stands_already(game):
    game.say("note cap=9000 @e1")
    assert game.refused("note cap=9000 @e1").code == "no_gain"
    assert game.codes("note cap=9000 @e1 open") == ["ok"], "another status is another note"


def test_range_already_compressed(game):
    game.say(f"compress e4 {BRIEF}")
    for line in (f"compress e4 {BRIEF}", f"compress e3 {BRIEF}", f"compress e1 {BRIEF}", f"fold e2-e3 {BRIEF}"):
        refusal = game.refused(line)
        assert refusal.code == "range_already_compressed"
        assert "c1 covers through e4" in refusal.text


def test_memory_full_names_what_could_go_and_the_alternative_works(game):
    for i in range(8):
        assert game.codes(f"note k{i}=v{i} @e3") == ["ok"]
    refusal = game.refused("note k8=9000 @e1")
    assert refusal.code == "memory_full"
    assert "k0, k1, k2" in refusal.text
    assert instead(refusal) == "note k0=v0 @e3 old"


def test_memory_full_alternative_makes_room(chat):
    game = Game(shop(), chat, roomy())
    for i in range(8):
        game.say(f"note k{i}=v{i} @e1")
    refusal = game.refused("note k8=9000 @e1")
    assert game.codes(instead(refusal)) == ["ok"]
    assert game.codes("note k8=9000 @e1") == ["ok"]
    assert [n.key for n in game.episode.state.notes] == [*(f"k{i}" for i in range(1, 8)), "k8"], "the entry marked old went"
    assert game.refused("note k9=1 @e1").code == "memory_full"
    assert game.codes("note k3=another @e1") == ["ok"], "a key that is there needs no room"


def test_limit_exceeded_by_a_long_note(game):
    words = "one two three four five six seven eight nine ten eleven twelve thirteen"
    assert game.chat.count(f"k={words} {words}") > 24
    refusal = game.refused(f"note k={words} {words} @e1")
    assert refusal.code == "limit_exceeded"
    assert "24" in refusal.text


def test_exactly_24_tokens_are_accepted(game):
    text = "k"
    value = ""
    while game.chat.count(f"{text}={value}a") <= 24:
        value += "a b " if value else "a "
    while game.chat.count(f"{text}={value.strip()}") > 24:
        value = value.strip()[:-1]
    assert game.codes(f"note {text}={value.strip()}")[0] == "ok"


def nine_runs(chat):
    responses = {f"quote item=i{n} qty=1": f"Item i{n}: total {4100 + n}. {filler(10, n)}" for n in range(10)}
    game = Game(make_session(["Quote. Answer: a=?"] * 12, responses), chat, roomy())
    for n in range(8):
        game.say(f"quote item=i{n} qty=1")
        turn = game.episode.log.last
        assert game.codes(f"fold e{turn - 1}-e{turn} Norra offer for item i{n} with terms") == ["ok"]
        game.say(f"a={n}")
    return game


def test_limit_exceeded_by_a_ninth_fold_until_the_oldest_are_compressed(chat):
    game = nine_runs(chat)
    game.say("quote item=i8 qty=1")
    turn = game.episode.log.last
    refusal = game.refused(f"fold e{turn - 1}-e{turn} Norra offer for item i8 with terms")
    assert refusal.code == "limit_exceeded"
    alternative = instead(refusal)
    assert alternative == f"compress e{turn - 2 - 1} summary"
    assert game.codes(alternative.replace("summary", "Norra offers for items i0 to i7 with their terms")) == ["ok"]
    assert game.codes(f"fold e{turn - 1}-e{turn} Norra offer for item i8 with terms") == ["ok"]


def test_past_six_lines_the_oldest_index_entries_merge(chat):
    game = nine_runs(chat)
    entries = game.out.split("; ")
    assert len(entries) == 6
    assert entries[0].startswith("e2-e")
    assert {"f1", "control", "f2-f6"} <= set(entries[0].split(" ")[1].split("+"))
    # Counts add up: one turn and one result a fold, one turn a control entry; both tell what was merged.
    merged = game.episode.inferences[-1].out
    n = len(merged) - 5
    assert all("f" in e.split(" ")[1] or "control" in e.split(" ")[1] for e in merged)
    folds = sum(e.split(" ")[1].startswith("f") for e in merged[:n])
    assert entries[0].endswith(f" {n} own {folds} tool")
    assert [e.split(" ")[0] for e in entries[1:]] == [e.split(" ")[0] for e in merged[-5:]]
