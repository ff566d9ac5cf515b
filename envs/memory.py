"""Memory of one training process, by part and phase, as arithmetic over sizes: no model, no GPU.

What autograd keeps of a block is counted tensor by tensor (tests/test_memory.py compares it with autograd's own list); peaks are
compared with those of real steps on a CPU (docs/gpus.md).
Figures of CUDA itself (``CUDA_GIB``, ``SLACK``) are assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envs.config import ConfigError
from envs.hardware import ModelSize, Strategy

GIB = 1024**3
Phase = Literal["sample", "forward", "backward"]
PHASES: tuple[Phase, ...] = ("sample", "forward", "backward")
FP32, BF16 = 4, 2
NF4 = 0.53
"""Bytes of a 4-bit weight with its doubly quantised scales (blocks of 64, scales of 8 bits in blocks of 256)."""
OPTIMIZER_BYTES = {
    "adamw_torch": 8, "adamw_torch_fused": 8, "adamw_8bit": 2, "adamw_bnb_8bit": 2, "paged_adamw_8bit": 2, "paged_adamw_32bit": 8,
    "sgd": 0, "adafactor": 0,
}  # fmt: skip
"""State of an optimizer by its transformers name, bytes a trained parameter."""
BUCKET = 200_000_000
"""Elements of a DeepSpeed bucket, as in configs/accelerate/zero*.json."""
CUDA_GIB = 2.0
"""CUDA context, libraries' workspaces and NCCL: assumed."""
SLACK = 0.05
"""Of all else on a GPU, lost between the allocator's blocks: assumed."""
CPU_GIB, CPU_BF16_GIB = 0.65, 0.15
"""A process that trains a model of two narrow layers: Python, torch, transformers, TRL; and the kernels made for bf16 (measured)."""
HEAD_TILE = 4096
"""Rows of TRL's fused head that are projected at a time."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Turns sampled by the training process: ``rows`` at once after at most ``context`` tokens, ``kept`` tokens of keys and values."""

    rows: int
    context: int
    turn: int
    kept: int = 0
    read: int | None = None
    """Tokens read at once; default: all contexts."""


@dataclass(frozen=True, slots=True)
class Work:
    """One process of a run.

    Args:
        half: bf16 autocast.
        base: bytes a weight that isn't trained under an adapter, or of all weights without one.
        rank: of the adapter; 0 trains the weights themselves.
        tokens: positions of the widest pass, padding included; ``mask`` the entries of its attention mask (0: none is built).
        scored: positions of it that the head scores, ``tile`` how many and of how many tokens at once, with ``copies`` of them.
        passes: forward and backward passes of a step: gradients of earlier ones are held during a later one.
        vllm_gib: of a vLLM engine on the same GPU; ``vllm_sleeps`` frees it while training.
        reference: a frozen copy of the weights stands beside them.
    """

    size: ModelSize
    device: Literal["cpu", "cuda"]
    tokens: int
    scored: int
    mask: int = 0
    strategy: Strategy = "single"
    gpus: int = 1
    half: bool = False
    base: float = FP32
    rank: int = 0
    frozen_embeddings: bool = False
    frozen_layers: int = 0
    optimizer: str = "adamw_torch_fused"
    passes: int = 1
    checkpointing: bool = False
    tile: tuple[int, int] = (HEAD_TILE, 32_768)
    copies: int = 1
    sampling: Sampling | None = None
    vllm_gib: float = 0.0
    vllm_sleeps: bool = False
    reference: bool = False

    @property
    def trained(self) -> int:
        """Trained parameters, over all processes."""
        size = self.size
        if self.rank:
            return size.adapter(self.rank) * (size.layers - self.frozen_layers) // size.layers
        frozen = size.params - size.layers * size.layer - size.hidden if self.frozen_embeddings else 0
        return size.params - frozen - self.frozen_layers * size.layer

    @property
    def deep(self) -> int:
        """Layers that the backward pass goes through."""
        return self.size.layers - self.frozen_layers


