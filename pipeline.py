"""The four stages in one run: data, SFT, RL, evaluation. ``python pipeline.py configs/demo.yaml``; the same command resumes.

Every stage is the same function that its own command calls (``python -m data_gen``, ``sft``, ``rl``, ``eval``); this file only
hands the output of one to the next. Finished stages are left as they are, an interrupted one goes on where it stopped.
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field, ValidationError

from data_gen.config import DataConfig
from envs.config import ConfigError, Strict, dump_config, load_config
from envs.runs import cli_errors, read_json, write_json_atomic, write_text_atomic
from eval.config import EvalConfig
from rl.config import RLConfig
from sft.config import SFTStageConfig, check_trainer

STAGES = ("data", "sft", "rl", "eval")


class PipelineConfig(Strict):
    """One run of all stages. Each section holds the fields of that stage's own schema, paths between stages left out."""

    name: str = "demo"
    out: str = ""
    """Run folder; ``runs/<name>`` if empty."""
    model: str = "smollm2"
    """Start weights: ``smollm2``, ``tiny`` (random, plumbing only), a folder or a hub id."""
    data: dict[str, Any] = Field(default_factory=dict)
    sft: dict[str, Any] = Field(default_factory=dict)
    rl: dict[str, Any] = Field(default_factory=dict)
    eval: dict[str, Any] = Field(default_factory=dict)
    """Arms may name their model ``base``, ``sft`` or ``rl``: the weights of that stage."""
    presets: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Model name -> settings merged over this file when that model is chosen."""

    @property
    def folder(self) -> Path:
        return Path(self.out or f"runs/{self.name}")


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` merged into ``base``, section by section."""
    out = dict(copy.deepcopy(dict(base)))
    for key, value in over.items():
        out[key] = merged(out[key], value) if isinstance(value, Mapping) and isinstance(out.get(key), Mapping) else value
    return out


def load(path: Path, overrides: list[str]) -> PipelineConfig:
    """Read the config; a preset for the chosen model lies between the file and the overrides. Raises ConfigError."""
    chosen = load_config(PipelineConfig, path, overrides)
    preset = chosen.presets.get(chosen.model, {})
    if not preset:
        return chosen
    given = load_config(PipelineConfig, path, [])
    try:
        base = PipelineConfig.model_validate(merged(given.model_dump(), preset))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(f"{path}: presets.{chosen.model}.{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    with tempfile.TemporaryDirectory() as folder:
        # Overrides come last: once more through the loader, now over file and preset.
        together = Path(folder) / path.name
        together.write_text(json.dumps(base.model_dump()), encoding="utf-8")
        return load_config(PipelineConfig, together, overrides)


def stage_configs(config: PipelineConfig, source: str) -> tuple[DataConfig, SFTStageConfig, RLConfig, EvalConfig]:
    """The schema of every stage, checked before anything runs. Raises ConfigError naming section and field."""
    out = config.folder
    weights = {"base": config.model, "sft": str(out / "sft/model"), "rl": str(out / "rl/model")}
    data = {"out": str(out / "data"), "tokenizer": config.model, **config.data}
    sft = {"model": config.model, "data": str(out / "data"), "out": str(out / "sft"), **config.sft}
    rl = {"model": weights["sft"], "probes": str(out / "data/probes.rl.jsonl"), "out": str(out / "rl"), **config.rl}
    arms = {
        name: {**arm, "model": weights.get(arm["model"], arm["model"])} if arm.get("model") else arm
        for name, arm in config.eval.get("arms", {}).items()
    }
    ev = {
        "name": config.name, "out": str(out), "probes": str(out / "data/probes.val.jsonl"), "split": "val", **config.eval, "arms": arms,
    }  # fmt: skip
    sections = (("data", DataConfig, data), ("sft", SFTStageConfig, sft), ("rl", RLConfig, rl), ("eval", EvalConfig, ev))
    made: list[Any] = []
    for section, schema, values in sections:
        path = out / "configs" / f"{section}.yaml"
        try:
            made.append(schema.model_validate(values))
        except ValidationError:
            # Through the loader once more: it words the message, with the nearest valid name.
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values), encoding="utf-8")
            try:
                load_config(schema, path, [])
            except ConfigError as error:
                raise ConfigError(str(error).replace(str(path), f"{source}: section {section}", 1)) from None
            finally:
                path.unlink()
            raise
    check_trainer(made[1].trainer, f"{source}: section sft")
    return made[0], made[1], made[2], made[3]


