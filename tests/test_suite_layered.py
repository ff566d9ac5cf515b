"""seed_support, seed_order_id, seed_analysis, seed_address: the sessions are as told, and each rule takes right and refuses nearly right."""

from __future__ import annotations

import pytest

from envs.profiles import get_profile
from eval.config import Arm
from eval.suites import SUITES, SuiteSettings, run_suite
from eval.suites.base import LANGS, Heard
from eval.suites.layered import ROWS, notes, sales
from eval.suites.layered_texts import ORDER, POLICY_CHARS, policy
from eval.suites.play import SuiteEpisode, profile_for

NAMES = ("seed_support", "seed_order_id", "seed_analysis", "seed_address")


def row(tmp_path, suite, script, spec, lang, window=8192, only=()):
    profile, _, manager = spec.partition("/")
    arm = Arm(policy="script", script=script, profile=profile, manager=manager or None)
    settings = SuiteSettings(out=str(tmp_path), window=window)
    results = run_suite(SUITES[suite], lang, f"{script}/{spec}", arm, settings, only=only)
    return SUITES[suite].rows(results), results


@pytest.mark.parametrize("lang", LANGS)
def test_the_support_session_is_as_told(lang):
    item = SUITES["seed_support"].items(lang)[0]
    assert len(policy(lang)) == POLICY_CHARS == 8000
    assert ORDER in item.session.turns[1].text
    calls = [n + 1 for n, steps in item.forced.items() if any(isinstance(s, str) and s.startswith("policy ") for s in steps)]
    assert len(calls) == 4
    assert max(calls) <= 12
    assert sorted(item.gates) == [12, 13]
    assert not any(ORDER in t.text for t in item.session.turns[2:])


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("profile", ["core@1", "unified@3-C", "unified@4", "unified@4-compact"])
def test_turn_30_compresses_the_order_number_away_and_it_stays_readable(chat, lang, profile):
    item = SUITES["seed_order_id"].items(lang)[0]
    assert len(item.session.turns) == 50
    assert ORDER in item.session.turns[2].text
    arm = Arm(policy="script", script="pass", profile=profile)
    episode = SuiteEpisode(item, profile_for(item, arm, SuiteSettings(), chat), chat)
    episode.advance()
    assert episode.turn == 30
    codes = [(i.turn, o.code) for i in episode.inferences for o in i.outcomes if o.tool == "compress"]
    assert codes == [(29, "ok")]
    assert ORDER not in "\n".join(m.content for m in episode.view().messages)
    assert any(ORDER in e.text for e in episode.log)


@pytest.mark.parametrize("lang", LANGS)
def test_a_managers_view_is_passed_in_turn_30(chat, lang):
    item = SUITES["seed_order_id"].items(lang)[0]
    arm = Arm(policy="script", script="pass", profile="plain@1", manager="truncate")
    budget = profile_for(item, arm, SuiteSettings(), chat).view_budget
    whole = SuiteEpisode(
        item, profile_for(item, Arm(policy="script", script="pass", profile="plain@1"), SuiteSettings(), chat), chat
    )
    whole.advance()
    by_turn = {i.turn: i.tokens_in for i in whole.inferences}
    assert by_turn[28] <= budget < by_turn[29] == budget + 1


@pytest.mark.parametrize("lang", LANGS)
def test_recall_through_the_compression(tmp_path, lang):
    told = {}
    for spec in ("plain@1", "plain@1/summary", "plain@1/layered", "core@1"):
        rows, _ = row(tmp_path, "seed_order_id", "pass", spec, lang)
        told[spec] = rows[0]
    assert [told[s]["in view"] for s in told] == [5, 0, 5, 0]
    assert told["plain@1/layered"]["right"] == 5
    assert told["plain@1/layered"]["session tokens"] < told["plain@1"]["session tokens"]
    line = notes(list(told.values()))[0]
    assert "5/5 in view" in line


