"""The post-mortem's failures: what each version of the protocol lets happen to a policy that makes the document's mistakes."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from envs.__main__ import app
from envs.profiles import get_profile
from envs.seeds import PROFILES, SCENARIOS, alpha_beta, mechanism, seed_table, stale_public


def test_unified_1_lets_alpha_be_overwritten_with_betas_content(chat):
    assert alpha_beta(get_profile("unified@1"), chat) == {"wrong write": "ok", "alpha overwritten": True}


@pytest.mark.parametrize("profile", [p for p in PROFILES if p != "unified@1"])
def test_from_unified_2_on_the_wrong_window_is_refused(chat, profile):
    assert alpha_beta(get_profile(profile), chat) == {"wrong write": "wrong_window", "alpha overwritten": False}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_right_answer_over_a_stale_public_memory_is_measured_and_flagged_by_unified_4_alone(chat, profile):
    measured = stale_public(get_profile(profile), chat)
    assert measured == {"answer right": True, "stale entries": 1, "flagged": profile.startswith("unified@4")}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_evidence_is_readable_before_and_after_folding_and_compressing(chat, profile):
    assert mechanism(get_profile(profile), chat) == {"fold": "ok", "compress": "ok", "isolated": True, "readable": "4/4"}


def test_the_command_prints_every_scenario_under_every_profile(chat):
    result = CliRunner().invoke(app, ["seeds"])
    assert result.exit_code == 0
    assert result.output.strip() == seed_table(chat).strip()
    for name in (*SCENARIOS, *PROFILES):
        assert f"| {name} |" in result.output
