"""Business results too large for the view: shown by their first page, read on by reference, whole in the log."""

from __future__ import annotations

import pytest
from game import QUOTE, Game, filler, make_session, roomy

from envs.profiles import get_profile, variant
from envs.segments import record
from envs.tasks.base import ToolSpec
from envs.view import render

LARGE = "Norra Office offers a. " + filler(120) + " The total is 4100. " + filler(120, 5)
BRIEF = "Norra quote for a, all terms in small print, total not on the first page"


def game(chat, text=LARGE, profile="core@1", turns=3, **flags):
    texts = [f"Turn {n}. Get a. Answer: total=?" for n in range(turns)]
    made = make_session(texts, {"quote item=a qty=1": text}, tools=(QUOTE,))
    return Game(made, chat, roomy(profile, **flags))


def last(g):
    return g.view.messages[-1].content


def test_a_large_result_is_shown_by_its_first_page_in_the_form_of_a_read_back(chat):
    g = game(chat)
    g.say("quote item=a qty=1")
    pages = chat.pages(LARGE, 256)
    assert len(pages) > 6
    assert last(g).startswith(f"[e3 quote] p1/{len(pages)}\n{pages[0]}")
    assert pages[1] not in "\n".join(m.content for m in g.view.messages)
    assert g.episode.log.main(3).text == LARGE, "the log has it whole"
    assert g.episode.inferences[-1].outcomes[0].text == LARGE


def test_the_other_pages_are_read_by_reference_and_together_they_are_the_text(chat):
    g = game(chat, view_budget=8192, whole_share=0.05)
    g.say("quote item=a qty=1")
    shown = [last(g).split("\n", 1)[1]]
    pages = int(last(g).split("\n", 1)[0].rsplit("/", 1)[1])
    for page in range(2, pages + 1):
        assert g.codes(f"read e3 p{page}") == ["shown"]
        tag, text = g.episode.inferences[-1].outcomes[0].text.split("\n", 1)
        assert tag == f"[e3 quote] p{page}/{pages}"
        shown.append(text)
    assert "".join(shown) == LARGE


def test_results_up_to_the_share_are_shown_whole(chat):
    most = int(0.35 * 1536)
    text = filler(200)
    while chat.count(text) > most:
        text = text.rsplit(" ", 1)[0]
    g = game(chat, text)
    g.say("quote item=a qty=1")
    assert last(g).split("\n")[0] == f"[e3 quote] {text}"
    g = game(chat, text + " and a bit more")
    g.say("quote item=a qty=1")
    assert last(g).startswith("[e3 quote] p1/3\n")


@pytest.mark.parametrize("flags", [{"profile": "plain@1"}, {"whole_share": 0.0, "view_budget": 8192}])
def test_plain_history_and_a_share_of_zero_show_results_whole(chat, flags):
    g = game(chat, **flags)
    g.say("quote item=a qty=1")
    assert LARGE in last(g)
    assert not g.view.parts


def test_a_paged_result_is_in_view_and_not_in_the_index_until_it_leaves(chat):
    g = game(chat)
    g.say("quote item=a qty=1")
    assert (3 in g.view.visible, 3 in g.view.parts, g.view.out) == (False, True, [])
    assert g.codes(f"fold e2-e3 {BRIEF} @e3") == ["ok"], "the brief is measured by the page that it replaces, not by the log"
    assert (g.view.parts, g.view.out[0]) == (frozenset(), "e2-e3 f1 1 own 1 tool")


def test_a_paged_result_is_cleared_like_any_other(chat):
    responses = {"quote item=a qty=1": LARGE, **{f"quote item={i} qty=1": filler(45) for i in "bcd"}}
    made = make_session([f"Turn {n}. Answer: total=?" for n in range(5)], responses, tools=(QUOTE,))
    g = Game(made, chat)
    for item in "abcd":
        g.say(f"quote item={item} qty=1")
        g.say("total=unknown")
    assert f"[e3 quote] cleared {chat.count(LARGE)} tokens" in "\n".join(m.content for m in g.view.messages)
    assert g.view.out[0] == "e3 cleared 1 tool"


def test_views_with_pages_are_pure_and_grow_by_suffixes(chat):
    g = game(chat)
    for line in ("quote item=a qty=1", "read e3 p2", "total=4100", "quote item=a qty=1", "total=4100"):
        g.say(line)
        e = g.episode
        assert render(e.log, e.state, e.rules, e.chat, e.system) == e.view()
    views = [(chat.render(v), i.ids, True) for i, v in zip(e.inferences, e.trajectory("x").views(), strict=True)]
    assert len(record(views)) == 1, "one training row: a page is never rewritten"
    assert e.view().tokens < 1536


def test_the_gate_does_not_take_the_first_page_for_the_source(chat):
    order = ToolSpec(name="order", args=("item", "cap"), missing="ordered", evidence=(("cap", "cap"),))
    made = make_session(["Order a. Answer: a=?"], {"quote item=a qty=1": f"{LARGE} Cap 9000."}, tools=(QUOTE, order))
    g = Game(made, chat, roomy(evidence_gate=True))
    g.say("quote item=a qty=1")
    g.say("note cap=9000 @e3")
    assert g.refused("order item=a cap=9000").code == "evidence_required"
    g.say("read e3 p2")
    assert g.codes("order item=a cap=9000") == ["result"]


def test_the_share_is_a_flag_of_its_own():
    assert variant("core@1", whole_share=0.0).hash != get_profile("core@1").hash
