"""SFT runs with the real wandb offline: names, samples, one run over an interruption, faults that stop nothing."""

import json
import re

import pytest

from envs.tracking import offline_runs, warnings
from sft import run as stage
from sft.trainer import SegmentTrainer
from tests.test_sft_trainer import data, make_config  # noqa: F401  (data is a fixture)
from tests.test_tracking import _quiet, _raise  # noqa: F401  (a fixture)
from tests.wandb_files import figures, history

OFFLINE = {"wandb": {"mode": "offline"}, "eval_share": 0.25, "trainer": {"max_steps": 4, "save_steps": 2}}


def test_interrupted_run_is_one_tracked_run(data, tmp_path, monkeypatch):  # noqa: F811
    config = make_config(data, tmp_path / "run", eval_every=2, **OFFLINE)
    original = SegmentTrainer.training_step

    def torn(self, *args, **kwargs):
        if self.state.global_step == 3:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(SegmentTrainer, "training_step", torn)
        with pytest.raises(KeyboardInterrupt):
            stage.run(config)
    done = stage.run(config)
    assert len(offline_runs(tmp_path / "run")) == 2
    told = figures(tmp_path / "run")
    assert len(told) == len(set(told))  # step 3 was trained twice and is told once
    assert [step for step, name in told if name == "loss"] == [1, 2, 3, 4]
    assert [step for step, name in told if name == "val/loss"] == [2, 4]
    assert [step for step, _ in told] == sorted(step for step, _ in told)
    names = {name for _, name in told}
    assert {"rows/padding", "rows/shared", "rows/trained_share", "val/exact_turns", "val/loss/test", "samples"} <= names
    assert not {"padding_share", "shared_share"} & names
    shares = [row["rows/trained_share"] for row in history(tmp_path / "run") if "rows/trained_share" in row]
    assert all(0 < share < 1 for share in shares)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "val/loss" in line] == [2, 4]
    assert lines[-1]["val/loss" if "val/loss" in lines[-1] else "loss"] is not None
    assert done["loss"] == next(line["loss"] for line in reversed(lines) if "loss" in line)
    (table,) = (offline_runs(tmp_path / "run")[1] / "files" / "media" / "table").glob("samples*.json")
    shown = json.loads(table.read_text())
    assert shown["columns"] == ["id", "family", "variant", "transcript", "q", "tokens", "view", "exact_turns"]
    row = dict(zip(shown["columns"], shown["data"][0], strict=True))
    assert row["family"] == "test"
    assert "    model: " in row["transcript"]  # a random model says something else
    assert "user: " in row["view"]


def test_validation_on_the_way_changes_no_weight(data, tmp_path):  # noqa: F811
    from tests.test_sft_trainer import same, weights

    changes = {"eval_share": 0.25, "trainer": {"max_steps": 2, "save_strategy": "no"}}
    stage.run(make_config(data, tmp_path / "plain", **changes))
    stage.run(make_config(data, tmp_path / "watched", eval_every=1, **changes))
    assert same(weights(tmp_path / "plain" / "model"), weights(tmp_path / "watched" / "model"))


@pytest.mark.parametrize(
    "target", ["wandb.init", "wandb.sdk.wandb_run.Run.log", "wandb.sdk.wandb_run.Run.finish", "sft.evaluate.sample_rows"]
)
def test_fault_of_tracking_stops_no_training(data, tmp_path, monkeypatch, capfd, target):  # noqa: F811
    monkeypatch.setattr(target, _raise)
    done = stage.run(make_config(data, tmp_path / "run", **{**OFFLINE, "trainer": {"max_steps": 1}}))
    assert done["steps"] == 1
    assert (tmp_path / "run" / "done.json").is_file()
    told = re.findall("tracking off: .*", capfd.readouterr().err)
    assert told == warnings(tmp_path / "run")
    assert len(told) == 1
    assert "out of order" in told[0]
