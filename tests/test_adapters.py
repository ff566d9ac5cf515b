"""Shipped adapters: what is written, that a chain makes the weights of the run, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from envs.chat import get_chat
from envs.config import UserError
from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.policies.smollm2 import load_model
from envs.profiles import get_profile
from envs.runs import DataError, read_json, write_jsonl_atomic
from envs.tasks import get_family
from envs.tasks.probes import make_probes
from rl.__main__ import app
from rl.adapters import Shipped, merge, read_shipped, ship
from rl.card import adapter_card
from rl.config import RLConfig
from rl.run import run as run_rl
from sft.config import SFTStageConfig
from sft.run import run as run_sft

pytestmark = pytest.mark.usefixtures("one_thread")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """An SFT run with an adapter, shipped and merged; an RL run with another on top of that, shipped."""
    out = tmp_path_factory.mktemp("adapters")
    chat = get_chat("tiny")
    episodes = [Episode(get_family(name).generate(5), get_profile("core@1"), chat) for name in ("support", "procurement")]
    play(episodes, Expert(chat))
    write_jsonl_atomic(out / "trajectories.jsonl", [e.trajectory("expert") for e in episodes])
    fields = {
        "model": "tiny", "data": str(out), "out": str(out / "sft"), "max_row_tokens": 4096, "lora": {"r": 2}, "eval_share": 0,
        "trainer": {"max_steps": 3, "save_steps": 3, "learning_rate": 0.05, "warmup_steps": 0},
    }  # fmt: skip
    run_sft(SFTStageConfig.model_validate(fields))
    ship(out / "sft", out / "ship-sft")
    merge([out / "ship-sft"], out / "model-sft")
    found = next(p for seed in range(40) if (p := make_probes("support", seed, "static", chat)))
    write_jsonl_atomic(out / "probes.jsonl", found)
    settings = {
        "model": str(out / "model-sft"), "probes": str(out / "probes.jsonl"), "out": str(out / "rl"), "steps": 1,
        "episodes_per_step": 2, "group_size": 2, "micro_batch": 2, "max_turns": 1, "wandb": {"mode": "disabled"},
        "lora": {"r": 2, "init_lora_weights": False},
    }  # fmt: skip
    run_rl(RLConfig.model_validate(settings), progress=False)
    ship(out / "rl", out / "ship-rl", on=[out / "ship-sft"])
    return out


def test_an_sft_run_with_lora_keeps_its_adapter_beside_the_merged_model(folder):
    assert read_json(folder / "sft/adapter/adapter_config.json")["r"] == 2
    start, end = (load_model(name, dtype="float32").state_dict() for name in ("tiny", str(folder / "sft/model")))
    assert any(not torch.equal(value, start[name]) for name, value in end.items()), "the adapter changed something"


def test_the_merged_chain_is_the_run_but_for_the_rounding_of_the_adapters(folder):
    merge([folder / "ship-sft", folder / "ship-rl"], folder / "model-rl")
    for run, made in (("sft", "model-sft"), ("rl", "model-rl")):
        trained, merged = (load_model(str(p), dtype="float32").state_dict() for p in (folder / run / "model", folder / made))
        start = load_model("tiny", dtype="float32").state_dict()
        assert merged.keys() == trained.keys()
        for name, value in trained.items():
            moved = (value - start[name]).abs().max()
            # bf16 keeps eight bits of either matrix of the product.
            assert (merged[name] - value).abs().max() <= 0.03 * moved + 1e-7, name


def test_what_is_shipped_is_bf16_says_what_it_was_made_of_and_names_no_path(folder):
    about = read_shipped(folder / "ship-rl")
    assert {t.dtype for t in load_file(folder / "ship-rl/adapter_model.safetensors").values()} == {torch.bfloat16}
    assert (about.stage, about.base, about.rank) == ("rl", "tiny", 2)
    assert about.on == [read_shipped(folder / "ship-sft").sha256]
    assert len(about.data["probes"]) == 64
    card = (folder / "ship-rl/README.md").read_text()
    assert "standing on 1 other adapter of this repository" in card
    assert f"python -m rl merge {folder / 'ship-sft'} {folder / 'ship-rl'} --out runs/models/rl" in card
    assert "group_size: 2" in card
    for file in ("adapter_config.json", "shipped.json"):
        assert str(folder.parent) not in (folder / "ship-sft" / file).read_text()


def test_the_same_merge_is_left_as_it_is_and_a_folder_with_something_else_is_not_overwritten(folder, tmp_path):
    out = tmp_path / "model"
    merge([folder / "ship-sft"], out)
    before = (out / "model.safetensors").stat().st_mtime_ns
    merge([folder / "ship-sft"], out)
    assert (out / "model.safetensors").stat().st_mtime_ns == before
    (tmp_path / "mine").mkdir()
    with pytest.raises(UserError, match=r"mine: exists and holds no merged adapters: choose another folder with --out"):
        merge([folder / "ship-sft"], tmp_path / "mine")


def test_an_adapter_stands_on_its_own_chain_alone(folder, tmp_path):
    with pytest.raises(UserError, match=r"ship-rl: stands on 1 other adapter\(s\), not on the start weights"):
        merge([folder / "ship-rl"], tmp_path / "model")
    with pytest.raises(UserError, match=r"rl: started from ship-sft: name these adapters with --on, the lowest first"):
        ship(folder / "rl", tmp_path / "shipped")
    shutil.copytree(folder / "rl", tmp_path / "rl")
    config = (tmp_path / "rl/config.yaml").read_text()
    (tmp_path / "rl/config.yaml").write_text(config.replace(str(folder / "model-sft"), str(folder / "sft/model")))
    with pytest.raises(UserError, match=r"which no shipped adapters made: start from what python -m rl merge writes"):
        ship(tmp_path / "rl", tmp_path / "shipped", on=[folder / "ship-sft"])


def test_changed_weights_are_noticed(folder, tmp_path):
    shutil.copytree(folder / "ship-sft", tmp_path / "copy")
    tensors = load_file(tmp_path / "copy/adapter_model.safetensors")
    save_file({name: t + 1 for name, t in tensors.items()}, tmp_path / "copy/adapter_model.safetensors")
    with pytest.raises(DataError, match=r"adapter_model.safetensors: not the file that shipped.json was written for"):
        merge([tmp_path / "copy"], tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_runs_without_an_adapter_and_unfinished_ones_are_refused(folder, tmp_path):
    shutil.copytree(folder / "sft", tmp_path / "run")
    shutil.rmtree(tmp_path / "run/adapter")
    with pytest.raises(UserError, match=r"no adapter there: only a run with lora has one"):
        ship(tmp_path / "run", tmp_path / "shipped")
    (tmp_path / "run/done.json").unlink()
    with pytest.raises(UserError, match=r"the run is unfinished"):
        ship(tmp_path / "run", tmp_path / "shipped")


def test_command_line(folder, tmp_path):
    runner = CliRunner()
    done = runner.invoke(app, ["ship", str(folder / "sft"), str(tmp_path / "a")])
    assert done.exit_code == 0, done.output
    assert "sft, rank 2" in done.output
    done = runner.invoke(app, ["merge", str(tmp_path / "a"), "--out", str(tmp_path / "m")])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "m/merged.json").read_text())["names"] == ["a"]
    done = runner.invoke(app, ["ship", str(folder / "sft"), str(tmp_path / "b"), "--weights", "bst"])
    assert done.exit_code == 2
    assert "best" in done.output


def test_the_card_of_weights_trained_on_plain_history_claims_no_protocol():
    for name, says in (
        ("sft-plain", "answer from plain history (plain@1)"),
        ("sft-s0-first", "act under the context protocol core@1"),
    ):
        folder = ROOT / "adapters" / name
        made = adapter_card(Shipped.model_validate(read_json(folder / "shipped.json")), [f"adapters/{name}"])
        assert says in made
        assert ("note, fold, compress" in made) == (name != "sft-plain")
        assert made == (folder / "README.md").read_text(), "the card in the repository is what is written today"
