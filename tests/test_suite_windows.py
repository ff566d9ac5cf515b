"""seed_alpha_beta, seed_sentinel, seed_mechanism: what the scripts show under each profile, in both languages."""

from __future__ import annotations

import pytest

from envs.seeds import EVIDENCE
from envs.trajectory import StoredOutcome
from eval.config import Arm
from eval.suites import SUITES, SuiteSettings, run_suite
from eval.suites.base import LANGS, Heard

UNIFIED = ("unified@1", "unified@2", "unified@3", "unified@3-C", "unified@4", "unified@4-compact")


def row(tmp_path, suite, script, profile, lang):
    arm = Arm(policy="script", script=script, profile=profile)
    results = run_suite(SUITES[suite], lang, f"{script}/{profile}", arm, SuiteSettings(out=str(tmp_path)))
    return SUITES[suite].rows(results)[0], results


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("profile", UNIFIED)
def test_betas_content_overwrites_alpha_under_1_alone(tmp_path, lang, profile):
    told, results = row(tmp_path, "seed_alpha_beta", "mistake", profile, lang)
    first = profile == "unified@1"
    assert told["alpha overwritten"] is first
    assert told["write of beta's content"] == ("ok" if first else "wrong_window")
    assert results[0].core is not first
    told, results = row(tmp_path, "seed_alpha_beta", "pass", profile, lang)
    assert (told["alpha overwritten"], told["write of beta's content"]) == (False, "none")
    assert results[0].complete


def test_a_write_with_both_contents_is_no_overwriting():
    rule = SUITES["seed_alpha_beta"].items("en")[0].gates[2][1]

    def note(value, code="ok"):
        return Heard("9500", (StoredOutcome(tool="note", code=code, text="", args={"scope": "window", "value": value}),))

    assert rule.holds(note("total 9500, delivery 2026-10-12"))
    assert not rule.holds(note("delivery 2026-10-12"))
    assert rule.holds(note("delivery 2026-10-12", "wrong_window"))


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("profile", [*UNIFIED, "plain@1", "core@1", "lean@1"])
def test_the_sentinel_tells_a_claim_of_no_task(tmp_path, lang, profile):
    told, results = row(tmp_path, "seed_sentinel", "pass", profile, lang)
    assert (told["claims there is no task"], told["passed"]) == ("0/2", "2/2")
    told, results = row(tmp_path, "seed_sentinel", "no_task", profile, lang)
    assert (told["claims there is no task"], told["passed"]) == ("2/2", "0/2")
    assert not any(r.core for r in results)


def test_the_task_stands_where_the_history_ends_with_the_old_move(tmp_path, chat):
    from envs.profiles import get_profile
    from eval.suites.play import SuiteEpisode

    item = SUITES["seed_sentinel"].items("en")[0]
    episode = SuiteEpisode(item, get_profile("unified@3"), chat)
    episode.advance()
    assert episode.turn == 1
    own = [m.content for m in episode.view().messages if m.role == "assistant"]
    assert "window_open" in own[-1]
    assert episode.state.current == "w1"


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("profile", [*UNIFIED, "core@1"])
def test_the_evidence_is_out_of_view_and_readable_before_and_after(tmp_path, lang, profile):
    told, results = row(tmp_path, "seed_mechanism", "pass", profile, lang)
    assert (told["fold"], told["compress"]) == ("ok", "ok")
    assert told["isolated"] is (None if profile == "core@1" else True)
    assert told["reads that show the evidence"] == "3/3"
    assert told["in view when asked"] is False
    assert results[0].core
    told, results = row(tmp_path, "seed_mechanism", "blind", profile, lang)
    assert not results[0].core


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("profile", ["plain@1", "lean@1"])
def test_where_nothing_can_be_folded_the_evidence_stays_in_view(tmp_path, lang, profile):
    told, results = row(tmp_path, "seed_mechanism", "pass", profile, lang)
    assert told["in view when asked"] is True
    assert results[0].core


def test_the_evidence_rule_takes_the_identifier_alone():
    rule = SUITES["seed_mechanism"].items("en")[0].gates[2][0]
    assert rule.holds(Heard(f"It is {EVIDENCE}."))
    assert not rule.holds(Heard("It is ALPHA-EVIDENCE-6931."))
    assert not rule.holds(Heard(f"{EVIDENCE} or BETA-EVIDENCE-6913"))