def run_stages(config: PipelineConfig, source: str, stop_after: str = "eval") -> dict[str, Any] | None:
    """Run the stages in order. Returns the evaluation's results, or None when a stage was interrupted or left out."""
    data, sft, rl, ev = stage_configs(config, source)
    out = config.folder
    write_text_atomic(out / "config.yaml", dump_config(config))
    for name, stage in zip(STAGES, (data, sft, rl, ev), strict=True):
        write_text_atomic(out / "configs" / f"{name}.yaml", dump_config(stage))
    timings = _Timings(out / "timings.json")

    from data_gen.run import run as run_data

    with timings.stage("data"):
        run_data(data)
    if stop_after == "data":
        return None

    from sft.run import run as run_sft

    with timings.stage("sft"):
        done = run_sft(sft)
    if done.get("status") == "interrupted":
        raise KeyboardInterrupt
    if stop_after == "sft":
        return None

    from rl.run import run as run_rl

    with timings.stage("rl"):
        done = run_rl(rl)
    if done.get("status") == "interrupted":
        raise KeyboardInterrupt
    if stop_after == "rl":
        return None

    from eval.freeze import freeze
    from eval.report import report
    from eval.run import run as run_eval
    from eval.score import score
    from eval.view import view

    with timings.stage("eval"):
        freeze(ev)
        run_eval(ev)
        results = score(ev)
        view(ev)  # the report links to it
        report(ev, command=f"python pipeline.py {source}")
    return results


class _Timings:
    """Wall clock of each stage, summed over interruptions, beside the results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: dict[str, float] = read_json(path) if path.exists() else {}

    def stage(self, name: str) -> _Stage:
        print(f"== {name}", file=sys.stderr, flush=True)
        return _Stage(self, name)


class _Stage:
    def __init__(self, timings: _Timings, name: str) -> None:
        self.timings, self.name = timings, name

    def __enter__(self) -> None:
        self.start = time.monotonic()

    def __exit__(self, *_: object) -> None:
        spent = self.timings.seconds.get(self.name, 0.0) + time.monotonic() - self.start
        self.timings.seconds[self.name] = round(spent, 1)
        write_json_atomic(self.timings.path, self.timings.seconds)


def table(results: Mapping[str, Any]) -> str:
    """The result table: mean with its interval, one line an arm."""
    columns = ("pair_success", "task_correct", "tokens")
    lines = ["| arm | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for arm, metrics in results["arms"].items():
        cells = []
        for column in columns:
            m = metrics.get(column)
            if not m or m["mean"] is None:
                cells.append("-")
            else:
                digits = 0 if column == "tokens" else 2
                low, high = (f"{m[k]:.{digits}f}" if m.get(k) is not None else "?" for k in ("lo", "hi"))
                cells.append(f"{m['mean']:.{digits}f} [{low}, {high}] n={m['n']}")
        lines.append(f"| {arm} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


app = typer.Typer(add_completion=False)


@app.command()
def main(
    config: Annotated[Path, typer.Argument(help="YAML file, e.g. configs/demo.yaml")] = Path("configs/demo.yaml"),
    overrides: Annotated[
        list[str] | None, typer.Argument(help="settings as dotted.key=value, e.g. model=tiny sft.max_minutes=5")
    ] = None,
    stop_after: Annotated[str, typer.Option(help="last stage to run: data, sft, rl or eval")] = "eval",
) -> None:
    """Run data, SFT, RL and evaluation in order; the same command goes on after an interruption.

    Example: python pipeline.py configs/demo.yaml model=tiny
    """
    with cli_errors():
        if stop_after not in STAGES:
            raise ConfigError(f"--stop-after {stop_after!r}: choose one of {', '.join(STAGES)}")
        loaded = load(config, overrides or [])
        results = run_stages(loaded, str(config), stop_after)
        if results is not None:
            typer.echo(f"\n{table(results)}\n\nresults {loaded.folder / 'results.json'}, report {loaded.folder / 'report.html'}")


if __name__ == "__main__":
    app()
