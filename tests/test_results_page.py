"""The page of results: blocks filled from what was measured, text by hand left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import NormalDist

import pytest
import yaml
from typer.testing import CliRunner

from envs.chat import get_chat
from envs.config import ConfigError, load_config
from envs.runs import read_json, read_jsonl, write_json_atomic, write_jsonl_atomic
from envs.tasks.probes import make_probes
from eval.__main__ import app as eval_app
from eval.config import EvalConfig
from eval.freeze import freeze
from eval.run import run
from eval.score import score
from eval.suites.report import write_page
from scripts.results_aims import Aim, aims_table, value_of, verdict
from scripts.results_courses import sensitivity
from scripts.results_page import OWED, Page, app, fill

RECORD = {"train": {"status": "done", "commands": ["envs contracts"], "seconds": 90.0, "starts": []}}


@pytest.fixture(scope="module")
def scored(tmp_path_factory) -> Path:
    """A scored evaluation of two scripts; its config beside it."""
    out = tmp_path_factory.mktemp("page")
    chat = get_chat("smollm2")
    found = [p for seed in range(20) for p in make_probes("support", seed, "static", chat)][:4]
    write_jsonl_atomic(out / "probes.jsonl", found)
    fields = {
        "name": "e", "out": str(out / "run"), "probes": str(out / "probes.jsonl"), "references": ["never_read"],
        "arms": {"expert": {"policy": "expert"}, "never_read": {"policy": "never_read"}}, "bootstrap": {"resamples": 100},
    }  # fmt: skip
    (out / "eval.yaml").write_text(yaml.safe_dump(fields))
    config = load_config(EvalConfig, out / "eval.yaml")
    freeze(config)
    run(config)
    score(config)
    return out


@pytest.fixture
def page(scored, tmp_path) -> Path:
    """A config of a page with prose and blocks."""
    stages = {"out": str(tmp_path / "stages"), "stages": {"train": {"about": "train it", "commands": ["envs contracts"]}}}
    (tmp_path / "stages.yaml").write_text(yaml.safe_dump(stages))
    (tmp_path / "RESULTS.md").write_text(
        "# Mine\n\n<!-- stages:start -->\n<!-- stages:end -->\nBy hand.\n<!-- tries:start -->old<!-- tries:end -->\n"
        "<!-- val.main:start --><!-- val.main:end -->\n"
    )
    given = {
        "page": str(tmp_path / "RESULTS.md"), "figures": str(tmp_path / "figures"), "stages": str(tmp_path / "stages.yaml"),
        "tries": str(tmp_path / "tries.json"), "runs": {"val": str(scored / "eval.yaml")},
    }  # fmt: skip
    path = tmp_path / "page.yaml"
    path.write_text(yaml.safe_dump(given))
    return path


def test_blocks_are_filled_from_the_runs_and_the_rest_stays(page, scored, tmp_path):
    write_json_atomic(tmp_path / "stages/stages.json", RECORD)
    told = fill(load_config(Page, page))
    text = (tmp_path / "RESULTS.md").read_text()
    assert list(told) == ["stages", "tries", "val.main"]
    assert "| train | train it | done | 1.5 |" in text
    assert "\nBy hand.\n" in text
    assert "old" not in text
    assert told["tries"] == OWED
    mean = read_json(scored / "run/results.json")["arms"]["expert"]["pair_success"]["mean"]
    assert mean == 1
    assert "| expert |" in text
    assert (tmp_path / "figures/val.main.svg").read_text().startswith("<svg")
    assert f"({tmp_path / 'figures/val.main.svg'})" in text
    fill(load_config(Page, page))
    assert (tmp_path / "RESULTS.md").read_text() == text, "the same again"


def test_the_page_is_filled_from_what_the_repository_keeps_where_the_run_is_gone(page, scored, tmp_path):
    fill(load_config(Page, page))
    text = (tmp_path / "RESULTS.md").read_text()
    given = yaml.safe_load((scored / "eval.yaml").read_text())
    (tmp_path / "elsewhere.yaml").write_text(yaml.safe_dump(given | {"out": str(tmp_path / "gone")}))
    page.write_text(page.read_text().replace(str(scored / "eval.yaml"), str(tmp_path / "elsewhere.yaml")))
    assert fill(load_config(Page, page))["val.main"] != OWED
    assert (tmp_path / "RESULTS.md").read_text() == text
    assert read_json(tmp_path / "figures/val/lock.json") == read_json(scored / "run/lock.json")
    (tmp_path / "figures/val/details.json").unlink()
    assert fill(load_config(Page, page))["val.main"] == OWED


def test_the_card_of_the_training_set_is_kept_with_its_plots_and_nothing_else(page, tmp_path):
    for file in ("card.md", "trajectories.jsonl", "plots/lengths.png"):
        (tmp_path / "data" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / file).write_text("x")
    page.write_text(page.read_text() + f"data: {tmp_path / 'data'}\n")
    fill(load_config(Page, page))
    kept = {str(p.relative_to(tmp_path / "figures/data")) for p in (tmp_path / "figures/data").rglob("*") if p.is_file()}
    assert kept == {"card.md", "plots/lengths.png"}


def test_aims_are_met_by_their_interval_by_their_mean_or_missed():
    results = {
        "arms": {"rl": {"recall": {"mean": 0.92, "lo": 0.85, "hi": 0.97, "n": 40}}, "plain": {}},
        "paired": [{"a": "plain", "b": "rl", "metric": "task_correct", "mean": 0.02, "lo": -0.01, "hi": 0.05, "n": 90}],
    }
    band = {"mean": 0.6, "lo": 0.5, "hi": 0.64, "n": 8}
    details = {"crossover": {"session": {"rl": {"bands": {"long": {"tokens": {**band, "mean": 0.1}, "finished": band}}}}}}

    def outcome(**aim):
        made = Aim(about="x", run="r", arm="rl", **aim)
        return verdict(made, value_of(made, results, details))

    assert outcome(metric="recall", least=0.9) == "met by the mean, not by the interval"
    assert outcome(metric="recall", least=0.8) == "met"
    assert outcome(metric="recall", least=0.93) == "missed"
    assert outcome(metric="task_correct", minus="plain", least=-0.06) == "met"
    assert outcome(metric="task_correct", minus="plain", least=-0.03) == "met by the mean, not by the interval"
    assert outcome(length="long", most=0.65) == "met"
    assert outcome(length="very long", most=0.4) == "not measured"
    assert outcome(metric="recall", most=0.05) == "missed"
    assert outcome(metric="recall", least=0.92) == "met by the mean, not by the interval"
    assert outcome(metric="recall", above=0.92) == "missed", "a value at the bound isn't above it"
    assert outcome(metric="recall", above=0.84) == "met"
    assert outcome(metric="recall", below=0.92) == "missed"
    assert outcome(metric="recall", below=0.98) == "met"
    with pytest.raises(ValueError, match="one bound"):
        Aim(about="x", run="r", arm="rl", least=0, above=0)
    with pytest.raises(ConfigError, match=r"aim 'x': arm 'rll': did you mean 'rl'\?"):
        value_of(Aim(about="x", run="r", arm="rll", least=0), results, details)
    told = aims_table(
        [Aim(about="x", run="r", arm="rl", metric="task_correct", minus="plain", least=-0.03)], {"r": (results, details)}
    )
    assert "| x | -0.020 [-0.050, +0.010] | 90 | ≥ -0.03 | met by the mean, not by the interval |" in told
    assert "| > 0 |" in aims_table([Aim(about="x", run="r", arm="rl", metric="recall", above=0)], {"r": (results, details)})
    assert "not measured" in aims_table([Aim(about="x", run="other", arm="rl", least=0)], {})


def test_a_seed_suite_stands_on_the_page_as_its_own_page_has_it(page, tmp_path):
    text = "# Mine\n\n<!-- suites.seed_three_turn:start --><!-- suites.seed_three_turn:end -->\n"
    (tmp_path / "RESULTS.md").write_text(text)
    config = load_config(Page, page).model_copy(update={"suites": str(tmp_path / "suites.md")})
    assert fill(config) == {"suites.seed_three_turn": OWED}, "no page yet"
    write_page(tmp_path / "suites.md", {}, "")
    assert fill(config) == {"suites.seed_three_turn": OWED}, "the document's own rows alone are no result"
    command = [
        "suites",
        "--suite",
        "seed_three_turn",
        "--repeats",
        "1",
        "--out",
        str(tmp_path / "runs"),
        "--write",
        config.suites,
    ]
    arms = [
        "mine/lean@1={policy: script, script: pass, profile: lean@1}",
        "mine/plain@1={policy: script, script: pass, profile: plain@1}",
    ]
    done = CliRunner().invoke(eval_app, [*command, *(f"--arm={a}" for a in arms)], env={"PYTHONIOENCODING": "utf-8"})
    assert done.exit_code == 0, done.output
    told = fill(config)["suites.seed_three_turn"]
    assert "| en | mine/lean@1 | 1/1 | 1/1 |" in told
    assert "en, mine: lean@1 took 1.0" in told
    assert "Made with" not in told
    assert told in (tmp_path / "RESULTS.md").read_text()
    (tmp_path / "RESULTS.md").write_text(text.replace("three_turn", "thre_turn"))
    with pytest.raises(ConfigError, match="suites.seed_thre_turn: .*seed_three_turn"):
        fill(config)


def test_failing_episodes_are_drawn_and_those_that_were_read_are_held_against_the_draw(page, scored, tmp_path):
    config = str(scored / "eval.yaml")
    told = CliRunner().invoke(app, ["draw", config, "--arm", "never_read", "--count", "2", "--seed", "1"])
    assert told.exit_code == 0, told.output
    samples = [line.split("\t")[0] for line in told.output.splitlines()]
    failed = {r["sample"] for r in read_jsonl(scored / "run/scores.jsonl") if r["arm"] == "never_read" and r["cause"]}
    assert len(set(samples)) == 2
    assert set(samples) <= failed
    assert f"#never_read%2F{samples[0].replace('/', '%2F')}" in told.output
    assert "draw at most that many" in CliRunner().invoke(app, ["draw", config, "--arm", "never_read", "--count", "9999"]).output
    assert "expert" in CliRunner().invoke(app, ["draw", config, "--arm", "exprt"]).output

    (tmp_path / "RESULTS.md").write_text("<!-- failing:start --><!-- failing:end -->\n")
    page.write_text(page.read_text() + f"failing: {tmp_path / 'failing.yaml'}\n")
    assert fill(load_config(Page, page))["failing"] == OWED
    readings: dict = {
        "run": config, "arm": "never_read", "seed": 1, "count": 2, "causes": {"a": "never looks", "b": "looks away"},
        "episodes": {sample: {"cause": "ba"[n], "what": f"number {n}"} for n, sample in enumerate(samples)},
    }  # fmt: skip
    (tmp_path / "failing.yaml").write_text(yaml.safe_dump(readings))
    block = fill(load_config(Page, page))["failing"]
    assert f"| never looks | 1 | `{samples[1]}` number 1 |\n| looks away | 1 | `{samples[0]}` number 0 |" in block
    del readings["episodes"][samples[1]]
    (tmp_path / "failing.yaml").write_text(yaml.safe_dump(readings))
    with pytest.raises(ConfigError, match="was drawn and has no finding"):
        fill(load_config(Page, page))
    readings["episodes"][samples[1]] = {"cause": "c", "what": ""}
    (tmp_path / "failing.yaml").write_text(yaml.safe_dump(readings))
    with pytest.raises(ConfigError, match="cause 'c'"):
        fill(load_config(Page, page))


def test_what_probes_at_a_limit_cost_is_told_by_arm(page, scored, tmp_path):
    given = yaml.safe_load((scored / "eval.yaml").read_text()) | {"out": str(tmp_path / "run")}
    (tmp_path / "eval.yaml").write_text(yaml.safe_dump(given))
    assert "score the evaluation first" in CliRunner().invoke(app, ["cut", str(tmp_path / "eval.yaml")]).output
    tokens = (("answered", 100), ("limit_run", 700), ("answered", 200))
    rows = [{"arm": "rl", "source": "probe", "score": {"reason": r, "tokens": n}} for r, n in tokens]
    write_jsonl_atomic(tmp_path / "run/scores.jsonl", [*rows, {"arm": "rl", "source": "session"}])
    assert "| rl | 3 | 1 | 0.70 | 200 |" in CliRunner().invoke(app, ["cut", str(tmp_path / "eval.yaml")]).output


def test_the_page_of_this_repository_is_what_its_command_writes_from_what_is_kept(tmp_path, monkeypatch):
    root = Path(__file__).parent.parent
    for kept in ("docs/results", "configs/results"):
        shutil.copytree(root / kept, tmp_path / kept)
    shutil.copy(root / "RESULTS.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    before = Path("RESULTS.md").read_text()
    told = fill(load_config(Page, Path("configs/results/page.yaml")))
    assert {"aims", "failing", "held_out.main", "ablations.main", "sessions.crossover", "suites.seed_three_turn"} <= set(told)
    assert OWED not in told.values()
    assert Path("RESULTS.md").read_text() == before


def test_a_block_that_nothing_fills_is_an_error_that_names_it(page, tmp_path):
    (tmp_path / "RESULTS.md").write_text("<!-- val.mane:start --><!-- val.mane:end -->")
    with pytest.raises(ConfigError, match=r"RESULTS.md: block val.mane: did you mean 'main'\?"):
        fill(load_config(Page, page))
    (tmp_path / "RESULTS.md").write_text("<!-- vol.main:start --><!-- vol.main:end -->")
    with pytest.raises(ConfigError, match=r"block vol.main: did you mean 'val'\?"):
        fill(load_config(Page, page))
    (tmp_path / "RESULTS.md").write_text("no block")
    with pytest.raises(ConfigError, match=r"RESULTS.md: no block"):
        fill(load_config(Page, page))


def test_a_try_keeps_its_validation_figures_and_nothing_of_the_final_test(page, scored, tmp_path):
    write_json_atomic(tmp_path / "sft/done.json", {"minutes": 8.1, "steps": 63, "tokens": 1000, "held_out": {"loss": 0.4658}})
    command = [
        "try", "full", "--changed", "all weights", "--scores", str(scored / "run"), "--arm", "expert",
        "--run", str(tmp_path / "sft"), "--tries", str(tmp_path / "tries.json"), "--note", "works",
    ]  # fmt: skip
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    kept = read_json(tmp_path / "tries.json")["full"]
    assert (kept["minutes"], kept["steps"], kept["loss"]) == (8.1, 63, 0.4658)
    assert kept["val"]["pair_success"]["mean"] == 1
    assert CliRunner().invoke(app, ["write", str(page)]).exit_code == 0
    assert "| full | all weights | 8.1 | 63 | 0.466 | 1.00 |" in (tmp_path / "RESULTS.md").read_text()
    held_out = read_json(scored / "run/results.json") | {"split": "held_out"}
    write_json_atomic(tmp_path / "final/results.json", held_out)
    command[command.index("--scores") + 1] = str(tmp_path / "final")
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "only validation may decide" in refused.output
    command[command.index("--scores") + 1] = str(scored / "run")
    command[command.index("--arm") + 1] = "exprt"
    assert "did you mean 'expert'" in CliRunner().invoke(app, command).output


def test_sensitivity_is_the_same_however_readily_one_reads():
    cases = [(-0.5 + shift, -1.5 + shift) for shift in (0, 0.7, 1.4)]
    for hit, alarm in cases:
        assert sensitivity(NormalDist().cdf(hit), NormalDist().cdf(alarm)) == pytest.approx(1)
    assert sensitivity(0.4, 0.4) == 0
    assert sensitivity(1, 0.2) is None
    assert sensitivity(0.9, 0) is None


def test_the_validations_of_an_rl_run_are_kept_and_drawn_step_by_step(page, tmp_path):
    run = tmp_path / "rl"
    lines = [
        {
            "step": 0,
            "val/q": 0.7,
            "val/pair_success": 0.35,
            "val/detect/recall": 0.65,
            "val/detect/false_alarm": 0.22,
            "val/tokens": 535.9,
        },
        {"step": 1, "reward/q": 0.9},
        {
            "step": 20,
            "val/q": 0.8,
            "val/pair_success": 0.3,
            "val/detect/recall": 0.91,
            "val/detect/false_alarm": 0.62,
            "val/tokens": 697.4,
        },
    ]
    run.mkdir()
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    kept = tmp_path / "courses.json"
    command = ["course", "rl-s0", "--about", "share .05", "--run", str(run), "--courses", str(kept)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert [p["step"] for p in read_json(kept)["rl-s0"]["points"]] == [0, 20]
    (tmp_path / "RESULTS.md").write_text("<!-- courses:start --><!-- courses:end -->")
    given = load_config(Page, page).model_copy(update={"courses": str(kept)})
    fill(given)
    text = (tmp_path / "RESULTS.md").read_text()
    assert "| rl-s0 | share .05 | 0 | 0.35 | – | – | 0.65 | 0.22 | 536 | 1.16 |" in text
    assert "|  |  | 20 | 0.30 | – | – | 0.91 | 0.62 | 697 | 1.04 |" in text
    assert "rl-s0: share .05" in (tmp_path / "figures/courses.svg").read_text()
    (run / "metrics.jsonl").write_text(json.dumps(lines[1]) + "\n")
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "no validation in metrics.jsonl" in refused.output
