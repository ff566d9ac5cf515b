"""seed_mapping: the requests differ in the block's place and role alone, and the gates tell right from nearly right."""

from __future__ import annotations

import pytest

from envs.profiles import get_profile
from eval.config import Arm
from eval.suites.base import LANGS, Result, TurnResult
from eval.suites.mapping import SUITE, proof, tokens_verdict
from eval.suites.play import SuiteSettings, run_suite


@pytest.mark.parametrize("lang", LANGS)
def test_only_place_and_role_of_the_state_block_differ(chat, lang):
    parts = proof(lang, chat)
    assert [[place for place, _, _ in parts[m]] for m in "ABCD"] == [
        ["head system"] * 2, ["tail user"] * 2, ["tail assistant"] * 2, ["head system"] * 2,
    ]  # fmt: skip
    for request in range(2):
        assert len({parts[m][request][1] for m in "ABCD"}) == 1, "the block's own text"
        assert len({parts[m][request][2] for m in "ABCD"}) == 1, "everything else"
        assert parts["A"][request][1].startswith("[state] window w1")
    flags = {m: {k: v for k, v in _flags(f"unified@3-{m}").items() if k not in ("name", "mapping")} for m in "ABCD"}
    assert flags["A"] == flags["B"] == flags["C"] == flags["D"]


def _flags(name):
    from dataclasses import asdict

    return asdict(get_profile(name))


def played(tmp_path, script, lang="en", profile="unified@3-A"):
    arm = Arm(policy="script", script=script, profile=profile)
    return run_suite(SUITE, lang, f"{script}/{profile}", arm, SuiteSettings(out=str(tmp_path)))


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize(
    ("script", "cold", "continued"), [("pass", 3, 2), ("no_balance", 0, 0), ("two_lists", 3, 0), ("no_list", 3, 0)]
)
@pytest.mark.parametrize("mapping", "ABCD")
def test_each_script_passes_or_fails_where_it_should(tmp_path, lang, script, cold, continued, mapping):
    results = played(tmp_path, script, lang, f"unified@3-{mapping}")
    assert len(results) == 5
    assert sum(r.core for r in results if r.item.startswith("cold")) == cold
    assert sum(r.core for r in results if r.item.startswith("continued")) == continued


def test_a_profile_without_windows_plays_the_cold_starts_alone(tmp_path):
    for profile in ("plain@1", "core@1", "lean@1"):
        results = played(tmp_path, "pass", "en", profile)
        assert [r.item for r in results] == ["cold-1", "cold-2", "cold-3"]
        assert all(r.core for r in results)
        assert SUITE.rows(results)[0]["continuations"] == "-"


def result(arm, item, tokens):
    turn = TurnResult(turn=0, judged=True, played=True, tokens=tokens)
    return Result(
        suite="seed_mapping", lang="en", arm=arm, item=item, repeat=0, turns=[turn], core=True, complete=True, failed_at=None,
        reason="answered", limit=1,
    )  # fmt: skip


def test_162_tokens_apart_is_no_advantage():
    a = [result("A", str(n), 2_000) for n in range(5)]
    assert tokens_verdict([result("C", "0", 2_000 - 162), *a[1:]], a) == "no advantage"
    assert tokens_verdict([result("C", str(n), 1_968 - 1) for n in range(5)], a) == "no advantage"
    assert tokens_verdict([result("C", str(n), 1_000) for n in range(5)], a) == "fewer"
    assert tokens_verdict([result("C", "0", 3_000), *(result("C", str(n), 1_000) for n in range(1, 5))], a) == "no advantage"
