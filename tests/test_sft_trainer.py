"""The SFT loss against TRL's stock one, exact resume, torn checkpoints, the budget, LoRA, refusals; all on the tiny model."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from trl import SFTTrainer

from envs.config import ConfigError, load_config
from envs.policies.smollm2 import load_model, load_tokenizer
from sft import run as stage
from sft.config import SFTStageConfig, trainer_arguments
from sft.rows import IGNORE, Row
from sft.shared import build_tree, computed_tokens, tree_states
from sft.trainer import Clock, RowSampler, SegmentTrainer, last_complete
from tests.test_sft_rows import make_trajectory

LONG = "Answer in one line and name the event that you rely on. " * 2


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Twelve trajectories of four bases; the long system prompt is shared by all, part of the questions by some."""
    path = tmp_path_factory.mktemp("data") / "trajectories.jsonl"
    made = [
        make_trajectory(
            f"t{i}", base=f"b{i // 3}", system=LONG, rewrite_at=1 if i % 4 == 0 else None,
            steps=(
                (f"Where is box {i // 3}? " + "Look it up. " * (i % 5), f"read e{i}", i % 5 != 1),
                (f"And box {i}?", f"shelf {i}", True),
            ),
        )
        for i in range(12)
    ]  # fmt: skip
    path.write_text("".join(t.model_dump_json() + "\n" for t in made))
    return path


def make_config(data, out, **changes):
    trainer = {
        "per_device_train_batch_size": 4,
        "save_steps": 2,
        "learning_rate": 1e-2,
        "warmup_steps": 0,
        **changes.pop("trainer", {}),
    }
    return SFTStageConfig(
        model="tiny", data=str(data), out=str(out), max_row_tokens=512, trainer=trainer, **{"eval_share": 0.0, **changes}
    )


def weights(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def trainers(data, out, **trainer):
    """Ours with shared prefixes, and TRL's own, on the same rows."""
    config = make_config(data, out, trainer=trainer)
    rows, _, _ = stage.read_rows(config, progress=False)
    arguments = trainer_arguments(config)
    ours = SegmentTrainer(load_model("tiny", device="cpu"), arguments, rows, load_tokenizer("tiny"), share=True, clock=Clock())
    stock = SFTTrainer(
        load_model("tiny", device="cpu"), arguments, train_dataset=ours.train_dataset, processing_class=load_tokenizer("tiny")
    )
    return ours, stock, rows


def test_loss_and_gradient_equal_stock(data, tmp_path):
    ours, stock, rows = trainers(data, tmp_path)
    batch = ours.data_collator([{"input_ids": r.input_ids, "labels": r.labels} for r in rows[:5]])
    ours.model.train(), stock.model.train()
    losses = [t.compute_loss(t.model, dict(batch)) for t in (ours, stock)]
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-6)
    for loss in losses:
        loss.backward()
    for (name, a), b in zip(ours.model.named_parameters(), stock.model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-7, msg=name)
    assert ours._tree.computed < sum(len(r.input_ids) for r in rows[:5])  # the shared system prompt ran once
    assert ours._metrics["train"]["mean_token_accuracy"] == pytest.approx(stock._metrics["train"]["mean_token_accuracy"])


