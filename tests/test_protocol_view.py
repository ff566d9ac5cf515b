"""What stands in the view and what leaves it: kept outcomes, read-backs, fill, host clears, limits, segments."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from game import QUOTE, Game, filler, make_session, roomy, shop

from envs.capacity import check_capacity
from envs.episode import Episode, play
from envs.index import gaps
from envs.log import Event
from envs.policies.base import Sampled
from envs.profiles import PROFILES, get_profile, variant
from envs.scoring import score
from envs.segments import Recorder
from envs.view import render

BRIEF = "Norra offer for the desks with the price, a code and the usual terms"


@pytest.fixture
def game(chat):
    """e1 user, e2 call, e3 result, e4 answer, e5 user, e6 call, e7 result."""
    game = Game(shop(), chat, roomy())
    game.say("quote item=desks qty=2")
    game.say("total=4100")
    game.say("quote item=chairs qty=3")
    return game


# ---- rewriting turns ---------------------------------------------------------------------------------------------------------


def test_a_rewriting_turn_leaves_the_view_and_its_ok_with_it(game):
    game.say("note code=AP-7741 @e3", f"fold e2-e3 {BRIEF}")
    assert "note code" not in game.body
    assert "\nok" not in game.body
    assert game.header == ["notes:", "code=AP-7741 @e3", "out: e2-e3 f1 1 own 1 tool; e8 control"]


def test_what_was_refused_or_shown_in_a_rewriting_turn_stays(game):
    game.say("read e99", f"fold e2-e3 {BRIEF}", "read e1", "find AP-7741", "note cap=1")
    assert f"fold e2-e3 {BRIEF}" not in game.body
    lines = game.last.split("\n")
    tail = lines[lines.index(next(line for line in lines if line.startswith("! "))) :]
    assert tail[0].startswith("! unknown_ref: no e99")
    assert tail[1:3] == ["[e1 user] p1/1", game.episode.log.main(1).text]
    assert tail[3].startswith("[e3] ")
    assert "\nok" not in game.body, "acknowledgements go: the header says it"


def test_they_stay_through_another_rewrite_of_the_same_run_and_go_after_it(game):
    game.say("read e3", "read e99", "note cap=1 @e1")
    game.say("note cap=2 @e1")
    game.say("read e3", "read e98", "note cap=3 @e1")
    assert game.episode.inferences[-1].rewrite
    game.say("note cap=4 @e1")
    assert "[e3 quote] p1/1" in game.body
    assert "! unknown_ref: no e98" in game.body
    game.say("total=1")
    game.say("note cap=5 @e1")
    assert "p1/1" not in game.body
    assert "no e98" not in game.body


def test_a_rewriting_turn_with_business_calls_stays_in_view(game):
    text = f"fold e2-e3 {BRIEF}\nquote item=lamps qty=4"
    game.say(text)
    assert game.view.messages[-2].content == text
    assert "[e9 quote] Norra Office offers 4 lamps." in game.last
    assert "control" not in game.out
    assert "ok f1 e2-e3" in game.last


def test_a_fold_stands_where_its_range_began(game):
    game.say(f"fold e6-e7 {BRIEF}")
    game.say("total=1")
    order = [game.body.index(s) for s in ("[e1 user]", "[e3 quote]", "[e5 user]", "[f1 e6-e7]", "total=1", "[e10 user]")]
    assert order == sorted(order)


def test_a_boundary_stands_first_and_covers_user_messages(game):
    game.say(f"compress e4 {BRIEF} @e3")
    assert [m.role for m in game.view.messages] == ["system", "user", "assistant", "user"]
    assert game.view.messages[1].content.startswith(f"[c1 e1-e4] {BRIEF} @e3\n[e5 user] ")
    assert game.out == "e1-e4 c1 1 user 2 own 1 tool; e8 control"


def test_a_fold_that_a_boundary_covers_is_gone(game):
    game.say(f"fold e2-e3 {BRIEF}")
    game.say("total=1")
    for item, qty in (("lamps", 4), ("shelves", 5)):
        game.say(f"quote item={item} qty={qty}")
        game.say("total=1")
    assert game.codes(
        f"compress e{game.episode.log.last - 2} {BRIEF}, then chairs, lamps and shelves, each with its total, code, quantity and some small print"
    ) == ["ok"]
    assert "[f1 " not in game.body
    assert "f1" not in game.out


# ---- read-backs --------------------------------------------------------------------------------------------------------------


def test_read_backs_leave_at_the_first_rewrite_after_their_run(game):
    game.say("read e3")
    game.say("find AP-7741")
    game.say("note x=1")
    assert "p1/1" in game.body
    game.say("note x=2")
    assert "p1/1" in game.body, "a rewrite within the Run keeps them"
    game.say("total=1")
    assert "p1/1" in game.body, "without a rewrite they stand"
    game.say("note x=3")
    assert "p1/1" not in game.body
    assert "read e3" not in game.body
    assert "find AP-7741" not in game.body
    assert "e8-e9 control" in game.out
    assert {game.episode.log.main(n).text for n in (8, 9)} == {"read e3", "find AP-7741"}, "the log keeps them"


def test_a_read_back_beside_other_calls_leaves_too_and_the_rest_of_its_turn_stays(game):
    game.say("read e3", "note x=1", "quote item=lamps qty=4")
    game.say("read e3", "note y=1")
    game.say("total=1")
    game.say("note x=2")
    assert "p1/1" not in game.body
    assert "[e9 quote] Norra Office offers 4 lamps." in game.body
    assert "read e3\nnote y=1" in game.body
    roles = [m.role for m in game.view.messages]
    assert all(a != b for a, b in itertools.pairwise(roles))


# ---- fill and capacity -----------------------------------------------------------------------------------------------------------


def wordy(chat, n, **more):
    return Game(make_session([f"{filler(n, i)} Answer: a=?" for i in range(200)], {}, tools=(QUOTE,)), chat, roomy(**more))


def test_fill_is_told_once_at_70_80_and_90_before_the_user_text(chat):
    game = wordy(chat, 4, clear_results=False)
    seen = []
    while not game.episode.done:
        view = game.view
        fill = view.tokens / 1536
        told = [line for m in view.messages for line in m.content.split("\n") if line.startswith("[host] fill")]
        due = [m for m in (70, 80, 90) if fill * 100 >= m]
        assert len(told) == len(due)
        if len(told) > len(seen):
            lines = view.messages[-1].content.split("\n")
            assert lines[-2] == told[-1], "deltas come before the user text"
            assert lines[-1].startswith("[e")
            assert due[-1] <= int(told[-1].removeprefix("[host] fill ").removesuffix("%")) <= 100 * fill
        assert told[: len(seen)] == seen, "a delta that was told stays"
        seen = told
        game.say("a=1")
    assert len(seen) == 3
    assert game.episode.reason == "context_overflow"


def test_a_jump_tells_the_highest_mark_alone(chat):
    session = make_session(["Quote. Answer: a=?"], {"quote item=a qty=1": filler(146)}, tools=(QUOTE,))
    game = Game(session, chat, variant("core@1", whole_share=0.0))
    game.say("quote item=a qty=1")
    told = [line for line in game.last.split("\n") if line.startswith("[host]")]
    assert len(told) == 1
    assert 80 <= int(told[0].removeprefix("[host] fill ").removesuffix("%")) < 90
    assert game.last.split("\n")[-1] == told[0], "outcomes come before deltas"


def test_the_view_never_exceeds_its_budget_not_even_by_the_line_that_tells_the_fill(chat):
    top = 0
    for n in range(66, 96):
        session = make_session(["Quote. Answer: a=?"], {"quote item=a qty=1": filler(165) + " x" * n}, tools=(QUOTE,))
        game = Game(session, chat, variant("core@1", whole_share=0.0))
        game.say("quote item=a qty=1")
        if not game.episode.done:
            top = max(top, game.view.tokens)
            assert game.view.tokens <= 1536
    assert top > 1536 - 8, "the sweep has come close to the edge"


def test_after_a_rewrite_the_fill_starts_anew(chat):
    game = Game(shop(long=40), chat, roomy())
    for i, item in enumerate(("desks", "chairs")):
        game.say(f"quote item={item} qty={i + 2}")
        game.say("total=1")
    game.say("quote item=lamps qty=4")
    assert "[host] fill" in game.body
    game.say(f"fold e2-e3 {BRIEF}, see there for all the rest of it")
    assert "[host] fill" not in game.body
    assert game.view.tokens < 0.7 * 1536


def full(chat, profile=None):
    """Played until the next result needs a host clear."""
    game = Game(shop(60, 40), chat, profile or roomy())
    for i, item in enumerate(("desks", "chairs", "lamps")):
        game.say(f"quote item={item} qty={i + 2}")
        game.say("total=1")
    return game


def test_over_budget_the_host_clears_the_oldest_result_and_says_so(chat):
    game = full(chat)
    assert "cleared" not in game.body
    text = game.episode.log.main(3).text
    game.say("note cap=9000 @e1", "quote item=shelves qty=5")
    assert game.view.tokens <= 1536
    assert f"[e3 quote] cleared {game.chat.count(text)} tokens" in game.body
    assert text not in game.body
    assert game.out == "e3 cleared 1 tool"
    assert game.header[:2] == ["notes:", "cap=9000 @e1"], "a host clear is a rewrite: the header is made anew"
    assert f"[e{game.episode.log.last} quote] Norra Office offers 5 shelves." in game.body, "the newest exchange stays"
    cleared = [e for e in game.episode.log if e.name == "clear"]
    assert [(e.text, e.role, e.sub > 0) for e in cleared] == [("[host] cleared e3", "host", True)], "a logged host event"
    assert "[host] cleared" not in game.body
    assert game.episode.log.main(3).text == text
    assert game.codes("read e3") == ["shown"]
    assert game.episode.inferences[-1].rewrite, "the first view after the clear is a new segment"


def test_a_turn_of_the_user_can_bring_the_clear_about_and_fill_still_comes_before_the_text(chat):
    texts = ["Get a. Answer: a=?", f"{filler(130)} Answer: a=?"]
    game = Game(make_session(texts, {"quote item=a qty=1": filler(60)}, tools=(QUOTE,)), chat, roomy())
    game.say("quote item=a qty=1")
    game.say("a=1")
    lines = game.last.split("\n")
    assert "[e3 quote] cleared" in game.body
    assert lines[-2].startswith("[host] fill ")
    assert lines[-1].startswith("[e5 user] ")


def test_past_that_the_episode_ends_with_context_overflow(chat):
    game = full(chat)
    while not game.episode.done:
        game.say("well then " * 20 + "a=1")
    assert game.episode.reason == "context_overflow"
    assert [e.text for e in game.episode.log if e.name == "clear"] == [f"[host] cleared e{n}" for n in (3, 7, 11)]
    with pytest.raises(RuntimeError, match="context_overflow"):
        game.episode.view()


def test_a_result_larger_than_the_view_ends_the_episode(chat):
    session = make_session(["Get a. Answer: a=?"], {"quote item=a qty=1": filler(300)}, tools=(QUOTE,))
    game = Game(session, chat, variant("core@1", whole_share=0.0))
    game.say("quote item=a qty=1")
    assert (game.episode.done, game.episode.reason) == (True, "context_overflow")


def test_plain_history_overflows_without_clearing(chat):
    game = Game(shop(400, 40), chat, replace(roomy("plain@1"), view_budget=1000))
    for i, item in enumerate(("desks", "chairs")):
        game.say(f"quote item={item} qty={i + 2}")
        game.say("total=1")
    game.say("quote item=lamps qty=4")
    assert game.episode.reason == "context_overflow"


def test_loading_a_profile_asserts_that_its_fixed_parts_fit(chat):
    core = get_profile("core@1")
    assert check_capacity(core, chat, "neutral", shop().tools) <= 0.6 * core.view_budget
    with pytest.raises(ValueError, match="60 % of the 1000-token view"):
        Episode(shop(), replace(core, view_budget=1000), chat)


def test_no_header_is_longer_than_what_the_capacity_check_counts(chat):
    """Full memory of notes with many sources, all superseded; more folds, cleared results and control turns than index lines."""
    core = get_profile("core@1")
    items = [f"i{n}" for n in range(9)]
    responses = {f"quote item={i} qty=1": f"An offer of 4100 for {i}. {filler(60)}" for i in items}
    game = Game(
        make_session([f"Question {n}. Answer: a=?" for n in range(30)], responses, tools=(QUOTE,)),
        chat,
        roomy(view_budget=20_000),
    )
    for item in items:
        game.say(f"quote item={item} qty=1")
    cites = "@" + ",".join(f"e{3 + 2 * n}" for n in range(8))
    for n in range(8):
        key = f"k{n}" + "x" * 30
        for value in ("1" * 8, "2" * 8):
            assert game.say(f"note {key}={value} {cites}")[0].code == "ok"
    for n in range(0, 16, 2):
        assert (o := game.say(f"fold e{2 + n}-e{3 + n} {BRIEF} and what the supplier said of them")[0]).code == "ok", o.text
    lines = game.episode.state.header.split("\n")
    assert lines[1].endswith(" candidate was @e3"), "one source a note, however many it cites"
    fixed = check_capacity(core, chat, "neutral", (QUOTE,)) - core.page_tokens - core.reply_tokens
    assert 0 < chat.count(game.episode.system + "\n" + game.episode.state.header) <= fixed


# ---- limits ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "reason", "played"),
    [
        ({"inferences_per_run": 3}, "limit_run", 3),
        ({"inferences_per_session": 4}, "limit_session", 4),
        ({"tokens_per_session": 1000}, "limit_tokens", None),
    ],
)
def test_passing_a_limit_ends_the_episode_with_its_reason(chat, limits, reason, played):
    game = Game(shop(), chat, roomy(**limits))
    while not game.episode.done:
        game.say("find total")
    assert game.episode.reason == reason
    assert played in (None, len(game.episode.inferences))
    trajectory = game.episode.trajectory("by hand")
    assert trajectory.reason == reason
    if reason == "limit_tokens":
        assert (
            trajectory.tokens
            >= 1000
            > trajectory.tokens - trajectory.inferences[-1].tokens_in - len(trajectory.inferences[-1].ids)
        )
    with pytest.raises(RuntimeError):
        game.say("total=1")


def test_a_run_of_turns_that_say_nothing_ends_the_episode(chat):
    game = Game(shop(3), chat)
    game.say("")
    game.say("{")
    game.say("total=1")
    game.say("", cut=True)
    game.say("find total")
    game.say("<")
    assert not game.episode.done, "the count starts anew with the next user turn"
    game.say("   ")
    assert game.episode.reason == "limit_notices"
    result = score(game.episode.trajectory("x"))
    assert not result.within_budget
    assert not result.infrastructure


def test_the_limit_of_a_run_starts_anew_with_the_next_user_turn(chat):
    game = Game(shop(3), chat, roomy(inferences_per_run=2))
    for _ in range(3):
        game.say("find total")
        game.say("total=1")
    assert game.episode.reason == "answered"


def test_the_last_answer_ends_the_session_and_a_failed_backend_is_told_apart(chat):
    game = Game(shop(1), chat)
    game.say("total=4100")
    assert (game.episode.done, game.episode.reason, game.episode.replies) == (True, "answered", {0: "total=4100"})
    game = Game(shop(1), chat)
    game.episode.abort()
    assert game.episode.trajectory("x").reason == "backend_error"


def test_core_and_plain_are_frozen():
    core = PROFILES["core@1"]
    assert (core.view_budget, core.page_tokens, core.reply_tokens, core.max_notes, core.note_tokens) == (1536, 256, 96, 8, 24)
    assert (core.index_lines, core.max_slots, core.max_folds, core.max_keep, core.min_gain) == (6, 8, 8, 8, 32)
    assert core.hash != PROFILES["plain@1"].hash != replace(PROFILES["plain@1"], view_budget=1).hash
    with pytest.raises(ValueError, match=r"core@1, plain@1|plain@1, core@1"):
        get_profile("core@2")


# ---- segments and lock-step ----------------------------------------------------------------------------------------------------------


def test_segments_are_cut_exactly_at_rewrites(chat):
    game, recorder, cuts = Game(shop(long=40), chat, roomy()), Recorder(), 0
    script = [
        "quote item=desks qty=2", "note cap=9000 @e1", "", "{", "read e3", "read e99", "I think.\nfind total", "total=1", "note cap=9001 @e1",
        f"fold e2-e3 {BRIEF} and so on and on", "quote item=chairs qty=3", "total=1", "quote item=lamps qty=4", "total=2", "quote item=shelves qty=5",
        "total=2", "total=3",
    ]  # fmt: skip
    for text in script:
        if game.episode.done:
            break
        before = len(recorder.segments)
        recorder.begin(game.view.ids)
        cuts += len(recorder.segments) > before
        game.say(text)
        recorder.end(game.episode.inferences[-1].ids)
    rewrites = 0
    for i, inference in enumerate(game.episode.inferences):
        # A superseding note or fold takes effect at the next inference, a host clear before this one.
        rewrites += i > 0 and game.episode.inferences[i].keep < game.episode.inferences[i - 1].keep + len(
            game.episode.inferences[i - 1].new
        )
        assert inference.tokens_in <= 1536
    assert cuts == 1 + rewrites
    assert cuts >= 4
    assert sum(m for s in recorder.segments for m in s.mask) == sum(len(i.ids) for i in game.episode.inferences)


@pytest.mark.parametrize(
    "text",
    [
        "quote item=desks qty=2",
        "note cap=9000 @e1",
        "",
        "{",
        "<|im_end|>",
        "read e1",
        "find x",
        "hello",
        "a\nread e9",
        "漢字 👩‍👩‍👧",
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_between_rewrites_the_next_ids_are_the_held_ids_and_a_suffix(chat, text, cut):
    game = Game(shop(), chat)
    held = game.view.ids
    game.say(text, cut=cut)
    sampled = game.episode.inferences[-1].ids
    assert game.view.ids[: len(held) + len(sampled)] == [*held, *sampled]
    assert game.view.ids[-len(chat.generation) :] == list(chat.generation)


def test_rendering_is_pure(game):
    game.say("note cap=9000 @e1", f"fold e2-e3 {BRIEF}", "read e3")
    e = game.episode
    again = [render(e.log, e.state, e.profile, e.chat, e.system) for _ in range(2)]
    assert again[0].ids == again[1].ids == e.view().ids
    assert again[0].messages == e.view().messages


def test_the_index_counts_roles_and_merges_neighbours_of_one_reason(game):
    game.say("read e3")
    game.say("read e1")
    game.say("total=1")
    game.say("note cap=9000 @e1")
    game.say("note cap=9001 @e1")
    assert [str(g) for g in gaps(game.episode.log, game.episode.state)] == ["e8-e9 control", "e13 control"]
    assert game.view.out == [str(g) for g in gaps(game.episode.log, game.episode.state)]


def test_play_is_lock_step_and_drops_the_finished(chat):
    class Answers:
        def __init__(self):
            self.sizes = []

        def act(self, views):
            self.sizes.append(len(views))
            return [Sampled(chat.turn_ids("total=1"), "total=1") for _ in views]

    policy, ended = Answers(), []
    episodes = [Episode(shop(n), get_profile("core@1"), chat) for n in (1, 3, 2)]
    play(episodes, policy, ended.append)
    assert policy.sizes == [3, 2, 1]
    assert ended == [1, 1, 1]
    assert all(e.reason == "answered" for e in episodes)


def test_the_log_refuses_events_that_are_not_there(game):
    for seq in (0, -1, 99):
        with pytest.raises(IndexError, match="the log has no"):
            game.episode.log.main(seq)
    assert isinstance(game.episode.log.main(1), Event)
