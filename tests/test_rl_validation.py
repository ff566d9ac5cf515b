"""Validation during training: the frozen definitions, a line a probe, the best weights, and none of it touches what is trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rl_moving import config as moving_config
from rl_moving import equal, patch, write_probes
from transformers import TrainerCallback

from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.runs import read_jsonl
from envs.scoring import score
from envs.tasks.probes import make_probes
from eval.metrics import METRICS, Row
from rl.config import RLConfig
from rl.outcome import Outcome
from rl.run import run
from rl.validation import best_of, better, lines_of, metrics_of, read_validations, store

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def played(chat):
    """Probes of three families with the expert's scores; every third one is spoilt, so that not all is right."""
    found = []
    for family in ("support", "release", "procurement"):
        for kind in ("static", "changed", "never"):
            groups = (make_probes(family, seed, kind, chat) for seed in range(40))
            found += next(g for g in groups if g)
    episodes = [Episode.from_probe(p, get_profile("core@1"), chat) for p in found]
    play(episodes, Expert(chat))
    scores = [score(e.trajectory("expert")) for e in episodes]
    spoilt = [
        s.model_copy(update={"task_correct": False, "recovered": False, "q": 0.0}) if i % 3 == 0 else s
        for i, s in enumerate(scores)
    ]
    return found, spoilt


def outcomes(scores):
    return [Outcome(q=s.q, s=0.5, fully_right=s.fully_right, quality_step=s.quality_step, score=s) for s in scores]


def test_validation_counts_as_the_frozen_evaluation_does(played):
    probes, scores = played
    rows = [
        Row(arm="rl", sample=p.id, source="probe", base=p.base, family=p.family, variant=p.variant, signal=p.signal, twin=p.twin,
            hinted=p.hint != "none", managed=True, score=s)
        for p, s in zip(probes, scores, strict=True)
    ]  # fmt: skip
    found = metrics_of(lines_of(probes, outcomes(scores), 7))
    same = {"q": "quality", "pair_success": "pair_success", "task_correct": "task_correct", "tokens": "tokens",
            "detect/recall": "detection_recall", "detect/false_alarm": "detection_false_alarm"}  # fmt: skip
    for ours, theirs in same.items():
        by_family: dict[str, list[float]] = {}
        for unit in METRICS[theirs].units(rows):
            by_family.setdefault(unit.family, []).append(unit.num / unit.den)
        assert len(by_family) == 3
        for family, values in by_family.items():
            assert found[f"{ours}/{family}"] == pytest.approx(sum(values) / len(values)), (ours, family)
        means = [sum(v) / len(v) for v in by_family.values()]
        assert found[ours] == pytest.approx(sum(means) / 3)
    assert 0 < found["pair_success"] < 1


def test_lines_name_the_probe_and_leave_out_what_the_backend_spoilt(played):
    probes, scores = played
    judged = outcomes(scores)
    judged[1] = replace(judged[1], excluded=True)
    lines = lines_of(probes, judged, 3)
    assert [x["id"] for x in lines] == [p.id for i, p in enumerate(probes) if i != 1]
    assert {x["step"] for x in lines} == {3}
    json.dumps(lines)


def test_the_best_has_most_pair_success_then_fewest_tokens():
    found = {
        0: {"pair_success": 0.5, "tokens": 900.0},
        10: {"pair_success": 0.6, "tokens": 990.0},
        20: {"pair_success": 0.6, "tokens": 950.0},
    }
    assert best_of(found) == 20
    assert best_of({**found, 30: {"pair_success": 0.6, "tokens": 950.0}}) == 20, "the earliest among equals"
    assert not better(found[0], found[10])
    assert best_of({0: {"q": 0.1}, 5: {"q": 0.2}}) == 5, "by quality where there are no pairs"
    assert best_of({}) is None


def test_a_validation_is_stored_whole_and_once(tmp_path):
    store(tmp_path, 0, [{"step": 0, "id": "a"}, {"step": 0, "id": "b"}])
    store(tmp_path, 5, [{"step": 5, "id": "a"}])
    store(tmp_path, 5, [{"step": 5, "id": "a", "again": 1}])
    assert {s: len(x) for s, x in read_validations(tmp_path).items()} == {0: 2, 5: 1}
    assert read_validations(tmp_path)[5][0]["again"] == 1


@pytest.fixture(scope="module")
def probe_file(tmp_path_factory) -> Path:
    return write_probes(tmp_path_factory.mktemp("data") / "probes.jsonl")


@pytest.fixture
def moving(monkeypatch):
    patch(monkeypatch)


def config(probes: Path, out: Path, **more) -> RLConfig:
    return moving_config(probes, out, **{"val_probes": str(probes), "val_every": 2, "save_every": 10, "max_turns": 1, **more})


class KillAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args, state, control, **kwargs) -> None:
        if state.global_step + 1 == self.step:
            raise KeyboardInterrupt


@pytest.mark.usefixtures("moving")
def test_a_run_validates_at_start_between_and_at_the_end_and_keeps_the_best(probe_file, tmp_path, monkeypatch):
    marks = {0: 0.1, 2: 0.9, 3: 0.5}
    monkeypatch.setattr("rl.best.metrics_of", lambda lines: {"q": marks[lines[0]["step"]], "tokens": 1.0})
    done = run(config(probe_file, tmp_path / "a"), progress=False)
    lines = read_jsonl(tmp_path / "a" / "validation.jsonl")
    per_probe = len(read_jsonl(probe_file))
    assert [x["step"] for x in lines] == [0] * per_probe + [2] * per_probe + [3] * per_probe
    logged = read_jsonl(tmp_path / "a" / "metrics.jsonl")
    assert [x["step"] for x in logged if "val/pair_success/support" in x] == [0, 2, 3]
    assert {"val/q", "val/tokens/support", "val/detect/recall", "val/detect/false_alarm/support"} <= set(logged[0])
    assert done["best"]["step"] == 2
    assert done["best"]["model"] == str(tmp_path / "a" / "best")
    assert (tmp_path / "a" / "best" / "tokenizer.json").is_file()
    assert equal(tmp_path / "a" / "best", tmp_path / "a" / "checkpoint-2")
    assert not equal(tmp_path / "a" / "best", tmp_path / "a" / "model")

    # Killed after the best checkpoint and resumed: the same best, the same lines, the same weights.
    with pytest.raises(KeyboardInterrupt):
        run(config(probe_file, tmp_path / "b"), progress=False, callbacks=[KillAt(3)])
    (tmp_path / "b" / "best").rename(tmp_path / "gone")  # as if killed between the checkpoint and the best weights
    again = run(config(probe_file, tmp_path / "b"), progress=False)
    assert again["best"]["step"] == 2
    assert read_jsonl(tmp_path / "b" / "validation.jsonl") == lines
    for name in ("best", "model"):
        assert equal(tmp_path / "a" / name, tmp_path / "b" / name), name


@pytest.mark.usefixtures("moving")
def test_validation_leaves_the_training_as_it_is(probe_file, tmp_path):
    run(config(probe_file, tmp_path / "a", steps=2, val_every=1), progress=False)
    run(config(probe_file, tmp_path / "b", steps=2, val_probes=None), progress=False)
    assert equal(tmp_path / "a" / "model", tmp_path / "b" / "model")
    assert not (tmp_path / "b" / "best").exists()
    assert not (tmp_path / "b" / "validation.jsonl").exists()