@pytest.mark.parametrize("lang", LANGS)
def test_rows_are_5000_and_only_who_adds_them_up_can_answer(tmp_path, lang):
    text, totals = sales(lang)
    assert text.count("\n") == ROWS
    assert all(str(t) not in text for t in totals.values())
    assert all(t < 1_000_000 for t in totals.values())  # more digits would be rounded in an aggregate
    plain, _ = row(tmp_path, "seed_analysis", "pass", "plain@1", lang, only=("rows",))
    assert (plain[0]["in view"], plain[0]["ended"]) == (0, "context_overflow")
    layered, _ = row(tmp_path, "seed_analysis", "pass", "plain@1/layered", lang, only=("rows",))
    assert (layered[0]["in view"], layered[0]["right"]) == (1, 1)
    assert layered[0]["largest input"] < 1_000 < plain[0]["largest input"]


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("profile", ["plain@1", "core@1", "lean@1", "unified@3-C", "unified@4"])
def test_who_knows_passes_every_gate(tmp_path, lang, name, profile):
    if profile == "plain@1":
        _, results = row(tmp_path, name, "knows", profile, lang, window=128_000)
        assert all(r.core for r in results), [t.missed for r in results for t in r.turns]
        assert all(r.reason == "answered" for r in results)
    else:
        _, results = row(tmp_path, name, "knows", profile, lang)
        assert all(r.core for r in results if r.reason == "answered")
        assert any(r.reason == "answered" for r in results) or name == "seed_order_id"


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize(
    ("suite", "script", "item"),
    [("seed_support", "again", "support"), ("seed_order_id", "again", "order_id"), ("seed_analysis", "old", "period"),
     ("seed_address", "old", "address"), ("seed_address", "both", "address")],
)  # fmt: skip
def test_wrong_answers_fail(tmp_path, lang, suite, script, item):
    rows, results = row(tmp_path, suite, script, "plain@1", lang, window=128_000, only=(item,))
    assert not results[0].core
    assert rows[0]["asks again"] == {"support": 2, "order_id": 5}.get(item, 0)


def holds(suite, lang, item, turn, reply):
    gates = next(i for i in SUITES[suite].items(lang) if i.id == item).gates
    return all(r.holds(Heard(reply)) for r in gates[turn] if r.core)


@pytest.mark.parametrize(
    ("suite", "lang", "item", "turn", "reply", "right"),
    [
        ("seed_support", "en", "support", 12, f"It is {ORDER.lower()}.", True),
        ("seed_support", "en", "support", 12, "It is SO-2026-0815-0024.", False),
        ("seed_support", "zh", "support", 12, f"订单号{ORDER}，已发货", True),
        ("seed_support", "zh", "support", 12, f"{ORDER} 或 SO-2026-0815-0043", False),
        ("seed_support", "en", "support", 12, "I have your order.", False),
        ("seed_order_id", "en", "order_id", 45, "With the neighbour, never at the door.", True),
        ("seed_order_id", "en", "order_id", 45, "With the neighbor.", True),
        ("seed_order_id", "en", "order_id", 45, "At the door, or with the neighbour.", False),
        ("seed_order_id", "zh", "order_id", 45, "交给邻居，不放门口。", True),
        ("seed_order_id", "zh", "order_id", 45, "放在门口。", False),
        ("seed_order_id", "en", "order_id", 35, "13800452271", False),
        ("seed_analysis", "en", "period", 4, "For Q1 2026 sales were 231,775; the south led.", True),
        ("seed_analysis", "en", "period", 4, "For 2025 sales were 884,120; the north led.", False),
        ("seed_analysis", "en", "period", 4, "2026-Q1: 231,775 against 884,120 in 2025; the south led.", False),
        ("seed_analysis", "zh", "period", 4, "2026年第一季度销售额合计 231,775 元，南区领先。", True),
        ("seed_analysis", "zh", "period", 4, "2026-Q1 销售额 231,757 元，南区领先。", False),
        ("seed_address", "en", "address", 8, "To Pudong, Shanghai; Beijing no longer holds.", True),
        ("seed_address", "en", "address", 8, "To Beijing.", False),
        ("seed_address", "en", "address", 8, "Shanghai. Beijing.", False),
        ("seed_address", "zh", "address", 8, "寄到上海市浦东新区，不再寄北京。", True),
        ("seed_address", "zh", "address", 8, "北京市朝阳区", False),
    ],
)
def test_near_misses(suite, lang, item, turn, reply, right):
    assert holds(suite, lang, item, turn, reply) is right


@pytest.mark.parametrize("lang", LANGS)
def test_totals_by_category(lang):
    _, totals = sales(lang)
    (a, x), (b, y), (c, z) = list(totals.items())[:3]
    assert holds("seed_analysis", lang, "rows", 1, f"{a} {x:,}, {b}: {y}, {c} {z}")
    assert not holds("seed_analysis", lang, "rows", 1, f"{a} {y:,}, {b}: {x}, {c} {z}")
    assert not holds("seed_analysis", lang, "rows", 1, f"{a} {x:,}, {b}: {y}")


def test_a_recorded_turn_never_ends_the_episode_but_the_arms_own_turn_does(chat):
    item = SUITES["seed_support"].items("zh")[0]
    arm = Arm(policy="script", script="pass", profile="plain@1")
    episode = SuiteEpisode(item, profile_for(item, arm, SuiteSettings(), chat), chat)
    episode.advance()
    assert (episode.turn, episode.done, episode.reason) == (12, True, "context_overflow")
    assert max(i.tokens_in for i in episode.inferences) > get_profile("plain@1").view_budget
