"""What an RL run would take, before it does: memory of one GPU by part, rows and tokens of a step. Nothing is loaded or trained."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.config import ConfigError, UserError, load_config
from envs.hardware import Expect, Launch, size_of
from envs.memory import BF16, FP32, GIB, Sampling, Work
from envs.planning import Plan, launches, plan_or_refuse, where_it_runs
from envs.policies.smollm2 import gpu_gib
from envs.profiles import get_profile
from rl.config import RLConfig, micro_batches

if TYPE_CHECKING:
    from envs.segments import Segment

SAMPLE = 32
"""Tasks that the expert plays to measure rows, spread over the file."""
HEAD_ROWS, HEAD_COPIES = 512, 4
"""Of ``rl.packing``: tokens that are scored at once, and the fp32 tables of their vocabulary that stand at the peak."""
MAX_TREE = 16_384
"""``rl.packing.MAX_TOKENS``, without importing torch."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a run: of the data's own tasks as the expert plays them, or as the config expects them.

    ``pass_tokens`` are positions of the widest pass as a tree, None where that isn't known; ``scored`` sampled tokens of it.
    """

    segments: float
    row_tokens: float
    longest: int
    context: int
    basis: str
    pass_tokens: int | None = None
    scored: int | None = None


def plan(config: RLConfig) -> Plan:
    """The plan of a run. Raises ConfigError where the config leaves something open that a plan needs."""
    launch, device, limit = where_it_runs(config.hardware, config.world_size, gpu_gib())
    chunks = micro_batches(config, launch.gpus)
    size = size_of(config.model, config.model_size)
    profile = get_profile(config.profile)
    rows = measured(config) or expected(config)
    episodes = config.episodes_per_step // launch.gpus
    per_pass = -(-int(config.micro_batch * rows.segments + 0.5) // 1)
    padded = per_pass * rows.longest
    tree = not launch.sharded and (rows.pass_tokens or padded) <= MAX_TREE
    tokens = (rows.pass_tokens or padded) if tree else padded
    trainer = config.trainer
    vllm = bool(trainer.get("use_vllm"))
    half = config.precision == "bf16"
    base = BF16 if config.lora and half else FP32
    lora = config.lora if isinstance(config.lora, dict) else {}
    work = Work(
        size=size,
        device="cuda" if device == "cuda" else "cpu",
        tokens=tokens,
        scored=rows.scored or tokens,
        mask=tokens * tokens if tree else per_pass * rows.longest**2,
        strategy=launch.strategy,
        gpus=launch.gpus,
        half=half,
        base=base,
        rank=int(lora.get("r", 16)) if config.lora else 0,
        frozen_embeddings=config.freeze_embeddings,
        optimizer=str(trainer.get("optim", "adamw_torch_fused")),
        passes=chunks,
        checkpointing=bool(trainer.get("gradient_checkpointing", device == "cuda")),
        tile=(HEAD_ROWS, size.vocab) if tree else (4096, 32_768),
        copies=HEAD_COPIES if tree else 1,
        sampling=None if vllm else _sampling(config, launch, rows, episodes, profile.reply_tokens),
        vllm_gib=_vllm_gib(config, limit),
        vllm_sleeps=bool(trainer.get("vllm_enable_sleep_mode")),
        reference=bool(trainer.get("beta", 0.0)),
    )
    notes = [f"rows: {rows.basis}"]
    if vllm:
        notes.append(_engine(config, work, rows, profile.reply_tokens, limit))
    step: dict[str, Any] = {
        "episodes": config.episodes_per_step,
        "rows": round(config.episodes_per_step * rows.segments),
        "tokens of the rows": round(config.episodes_per_step * rows.segments * rows.row_tokens),
        "episodes a GPU": episodes,
        "passes a GPU": chunks,
        "rows a pass": per_pass,
        "positions a pass, at most": tokens,
    }
    if config.expect and config.expect.tokens_per_second:
        seconds = step["tokens of the rows"] / config.expect.tokens_per_second
        step["minutes of all steps"] = round(seconds * config.steps / 60, 1)
        notes.append(f"time: {config.expect.tokens_per_second:,} tokens a second, from expect.tokens_per_second")
    return Plan(work, _about(config, launch, work, vllm), step, limit, notes)


def _about(config: RLConfig, launch: Launch, work: Work, vllm: bool) -> dict[str, Any]:
    sampler = str(config.trainer.get("vllm_mode", "colocate")) if vllm else "the training process"
    return {
        "status": config.status or "not told",
        "model": config.model,
        "parameters": work.size.params,
        "trained": f"{work.trained:,} ({'adapter of rank ' + str(work.rank) if work.rank else 'full'}, {config.precision})",
        "processes": f"{launch.gpus} on {launch.nodes} node(s), {launch.strategy}",
        "launch": f"accelerate launch --config_file {launch.file}" if launch.file else "python",
        "checkpointing": "on" if work.checkpointing else "off",
        "sampling": f"vLLM ({sampler})" if vllm else sampler,
    }


def _sampling(config: RLConfig, launch: Launch, rows: Rows, episodes: int, turn: int) -> Sampling:
    if launch.sharded:  # plain generate on the padded contexts of all episodes
        return Sampling(episodes, rows.context, turn)
    groups = max(1, episodes // config.group_size)
    return Sampling(
        episodes, rows.context, turn, config.reuse_tokens, (groups if config.reuse_tokens else episodes) * rows.context
    )


def _vllm_gib(config: RLConfig, limit: float) -> float:
    trainer = config.trainer
    if not trainer.get("use_vllm") or trainer.get("vllm_mode", "colocate") != "colocate":
        return 0.0
    return float(trainer.get("vllm_gpu_memory_utilization", 0.3)) * limit


def _engine(config: RLConfig, work: Work, rows: Rows, turn: int, limit: float) -> str:
    """What the engine's share leaves for keys and values. Raises ConfigError where weights and one view don't fit into it."""
    if not work.vllm_gib:
        return "vLLM: a server of its own; its GPUs aren't in this plan"
    parallel = int(config.trainer.get("vllm_tensor_parallel_size", 1))
    weights = BF16 * work.size.params / parallel
    token = 2 * BF16 * work.size.layers * work.size.kv / parallel
    room = work.vllm_gib * GIB - weights
    if room < token * (rows.context + turn):
        needed = (weights + token * 8 * (rows.context + turn)) / GIB / limit
        raise ConfigError(
            f"trainer.vllm_gpu_memory_utilization: {work.vllm_gib:.1f} GiB hold the bf16 weights "
            f"({weights / GIB:.1f} GiB a GPU) and no whole view: raise it to {min(needed + 0.005, 0.95):.2f} or more, "
            "or raise trainer.vllm_tensor_parallel_size"
        )
    return f"vLLM: {work.vllm_gib:.1f} GiB a GPU hold the weights and {int(room / token):,} tokens of keys and values"


def expected(config: RLConfig) -> Rows:
    """Rows as the config expects them. Raises ConfigError where it expects nothing."""
    told: Expect | None = config.expect
    if told is None:
        raise ConfigError(
            f"expect: not given, and there are no tasks to measure ({config.probes or config.sessions} isn't there, or its "
            "model's tokenizer isn't): make the data first, or give expect: {row_tokens: …, longest_row: …, segments: …}"
        )
    basis = "as the config expects them (expect), no sharing of beginnings reckoned with"
    return Rows(told.segments, told.row_tokens, told.longest_row, told.context_tokens or told.longest_row, basis)


def measured(config: RLConfig) -> Rows | None:
    """Rows of the run's own tasks as the expert plays them; None where tasks or tokenizer aren't at hand."""
    from envs.chat import get_chat
    from envs.episode import play
    from envs.policies.expert import Expert
    from rl.probes import ProbeGame, load_probes, load_sessions

    files = [f for f in (config.probes, config.sessions) if f]
    if not all(Path(f).is_file() for f in files):
        return None
    try:
        chat = get_chat(config.model)
    except (UserError, ValueError):
        return None
    tasks: list[Any] = load_probes(config.probes, "probes") if config.probes else []
    tasks += load_sessions(config.sessions) if config.sessions else []
    tasks = tasks[:: max(1, len(tasks) // SAMPLE)][:SAMPLE]
    game = ProbeGame(get_profile(config.profile), chat, config.prompt)
    episodes = [game.start(task) for task in tasks]
    play(episodes, Expert(chat))
    held = [_segments(e.trajectory("expert"), chat)[: config.max_segments] for e in episodes]
    lengths = [len(s.ids) for segments in held for s in segments]
    trees = [_tree(segments * config.micro_batch) for segments in held]
    widest = max(trees)
    return Rows(
        segments=len(lengths) / len(held),
        row_tokens=sum(lengths) / len(lengths),
        longest=max(lengths),
        context=max(len(i) for e in held for i in _contexts(e)),
        basis=f"measured on {len(tasks)} task(s) of {', '.join(files)}, played by the expert",
        pass_tokens=widest[0],
        scored=widest[1],
    )


def _segments(trajectory: Any, chat: Any) -> list[Segment]:
    from envs.segments import record

    turns = zip(trajectory.views(), trajectory.inferences, strict=True)
    return [s.trimmed() for s in record([(chat.render(m), i.ids, True) for m, i in turns])]


def _contexts(segments: Sequence[Segment]) -> list[list[int]]:
    """What the turns of segments are sampled after, the longest of each."""
    return [s.ids[: len(s.prompt_ids) + max((i for i, m in enumerate(s.mask) if m), default=0)] for s in segments]


def _tree(segments: Sequence[Segment]) -> tuple[int, int]:
    """Positions and scored tokens of a pass over these rows, beginnings shared."""
    from rl.packing import plant

    tree = plant([s.prompt_ids for s in segments], [s.completion_ids for s in segments], [s.mask for s in segments])
    return tree.tokens.numel(), tree.sources.numel()


def report(path: Path, overrides: Sequence[str]) -> tuple[Plan, str]:
    """The plan of a config file and its refusal, as :func:`envs.planning.plan_or_refuse` gives them."""
    return plan_or_refuse(lambda more: load_config(RLConfig, path, [*overrides, *more]), plan, _changes)


def _changes(config: RLConfig, found: Plan) -> list[list[str]]:
    """Changes that take less memory, the mildest first."""
    out: list[list[str]] = []
    if not found.work.checkpointing:
        out.append(["trainer.gradient_checkpointing=true"])
    micro = config.micro_batch
    while micro > 1:
        micro //= 2
        if not config.episodes_per_step // found.work.gpus % micro:
            out.append([f"micro_batch={micro}"])
    if found.work.device == "cuda" and found.work.sampling:
        out.append([f"trainer.{name}" for name in ("use_vllm=true", "vllm_mode=colocate", "vllm_enable_sleep_mode=true")])
    if found.work.vllm_gib and not found.work.vllm_sleeps:
        out.append(["trainer.vllm_enable_sleep_mode=true"])
    if found.work.device == "cuda":
        hardware = config.hardware
        for file, launch in launches(hardware):
            more = launch.gpus > found.work.gpus or launch.strategy != found.work.strategy
            if more and not (config.lora and launch.sharded) and hardware is not None:
                out.append([f"hardware.accelerate={os.path.relpath(file)}", f"world_size={launch.gpus}"])
    if not config.lora:
        out.append(["lora=true", "precision=bf16"] if found.work.device == "cuda" else ["lora=true"])
    return out