def test_loss_is_per_trained_token_of_the_effective_batch(data, tmp_path):
    """Two micro-batches with different numbers of trained tokens give the gradient of one batch."""
    grads = []
    for micro, accumulate in ((4, 1), (2, 2)):
        ours, _, _ = trainers(
            data, tmp_path, per_device_train_batch_size=micro, gradient_accumulation_steps=accumulate, max_steps=1,
            save_strategy="no", learning_rate=1e-3, optim="sgd", max_grad_norm=0.0, bf16=False,
        )  # fmt: skip
        ours.train()
        grads.append(ours.model.state_dict())
    for name in grads[0]:
        torch.testing.assert_close(grads[0][name], grads[1][name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "lengths", [[(0, 40), (0, 40)], [(0, 70), (1, 30), (2, 33)], [(0, 5)], [(0, 100), (0, 64), (5, 9), (6, 80)]]
)
def test_tree_gives_each_row_its_own_hidden_states(lengths):
    model = load_model("tiny", device="cpu")
    stem = torch.arange(100, 164)
    rows = [torch.cat([stem, torch.arange(500 + seed, 500 + seed + n)]) for seed, n in lengths]
    tree = build_tree([row.tolist() for row in rows])
    with torch.no_grad():
        packed = tree_states(model, tree)
        for row, index in zip(rows, tree.index, strict=True):
            assert torch.equal(tree.ids[index], row)
            assert torch.equal(tree.positions[index], torch.arange(len(row)))
            torch.testing.assert_close(packed[index], model.base_model(row[None]).last_hidden_state[0], rtol=1e-4, atol=1e-5)
    assert len(tree.ids) == computed_tokens([r.tolist() for r in rows]) <= sum(len(r) for r in rows) - 64 * (len(rows) - 1)


def test_order_is_a_function_of_seed_and_epoch_and_keeps_bases_together():
    rows = [Row([1] * (10 + 7 * i % 50), [IGNORE] * (10 + 7 * i % 50), f"t{i}", 0, f"b{i // 2}", "x") for i in range(64)]
    for share in (True, False):
        first, again, other = (RowSampler(rows, 8, seed, share) for seed in (0, 0, 1))
        assert list(first) == list(again) != list(other)
        assert sorted(first) == list(range(64))
        first.set_epoch(1)
        assert list(first) != list(again)
    shared = list(RowSampler(rows, 8, 0, True))
    assert all(len({rows[i].group for i in shared[a : a + 8]}) == 4 for a in range(0, 64, 8))


def test_resume_equals_an_uninterrupted_run(data, tmp_path, monkeypatch):
    full = stage.run(make_config(data, tmp_path / "full", trainer={"num_train_epochs": 2}))
    torn = make_config(data, tmp_path / "torn", trainer={"num_train_epochs": 2})

    def stop_at(step):
        original = SegmentTrainer.training_step

        def training_step(self, *args, **kwargs):
            if self.state.global_step == step:
                raise KeyboardInterrupt
            return original(self, *args, **kwargs)

        monkeypatch.setattr(SegmentTrainer, "training_step", training_step)

    for step in (3, 5):  # once within the first epoch, once within the second
        with monkeypatch.context() as patched:
            monkeypatch = patched
            stop_at(step)
            with pytest.raises(KeyboardInterrupt):
                stage.run(torn)
    checkpoints = tmp_path / "torn" / "checkpoints"
    assert last_complete(checkpoints).name == "checkpoint-4"
    shutil.copytree(checkpoints / "checkpoint-4", checkpoints / "checkpoint-5")  # killed while saving step 5
    (checkpoints / "checkpoint-5" / "complete.json").unlink()
    (checkpoints / "checkpoint-5" / "optimizer.pt").write_bytes(b"torn")
    resumed = stage.run(torn)
    assert same(weights(tmp_path / "full" / "model"), weights(tmp_path / "torn" / "model"))
    lines = [json.loads(line) for line in (tmp_path / "torn" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, full["steps"] + 1))
    assert resumed["loss"] == full["loss"]
    assert resumed["tokens"] == full["tokens"]
    before = Path(tmp_path / "torn" / "model" / "model.safetensors").stat().st_mtime_ns
    assert stage.run(torn) == resumed  # finished: returns at once
    assert Path(tmp_path / "torn" / "model" / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(ConfigError, match="seed: 7, but .* was started with 0"):
        stage.run(torn.model_copy(update={"seed": 7}))


def test_killed_after_training_still_saves_the_trained_model(data, tmp_path, monkeypatch):
    config = make_config(data, tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr(stage, "_save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            stage.run(config)
    stage.run(config)
    stage.run(make_config(data, tmp_path / "whole"))
    assert same(weights(tmp_path / "run" / "model"), weights(tmp_path / "whole" / "model"))


def test_training_learns_and_validates_held_out_sessions(data, tmp_path):
    changes = {"freeze_embeddings": False, "eval_share": 0.25, "trainer": {"num_train_epochs": 6, "save_strategy": "no"}}
    result = stage.run(make_config(data, tmp_path / "run", **changes))
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert losses[-1] < 0.5 * losses[0]
    held = result["held_out"]
    assert held["rows"] > 0
    assert held["turns"] >= held["rows"]
    assert 0 <= held["exact_turns"] <= 1
    assert set(held["exact_turns_by_kind"]) == {"present"}
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["trainer"]["learning_rate"] == 1e-2


def test_budget_stops_at_a_step_and_says_so(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Clock, "step_would_exceed", lambda self: self.elapsed >= 0 and self.budget is not None)
    result = stage.run(make_config(data, tmp_path / "run", max_minutes=1.0))
    assert (result["steps"], result["stopped"]) == (1, "max_minutes")
    assert result["planned_steps"] > 1
    assert "stopped after step 1 of" in capsys.readouterr().out
    assert (tmp_path / "run" / "model" / "config.json").is_file()


def test_budget_brings_the_learning_rate_down_by_time(data, tmp_path):
    ours, _, _ = trainers(data, tmp_path)
    ours.clock = Clock(budget=100.0)
    ours.create_optimizer()
    schedule = ours.create_scheduler(10)
    factor = schedule.lr_lambdas[0]
    assert factor(0) == 1.0
    assert factor(5) == 0.5
    ours.clock.before = 80.0
    assert factor(5) == pytest.approx(0.2)


def test_lora_is_trained_and_merged(data, tmp_path):
    stage.run(make_config(data, tmp_path / "run", lora={"r": 4, "alpha": 8}, eval_share=0.25, save_dtype="bfloat16"))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model")
    base = load_model("tiny", dtype="bfloat16", device="cpu").state_dict()
    new = model.state_dict()
    assert new.keys() == base.keys()
    assert model.dtype == torch.bfloat16
    changed = {name for name in new if not torch.equal(new[name], base[name])}
    assert any("q_proj" in name for name in changed)
    assert not any("embed" in name or "lm_head" in name or "norm" in name for name in changed)


def test_embeddings_and_lower_layers_stay_frozen(data, tmp_path):
    stage.run(make_config(data, tmp_path / "run", freeze_layers=1))
    new, base = weights(tmp_path / "run" / "model"), load_model("tiny", device="cpu").state_dict()
    changed = {name for name in new if not torch.equal(new[name], base[name])}
    assert changed
    assert not any(".layers.0." in name or "embed" in name or "lm_head" in name for name in changed)


def test_an_adapter_can_leave_the_lower_layers_out(data, tmp_path):
    stage.run(make_config(data, tmp_path / "run", freeze_layers=1, lora={"r": 2}))
    tensors = load_file(tmp_path / "run/adapter/adapter_model.safetensors")
    assert {name.split("layers.")[1].split(".")[0] for name in tensors} == {"1"}
    new, base = weights(tmp_path / "run" / "model"), load_model("tiny", device="cpu").state_dict()
    changed = {name for name in new if not torch.equal(new[name], base[name])}
    assert changed
    assert all(".layers.1." in name for name in changed)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.learning_rat=1", "SFTConfig has no such setting: did you mean 'learning_rate'"),
        ("trainer.max_length=512", "TRL would cut rows"),
        ("trainer.packing=true", "not allowed here"),
        ("trainer.learning_rate=fast", "trainer.learning_rate: 'fast' not accepted"),
        ("trainer.save_total_limit=1", "use 2 or more"),
        ("max_row_token=5", "did you mean 'max_row_tokens'"),
        ("lora={target_modules: [lm_head]}", "leave them out"),
        ("lora={rank: 4}", "lora.rank: unknown key"),
    ],
)
def test_mistakes_are_one_line_with_a_remedy(tmp_path, override, message):
    file = tmp_path / "sft.yaml"
    file.write_text("data: d\nout: o\n")
    with pytest.raises(ConfigError) as caught:
        trainer_arguments(load_config(SFTStageConfig, file, [override]))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_max_length_null_is_accepted():
    config = SFTStageConfig(data="d", out="o", trainer={"max_length": None})
    assert trainer_arguments(config).max_length is None
