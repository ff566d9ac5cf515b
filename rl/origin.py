"""What finished or half-finished training left in a run folder: its weights by name, where it started, what it was made of.

RL runs and SFT runs are read; an RL run that started from an SFT run's model is followed back to the weights that somebody else made.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from envs.config import UserError, load_config, nearest
from envs.runs import read_json, read_jsonl
from rl.best import kept
from rl.config import RLConfig
from rl.resume import CONFIG, DONE, MARK, PROVENANCE
from rl.validation import metrics_of, read_validations

HUB = {
    "smollm2": ("HuggingFaceTB/SmolLM2-135M-Instruct", "apache-2.0"),
    "tiny": (None, "apache-2.0"),
    "tiny-qwen": (None, "apache-2.0"),
}
"""Name of a start model -> its hub id (None: random weights of this project) and licence."""
LICENCES = {"Qwen/Qwen3-": "apache-2.0", "HuggingFaceTB/SmolLM": "apache-2.0"}
"""Beginning of a hub id -> licence, for those that the recipes name."""


class SFTSettings(BaseModel):
    """What of an SFT run's config matters here; the other keys are that stage's own business."""

    model: str
    data: str = ""
    seed: int = 0
    lora: dict[str, Any] | None = None
    qlora: bool = False
    freeze_layers: int = 0
    max_minutes: float | None = None
    trainer: dict[str, Any] = {}


@dataclass(frozen=True)
class Origin:
    """One run. ``weights`` are those that can be exported, by name; ``settings`` what the card tells of the training."""

    stage: Literal["rl", "sft"]
    folder: Path
    model: str
    weights: dict[str, Path]
    finished: bool
    adapter_dtype: str
    """dtype of the start weights that a bare adapter was trained on."""
    four_bit: bool
    settings: dict[str, Any]
    data: dict[str, str | None]
    """Data file by its field in the config -> SHA-256, None where the run recorded none."""
    rules: dict[str, Any]
    """Hashes as :func:`envs.hashes.rules_record` makes them; empty where the run recorded none."""
    trained_with: dict[str, Any]
    metrics: dict[str, Any] = field(default_factory=dict)

    def step_of(self, name: str) -> int | None:
        """The optimizer step after which the weights ``name`` were written."""
        if name.startswith("checkpoint-"):
            return int(name.removeprefix("checkpoint-"))
        if name == "best":
            return int(read_json(self.weights[name] / "best.json")["step"])
        done = self.folder / DONE
        return int(read_json(done)["steps"]) if done.is_file() else None

    def choose(self, name: str | None) -> str:
        """The name of the weights to export: ``name``, or the last ones of a finished run. Raises UserError."""
        have = ", ".join(self.weights) or "none yet"
        if name is None:
            if not self.finished:
                raise UserError(
                    f"{self.folder}: the run is unfinished: its own command goes on; to export what there is, add --weights NAME "
                    f"(weights here: {have})"
                )
            return "final"
        if name not in self.weights:
            hint = nearest(name, self.weights) if self.weights else "let the run reach a checkpoint first"
            raise UserError(f"{self.folder}: --weights {name}: not there: {hint} (weights here: {have})")
        return name


def read_origin(folder: Path) -> Origin:
    """The run in ``folder``. Raises UserError where there is none."""
    if not folder.is_dir():
        siblings = [p.name for p in folder.parent.iterdir() if p.is_dir()] if folder.parent.is_dir() else []
        near = difflib.get_close_matches(folder.name, siblings, n=1)
        raise UserError(f"{folder}: no such folder: {f'did you mean {folder.parent / near[0]}?' if near else 'check the path'}")
    if (folder / CONFIG).is_file() and (folder / PROVENANCE).is_file():
        return _rl(folder)
    if (folder / CONFIG).is_file() and (folder / "run.json").is_file():
        return _sft(folder)
    inner = [str(folder / stage) for stage in ("rl", "sft") if (folder / stage / CONFIG).is_file()]
    remedy = f"name one of its stages: {', '.join(inner)}" if inner else "name the 'out' folder of an RL or SFT run"
    raise UserError(f"{folder}: not a run folder (no {CONFIG} with {PROVENANCE} or run.json): {remedy}")


def _rl(folder: Path) -> Origin:
    config = load_config(RLConfig, folder / CONFIG)
    starts = read_jsonl(folder / PROVENANCE, torn="drop_last")
    weights = {"final": folder / "model", "best": folder / "best", **_checkpoints(folder)}
    names = ("probes", "sessions", "val_probes")
    found = {step: metrics_of(lines) for step, lines in read_validations(folder).items()}
    return Origin(
        stage="rl",
        folder=folder,
        model=config.model,
        weights={name: path for name, path in weights.items() if path.is_dir()},
        finished=(folder / DONE).is_file(),
        adapter_dtype="bfloat16" if config.precision == "bf16" else "float32",
        four_bit=False,
        settings={
            "method": "GRPO over episodes of several segments (TRL), loss dapo, advantages not scaled",
            **config.model_dump(
                mode="json",
                include={
                    "profile", "prompt", "steps", "episodes_per_step", "group_size", "cost_share", "max_turns", "max_segments", "temperature",
                    "precision", "lora", "freeze_embeddings", "ablation", "seed", "trainer",
                },
            ),
        },
        data={name: starts[0].get("data", {}).get(name) for name in names if getattr(config, name)},
        rules=starts[0].get("rules", {}),
        trained_with=_trained_with(starts),
        metrics={
            **({"last validation": {"step": max(found), **_plain(found[max(found)])}} if found else {}),
            **({"best validation": best} if (best := kept(folder)) else {}),
        },
    )  # fmt: skip


def _sft(folder: Path) -> Origin:
    config, run = load_config(SFTSettings, folder / CONFIG), read_json(folder / "run.json")
    arguments = read_json(folder / "arguments.json") if (folder / "arguments.json").is_file() else {}
    done = read_json(folder / DONE) if (folder / DONE).is_file() else {}
    weights = {"final": folder / "model", **_checkpoints(folder / "checkpoints")}
    return Origin(
        stage="sft",
        folder=folder,
        model=config.model,
        weights={name: path for name, path in weights.items() if path.is_dir()},
        finished=bool(done),
        adapter_dtype="bfloat16" if arguments.get("bf16") and not arguments.get("use_cpu") else "float32",
        four_bit=config.qlora,
        settings={
            "method": "supervised fine-tuning on an expert's right turns, one row a segment (TRL)",
            **config.model_dump(include={"lora", "qlora", "freeze_layers", "max_minutes", "seed", "trainer"}),
            **{name: done[name] for name in ("steps", "tokens", "stopped") if name in done},
        },
        data={"data": run.get("data_sha256")},
        rules=run.get("rules", {}),
        trained_with=_trained_with([run]),
        metrics={
            **({"training loss": {"step": done["steps"], "loss": done["loss"]}} if done else {}),
            **({"held-out rows": _plain(done["held_out"])} if done.get("held_out") else {}),
        },
    )


def lineage(origin: Origin) -> Iterator[Origin]:
    """The runs that led to these weights, this one first, as far as their folders are still there."""
    seen: set[Path] = set()
    while True:
        yield origin
        seen.add(origin.folder.resolve())
        start = Path(origin.model).expanduser()
        before = start.parent if start.name in ("model", "best") or start.name.startswith("checkpoint-") else start
        if not start.is_dir() or before.resolve() in seen:
            return
        try:
            origin = read_origin(before)
        except UserError:
            return


def base_of(runs: list[Origin]) -> dict[str, str | None]:
    """``name``, ``hub`` id and ``licence`` of the weights that the first run started from; None for what isn't known."""
    name = runs[-1].model
    if name in HUB:
        hub, licence = HUB[name]
        return {"name": name, "hub": hub, "licence": licence}
    if Path(name).expanduser().is_dir():
        return {"name": Path(name).name, "hub": None, "licence": None}
    return {"name": name, "hub": name, "licence": next((v for k, v in LICENCES.items() if name.startswith(k)), None)}


def _checkpoints(folder: Path) -> dict[str, Path]:
    """Whole checkpoints by name, in order of their steps."""
    found = [p for p in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", p.name) and (p / MARK).is_file()]
    return {p.name: p for p in sorted(found, key=lambda p: int(p.name.removeprefix("checkpoint-")))}


def _trained_with(starts: list[dict[str, Any]]) -> dict[str, Any]:
    """Commits and versions of the starts of a run; more than one commit is told."""
    last = starts[-1]
    commits = list(dict.fromkeys(s.get("git_commit") for s in starts))
    return {
        "git_commits": commits,
        "git_dirty": any(bool(s.get("git_dirty")) for s in starts),
        "python": last.get("python"),
        "versions": last.get("versions", {}),
    }


def _plain(metrics: dict[str, Any]) -> dict[str, Any]:
    """Figures over all families alone."""
    return {k: v for k, v in metrics.items() if isinstance(v, int | float) and "/" not in k.removeprefix("detect/")}
