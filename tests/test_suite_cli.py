"""The suites command: arms and errors, resuming, tables that keep other arms' rows, any policy behind ``act``."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from envs.config import UserError
from envs.profiles import PROFILES
from eval.__main__ import app
from eval.config import Arm
from eval.suites import SUITES, SuiteSettings, run_suite
from eval.suites.cli import parse_arms
from eval.suites.play import suite_file
from eval.suites.report import cell, merged, read_table, table, write_page

NAMES = {
    "seed_mapping", "seed_three_turn", "seed_alpha_beta", "seed_sentinel", "seed_mechanism", "seed_bench28", "seed_support", "seed_order_id",
    "seed_analysis", "seed_address",
}  # fmt: skip


def invoke(*arguments):
    return CliRunner().invoke(app, ["suites", *arguments])


def test_all_suites_are_registered_in_both_languages():
    assert set(SUITES) == NAMES
    for suite in SUITES.values():
        en, zh = suite.items("en"), suite.items("zh")
        assert [i.id for i in en] == [i.id for i in zh]
        assert {i.session.lang for i in en} == {"en"}
        assert {i.session.lang for i in zh} == {"zh"}
        assert {i.session.family for i in (*en, *zh)} == {"seed"}
        for a, b in zip(en, zh, strict=True):
            assert [len(i.gates) for i in (a, b)] == [len(a.gates)] * 2
            assert all(x.text != y.text for x, y in zip(a.session.turns, b.session.turns, strict=True))
        assert "pass" in suite.scripts


def test_arms_by_short_name_and_in_full():
    suite = SUITES["seed_mapping"]
    assert [n for n, _ in parse_arms("pass", suite)] == [f"pass/unified@3-{m}" for m in "ABCD"]
    name, arm = parse_arms("smollm2/plain@1/layered", suite)[0]
    assert (name, arm.policy, arm.model, arm.manager) == ("smollm2/plain@1/layered", "hf", "smollm2", "layered")
    name, arm = parse_arms("mine={policy: hf, model: runs/x, profile: lean@1}", suite)[0]
    assert (name, arm.model, arm.profile) == ("mine", "runs/x", "lean@1")


@pytest.mark.parametrize("profile", PROFILES)
def test_an_arm_takes_every_profile(profile):
    assert Arm(policy="hf", model="smollm2", profile=profile).profile == profile


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("nobody", "neither a model"),
        ("pass/unified@9", "unknown profile 'unified@9'"),
        ("pass/plain@1/nothing", "unknown manager"),
        ("pass/core@1/summary", "needs profile: plain@1"),
        ("x={policy: hf}", "needs a model"),
        ("x={policy", "not YAML"),
        ("x={policy: never_read, profile: lean@1}", "cannot read views of lean@1"),
        ("x={policy: script}", "go together"),
    ],
)
def test_a_wrong_arm_is_told_in_one_line(spec, told):
    with pytest.raises(UserError, match="--arm") as error:
        parse_arms(spec, SUITES["seed_mapping"])
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_errors_of_the_command(tmp_path):
    for arguments, told in (
        ([], "give --suite NAME"),
        (["--suite", "seed_x"], "no such suite"),
        (["--suite", "seed_mapping", "--arm", "pass", "--item", "warm-1", "--out", str(tmp_path)], "no item 'warm-1'"),
    ):
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert told in result.output
    assert "scripts: pass" in invoke("--list").output


def test_played_once_and_never_again_even_after_a_torn_line(tmp_path):
    suite, settings = SUITES["seed_mapping"], SuiteSettings(out=str(tmp_path))
    arm = Arm(policy="script", script="pass", profile="unified@3-A")
    first = run_suite(suite, "en", "a", arm, settings)
    file = suite_file("seed_mapping", "en", "a", settings)
    data = file.read_bytes()
    assert run_suite(suite, "en", "a", arm, settings) == first
    assert file.read_bytes() == data
    file.write_bytes(data[:-20])
    assert run_suite(suite, "en", "a", arm, settings) == first
    assert len(file.read_text().splitlines()) == len(first)


def test_another_arm_of_the_same_name_does_not_use_its_episodes(tmp_path):
    suite, settings = SUITES["seed_mapping"], SuiteSettings(out=str(tmp_path))
    assert all(r.core for r in run_suite(suite, "en", "a", Arm(policy="script", script="pass", profile="unified@3-A"), settings))
    again = run_suite(suite, "en", "a", Arm(policy="script", script="no_balance", profile="unified@3-A"), settings)
    assert not any(r.core for r in again)


def test_a_failing_backend_is_told_and_what_was_played_stays(tmp_path, monkeypatch):
    from eval.suites import play

    class Dies:
        calls = 0

        def act(self, views):
            self.calls += 1
            if self.calls > 1:
                raise RuntimeError("no device")
            from envs.policies.base import Sampled

            return [Sampled((1, 2), "300") for _ in views]

    dies = Dies()
    monkeypatch.setattr(play, "make_policy", lambda *args: dies)
    settings = SuiteSettings(out=str(tmp_path), batch_size=1)
    arm = Arm(policy="hf", model="tiny", profile="plain@1")
    with pytest.raises(UserError, match="the backend failed.*no device.*the same command goes on"):
        run_suite(SUITES["seed_mapping"], "en", "d", arm, settings)
    assert len(suite_file("seed_mapping", "en", "d", settings).read_text().splitlines()) == 1


@pytest.mark.parametrize("name", sorted(NAMES))
def test_any_model_plays_every_suite(tmp_path, name):
    """The random twin of the default model: plumbing, in both languages of the shortest arm."""
    settings = SuiteSettings(out=str(tmp_path), decoding={"max_new_tokens": 4})
    arm = Arm(policy="hf", model="tiny", profile="plain@1")
    for lang in ("en", "zh"):
        items = [i.id for i in SUITES[name].items(lang)][:1]
        results = run_suite(SUITES[name], lang, "tiny", arm, settings, repeats=1, only=items)
        assert not any(r.core for r in results)
        assert SUITES[name].rows(results)[0]["lang"] == lang


def test_the_page_keeps_rows_of_other_arms_and_replaces_its_own(tmp_path):
    page = tmp_path / "seeds.md"
    out = str(tmp_path / "runs")
    one = invoke("--suite", "seed_mapping", "--arm", "pass/unified@3-A", "--out", out, "--write", str(page))
    assert one.exit_code == 0, one.output
    invoke("--suite", "seed_mapping", "--arm", "no_balance/unified@3-B", "--lang", "zh", "--out", out, "--write", str(page))
    again = invoke("--suite", "seed_mapping", "--arm", "pass/unified@3-A", "--out", out, "--write", str(page))
    assert again.exit_code == 0
    text = page.read_text(encoding="utf-8")
    rows = read_table(text.split("## seed_mapping")[1])
    assert [(r["lang"], r["arm"]) for r in rows] == [
        ("en", "pass/unified@3-A"), ("zh", "no_balance/unified@3-B"), ("zh", "document A"), ("zh", "document B"), ("zh", "document C"),
    ]  # fmt: skip
    assert all(f"## {name}" in text for name in NAMES)


def test_tables_read_back_and_columns_of_an_old_page_go():
    rows = [{"lang": "en", "arm": "a/x", "tokens": 1234, "ok": True, "ratio": 1.5, "none": None}]
    assert read_table(table(rows)) == [{"lang": "en", "arm": "a/x", "tokens": "1,234", "ok": "yes", "ratio": "1.50", "none": "-"}]
    assert cell("a|b\nc") == "a/b c"
    suite = SUITES["seed_sentinel"]
    old = [{"lang": "en", "arm": "b", "gone": "1"}]
    assert [r["arm"] for r in merged(old, [{"lang": "en", "arm": "a", "passed": 1}], suite)] == ["a", "document v2"]


def test_a_folder_is_no_page(tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        write_page(tmp_path, {}, "")
