"""The whole pipeline on a random model: every stage for real, interrupted and resumed; its mistakes, one line each."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envs.config import ConfigError
from pipeline import load, merged, stage_configs, table

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "configs/demo.yaml"


def command(out: Path, *more: str) -> list[str]:
    return [sys.executable, "pipeline.py", "configs/demo.yaml", "model=tiny", f"out={out}", *more]


def run(out: Path, *more: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(out, *more), cwd=ROOT, capture_output=True, text=True, timeout=500)
    if check:
        assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_merged_goes_section_by_section():
    assert merged({"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": 5}}) == {"a": {"x": 1, "y": 5}, "b": 3}


def test_preset_lies_between_file_and_overrides():
    config = load(DEMO, ["model=tiny", "rl.steps=7"])
    assert config.name == "demo-tiny"
    assert config.rl["steps"] == 7
    assert config.rl["group_size"] == 2
    assert load(DEMO, []).name == "demo"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("sft.max_minuets=3", ("section sft", "did you mean 'max_minutes'")),
        ("rl.stepps=3", ("section rl", "did you mean 'steps'")),
        ("data.families=[travle]", ("section data", "travle")),
        ("eval.arms.sft.polcy=hf", ("section eval", "did you mean 'policy'")),
        ("sft.trainer.learning_rte=1", ("section sft", "learning_rate")),
    ],
)
def test_a_wrong_key_names_section_and_nearest_name(override, words):
    with pytest.raises(ConfigError) as caught:
        stage_configs(load(DEMO, ["model=tiny", override]), "configs/demo.yaml")
    text = str(caught.value)
    assert "\n" not in text
    assert all(w in text for w in words), text


def test_the_table_prints_means_intervals_and_counts():
    text = table({"arms": {"base": {"pair_success": {"mean": 0.5, "lo": 0.25, "hi": 0.75, "n": 8}}}})
    assert "| base | 0.50 [0.25, 0.75] n=8 | - | - |" in text


def test_a_missing_model_is_one_clear_line(tmp_path):
    run(tmp_path / "r", "--stop-after", "data")
    done = run(tmp_path / "r", "sft.model=no/such-model-here", "--stop-after", "sft", check=False)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert "no/such-model-here" in last
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A tiny run that was interrupted once in each of the long stages and then finished by the same command."""
    out = tmp_path_factory.mktemp("demo") / "run"
    for marker in ("sft/metrics.jsonl", "rl/metrics.jsonl"):
        child = subprocess.Popen(command(out), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 300
        while not (out / marker).exists() and child.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        if child.poll() is None:
            os.kill(child.pid, signal.SIGINT)
        assert child.stderr is not None
        text = child.stderr.read()
        assert child.wait(timeout=120) in (0, 130), text[-3000:]
    run(out)
    return out


def test_an_interrupted_run_goes_on_to_results_and_report(finished):
    results = json.loads((finished / "results.json").read_text())
    assert {"plain", "plain_truncated", "pinned", "base", "prompt", "sft", "rl", "expert"} <= set(results["arms"])
    assert results["lock"]
    for metric in ("pair_success", "task_correct", "tokens"):
        assert set(results["arms"]["expert"][metric]) >= {"mean", "lo", "hi", "n"}
    assert results["arms"]["expert"]["pair_success"]["mean"] == 1.0
    assert results["arms"]["base"]["pair_success"]["mean"] == 0.0
    assert isinstance(results["paired"], list)
    assert results["paired"]
    assert "pair_success" in (finished / "report.md").read_text()
    page = (finished / "report.html").read_text()
    assert (finished / "episodes.html").stat().st_size > 10_000
    assert 'href="episodes.html#' in page  # the worst episodes, to step through
    assert "<svg" in page or "data:image/png" in page
    assert not re.search(r'(?:src|href)="(?!#|data:|episodes\.html#)', page), "the page loads something from outside itself"


def test_rl_took_real_steps_from_real_episodes(finished):
    steps = [json.loads(line) for line in (finished / "rl/metrics.jsonl").read_text().splitlines()]
    numbers = [s["step"] for s in steps if "reward/q" in s]
    assert numbers == sorted(set(numbers)), "no step is logged twice after a resume"
    assert numbers[-1] == 2
    last = next(s for s in reversed(steps) if "reward/q" in s)
    assert {"reward/q", "reward/s", "episode/segments"} <= set(last)
    gaps = [v for k, v in last.items() if k.startswith("logp_gap")]
    assert gaps
    assert max(gaps) <= 1e-4


def test_finished_work_is_not_repeated(finished):
    before = {p: p.stat().st_mtime_ns for p in finished.rglob("episodes.jsonl")} | {
        p: p.stat().st_mtime_ns for p in (finished / "sft/model").glob("*.safetensors")
    }
    run(finished)
    assert before == {p: p.stat().st_mtime_ns for p in before}


def test_a_changed_lock_is_one_clear_line(finished):
    done = run(finished, "eval.decoding.max_new_tokens=50", check=False)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert "lock" in last
    assert "Traceback" not in done.stderr
