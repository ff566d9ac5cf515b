"""What the host does by itself under lean: admission, stages it folds, Runs it compresses, and recall."""

from __future__ import annotations

from dataclasses import replace

from game import Game, filler, make_session, roomy, shop


def lean(chat, **more):
    profile = {"admission": 0, "stage_fill": 0.0, "stage_tokens": 100, "view_budget": 4000, **more}
    return Game(shop(), chat, replace(roomy("lean@1"), **profile))


def test_below_its_admission_length_lean_is_plain_history_byte_for_byte(chat):
    game, plain = Game(shop(), chat, roomy("lean@1")), Game(shop(), chat, roomy("plain@1"))
    for text in ("quote item=desks qty=2", "total=4100", "quote item=chairs qty=3"):
        assert game.view.ids == plain.view.ids
        game.say(text)
        plain.say(text)
    assert game.refused("recall the code").code == "unknown_tool"


def test_above_it_the_tools_come_and_stay(chat):
    game = Game(shop(), chat, roomy("lean@1", admission=400))
    game.say("quote item=desks qty=2")
    assert "stage_done" not in game.system
    game.say("total=4100")
    game.say("quote item=chairs qty=3")
    assert "stage_done outcome" in game.system
    assert "[e3 quote]" in game.body


def test_a_finished_stage_is_folded_where_size_and_fill_ask_for_it(chat):
    game = lean(chat)
    game.say("quote item=desks qty=2")
    assert game.codes("stage_done Norra offers two desks for 4100 | cap=9000 @e1 | code=AP-7741 @e3") == ["ok"]
    assert "[f1 e2-e3] Norra offers two desks for 4100 @e3" in game.body
    assert [n.key for n in game.episode.state.notes] == ["cap", "code"]
    assert [e.name for e in game.episode.log if e.sub][-1] == "host_fold"
    small = lean(chat, stage_tokens=5000)
    small.say("quote item=desks qty=2")
    small.say("stage_done Norra offers two desks for 4100")
    assert not small.episode.state.window.folds
    low = lean(chat, stage_fill=0.9)
    low.say("quote item=desks qty=2")
    low.say("stage_done Norra offers two desks for 4100")
    assert not low.episode.state.window.folds
    assert len(low.episode.state.stages) == 1


def test_finished_runs_are_compressed_by_the_host_once_folds_no_longer_hold_the_view_down(chat):
    """A policy that only says when a stage is done never overflows, and every raw text stays within recall."""
    session = make_session(
        [f"Quote i{n}. {filler(5, n)} Answer: a=?" for n in range(30)],
        {f"quote item=i{n} qty=1": f"Offer {n}: total {4100 + n}, code AP-{7000 + n}. {filler(24, n)}" for n in range(30)},
    )
    game = Game(session, chat, roomy("lean@1", admission=600))
    for n in range(30):
        game.say(f"quote item=i{n} qty=1")
        if game.episode.state.admitted:
            assert game.codes(f"stage_done offer {n} came to {4100 + n}") == ["ok"]
        if n == 25:
            assert "AP-7002" in game.say("recall offer 2 code AP-7002")[0].text
        game.say(f"a={4100 + n}")
    assert game.episode.reason == "answered"
    assert all(i.tokens_in <= game.profile.view_budget for i in game.episode.inferences)
    assert len(game.episode.state.window.boundaries) > 2
    names = [e.name for e in game.episode.log if e.sub]
    assert "clear" not in names
    assert names.count("host_fold") == len(game.episode.state.window.boundaries) + game.episode.state.made[0]


def test_three_short_turns_cost_what_plain_history_costs(chat):
    """The post-mortem's design aim: no admission, no overhead."""
    totals = []
    for profile in ("lean@1", "plain@1"):
        game = Game(shop(3, 4), chat, roomy(profile))
        for item, n in (("desks", 2), ("chairs", 3), ("lamps", 4)):
            game.say(f"quote item={item} qty={n}")
            game.say("total=1")
        totals.append(game.episode.trajectory("by hand").tokens)
    assert totals[0] == totals[1]


def test_a_stage_without_anything_in_it_is_refused(chat):
    game = lean(chat)
    assert game.refused("stage_done nothing yet").code == "no_gain"
    assert game.refused("stage_done").code == "bad_arguments"


def test_recall_gives_raw_evidence_with_references(chat):
    game = lean(chat)
    game.say("quote item=desks qty=2")
    game.say("stage_done Norra offers two desks")
    outcome = game.say("recall approval code")[0]
    assert outcome.text.startswith(
        "[e3 quote] p1/1\nNorra Office offers 2 desks. The total is 4100. The approval code is AP-7741."
    )
    assert (outcome.code, outcome.shows) == ("shown", [3])
    assert game.say("recall zzz")[0].text == "no hit"


def test_recall_shows_the_page_that_holds_the_words_and_reads_by_reference(chat):
    """Read-back is paged and always possible, also without a read tool."""
    session = make_session(["Get a. Answer: a=?"], {"quote item=a qty=1": f"{filler(60)} The approval code is AP-9."})
    game = Game(session, chat, replace(roomy("lean@1"), admission=0, view_budget=4000, page_tokens=100))
    game.say("quote item=a qty=1")
    outcome = game.say("recall approval code AP-9")[0]
    assert "AP-9." in outcome.text
    assert game.say("recall e3 p2")[0].text.startswith("[e3 quote] p2/")
    assert game.refused("recall e99").code == "unknown_ref"


def test_a_note_between_two_calls_does_not_split_the_stage(chat):
    game = lean(chat)
    game.say("quote item=desks qty=2")
    game.say("note cap=9000 @e1")
    game.say("quote item=lamps qty=4")
    game.say("stage_done Norra offers desks and lamps")
    assert [(f.first, f.last) for f in game.episode.state.window.folds] == [(2, 6)]


def test_a_stage_that_a_compression_covers_is_not_folded_again(chat):
    game = lean(chat, stage_fill=0.9, stage_tokens=100_000, view_budget=1536)
    for item, n in (("desks", 2), ("chairs", 3)):
        game.say(f"quote item={item} qty={n}")
        game.say(f"stage_done {item} came to an offer")
        game.say("total=1")
    from envs.lean import due_boundary
    from envs.rewrites import add_boundary
    from envs.state import Fold

    state = game.episode.state
    folded = state.with_window(replace(state.window, folds=(Fold("f1", 2, 3, "desks came to an offer", (3,)),)))
    made = due_boundary(game.episode.log, folded, game.episode.rules, chat, 10**6)
    assert made.summary == "desks came to an offer; chairs came to an offer", "stages without a fold are in it too"
    assert add_boundary(folded, made).stages == ()
