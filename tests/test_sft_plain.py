"""The arm that is trained on plain history: its data, its rows, its plan, its run, from the configs in the checkout."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from data_gen.config import DataConfig
from data_gen.run import run as make_data
from envs.chat import get_chat
from envs.config import load_config
from envs.runs import read_jsonl
from envs.trajectory import Trajectory
from sft.__main__ import app
from sft.config import SFTStageConfig
from sft.rows import segment_rows

CONFIGS = Path(__file__).parents[1] / "configs"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    out = tmp_path_factory.mktemp("plain")
    small = ["plain=null", "counts.plain=9", "sizes={turns: [2, 3], fillers: [1, 2]}", f"out={out}"]
    make_data(load_config(DataConfig, CONFIGS / "data_plain.yaml", small))
    return out


def test_a_session_of_plain_history_is_one_row_that_trains_every_right_turn(plain):
    chat = get_chat("tiny")
    trajectories = read_jsonl(plain / "trajectories.jsonl", model=Trajectory)
    assert {t.profile for t in trajectories} == {"plain@1"}
    for t in trajectories:
        (row,), dropped = segment_rows(t, chat)
        assert dropped == 0
        assert [row.input_ids[a:b] for a, b in row.turns()] == [i.ids for i in t.inferences if i.trained]
        text = chat.tokenizer.decode(row.input_ids)
        assert "fold" not in {o.tool for i in t.inferences for o in i.outcomes}
        assert all(e["text"] in text for e in t.events if e["role"] == "user")  # nothing left the view


def test_plan_then_run(plain, tmp_path):
    runner = CliRunner()
    command = [str(CONFIGS / "sft_plain.yaml"), "model=tiny", f"data={plain}", f"out={tmp_path / 'run'}", "wandb.mode=disabled"]
    command += ["eval_share=0.2", "trainer.logging_steps=1"]
    planned = runner.invoke(app, [*command, "--plan"])
    assert planned.exit_code == 0, planned.output
    told = json.loads(planned.stdout[planned.stdout.index("{") :])
    assert told["rows"] == told["train_rows"] + told["held_out_rows"] == 9
    assert told["layout"] == "tree"
    assert told["steps"] == -(-told["train_rows"] // 4)
    assert 0 < told["trained_tokens"] < told["tokens"]
    assert told["minutes"] > 0
    assert not (tmp_path / "run").exists()
    done = runner.invoke(app, command)
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "run" / "done.json").read_text())
    assert result["steps"] == told["steps"]
    assert result["tokens"] == told["train_tokens"]
    assert set(result["held_out"]["exact_turns_by_kind"]) == {"plain"}
    assert (tmp_path / "run" / "model" / "config.json").is_file()


def test_plan_of_padded_rows_and_without_the_weights(plain, tmp_path, monkeypatch, capsys):
    from sft.plan import plan

    settings = ["model=tiny", f"data={plain}", f"out={tmp_path / 'run'}", "share_prefix=false"]
    config = load_config(SFTStageConfig, CONFIGS / "sft_plain.yaml", settings)
    with monkeypatch.context() as patched:
        patched.setattr("sft.plan._seconds", lambda config, arguments, batch: 0.01 * sum(len(r.input_ids) for r in batch))
        padded = plan(config)
    assert padded["layout"] == "padded"
    assert padded["tokens_per_second"] == 100
    assert padded["minutes"] == pytest.approx(0.01 * padded["train_tokens"] / 60, rel=0.3)  # steps are whole, an epoch isn't
    assert 0 < padded["padding_share"] < 0.5
    nowhere = plan(config.model_copy(update={"qlora": True}))  # this machine can't hold the weights
    assert nowhere["minutes"] is None
    assert nowhere["steps"] == padded["steps"]
    assert "plan: no time: qlora: true, but" in capsys.readouterr().err
