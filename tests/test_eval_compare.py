"""Comparing arms and runs: what is refused, and what is said of runs that may stand together."""

from __future__ import annotations

import json
import shutil

import pytest
from typer.testing import CliRunner

import eval.compare as module
from envs.chat import get_chat
from envs.config import UserError
from envs.policies.smollm2 import resolve_model
from envs.runs import read_json, write_jsonl_atomic
from envs.tasks.probes import make_probes
from eval.__main__ import app
from eval.compare import compare, load_run, render
from eval.config import EvalConfig
from eval.freeze import LockError, build_lock, freeze
from eval.report import report
from eval.run import run
from eval.score import score

ARMS = {
    "expert": {"policy": "expert"},
    "never_read": {"policy": "never_read"},
    "plain": {"policy": "expert", "profile": "plain@1"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("compare")
    probes = [p for seed in range(10, 60) for p in make_probes("support", seed, "static", get_chat()) or []][:8]
    write_jsonl_atomic(root / "probes.jsonl", probes)
    return root


def played(folder, name, **more):
    fields = {
        "name": "t", "out": str(folder / name), "probes": str(folder / "probes.jsonl"), "arms": ARMS,
        "references": ["expert", "plain"], "bootstrap": {"resamples": 200},
    }  # fmt: skip
    config = EvalConfig(**{**fields, **more})
    freeze(config)
    run(config)
    score(config)
    return config


@pytest.fixture(scope="module")
def first(folder):
    return played(folder, "first")


@pytest.fixture(scope="module")
def other_backbone(folder):
    return played(folder, "other", tokenizer="tiny-qwen")


def invoke(*words):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def test_one_run_sets_every_arm_against_the_references(first):
    content = compare([load_run(first.folder)])
    (told,) = content["runs"]
    pairs = {(p["a"], p["b"]) for p in told["pairs"]}
    assert pairs == {("never_read", "expert"), ("plain", "expert"), ("never_read", "plain")}
    found = {(p["a"], p["b"], p["metric"]): p for p in told["pairs"]}
    stored = {(p["a"], p["b"], p["metric"]): p for p in read_json(first.folder / "results.json")["paired"]}
    assert found.keys() == stored.keys()
    for key, entry in stored.items():
        assert {name: found[key]["difference"][name] for name in ("mean", "lo", "hi", "n")} == {
            name: entry[name] for name in ("mean", "lo", "hi", "n")
        }
    assert found["never_read", "expert", "pair_success"]["difference"]["mean"] == -1.0
    verdict = told["inference"]["verdicts"]["never_read"]
    assert verdict["verdict"] == "not shown"
    assert any(text.startswith("detection against expert") for text in verdict["failed"])
    assert read_json(first.folder / "details.json")["inference"] == json.loads(json.dumps(told["inference"]))


def test_the_report_opens_with_the_verdicts(first):
    page = report(first).read_text()
    assert page.index("Verdicts") < page.index("Main table")
    assert "correctness against plain" in (first.folder / "report.md").read_text()


def test_the_command_prints_or_writes_markdown_and_json(first, tmp_path):
    shown = invoke(first.folder)
    assert shown.exit_code == 0
    assert "## Verdicts" in shown.output
    assert "| never_read | not shown |" in shown.output
    one = json.loads(invoke(first.folder, "--a", "never_read", "--b", "expert", "--json").output)
    assert {(p["a"], p["b"]) for p in one["runs"][0]["pairs"]} == {("never_read", "expert")}
    assert "backbones" not in one
    for name in ("c.md", "c.json"):
        assert invoke(first.folder, "--out", tmp_path / name).exit_code == 0
    assert "## Gates and primary set" in (tmp_path / "c.md").read_text()
    assert read_json(tmp_path / "c.json")["runs"][0]["lock"] == read_json(first.folder / "lock.json")["lock"]
    config = tmp_path / "c.yaml"
    shutil.copy(first.folder / "eval.yaml", config)
    again = json.loads(invoke(config, "--json").output)
    assert again["runs"][0]["pairs"] == read_json(tmp_path / "c.json")["runs"][0]["pairs"]


def test_different_rules_are_refused_with_the_entry_that_differs(folder, first):
    changed = played(folder, "changed", decoding={"seed": 9}, hypotheses="another")
    with pytest.raises(LockError, match=r"decoding changed between the two, \w{8} -> \w{8} .*different locks are never compared"):
        compare([load_run(first.folder), load_run(changed.folder)])
    refused = invoke(first.folder, changed.folder)
    assert refused.exit_code == 2
    assert len(refused.stderr.splitlines()) == 1
    assert str(changed.folder / "lock.json") in refused.stderr
    more = played(folder, "more", arms={**ARMS, "fabricator": {"policy": "fabricator"}})
    with pytest.raises(LockError, match=r"arm\.fabricator changed between the two, absent -> "):
        compare([load_run(first.folder), load_run(more.folder)])


def test_runs_on_other_backbones_stand_side_by_side(first, other_backbone):
    runs = [load_run(first.folder), load_run(other_backbone.folder)]
    assert runs[0].lock.rules == runs[1].lock.rules
    assert runs[0].lock.lock != runs[1].lock.lock
    content = compare(runs)
    assert content["backbones"] == 2
    assert content["repeated"] == []  # nothing is paired across backbones
    page = render(content, "x")
    assert "Words on models in general need two backbones" in page
    assert "Shown on every backbone: no arm." in page
    assert "## Side by side" in page
    for config in (first, other_backbone):
        assert f"## Verdicts ({config.folder})" in page


def test_the_same_lock_played_twice_is_paired_arm_by_arm(folder, first):
    again = played(folder, "again")
    content = compare([load_run(first.folder), load_run(again.folder)])
    assert content["backbones"] == 1
    assert "Words on models in general need two" in content["words"][0]
    assert {e["metric"] for e in content["repeated"]} >= {"pair_success", "tokens"}
    assert {e["difference"]["mean"] for e in content["repeated"]} == {0.0}  # scripted policies play alike


def test_whose_weights_act_is_the_backbones_part(folder, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(resolve_model("tiny"), copy)
    weights = copy / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    one, two = (
        build_lock(EvalConfig(name="t", probes=str(folder / "probes.jsonl"), arms={"base": {"policy": "hf", "model": model}}))
        for model in ("tiny", str(copy))
    )
    assert one.rules == two.rules
    assert {name for name, value in one.backbone.items() if two.backbone[name] != value} == {
        "backbone.base.model", "backbone.base.weights"
    }  # fmt: skip


def test_scores_of_another_lock_or_other_statistics_are_refused(folder, first, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(first.folder, copy)
    assert load_run(copy).lock.lock == load_run(first.folder).lock.lock  # a run folder may be moved
    results = copy / "results.json"
    results.write_text(results.read_text().replace(read_json(results)["lock"], "f" * 64))
    with pytest.raises(LockError, match="different locks are never compared, run the score command again"):
        load_run(copy)
    real = module.score_sources()
    monkeypatch.setattr(module, "score_sources", lambda: {**real, "source.score.envs/stats.py": "0" * 64})
    with pytest.raises(LockError, match=r"source\.score\.envs/stats\.py changed since the freeze"):
        load_run(first.folder)


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["--a", "expert"], "give both, or neither"),
        (["--a", "expert", "--b", "gone"], "arm 'gone' has no scored episode: use two of expert, never_read, plain"),
        (["--out", "c.txt"], "end it in .md or .json"),
    ],
)
def test_what_cannot_be_compared_is_told_in_one_line(first, words, needed):
    refused = invoke(first.folder, *words)
    assert refused.exit_code == 2
    assert needed in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_folders_without_lock_or_scores_are_refused(folder, first, tmp_path):
    with pytest.raises(LockError, match=r"no lock\.json with its eval\.yaml"):
        load_run(tmp_path)
    unscored = first.model_copy(update={"out": str(tmp_path / "unscored")})
    freeze(unscored)
    with pytest.raises(UserError, match="nothing is scored: run the score command first"):
        load_run(unscored.folder)
