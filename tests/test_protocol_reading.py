"""Reading back and searching under core@1, from raw turns: exact pages, and hits out of view."""

from __future__ import annotations

import pytest
from game import BRIEF, Game, filler, instead, make_session, roomy, shop, two_quotes

LONG_TEXT = "".join(f"Zeile {i}: größer — 漢字かな {i * 37} 👩‍👩‍👧 «é»\n" for i in range(60))


@pytest.fixture
def game(chat):
    return two_quotes(Game(shop(), chat))


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
