"""What the host does by itself: the evidence gate, compression by a sub-agent, limits and Run scopes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from game import BRIEF, QUOTE, Game, filler, make_session, roomy, shop

from envs.hermes import spell
from envs.scoring import score
from envs.segments import record
from envs.tasks.base import ToolSpec
from envs.trajectory import view_hash

ORDER = ToolSpec(name="order", args=("item", "cap"), missing="ordered", evidence=(("cap", "cap"),))


# ---- the evidence gate -------------------------------------------------------------------------------------------------------------


def gated(chat, **more):
    """The cap is noted from a result that is folded away: e1 user, e2-e3 the result, then the fold."""
    session = make_session(
        ["Look it up. Answer: a=?", "Order it. Answer: a=?", "Again. Answer: a=?"],
        {"quote item=a qty=1": f"The cap is 9000 for this item. {filler(30)}"},
        tools=(QUOTE, ORDER),
    )
    game = Game(session, chat, replace(roomy("core@1"), evidence_gate=True, **more))
    game.say("quote item=a qty=1")
    game.say("note cap=9000 @e3")
    return game


def folded(chat):
    game = gated(chat)
    assert game.codes(f"fold e2-e3 {BRIEF} and more of that kind @e3") == ["ok"]
    return game


def test_the_gate_asks_for_the_source_that_is_out_of_view(chat):
    game = folded(chat)
    refusal = game.refused("order item=a cap=9000")
    assert refusal.code == "evidence_required"
    assert refusal.text.endswith("try read e3")


def test_after_reading_the_source_in_this_run_the_call_passes(chat):
    game = folded(chat)
    game.refused("order item=a cap=9000")
    game.say("read e3")
    assert game.codes("order item=a cap=9000") == ["result"]


def test_it_fires_once_for_a_key_in_a_run_and_then_logs_that_it_was_overridden(chat):
    game = folded(chat)
    game.refused("order item=a cap=9000")
    assert game.codes("order item=a cap=9000") == ["result", "gate_overridden"]
    assert [e.name for e in game.episode.log if e.sub][-2:] == ["evidence_required", "gate_overridden"]
    assert "gate_overridden" not in game.body
    game.say("a=1")
    assert game.refused("order item=a cap=9000").code == "evidence_required", "another Run"


def test_it_does_not_fire_with_the_source_in_view_or_without_any_source(chat):
    game = gated(chat)
    assert game.codes("order item=a cap=9000") == ["result"], "the source is in view"
    game = folded(chat)
    assert game.codes("order item=a cap=") != ["result"]
    bare = Game(make_session(["Order. Answer: a=?"], {}, tools=(ORDER,)), chat, replace(roomy("core@1"), evidence_gate=True))
    assert bare.codes("order item=a cap=1") == ["result"], "no entry"
    bare.say("note cap=1")
    assert bare.codes("order item=a cap=1") == ["result"], "an entry without a source"


def test_without_the_flag_there_is_no_gate(chat):
    game = folded(chat)
    game.episode.rules = replace(game.episode.rules, evidence_gate=False)
    assert game.codes("order item=a cap=9000") == ["result"]


# ---- compression by a sub-agent -----------------------------------------------------------------------------------------------------


def agent(chat):
    game = Game(shop(), chat, replace(roomy("core@1"), compress_by="agent"))
    game.say("quote item=desks qty=2")
    game.say("total=4100")
    return game


def test_the_subagent_sees_what_it_replaces_and_its_tokens_count(chat):
    game = agent(chat)
    tokens = game.episode._tokens
    game.say("compress e4")
    view = game.view
    assert view.messages[0].content.startswith("Summarise")
    assert "AP-7741" in view.messages[1].content
    assert "[e5 user]" not in view.messages[1].content
    outcomes = game.say(f"{BRIEF}, total 4100, code AP-7741 in e3")
    maintenance = game.episode.inferences[-1]
    assert (maintenance.kind, outcomes) == ("maintenance", [])
    assert game.episode.inferences[-2].outcomes[0].code == "ok"
    assert game.episode.inferences[-2].rewrite
    assert game.body.startswith("[c1 e1-e4] Norra offer for the desks")
    assert game.episode._tokens == tokens + sum(i.tokens_in + len(i.ids) for i in game.episode.inferences[-2:])
    trajectory = game.episode.trajectory("by hand")
    assert [e["name"] for e in trajectory.events if e["sub"]] == ["maintenance", "ok"]
    assert score(trajectory).tokens == trajectory.tokens
    assert [view_hash(chat.render(v)) for v in trajectory.views()] == [i.hash for i in trajectory.inferences]


def test_an_empty_summary_is_refused_and_leaves_the_view_unchanged(chat):
    """A failed fold leaves the view unchanged (case K1)."""
    game = agent(chat)
    body, header = game.body, game.header
    game.say("compress e4")
    game.say("error: model overloaded")
    assert game.episode.inferences[-2].outcomes[0].code == "empty_text"
    assert game.header == header
    assert game.body.startswith(body)


def test_a_range_that_may_not_go_is_refused_before_anybody_is_asked(chat):
    game = agent(chat)
    assert game.refused("compress e5").code == "range_unfinished"
    assert game.view.messages[0].content.startswith("Do the task")


def test_later_calls_of_the_turn_run_on_the_compressed_state(chat):
    game = agent(chat)
    game.say("compress e4", "note cap=9000 @e1", "compress e4")
    game.say(f"{BRIEF}, total 4100, code AP-7741 in e3")
    assert [o.code for o in game.episode.inferences[-2].outcomes] == ["ok", "ok", "no_gain"]
    assert game.episode.state.version == 2


def test_the_rows_of_such_an_episode_rebuild(chat):
    game = agent(chat)
    game.say("compress e4")
    game.say(f"{BRIEF}, total 4100, code AP-7741 in e3")
    game.say("total=1")
    trajectory = game.episode.trajectory("by hand")
    rows = [(chat.render(v), i.ids, i.trained) for v, i in zip(trajectory.views(), trajectory.inferences, strict=True)]
    assert len(record(rows)) == 3


def test_no_request_exceeds_the_view_budget_not_even_the_one_for_a_summary(chat):
    """Case J2."""
    game = Game(shop(8, 60), chat, replace(roomy("core@1"), compress_by="agent"))
    for item, n in (("desks", 2), ("chairs", 3)):
        game.say(f"quote item={item} qty={n}")
        game.say("total=1")
    game.say("quote item=lamps qty=4")
    game.say("total=1")
    game.say("compress e8")
    game.say(filler(12) + " e3 e7")
    assert all(i.tokens_in <= game.profile.view_budget for i in game.episode.inferences)
    assert [i.kind for i in game.episode.inferences].count("maintenance") == 1


def test_a_summary_cut_by_the_token_cap_is_refused(chat):
    game = agent(chat)
    game.say("compress e4")
    game.say(f"{BRIEF}, total 4100, code AP-7741 in e3 and", cut=True)
    assert game.episode.inferences[-2].outcomes[0].code == "empty_text"


def test_after_a_move_the_subagent_is_not_asked(chat):
    game = Game(shop(), chat, replace(roomy("unified@4-compact"), compress_by="agent"))
    game.say("quote item=desks qty=2")
    game.say("total=1")
    assert game.codes('w1 window_open title="b"', "w1 compress e4") == ["ok", "after_move"]
    assert not game.view.messages[0].content.startswith("Summarise")


def test_the_host_keeps_what_must_be_kept_when_a_subagent_writes(chat):
    game = agent(chat)
    game.say("note code=AP-7741 @e3 open")
    game.say("compress e4")
    game.say(f"{BRIEF}, total 4100, the code stands in the offer itself")
    assert game.body.startswith("[c1 e1-e4]")
    assert game.episode.state.window.boundary.keep == (3,)


def test_a_request_for_a_summary_that_would_not_fit_is_refused(chat):
    game = Game(shop(), chat, replace(roomy("core@1"), compress_by="agent"))
    game.say("quote item=desks qty=2")
    game.say("total=1")
    game.episode.rules = replace(game.episode.rules, view_budget=100)
    assert game.refused("compress e4").code == "limit_exceeded"


# ---- limits and Runs ---------------------------------------------------------------------------------------------------------------


def test_cut_refuses_an_answer_past_the_token_limit_and_allow_final_lets_it_finish(chat):
    for overrun, reason in (("cut", "limit_tokens"), ("allow_final", "answered")):
        session = make_session(["Say it. Answer: a=?"], {})
        game = Game(session, chat, replace(roomy("core@1"), tokens_per_session=60, overrun=overrun))
        game.say("a=1")
        assert game.episode.reason == reason
        assert (game.episode.replies == {}) is (overrun == "cut")
        result = score(game.episode.trajectory("by hand"))
        assert not result.within_budget, "strictly, both spent more than the limit"


def test_within_the_limit_both_are_within_budget(chat):
    game = Game(make_session(["Say it. Answer: a=?"], {}), chat, replace(roomy("core@1"), tokens_per_session=500, overrun="cut"))
    game.say("a=1")
    assert game.episode.reason == "answered"
    assert score(game.episode.trajectory("by hand")).within_budget


def test_the_token_limit_counts_over_the_session_or_over_each_turn(chat):
    for scope, reason in (("session", "limit_tokens"), ("turn", "")):
        session = make_session(["Say it. Answer: a=?"] * 3, {})
        game = Game(session, chat, replace(roomy("core@1"), tokens_per_session=150, tokens_scope=scope))
        game.say("a=1")
        assert not game.episode.done
        game.say("a=1")
        assert game.episode.reason == reason


def test_rewrites_have_a_limit_of_their_own(chat):
    game = Game(shop(), chat, replace(roomy("core@1"), max_rewrites=1))
    game.say("quote item=desks qty=2")
    game.say("total=1")
    game.say("quote item=chairs qty=3")
    assert game.codes(f"fold e2-e3 {BRIEF}") == ["ok"]
    assert game.refused(f"fold e6-e7 {BRIEF}").code == "limit_exceeded"
    assert game.refused(f"compress e4 {BRIEF}").code == "limit_exceeded"


def test_with_the_session_as_one_run_user_messages_stay_and_nothing_is_compressed(chat):
    game = Game(shop(), chat, roomy("unified@3"))
    game.say(spell("quote", {"item": "desks", "qty": "2"}))
    game.say("total=1")
    args = {"upto": 4, "text": BRIEF, "refs": (), "expected": "w1"}
    assert game.refused(spell("compress", args)).code == "range_unfinished"
    game.say(spell("window_open", {"title": "b", "handoff": "", "checkpoint": "", "expected": "w1"}))
    assert "[e1 user]" in game.body
    assert "[e5 user]" in game.body
    assert game.episode.state.run == 0


# ---- conduct: metrics of behaviour named by the cases --------------------------------------------------------------------------------


def test_repeated_calls_are_counted(chat):
    """No tool call with the same arguments is repeated while its result is in the log (case J1)."""
    game = Game(shop(1), chat, roomy())
    for _ in range(3):
        game.say("quote item=desks qty=2")
    game.say("total=1")
    assert score(game.episode.trajectory("by hand")).repeated_calls == 2


def test_what_recovery_reads_is_held_against_the_evidence(chat):
    """Tokens added by recovery <= size of the evidence events (case J1), as a ratio: a whole read is 1 and its heading, twice is 2."""
    from envs.tasks.base import Fact, Slot

    slot = Slot(name="total", accept=("4100",), key="total")
    base = shop(1)
    facts = (Fact(key="total", value="4100", where="call:quote item=desks qty=2"),)
    turn = base.turns[0].model_copy(update={"slots": (slot,)})
    session = base.model_copy(update={"turns": (turn,), "facts": facts})
    for reads, low, high in ((0, None, None), (1, 1.0, 1.05), (2, 2.0, 2.1)):
        game = Game(session, chat, roomy())
        game.say("quote item=desks qty=2")
        for _ in range(reads):
            game.say("read e3")
        game.say("total=4100")
        ratio = score(game.episode.trajectory("by hand")).recovery_ratio
        assert ratio is None if low is None else low <= ratio <= high


def test_a_search_hit_is_no_evidence_for_the_gate(chat):
    game = folded(chat)
    game.say("find cap")
    assert game.refused("order item=a cap=9000").code == "evidence_required"


def test_a_fold_of_an_unchanged_span_does_nothing(chat):
    """Folding a span that did not change since the last fold is a no-op (case G2)."""
    game = Game(shop(), chat, roomy())
    game.say("quote item=desks qty=2")
    game.say(f"fold e2-e3 {BRIEF}")
    before = game.body
    assert game.refused(f"fold e2-e3 {BRIEF}").code == "range_overlaps_fold"
    assert game.body.startswith(before)


def test_a_folded_event_stands_once(chat):
    """An event covered by a visible fold is not counted a second time (case D4)."""
    game = Game(shop(), chat, roomy())
    game.say("quote item=desks qty=2")
    game.say(f"fold e2-e3 {BRIEF}")
    assert "[e3 quote]" not in game.body
    assert game.body.count("[f1 e2-e3]") == 1
    assert game.out.count("e2-e3") == 1


def test_an_oversized_event_is_read_by_pages(chat):
    """Read-back of an oversized event is by range (case J2)."""
    session = make_session(["Get a. Answer: a=?"], {"quote item=a qty=1": filler(60)})
    game = Game(session, chat, roomy(page_tokens=100))
    game.say("quote item=a qty=1")
    outcome = game.say("read e3")[0]
    assert outcome.text.startswith("[e3 quote] p1/5\n")
    assert chat.count(outcome.text.split("\n", 1)[1]) <= 100


@pytest.mark.parametrize("profile", ["core@1", "unified@4-compact"])
def test_every_result_has_its_call_before_it_in_every_view(chat, profile):
    """Case I1, and invariant 4."""
    game = Game(shop(), chat, roomy(profile))
    lead = "w1 " if profile.startswith("unified") else ""
    game.say("quote item=desks qty=2", "quote item=lamps qty=4")
    game.say(f"{lead}fold e2-e3 {BRIEF}, and lamps too")
    game.say("quote item=chairs qty=3")
    messages = game.view.messages
    for before, message in itertools.pairwise(messages):
        if "[e" in message.content and " quote] " in message.content:
            assert before.role == "assistant"
            assert "quote item=" in before.content
