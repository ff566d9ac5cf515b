"""QLoRA: what it needs and says without it, the run with only the load replaced, and real 4-bit weights where bitsandbytes is there."""

import functools
import importlib.util
import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from envs.config import ConfigError, load_config
from envs.policies.smollm2 import load_model
from sft import quantised
from sft import run as stage
from sft.config import SFTStageConfig
from sft.trainer import SegmentTrainer
from tests.test_sft_trainer import data, make_config, weights  # noqa: F401  (data is a fixture)

REAL = importlib.util.find_spec("bitsandbytes") is not None
FEW = {"max_steps": 2, "save_steps": 1}


def test_config_resolves_with_an_adapter_of_its_own(tmp_path):
    file = tmp_path / "sft.yaml"
    file.write_text("data: d\nout: o\nqlora: true\n")
    assert load_config(SFTStageConfig, file, []).lora.r == 32
    assert load_config(SFTStageConfig, file, ["lora={r: 8}"]).lora.r == 8


def test_settings_are_nf4_twice_quantised_with_bf16_products():
    told = quantised.settings().to_dict()
    assert told["load_in_4bit"]
    assert told["bnb_4bit_quant_type"] == "nf4"
    assert told["bnb_4bit_use_double_quant"]
    assert told["bnb_4bit_compute_dtype"] == "bfloat16"


def test_refused_where_it_cannot_run(data, tmp_path, monkeypatch):  # noqa: F811
    config = make_config(data, tmp_path / "run", qlora=True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="no CUDA device here: train on a GPU, or set qlora to false"):
        stage.run(config)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"bitsandbytes isn't installed: pip install -e '\.\[gpu\]', or set qlora to false"):
        stage.run(config)
    assert not (tmp_path / "run").exists()


def spy_on_dtypes(monkeypatch):
    """Dtypes of the trained parameters at the first step."""
    seen = []
    original = SegmentTrainer.training_step

    def training_step(self, model, *args, **kwargs):
        seen.append({p.dtype for p in model.parameters() if p.requires_grad})
        return original(self, model, *args, **kwargs)

    monkeypatch.setattr(SegmentTrainer, "training_step", training_step)
    return seen


def test_dry_run_with_only_the_load_replaced(data, tmp_path, monkeypatch):  # noqa: F811
    def load(name, attention=None):
        model = load_model(name, device="cpu")
        model.is_loaded_in_4bit = True
        model.dequantize = lambda: model
        model.num_parameters = lambda **_: sum(p.numel() for p in model.parameters())  # transformers asks bitsandbytes for it
        return model

    monkeypatch.setattr(quantised, "require", lambda: None)
    monkeypatch.setattr(quantised, "load_4bit", load)
    seen = spy_on_dtypes(monkeypatch)
    done = stage.run(make_config(data, tmp_path / "run", qlora=True, lora={"r": 4, "alpha": 8}, trainer=FEW))
    assert done["steps"] == 2
    assert seen[0] == {torch.float32}  # TRL would train the adapter in bf16
    base = load_model("tiny", device="cpu").state_dict()
    new = weights(tmp_path / "run" / "model")
    assert new.keys() == base.keys()
    changed = {name for name in new if not torch.equal(new[name], base[name])}
    assert any("q_proj" in name for name in changed)
    assert not any("embed" in name or "norm" in name for name in changed)


@pytest.mark.skipif(not REAL, reason="bitsandbytes isn't installed")
def test_real_4bit_weights_are_trained_resumed_and_saved_as_they_compute(data, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(quantised, "require", lambda: None)
    monkeypatch.setattr(quantised, "load_4bit", functools.partial(quantised.load_4bit, device="cpu"))
    held = {}
    original = quantised.merged

    def merged(model):
        ids = torch.arange(40, 90)[None]
        with torch.no_grad():
            held["logits"] = model(ids).logits.float()
        return original(model)

    monkeypatch.setattr(quantised, "merged", merged)
    seen = spy_on_dtypes(monkeypatch)
    changes = {"qlora": True, "lora": {"r": 4, "alpha": 8}, "trainer": {**FEW, "bf16": True}}
    whole = stage.run(make_config(data, tmp_path / "whole", **changes))
    assert seen[0] == {torch.float32}
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "whole" / "model")
    assert not hasattr(model.config, "quantization_config")
    with torch.no_grad():
        logits = model(torch.arange(40, 90)[None]).logits
    assert (logits - held["logits"]).abs().max() < 0.02 * held["logits"].abs().max()  # bf16 products against fp32 ones

    def torn(self, *args, **kwargs):
        if self.state.global_step == 1:
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)

    step = SegmentTrainer.training_step
    with monkeypatch.context() as patched:
        patched.setattr(SegmentTrainer, "training_step", torn)
        with pytest.raises(KeyboardInterrupt):
            stage.run(make_config(data, tmp_path / "torn", **changes))
    resumed = stage.run(make_config(data, tmp_path / "torn", **changes))
    assert resumed["loss"] == whole["loss"]
    a, b = weights(tmp_path / "whole" / "model"), weights(tmp_path / "torn" / "model")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert json.loads((tmp_path / "whole" / "done.json").read_text())["steps"] == 2
