"""What stands in the view and what leaves it: kept outcomes, read-backs, segments."""

from __future__ import annotations

import itertools

import pytest
from game import BRIEF, Game, roomy, shop, two_quotes

from envs.episode import Episode, play
from envs.index import gaps
from envs.log import Event
from envs.policies.base import Sampled
from envs.profiles import get_profile
from envs.segments import Recorder
from envs.view import render


@pytest.fixture
def game(chat):
    return two_quotes(Game(shop(), chat, roomy()))


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
