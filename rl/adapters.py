"""Trained adapters small enough to keep in a repository, and the models that they make.

    python -m rl ship runs/results/sft-s0 adapters/sft-s0
    python -m rl ship runs/results/rl-s0 adapters/rl-s0 --on adapters/sft-s0
    python -m rl merge adapters/sft-s0 adapters/rl-s0 --out runs/results/models/rl-s0

A shipped folder holds the adapter in bf16 (half the size; the rounding is part of it: whoever plays the model plays these very
weights), its settings, and ``shipped.json``: what it was trained from and on, and which adapters it stands on. ``merge`` adds the
adapters of a chain to the start weights in fp32, one after the other, and refuses one that stands on others.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from envs.config import Strict, UserError
from envs.runs import DataError, provenance, read_json, sha256_file, write_json_atomic, write_text_atomic
from rl.card import adapter_card
from rl.origin import HUB, read_origin

ABOUT, SETTINGS, WEIGHTS, CARD, MADE = (
    "shipped.json",
    "adapter_config.json",
    "adapter_model.safetensors",
    "README.md",
    "merged.json",
)


class Shipped(Strict):
    """``shipped.json``."""

    v: int = 1
    stage: Literal["rl", "sft"]
    run: str
    weights: str
    """``final``, or ``best`` of an RL run."""
    base: str
    """Start weights by name; below the adapters of ``on``."""
    on: list[str] = []
    """SHA-256 of the weight files of the adapters that this one stands on, the lowest first."""
    sha256: str = Field(pattern="[0-9a-f]{64}")
    """Of this one's weight file."""
    dtype: str = "bfloat16"
    parameters: int = Field(ge=1)
    rank: int = Field(ge=1)
    settings: dict[str, Any]
    data: dict[str, str | None]
    """SHA-256 of the data files that it was trained on."""
    rules: dict[str, Any]
    metrics: dict[str, Any]
    trained_with: dict[str, Any]


def ship(run: Path, out: Path, *, on: Sequence[Path] = (), weights: Literal["final", "best"] = "final") -> Shipped:
    """Write the adapter of a finished run into ``out``, in bf16; the folder appears by a rename.

    Raises UserError for a run without an adapter, an unfinished one, or a chain whose adapters don't stand on each other.
    """
    import torch
    from safetensors.torch import load_file, save_file

    origin = read_origin(run)
    if not origin.finished:
        raise UserError(f"{run}: the run is unfinished: its own command goes on")
    source = (run / "best" if weights == "best" else run) / "adapter"
    if not (source / WEIGHTS).is_file():
        raise UserError(f"{source}: no adapter there: only a run with lora has one (weights themselves: python -m rl export)")
    chain = _chain(on)
    _check_start(run, Path(origin.model), chain)
    tensors = {name: t.to(torch.bfloat16).contiguous() for name, t in load_file(source / WEIGHTS).items()}
    if bad := [name for name, t in tensors.items() if not torch.isfinite(t).all()]:
        raise UserError(f"{source}: {bad[0]} holds NaN or infinity: the training diverged")
    base = chain[0].base if chain else origin.model
    settings = read_json(source / SETTINGS)
    # A path of the machine that trained is of no use to anybody.
    settings["base_model_name_or_path"] = HUB.get(base, (base, ""))[0] or base
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_file(tensors, partial / WEIGHTS, metadata={"format": "pt"})
    (partial / WEIGHTS).chmod(0o644)  # safetensors leaves it to its owner alone
    write_text_atomic(partial / SETTINGS, json.dumps(settings, indent=2, sort_keys=True) + "\n")
    about = Shipped(
        stage=origin.stage,
        run=run.resolve().name,
        weights=weights,
        base=base,
        on=[a.sha256 for a in chain],
        sha256=sha256_file(partial / WEIGHTS),
        parameters=sum(t.numel() for t in tensors.values()),
        rank=settings["r"],
        settings=origin.settings,
        data=origin.data,
        rules=origin.rules,
        metrics=origin.metrics,
        trained_with=origin.trained_with,
    )
    write_json_atomic(partial / ABOUT, about.model_dump())
    write_text_atomic(partial / CARD, adapter_card(about, [str(f) for f in (*on, out)]))
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
    return about


def _check_start(run: Path, start: Path, chain: Sequence[Shipped]) -> None:
    """Raise UserError unless the run started from what the chain makes."""
    if not start.is_dir():
        return  # a model by name, or one that is gone: nothing to hold the chain against
    if not (start / MADE).is_file():
        raise UserError(f"{run}: started from {start}, which no shipped adapters made: start from what python -m rl merge writes")
    names, made = read_json(start / MADE)["names"], read_json(start / MADE)["adapters"]
    if made != [a.sha256 for a in chain]:
        raise UserError(f"{run}: started from {' + '.join(names)}: name these adapters with --on, the lowest first")


def read_shipped(folder: Path) -> Shipped:
    """``shipped.json`` of a folder, its weights checked. Raises DataError, UserError."""
    if not (folder / ABOUT).is_file():
        raise UserError(f"{folder}: no shipped adapter there ({ABOUT}): python -m rl ship writes one")
    try:
        about = Shipped.model_validate(read_json(folder / ABOUT))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise DataError(f"{folder / ABOUT}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}: ship the run again") from None
    if sha256_file(folder / WEIGHTS) != about.sha256:
        raise DataError(
            f"{folder / WEIGHTS}: not the file that {ABOUT} was written for: take both from one commit, or ship again"
        )
    return about


def _chain(folders: Sequence[Path]) -> list[Shipped]:
    """The adapters of a chain, each standing on those before it. Raises UserError."""
    chain: list[Shipped] = []
    for folder in folders:
        about = read_shipped(folder)
        if about.on != [a.sha256 for a in chain]:
            below = ", ".join(str(f) for f in folders[: len(chain)]) or "the start weights"
            raise UserError(
                f"{folder}: stands on {len(about.on)} other adapter(s), not on {below}: give its own chain, lowest first"
            )
        chain.append(about)
    return chain


def merge(folders: Sequence[Path], out: Path) -> dict[str, Any]:
    """Add a chain of adapters to their start weights in fp32 and write model and tokenizer into ``out``; returns ``merged.json``.

    A folder that holds the same is left as it is. Raises UserError, DataError.
    """
    from peft import PeftModel

    from envs.policies.smollm2 import load_model, load_tokenizer

    chain = _chain(folders)
    if not chain:
        raise UserError("nothing to merge: name one or more shipped adapters, the lowest first")
    made = {"base": chain[0].base, "adapters": [a.sha256 for a in chain]}
    if out.exists():
        if not (out / MADE).is_file():
            raise UserError(f"{out}: exists and holds no merged adapters: choose another folder with --out")
        if all(read_json(out / MADE).get(k) == v for k, v in made.items()):
            return dict(read_json(out / MADE))
    model = load_model(chain[0].base, dtype="float32", device="cpu")
    for folder in folders:
        model = PeftModel.from_pretrained(model, str(folder), autocast_adapter_dtype=True).merge_and_unload(safe_merge=True)
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.config.use_cache = True
    model.save_pretrained(str(partial))
    load_tokenizer(chain[0].base).save_pretrained(str(partial))
    about = {**made, "names": [f.resolve().name for f in folders], "made_with": provenance()}
    write_json_atomic(partial / MADE, about)
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
    return about
