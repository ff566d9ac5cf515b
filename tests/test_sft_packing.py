"""Packed rows against padded ones, on the tiny model: equal loss, gradient, weights; and where packing is refused."""

import random

import pytest
import torch
from transformers import AttentionInterface

from envs.config import ConfigError, load_config
from envs.policies.smollm2 import load_model, load_tokenizer
from sft import packing
from sft import run as stage
from sft.config import SFTStageConfig, trainer_arguments
from sft.rows import Row, padding_share
from sft.trainer import Clock, RowSampler, SegmentTrainer
from tests.test_sft_trainer import data, make_config, weights  # noqa: F401  (data is a fixture)


def varlen(module, query, key, value, attention_mask, *, cu_seq_lens_q, scaling=None, **_):
    """What flash attention computes for rows that lie end to end: each by itself, between the bounds that it is given."""
    assert attention_mask is None
    copies = query.shape[1] // key.shape[1]
    sizes = cu_seq_lens_q.diff().tolist()
    parts = zip(*(x.split(sizes, dim=2) for x in (query, key, value)), strict=True)
    out = [
        torch.nn.functional.scaled_dot_product_attention(
            q, k.repeat_interleave(copies, 1), v.repeat_interleave(copies, 1), is_causal=True, scale=scaling
        )
        for q, k, v in parts
    ]
    return torch.cat(out, dim=2).transpose(1, 2).contiguous(), None


@pytest.fixture(params=["sdpa", "varlen"])
def flat(monkeypatch, request):
    """A machine whose attention packs flat: torch's with exact masks, or one that follows flash attention's bounds."""
    AttentionInterface.register("varlen", varlen)
    for module in (packing, stage):
        monkeypatch.setattr(module, "flash_attention", lambda: request.param)
    for module in (packing, stage, __import__("sft.config", fromlist=["x"])):
        monkeypatch.setattr(module, "layout", lambda config, use_cpu: "flat" if config.packing == "auto" else "padded")
    monkeypatch.setattr("sft.config.check_precision", lambda half: None)  # fp32, so that equal means equal
    return request.param


def losses_and_gradients(config, rows, attention=None):
    trainer = SegmentTrainer(
        load_model("tiny", device="cpu", attention=attention), trainer_arguments(config), rows, load_tokenizer("tiny"),
        share=False, clock=Clock(),
    )  # fmt: skip
    batch = trainer.data_collator([{"input_ids": r.input_ids, "labels": r.labels} for r in rows])
    trainer.model.train()
    loss = trainer.compute_loss(trainer.model, dict(batch))
    loss.backward()
    return loss.item(), {n: p.grad for n, p in trainer.model.named_parameters()}, batch


def test_flat_loss_and_gradient_equal_padded(data, tmp_path, flat):  # noqa: F811
    off = make_config(data, tmp_path / "off", trainer={"bf16": False})
    rows = stage.read_rows(off, progress=False)[0][:5]
    assert len({len(r.input_ids) for r in rows}) > 1
    loss, gradients, padded = losses_and_gradients(off, rows)
    on = off.model_copy(update={"packing": "auto"})
    flat_loss, flat_gradients, packed = losses_and_gradients(on, rows, flat)
    assert packed["input_ids"].shape == (1, sum(len(r.input_ids) for r in rows))  # nothing padded
    assert padded["input_ids"].numel() > packed["input_ids"].numel()
    assert flat_loss == pytest.approx(loss, rel=1e-6)
    for name, gradient in gradients.items():
        torch.testing.assert_close(flat_gradients[name], gradient, rtol=1e-4, atol=1e-7, msg=name)


def test_flat_run_trains_what_a_padded_run_trains(data, tmp_path, flat):  # noqa: F811
    changes = {"trainer": {"bf16": False, "learning_rate": 1e-3, "max_steps": 3, "save_steps": 3, "optim": "sgd"}}
    padded = stage.run(make_config(data, tmp_path / "padded", **changes))
    packed = stage.run(make_config(data, tmp_path / "flat", packing="auto", **changes))
    assert packed["tokens"] == packed["computed_tokens"] == padded["tokens"] < padded["computed_tokens"]
    new, old = weights(tmp_path / "flat" / "model"), weights(tmp_path / "padded" / "model")
    for name in old:
        torch.testing.assert_close(new[name], old[name], rtol=1e-4, atol=1e-6, msg=name)


def test_the_word_off_is_no_boolean(tmp_path):
    file = tmp_path / "sft.yaml"
    file.write_text("data: d\nout: o\npacking: auto\n")
    assert load_config(SFTStageConfig, file, []).packing == "auto"
    assert load_config(SFTStageConfig, file, ["packing=off"]).packing == "off"


def test_batches_of_like_length_need_little_padding():
    rng = random.Random(0)
    rows = [Row([1] * n, [1] * n, f"t{i}", 0, f"b{i}", "x") for i, n in enumerate(rng.choices(range(50, 800), k=400))]
    order = [rows[i] for i in RowSampler(rows, 8, 0, share=False)]
    batches, drawn = ([a[i : i + 8] for i in range(0, 400, 8)] for a in (order, rows))
    assert padding_share(batches, 1) < 0.1 < 0.3 < padding_share(drawn, 1)


def config_of(**changes):
    return SFTStageConfig(model="tiny", data="d", out="o", **changes)


def test_layout_by_machine(monkeypatch):
    assert packing.layout(config_of(), use_cpu=True) == "tree"
    assert packing.layout(config_of(), use_cpu=False) == "padded"
    assert packing.layout(config_of(share_prefix=False), use_cpu=True) == "padded"
    assert packing.layout(config_of(packing="auto"), use_cpu=True) == "tree"
    monkeypatch.setattr(packing, "flash_attention", lambda: "flash_attention_2")
    assert packing.layout(config_of(packing="auto"), use_cpu=False) == "flat"


@pytest.mark.parametrize(
    ("changes", "use_cpu", "message"),
    [
        ({}, False, "no flash attention is installed.*pip install flash-attn.*or set packing to off"),
        ({"share_prefix": True}, False, "leave share_prefix out"),
        ({"share_prefix": False}, True, "leave share_prefix out, or set packing to off"),
        ({"trainer": {"gradient_checkpointing": True}}, True, "set that to false, or set packing to off"),
    ],
)
def test_packing_is_refused_with_a_remedy(changes, use_cpu, message):
    with pytest.raises(ConfigError, match=message):
        packing.layout(config_of(packing="auto", **changes), use_cpu)


def test_precision_and_models_that_flash_attention_cannot_do_are_refused():
    with pytest.raises(ConfigError, match="set trainer.bf16 to true, or set packing to off"):
        packing.check_precision(False)
    model = load_model("tiny", device="cpu")
    packing.check_flat(model, "tiny")
    model.config.layer_types = ["linear_attention", "full_attention"]
    with pytest.raises(ConfigError, match="linear_attention, which carry one row into the next: set packing to off"):
        packing.check_flat(model, "tiny")
    model.config.layer_types = None
    model._supports_flash_attn = False
    with pytest.raises(ConfigError, match="can't run with flash attention: set packing to off"):
        packing.check_flat(model, "tiny")


def test_tree_that_the_model_cannot_do_is_refused(data, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("sft.shared.can_share", lambda model: False)
    for changes in ({"packing": "auto"}, {"share_prefix": True}):
        name = next(iter(changes))
        with pytest.raises(ConfigError, match=f"{name}: asked for, but 'tiny' doesn't attend"):
            stage.run(make_config(data, tmp_path / name, **changes))