def parts(work: Work) -> dict[str, dict[Phase, float]]:
    """Bytes by part and phase; parts that are nowhere are left out. Raises ConfigError for an optimizer it doesn't know."""
    out: dict[str, dict[Phase, float]] = {}

    def put(name: str, sample: float, forward: float, backward: float) -> None:
        if sample or forward or backward:
            out[name] = {"sample": sample if work.sampling or work.vllm_gib else 0.0, "forward": forward, "backward": backward}

    share = work.gpus if work.strategy in ("fsdp2", "zero2", "zero3") else 1
    zero = work.strategy in ("zero2", "zero3")
    weights = work.size.params * (BF16 if zero else work.base) / (1 if work.strategy == "zero2" else share)
    put("weights", weights, weights, weights)
    if work.reference and not work.rank:
        put("reference", weights, weights, weights)
    trained, held = work.trained, work.passes > 1
    if work.rank:
        put("adapter", *[FP32 * trained / share] * 3)
    if zero:
        put("fp32 weights", *[FP32 * trained / share] * 3)
    gradients = FP32 * trained / share
    put("gradients", 0.0, gradients if held else 0.0, gradients)
    if work.optimizer not in OPTIMIZER_BYTES:
        raise ConfigError(
            f"trainer.optim: the memory of {work.optimizer!r} isn't known here: plan with one of {', '.join(OPTIMIZER_BYTES)}"
        )
    put("optimizer", *[OPTIMIZER_BYTES[work.optimizer] * trained / share] * 3)
    put("communication", *_communication(work))
    copies = _autocast(work)
    put("bf16 copies", copies, copies, copies)
    kept, single = _activations(work)
    put("activations", 0.0, kept + single, kept * (1.0 if work.checkpointing else 0.5) + single)
    put("head", _sampling_head(work), *_head(work))
    put("keys and values", _cache(work), 0.0, 0.0)
    put("reading", _reading(work), 0.0, 0.0)
    engine = work.vllm_gib * GIB
    put("vLLM", engine, *[0.0 if work.vllm_sleeps else engine] * 2)
    for phase in PHASES:
        used = sum(part[phase] for part in out.values())
        if phase == "sample" and "sample" not in _phases(work):
            continue
        if work.device == "cuda":
            own = CUDA_GIB * GIB + SLACK * (used - out.get("vLLM", {}).get(phase, 0.0))
        else:
            own = (CPU_GIB + CPU_BF16_GIB * work.half) * GIB
        out.setdefault("runtime" if work.device == "cuda" else "libraries", dict.fromkeys(PHASES, 0.0))[phase] = own
    return out


def _phases(work: Work) -> tuple[Phase, ...]:
    return ("sample", "forward", "backward") if work.sampling or work.vllm_gib else ("forward", "backward")


def peak(table: dict[str, dict[Phase, float]]) -> tuple[float, str]:
    """The largest sum of a phase in bytes, and which it is.

    A CPU process keeps what it freed: gradients aren't put where activations were. Its training takes the sum of every part's own
    largest, forward or backward.
    """
    sums: dict[str, float] = {phase: sum(part[phase] for part in table.values()) for phase in PHASES}
    if "libraries" in table:
        training = sum(max(part["forward"], part["backward"]) for part in table.values())
        return max((training, "training"), (sums["sample"], "sample"))
    most = max(sums, key=lambda phase: sums[phase])
    return sums[most], most


def kept_by_block(size: ModelSize, half: bool, rank: int = 0, low_base: bool = False) -> float:
    """Bytes a token that autograd keeps of one block of the models here, between its forward and its backward pass.

    Args:
        size: of the model.
        half: under bf16 autocast.
        rank: of an adapter on all linear layers; then norms are frozen and don't keep what only their own gradient needs.
        low_base: the frozen weights are bf16 or 4-bit ones, so that the residual stream is bf16 too.
    """
    h, i, q, kv, heads = size.hidden, size.intermediate, size.q, size.kv, size.heads
    wide, narrow = FP32, (BF16 if half else FP32)
    # Always: queries, keys and values of attention, its output, the gate and its three products, each linear layer's input.
    # Under autocast the five layers that read a norm's output each cast a copy of their own.
    out = narrow * (2 * q + 2 * kv + 4 * i + (5 if half else 2) * h) + wide * (heads + 2)
    out += wide * (2 if rank else 4) * h  # the residual stream before each norm; and normed, where the norm's weight is trained
    if size.qk_norm:
        inner = q + kv
        out += narrow * (0 if rank else inner) + wide * (heads + size.kv_heads + inner)
    if rank:
        out += narrow * 7 * rank + (narrow * q if half and low_base else 0)
    return out


