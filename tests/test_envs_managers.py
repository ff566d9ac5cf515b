"""Host-only managers: always within the budget, a valid chat, the question always there."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from game import Game, filler, make_session, roomy

from envs.chat import Message
from envs.episode import Episode, play
from envs.managers import MANAGERS, get_manager
from envs.managers.truncate import plain_messages
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.scoring import score
from envs.tasks import FAMILIES


@pytest.fixture(scope="module")
def logs(chat):
    """Logs of plain sessions at every inference: short and long results, the last message of any size."""
    responses = {
        f"quote item=i{n} qty=1": f"Item i{n} by Norra Office. Code AP-{7741 + n}. Total {4100 + n}. {filler(size, n)}"
        for n, size in enumerate((1, 30, 5, 90, 12, 2, 60))
    }
    game = Game(
        make_session([f"Quote i{n}, the cap is {9000 + n}. {filler(3 * (n % 3))} Answer: a=?" for n in range(7)], responses),
        chat,
        roomy("plain@1", view_budget=10**6),
    )
    found = []
    for n in range(7):
        found.append((list(game.episode.log), game.episode.system))
        game.say(f"quote item=i{n} qty=1")
        found.append((list(game.episode.log), game.episode.system))
        game.say("" if n == 4 else "a=1")
        if n == 4:
            game.say("a=1")
    return found


@pytest.mark.parametrize("name", sorted(MANAGERS))
@pytest.mark.parametrize("budget", [150, 260, 400, 700, 900, 1536, 4000])
def test_the_budget_is_kept_wherever_the_last_message_fits_it(chat, logs, name, budget):
    manager, fitted = get_manager(name), 0
    for log, system in logs:
        messages = manager(log, budget, chat, system)
        history = [m for _, m in plain_messages(log)]
        least = len(chat.render([Message("system", system), history[-1]]))
        size = len(chat.render(messages))
        assert size <= max(budget, least), f"{name} takes {size} of {budget}"
        assert messages[0].role == "system"
        assert messages[0].content.startswith(system)
        assert messages[1].role == "user", "never starts with the policy's own turn"
        assert messages[-1] == history[-1], "the newest message stays"
        roles = [m.role for m in messages[1:]]
        assert all(a != b for a, b in itertools.pairwise(roles))
        assert messages[1:] == history[len(history) - len(messages) + 1 :], "what is kept is the tail, unchanged"
        fitted += least <= budget
        if len(chat.render([Message("system", system), *history])) <= budget:
            assert messages == [Message("system", system), *history], "nothing is cut that fits"
    assert fitted


def test_pinned_keeps_the_fields_that_truncate_loses(chat, logs):
    log, system = logs[-1]
    text = {n: "\n".join(m.content for m in get_manager(n)(log, 900, chat, system)) for n in MANAGERS}
    first = {"AP-7741", "4100"}
    assert not any(v in text["truncate"] for v in first)
    assert all(v in text["pinned"] for v in first)


def test_managers_are_pure(chat, logs):
    for name in MANAGERS:
        for log, system in logs[::5]:
            before = list(log)
            assert get_manager(name)(log, 500, chat, system) == get_manager(name)(log, 500, chat, system)
            assert log == before


def test_an_unknown_manager_names_the_choices():
    with pytest.raises(ValueError, match="truncate, pinned"):
        get_manager("magic")


def test_whole_sessions_end_under_every_manager_and_pinned_shows_more_of_what_is_asked(chat):
    """What stands in the view, not what the scripted expert makes of it: it cannot read the pinned block."""
    plain, shown = replace(get_profile("plain@1"), view_budget=900), {}
    for name in MANAGERS:
        episodes = [
            Episode(m.generate(seed), plain, chat, manager=get_manager(name))
            for m in FAMILIES.values()
            for seed in range(200, 208)
        ]
        play(episodes, Expert(chat))
        results = [score(e.trajectory("expert")) for e in episodes]
        assert {r.reason for r in results} == {"answered"}
        assert all(i.tokens_in <= 900 for e in episodes for i in e.inferences)
        shown[name] = sum(c.in_view for r in results for c in r.checks)
    assert shown["pinned"] > shown["truncate"]
