"""Where the code stood: commit and uncommitted changes, told on the front page; and the config that a freeze leaves."""

from __future__ import annotations

import itertools

import pytest
from typer.testing import CliRunner

import eval.player as player
from envs.chat import get_chat
from envs.runs import provenance, write_jsonl_atomic
from envs.tasks.probes import make_probes
from eval.__main__ import app
from eval.config import EvalConfig
from eval.freeze import freeze
from eval.report import report
from eval.run import run
from eval.score import score
from eval.standing import code_lines, code_warnings

CLEAN = {"git_commit": "a" * 40, "git_dirty": False, "git_changed": 0}
DIRTY = {"git_commit": "a" * 40, "git_dirty": True, "git_changed": 2}
OTHER = {"git_commit": "b" * 40, "git_dirty": False, "git_changed": 0}


@pytest.fixture
def config(tmp_path):
    made = (make_probes("procurement", seed, "static", get_chat()) for seed in range(60))
    write_jsonl_atomic(tmp_path / "probes.jsonl", next(itertools.islice(filter(None, made), 1)))
    arms = {"expert": {"policy": "expert"}, "never_read": {"policy": "never_read"}}
    probes = str(tmp_path / "probes.jsonl")
    return EvalConfig(name="t", out=str(tmp_path / "run"), probes=probes, arms=arms, bootstrap={"resamples": 200})


def test_the_code_of_freeze_and_arms_is_told():
    assert code_lines(CLEAN, {"base": [CLEAN, CLEAN], "sft": [DIRTY, CLEAN], "rl": [], "plain": [CLEAN]}) == [
        "freeze: commit aaaaaaaaaaaa, clean",
        "arms base, plain: commit aaaaaaaaaaaa, clean",
        "arm sft: commit aaaaaaaaaaaa, dirty (2 files), then commit aaaaaaaaaaaa, clean",
        "arm rl: not played",
    ]
    assert code_warnings(CLEAN, {"base": [CLEAN]}) == []
    assert code_warnings(CLEAN, {"base": [CLEAN], "sft": [CLEAN, DIRTY]})[0].startswith(
        "DIRTY: made from code with uncommitted changes (arm sft)"
    )
    assert "differ (aaaaaaaaaaaa, bbbbbbbbbbbb)" in code_warnings(CLEAN, {"base": [OTHER]})[0]
    assert "outside a git checkout" in code_warnings({"git_commit": None}, {})[0]


def test_a_dirty_tree_stands_on_the_front_page(config, monkeypatch):
    import eval.freeze

    monkeypatch.setattr(eval.freeze, "provenance", lambda: {**provenance(), **CLEAN})
    freeze(config)
    for arm, state in (("expert", CLEAN), ("never_read", {**DIRTY, "git_commit": "b" * 40})):
        monkeypatch.setattr(player, "provenance", lambda state=state: {**provenance(), **state})
        run(config, [arm])
    score(config)
    page, twin = report(config).read_text(), (config.folder / "report.md").read_text()
    for text in (page, twin):
        head = text[: text.index("Main table")]
        assert "arm never_read: commit bbbbbbbbbbbb, dirty (2 files)" in head
        assert "arm expert: commit aaaaaaaaaaaa, clean" in head
        assert "DIRTY: made from code with uncommitted changes (arm never_read)" in head
        assert "The commits of freeze and arms differ" in head


def test_the_config_that_a_freeze_leaves_can_be_run(config):
    freeze(config)
    done = CliRunner().invoke(app, ["run", str(config.folder / "eval.yaml"), "--arm", "expert"])
    assert done.exit_code == 0, done.output
    assert "expert: 2 played" in done.output
