"""The view budget and the limits of an episode: fill, host clears, overflow, capacity, and the reasons for an end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from game import BRIEF, QUOTE, Game, filler, make_session, roomy, shop

from envs.capacity import check_capacity
from envs.episode import Episode
from envs.profiles import PROFILES, get_profile, variant
from envs.scoring import score

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