def _activations(work: Work) -> tuple[float, float]:
    """Bytes kept until the backward pass, and what one block needs on top of them while it is computed."""
    size, tokens = work.size, work.tokens
    narrow = BF16 if work.half else FP32
    low = work.base < FP32
    block = tokens * kept_by_block(size, work.half, work.rank, low) + work.mask * (BF16 if work.half else FP32)
    repeated = tokens * narrow * 2 * (size.q - size.kv)
    work_space = tokens * narrow * (3 * size.intermediate + 2 * size.hidden) + 2 * repeated
    ends = tokens * FP32 * 3 * size.hidden
    if work.checkpointing:
        return work.deep * tokens * size.hidden * (narrow if low else FP32) + ends, block + work_space
    return work.deep * block + ends, work_space


def _autocast(work: Work) -> float:
    """Copies that autocast makes of fp32 weights; they live until the pass leaves it."""
    if not work.half or work.base != FP32 or work.strategy not in ("single", "ddp"):
        return 0.0
    return BF16 * (work.size.layers * work.size.matrices + work.size.embedding)


def _communication(work: Work) -> tuple[float, float, float]:
    """Gathered weights and buffers of gradients on their way."""
    size, layer = work.size, work.size.layer
    if work.strategy == "ddp":
        return (FP32 * work.trained,) * 3  # DDP's buckets hold a second copy of the gradients
    if work.strategy == "fsdp2":
        wide = BF16 if work.half else FP32
        outer = wide * (size.params - size.layers * layer)  # embeddings and head stay gathered during a pass
        return outer + 2 * wide * layer, outer + 2 * wide * layer, outer + 2 * wide * layer + FP32 * (layer + size.embedding)
    if work.strategy == "zero2":
        return 0.0, 0.0, 2 * BF16 * BUCKET + FP32 * layer
    if work.strategy == "zero3":
        live = BF16 * min(5 * BUCKET, size.params)
        sample = BF16 * size.params if work.sampling else live  # generation gathers all weights
        return sample, live, live + 2 * BF16 * BUCKET
    return 0.0, 0.0, 0.0


def _head(work: Work) -> tuple[float, float]:
    """Logits and what is made of them, forward and backward."""
    size = work.size
    rows, columns = min(work.tile[0], work.scored), min(work.tile[1], size.vocab)
    narrow = BF16 if work.half else FP32
    logits = rows * columns * (narrow + (FP32 * (work.copies - 1)))
    states = work.scored * size.hidden * FP32
    whole = FP32 * size.embedding if work.strategy in ("fsdp2", "zero3") else 0.0  # the head is gathered whole
    trained = not work.rank and not work.frozen_embeddings
    return logits + states + whole, logits + 2 * states + whole + (FP32 * size.embedding if trained else 0.0)


def _cache(work: Work) -> float:
    if work.sampling is None:
        return 0.0
    s, size = work.sampling, work.size
    token = 2 * size.layers * size.kv * (BF16 if work.half else FP32)
    return token * (s.rows * (s.context + s.turn) + s.kept)


def _sampling_head(work: Work) -> float:
    """Logits of one step in fp32, their probabilities and the race for each row in fp64."""
    return 0.0 if work.sampling is None else work.sampling.rows * work.size.vocab * (4 * FP32 + 2 * 8)


def _reading(work: Work) -> float:
    """What reading contexts needs in one block, without a gradient."""
    if work.sampling is None:
        return 0.0
    s, size = work.sampling, work.size
    tokens = s.read if s.read is not None else s.rows * s.context
    return tokens * (BF16 if work.half else FP32) * (3 * size.intermediate + 4 * size.hidden + 4 * size.q)
