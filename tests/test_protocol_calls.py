"""Every rejection code that core@1 can reach, and what an accepted call does, from raw turns."""

from __future__ import annotations

import pytest
from game import Game, filler, make_session, roomy, shop

BRIEF = "Norra offer for the desks with the price, a code and the usual terms"


@pytest.fixture
def fresh(chat):
    """e1 user, e2 call, e3 result."""
    game = Game(shop(), chat)
    game.say("quote item=desks qty=2")
    return game


@pytest.fixture
def game(fresh):
    """e1 user, e2 call, e3 result, e4 answer, e5 user, e6 call, e7 result."""
    fresh.say("total=4100")
    fresh.say("quote item=chairs qty=3")
    return fresh


def instead(outcome):
    return outcome.text.split("; try ", 1)[1]


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


# ---- notes ---------------------------------------------------------------------------------------------------------------


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


# ---- read and find ---------------------------------------------------------------------------------------------------------

LONG_TEXT = "".join(f"Zeile {i}: größer — 漢字かな {i * 37} 👩‍👩‍👧 «é»\n" for i in range(60))


@pytest.fixture
def paged(chat):
    session = make_session(
        ["Get a. Answer: a=?", "And now? Answer: a=?"], {"quote item=a qty=1": LONG_TEXT, "quote item=b qty=1": "short"}
    )
    game = Game(session, chat, roomy(view_budget=60_000))
    game.say("quote item=a qty=1")
    game.say("quote item=b qty=1")
    return game


def pages(game, ref):
    texts, total = [], 1
    while len(texts) < total:
        outcome = game.say(f"read {ref} p{len(texts) + 1}")[0]
        assert outcome.code == "shown", outcome.text
        head, text = outcome.text.split("\n", 1)
        label, number = head.rsplit(" ", 1)
        page, total = (int(x) for x in number.removeprefix("p").split("/"))
        assert page == len(texts) + 1
        assert game.chat.count(text) <= 256
        texts.append(text)
    return label, texts, outcome


def test_pages_concatenate_exactly_to_the_logged_text(paged):
    label, texts, _ = pages(paged, "e3")
    assert label == "[e3 quote]"
    assert len(texts) > 3
    assert "".join(texts) == LONG_TEXT == paged.episode.log.main(3).text


def test_pages_of_a_range_hold_every_event_with_its_tag(paged):
    label, texts, last = pages(paged, "e1-e5")
    assert label == "[e1-e5]"
    want = "\n".join(
        f"[e{n} {name}] {paged.episode.log.main(n).text}" for n, name in enumerate(("user", "own", "quote", "own", "quote"), 1)
    )
    assert "".join(texts) == want
    assert last.shows[-1] == 5
    assert 1 not in last.shows, "a page shows only the events whose text stands on it"


def test_reading_never_changes_with_folds_boundaries_and_damage(paged):
    paged.say("a=1")
    before = pages(paged, "e3")[1]
    assert paged.codes(f"fold e2-e3 {BRIEF} and {filler(14)}") == ["ok"]
    assert pages(paged, "e3")[1] == before
    label, texts, _ = pages(paged, "f1")
    assert label == "[e2-e3]"
    assert "".join(texts) == f"[e2 own] quote item=a qty=1\n[e3 quote] {LONG_TEXT}"
    assert paged.codes(f"compress e6 {BRIEF}") == ["ok"]
    assert pages(paged, "e3")[1] == before
    assert pages(paged, "f1")[1] == texts, "old ids stay readable"
    label, texts, _ = pages(paged, "c1")
    assert label == "[e1-e6]"
    assert "".join(texts).startswith("[e1 user] Get a.")


@pytest.mark.parametrize(
    ("line", "alternative"), [("read e3 p99", "read e3 p"), ("read e1-e5 p99", "read e1-e5 p"), ("read e5 p2", "read e5")]
)
def test_a_page_beyond_the_last_names_the_last(paged, line, alternative):
    refusal = paged.refused(line)
    assert refusal.code == "bad_arguments"
    assert instead(refusal).startswith(alternative)
    assert paged.codes(instead(refusal)) == ["shown"]


def test_find_shows_at_most_four_short_lines(chat):
    game = Game(shop(), chat, roomy(view_budget=8000))
    for i, item in enumerate(("desks", "chairs", "lamps", "shelves", "sofas", "benches")):
        game.say(f"quote item={item} qty={i + 2}")
    lines = game.say("find approval code")[0].text.split("\n")
    assert len(lines) == 4
    for line in lines:
        ref, snippet = line.split("] ", 1)
        seq = int(ref.removeprefix("[e"))
        text = " ".join(game.episode.log.main(seq).text.split())
        assert snippet in text
        assert 0 < chat.count(snippet) <= 12
        assert "pproval" in snippet


def test_find_ranks_the_event_that_has_the_rare_word_first(chat):
    game = Game(shop(), chat, roomy(view_budget=8000))
    for i, item in enumerate(("desks", "chairs", "lamps")):
        game.say(f"quote item={item} qty={i + 2}")
    outcome = game.say("find code AP-7742")[0]
    assert outcome.text.startswith("[e5] ")
    assert "AP-7742" in outcome.text.split("\n")[0]
    assert outcome.shows[0] == 5


def test_find_looks_into_what_is_out_of_view_and_not_into_the_calls_of_the_policy(game):
    game.say(f"fold e2-e3 {BRIEF} xylophone")
    assert game.say("find AP-7741")[0].text.startswith("[e3] ")
    for words in ("xylophone", "no_such_word", "!!!", "@", '"'):
        outcome = game.say(f"find {words}")[0]
        assert (outcome.text, outcome.shows, outcome.code) == ("no hit", [], "shown")
