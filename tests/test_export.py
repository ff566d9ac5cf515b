"""Export: merged weights, the card's hashes, and what is refused."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from envs.chat import ChatML, get_chat
from envs.chat_template import chat_template
from envs.config import UserError, load_config
from envs.episode import Episode, play
from envs.hashes import protocol_hash, rules_record
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.runs import DataError, append_jsonl, read_json, sha256_file, write_json_atomic, write_jsonl_atomic
from envs.tasks import get_family
from envs.tasks.probes import make_probes
from envs.trajectory import Trajectory
from eval.config import EvalConfig
from eval.freeze import freeze
from rl.__main__ import app
from rl.config import RLConfig
from rl.export import check, export, read_export
from rl.origin import base_of, lineage, read_origin
from rl.run import made_of, run
from sft.config import SFTStageConfig
from sft.run import run as run_sft

pytestmark = pytest.mark.usefixtures("one_thread")


def settings(probes: Path, out: Path, **more) -> RLConfig:
    return RLConfig.model_validate(
        {
            "model": "tiny", "probes": str(probes), "out": str(out), "steps": 2, "episodes_per_step": 4, "group_size": 2,
            "micro_batch": 2, "max_turns": 1, "save_every": 1, "wandb": {"mode": "disabled"}, "trainer": {"learning_rate": 0.01},
            "ablation": ["permuted_advantages"], "lora": {"r": 2, "init_lora_weights": False},
            **more,
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def probes(tmp_path_factory) -> Path:
    chat = get_chat("tiny")
    found = next(p for seed in range(40) if (p := make_probes("support", seed, "static", chat)))
    path = tmp_path_factory.mktemp("data") / "probes.jsonl"
    write_jsonl_atomic(path, found)
    return path


@pytest.fixture(scope="module")
def trajectories() -> list[Trajectory]:
    chat = get_chat("tiny")
    episodes = [Episode(get_family(name).generate(5), get_profile("core@1"), chat) for name in ("support", "procurement")]
    play(episodes, Expert(chat))
    return [e.trajectory("expert") for e in episodes]


@pytest.fixture(scope="module")
def trained(probes, tmp_path_factory) -> Path:
    """A finished RL run with an adapter (not the identity: its matrices are random from the start)."""
    out = tmp_path_factory.mktemp("runs") / "rl"
    run(settings(probes, out, val_probes=str(probes), val_every=1), progress=False)
    return out


@pytest.fixture(scope="module")
def tuned(trajectories, tmp_path_factory) -> Path:
    """A finished SFT run with an adapter."""
    out = tmp_path_factory.mktemp("runs") / "sft"
    write_jsonl_atomic(out.parent / "trajectories.jsonl", trajectories)
    fields = {
        "model": "tiny", "data": str(out.parent), "out": str(out), "max_row_tokens": 4096, "lora": {"r": 2}, "eval_share": 0,
        "trainer": {"max_steps": 1, "save_steps": 1},
    }  # fmt: skip
    run_sft(SFTStageConfig.model_validate(fields))
    return out


@pytest.fixture(scope="module")
def lock(probes, tmp_path_factory) -> Path:
    config = EvalConfig(
        name="e",
        out=str(tmp_path_factory.mktemp("eval")),
        probes=str(probes),
        arms={"expert": {"policy": "expert"}},
        tokenizer="tiny",
    )
    freeze(config)
    return config.folder / "lock.json"


@pytest.fixture
def made(trained, tmp_path) -> Path:
    return export(trained, tmp_path / "made")[0]


# -- weights ---------------------------------------------------------------------------------------------------------


def test_a_checkpoint_merges_to_the_weights_of_the_run_and_bf16_is_one_rounding(trained, tmp_path):
    start = load_file(Path(load_model_folder("tiny")) / "model.safetensors")
    whole, about = export(trained, tmp_path / "a", weights="checkpoint-2", dtype="float32")
    final = load_file(trained / "model" / "model.safetensors")
    merged = load_file(whole / "model.safetensors")
    assert about.adapter
    assert about.rounding is None
    assert merged.keys() == final.keys()
    for name, value in merged.items():
        torch.testing.assert_close(value, final[name], rtol=0, atol=1e-6)
    assert any(not torch.equal(value, start[name].float()) for name, value in merged.items()), "the adapter changed something"

    half, about = export(trained, tmp_path / "b", weights="checkpoint-2", dtype="bfloat16")
    rounded = load_file(half / "model.safetensors")
    assert all(torch.equal(rounded[name], value.bfloat16()) for name, value in merged.items())
    gaps = [(value - value.bfloat16().float()).abs() for value in merged.values()]
    assert about.rounding.largest == max(gap.max().item() for gap in gaps)
    assert about.rounding.changed == sum(int((gap > 0).sum()) for gap in gaps) / sum(gap.numel() for gap in gaps)


def load_model_folder(name: str) -> str:
    from envs.policies.smollm2 import resolve_model

    return resolve_model(name)


def test_the_folder_loads_and_ends_its_turns(made):
    model = AutoModelForCausalLM.from_pretrained(made)
    tokenizer = AutoTokenizer.from_pretrained(made)
    assert model.dtype == torch.bfloat16
    assert model.generation_config.eos_token_id == [2, 0]
    assert model.generation_config.do_sample is False
    assert model.config.eos_token_id == tokenizer.eos_token_id == 2
    assert tokenizer.chat_template == (made / "chat_template.jinja").read_text() == chat_template(ChatML(tokenizer))


# -- hashes and card -------------------------------------------------------------------------------------------------


def test_card_and_json_carry_data_protocol_and_lock(trained, probes, lock, tmp_path):
    folder, about = export(trained, tmp_path / "x", weights="best", lock=lock, licence="mit")
    data, protocol = sha256_file(probes), protocol_hash(get_profile("core@1"), get_chat("tiny"))
    assert about.lineage == [{"stage": "rl", "run": "rl", "data": {"probes": data, "val_probes": data}}]
    assert about.rules == rules_record([("core@1", "neutral")], get_chat("tiny"))
    assert about.lock == {"name": "e", "lock": read_json(lock)["lock"]}
    assert about.step == read_json(trained / "best" / "best.json")["step"]
    text = (folder / "README.md").read_text()
    prompt = about.rules["prompt"]["core@1 neutral"]
    for needed in (data, protocol, about.lock["lock"], prompt, "license: mit", "best validation", "learning_rate"):
        assert needed in text
    assert str(probes) not in text + (folder / "export.json").read_text()
    assert check(folder) == about == read_export(folder)


def test_a_lock_of_other_rules_is_refused(trained, lock, tmp_path):
    held = read_json(lock)

    def changed(rules) -> Path:
        write_json_atomic(tmp_path / "other.json", {**held, "rules": rules})
        return tmp_path / "other.json"

    with pytest.raises(UserError, match=r"freezes profile plain@1, the run trained under core@1"):
        export(trained, tmp_path / "x", lock=changed({k.replace("core@1", "plain@1"): v for k, v in held["rules"].items()}))
    for entry, said in (
        ("source.play.envs/view.py", "another version of the rules"),
        ("profile.core@1", "another version of the rules"),
        ("prompt.maintenance", "another version of the rules"),
        ("prompt.core@1.neutral", "lock: prompt core@1 neutral"),
    ):
        assert entry in held["rules"]
        with pytest.raises(UserError, match=said):
            export(trained, tmp_path / "x", lock=changed({**held["rules"], entry: "0" * 16}))
    with pytest.raises(DataError, match="not an evaluation's lock"):
        export(trained, tmp_path / "x", lock=trained / "done.json")
    assert not (tmp_path / "x").exists()


def test_an_rl_run_is_followed_back_through_sft(trained, tuned, tmp_path):
    begun = tmp_path / "rl"
    shutil.copytree(trained, begun, ignore=shutil.ignore_patterns("checkpoint-*"))
    config = begun / "config.yaml"
    config.write_text(config.read_text().replace("model: tiny", f"model: {tuned / 'model'}"))
    runs = list(lineage(read_origin(begun)))
    assert [r.stage for r in runs] == ["rl", "sft"]
    assert base_of(runs) == {"name": "tiny", "hub": None, "licence": "apache-2.0"}
    about = export(begun)[1]
    data = sha256_file(tuned.parent / "trajectories.jsonl")
    assert about.lineage[1] == {"stage": "sft", "run": "sft", "data": {"data": data}}
    assert about.base["name"] == "tiny"


def test_an_sft_run_is_exported(tuned, tmp_path):
    folder, about = export(tuned)
    assert folder == tuned / "export-final"
    assert about.lineage[0]["data"] == {"data": sha256_file(tuned.parent / "trajectories.jsonl")}
    assert about.rules == rules_record([("core@1", "neutral")], get_chat("tiny"))
    assert not about.rules_now
    assert check(folder).stage == "sft"
    old = tmp_path / "old"
    shutil.copytree(tuned, old, ignore=shutil.ignore_patterns("export-*"))
    write_json_atomic(old / "run.json", {k: v for k, v in read_json(old / "run.json").items() if k != "rules"})
    folder, about = export(old)
    assert about.rules_now
    assert "The run recorded no such hashes" in (folder / "README.md").read_text()


# -- refusals --------------------------------------------------------------------------------------------------------


def test_what_was_changed_after_the_export_is_found(made):
    (made / "model-2.safetensors").write_bytes(b"x")
    with pytest.raises(DataError, match=r"model-2.safetensors: weights that weren't exported"):
        check(made)
    (made / "model-2.safetensors").unlink()
    with (made / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    with pytest.raises(DataError, match=r"model.safetensors: SHA-256"):
        check(made)
    (made / "config.json").unlink()
    with pytest.raises(DataError, match=r"config.json: no such file"):
        check(made)


def test_an_export_that_is_there(trained, made):
    before = (made / "model.safetensors").stat().st_mtime_ns
    assert export(trained, made)[0] == made
    assert (made / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="holds another export"):
        export(trained, made, dtype="float32")
    with pytest.raises(UserError, match="exists and is no export"):
        export(trained, made.parent)
    assert not list(made.parent.glob("*.partial"))


def test_runs_that_cant_be_exported(trained, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    (copy / "done.json").unlink()
    with pytest.raises(UserError, match=r"unfinished.*--weights NAME \(weights here: final, best, checkpoint-1, checkpoint-2\)"):
        export(copy)
    assert export(copy, weights="checkpoint-1")[1].step == 1
    with pytest.raises(UserError, match="did you mean 'checkpoint-2'"):
        export(copy, weights="checkpoint-22")
    (copy / "checkpoint-2" / "complete.json").unlink()
    with pytest.raises(UserError, match="weights here: final, best, checkpoint-1"):
        export(copy, weights="checkpoint-2")
    with pytest.raises(UserError, match=f"did you mean {copy}"):
        export(tmp_path / "copi")
    (tmp_path / "p").mkdir()
    shutil.move(copy, tmp_path / "p" / "rl")
    with pytest.raises(UserError, match=f"name one of its stages: {tmp_path / 'p' / 'rl'}"):
        export(tmp_path / "p")


def test_quantised_weights_are_refused(trained, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    text = (copy / "config.yaml").read_text()
    base = tmp_path / "base"
    shutil.copytree(load_model_folder("tiny"), base)
    held = read_json(base / "config.json")
    (base / "config.json").write_text(json.dumps({**held, "quantization_config": {"quant_method": "fp8"}}))
    (copy / "config.yaml").write_text(text.replace("model: tiny", f"model: {base}"))
    assert load_config(RLConfig, copy / "config.yaml").model == str(base)
    with pytest.raises(UserError, match="quantised"):
        export(copy, weights="checkpoint-1")


def test_an_adapter_on_four_bits_is_left_to_the_run(tuned, tmp_path):
    assert export(tuned, tmp_path / "plain", weights="checkpoint-1")[1].adapter
    copy = tmp_path / "copy"
    shutil.copytree(tuned, copy, ignore=shutil.ignore_patterns("export-*"))
    config = copy / "config.yaml"
    config.write_text(config.read_text().replace("qlora: false", "qlora: true"))
    with pytest.raises(UserError, match="an adapter on 4-bit weights"):
        export(copy, weights="checkpoint-1")
    assert not export(copy)[1].adapter, "the run itself merged its final weights"


def test_weights_that_diverged_are_refused(trained, tmp_path):
    from safetensors.torch import save_file

    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    held = load_file(copy / "model" / "model.safetensors")
    held["model.norm.weight"][0] = float("nan")
    save_file(held, copy / "model" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="model.norm.weight holds NaN"):
        export(copy)


def test_a_full_disk_is_told_and_leaves_nothing(trained, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("rl.export.shutil.disk_usage", lambda path: usage._replace(free=10**6))
    with pytest.raises(DataError, match=r"0.0 GB free, 0.1 GB needed"):
        export(trained, tmp_path / "x")
    monkeypatch.undo()

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("transformers.PreTrainedModel.save_pretrained", full)
    with pytest.raises(DataError, match="no space left on the disk"):
        export(trained, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_command_line(trained, tmp_path):
    cli = CliRunner()
    made = cli.invoke(app, ["export", str(trained), "--out", str(tmp_path / "x")])
    assert made.exit_code == 0
    assert "weights final in bfloat16; its best weights: --weights best" in made.output
    checked = cli.invoke(app, ["export", "--check", str(tmp_path / "x")])
    assert checked.exit_code == 0
    assert "6 files as exported" in checked.output
    for wrong, said in (
        (["export"], "give a run folder"),
        (["export", str(trained), "--dtype", "float23"], "did you mean 'float32'"),
        (["export", "--check", str(trained)], "export.json: no such file"),
    ):
        refused = cli.invoke(app, wrong)
        assert refused.exit_code == 2
        assert said in refused.output


def test_data_that_changed_stop_a_resumed_run(probes, tmp_path):
    mine = tmp_path / "probes.jsonl"
    shutil.copy(probes, mine)
    config = settings(mine, tmp_path / "run", steps=1)
    record = made_of(config, tmp_path / "run")
    assert record["data"] == {"probes": sha256_file(probes)}
    append_jsonl(tmp_path / "run" / "provenance.jsonl", record)
    with mine.open("a") as file:
        file.write("\n")
    with pytest.raises(DataError, match=r"probes.jsonl: has changed since this run began"):
        run(config, progress=False)
