"""seed_three_turn: gates, the limit with a last answer let finish, and the document's arithmetic out of our accounting."""

from __future__ import annotations

import pytest

from eval.config import Arm
from eval.suites import SUITES, SuiteSettings, run_suite
from eval.suites.accounting import Compared, Run, compare
from eval.suites.base import LANGS, Heard
from eval.suites.three_turn import GATES, SAID, notes

SUITE = SUITES["seed_three_turn"]


def played(tmp_path, script, profile, lang="en"):
    arm = Arm(policy="script", script=script, profile=profile)
    return run_suite(SUITE, lang, f"{script}/{profile}", arm, SuiteSettings(out=str(tmp_path)))


def missed(turn, reply, calls=()):
    heard = Heard(reply, tuple(calls))
    return {r.name for r in GATES[turn] if not r.holds(heard)} - {"saved"}


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("profile", ["plain@1", "unified@3-C", "unified@1", "unified@4", "core@1", "lean@1"])
@pytest.mark.parametrize(
    ("script", "core", "complete", "failed_at"),
    [
        ("pass", True, True, None),
        ("core_only", True, False, None),
        ("empty_block", False, False, 1),
        ("stale_budget", False, False, 2),
        ("orders", False, False, 2),
    ],
)
def test_scripts_pass_and_fail_where_they_should(tmp_path, lang, profile, script, core, complete, failed_at):
    for result in played(tmp_path, script, profile, lang):
        assert (result.core, result.complete, result.failed_at) == (core, complete, failed_at), result.turns


@pytest.mark.parametrize("lang", LANGS)
def test_turns_after_a_failed_gate_are_played_and_counted_but_change_nothing(tmp_path, lang):
    result = played(tmp_path, "empty_block", "plain@1", lang)[0]
    assert [t.diagnostic for t in result.turns] == [False, False, True]
    assert result.turns[2].core
    assert result.turns[2].complete
    assert not result.core
    assert result.diagnostic_tokens == result.turns[2].tokens > 0
    assert result.tokens == sum(t.tokens for t in result.turns)


@pytest.mark.parametrize("lang", LANGS)
def test_the_documents_four_sessions_give_the_documents_figures(tmp_path, lang):
    complex_, plain = (played(tmp_path, "postmortem", p, lang) for p in ("unified@3-C", "plain@1"))
    assert [r.tokens for r in complex_] == [39_757, 64_104]
    assert sum(r.tokens for r in complex_) == 103_861
    assert sum(r.tokens for r in plain) == 17_399
    assert [r.core for r in complex_] == [False, True]
    assert [r.core for r in plain] == [True, True]
    # The diagnostic turn, which answered right, changed no verdict and cost 16,715 tokens.
    assert complex_[0].failed_at == 1
    assert complex_[0].turns[2].core
    assert sum(r.diagnostic_tokens for r in complex_) == 16_715
    # 57,448 before the last inference, 6,656 in it: past the limit, let finish, passed, and not within the budget.
    last = complex_[1].turns[2]
    assert complex_[1].reason == "answered"
    assert complex_[1].over_limit
    assert sum(t.tokens for t in complex_[1].turns) - 6_656 == 57_448 < 60_000 < 64_104
    assert last.played
    found = compare([Run.of(r) for r in complex_], [Run.of(r) for r in plain])
    assert round(found.whole or 0, 2) == 5.97
    assert round(found.without or 0, 2) == 5.01
    assert round(found.finished or 0, 2) == 7.04
    assert (found.pairs, found.finished_pairs) == (2, 1)
    table = [*SUITE.rows(complex_), *SUITE.rows(plain)]
    assert table[0]["core"] == "1/2"
    assert table[0]["within 60,000"] == "1/2"
    assert table[0]["without diagnostic"] == 87_146
    assert "5.97" in notes(table)[0]
    assert "5.01" in notes(table)[0]
    assert "1 of 2 pairs that both finished 7.04" in notes(table)[0]


def test_with_overrun_cut_the_same_last_answer_would_not_count(tmp_path, chat):
    from envs.profiles import variant
    from eval.suites.play import SuiteEpisode, play_items

    item = SUITE.items("en")[0]
    for overrun, reason in (("allow_final", "answered"), ("cut", "limit_tokens")):
        profile = variant("unified@3-C", tokens_per_session=60_000, overrun=overrun)
        episode = SuiteEpisode(item, profile, chat)
        play_items([episode], SUITE.scripts["postmortem"](item, profile, chat, 1))
        assert episode.reason == reason


def test_a_limit_reached_before_the_last_answer_is_a_failure(tmp_path, chat):
    from envs.profiles import variant
    from eval.suites.play import SuiteEpisode, play_items

    item = SUITE.items("en")[0]
    profile = variant("unified@3-C", tokens_per_session=40_000)
    episode = SuiteEpisode(item, profile, chat)
    play_items([episode], SUITE.scripts["postmortem"](item, profile, chat, 1))
    assert episode.reason == "limit_tokens"
    assert 2 not in episode.replies


def test_accounting_of_runs():
    ours = [Run("s/0", False, 100, 40), Run("s/1", True, 300)]
    theirs = [Run("s/0", True, 50), Run("s/1", True, 100)]
    assert compare(ours, theirs) == Compared(400 / 150, 360 / 150, 3.0, 2, 1)
    assert compare(ours[:1], theirs) == Compared(2.0, 60 / 50, None, 1, 0)
    assert compare(ours, []) == Compared(None, None, None, 0, 0)
    for run in ours:
        assert Run.read(run.pair, str(run)) == run
    assert Run.read("s", "-") is None


@pytest.mark.parametrize("lang", LANGS)
def test_replies_that_must_pass(lang):
    said = SAID[lang]
    assert missed(0, said["one"]) == set()
    assert missed(1, said["two"]) == set()
    assert missed(2, said["three"]) == set()


@pytest.mark.parametrize(
    ("turn", "reply", "rules"),
    [
        (0, "The total is 9,500, over the budget of 9,800 by 300.", {"not over"}),
        (0, "The total is 9,500, within the budget.", {"balance"}),
        (0, "总价 9,400 元，余额 300 元，未超预算。", {"total"}),
        (1, "Delivery 2026-10-12, evidence SCHEDULE-2086.", {"owner"}),
        (1, "Lin Zhou, SCHEDULE-2086, 12 October", {"date"}),
        (1, "2026-10-12，林舟，凭据 SCHEDULE-2085", {"evidence"}),
        (2, "Over budget by 500. 2026-10-12, Lin Zhou, SCHEDULE-2086.", {"new budget", "quotes kept", "old budget void"}),
        (2, "500 left; 9,500 of 9,000, old budget void. 2026-10-12, Lin Zhou, SCHEDULE-2086.", {"500 over"}),
        (2, "超出 600 元，新预算 9,000，旧预算失效，合计 9,500。2026-10-12，林舟，SCHEDULE-2086。", {"500 over"}),
        (2, "超出 500 元，新预算 9,000，旧预算失效，合计 9,500。负责人林舟，SCHEDULE-2086。", {"date"}),
    ],
)
def test_near_misses(turn, reply, rules):
    assert missed(turn, reply) == rules


def test_what_was_true_of_the_old_budget_may_be_said():
    reply = (
        "It was within the old budget of 9,800, which is void. Against 9,000 the quotes, 9,500, are over by 500. "
        "2026-10-12, Lin Zhou, SCHEDULE-2086."
    )
    assert missed(2, reply) == set()
