"""Sampling from a causal language model with transformers: token ids in, exactly the sampled ids (and log-probs) out.

    policy = HFPolicy("smollm2", max_new_tokens=64)
    turns = policy.generate([chat.render(messages), ...])      # one Sampled a context, in order

Contexts are lists of ids: nothing is re-tokenised. Each context draws from its own random stream, so what a context gets
doesn't hang on what else is in the batch (up to float rounding). With ``reuse_tokens`` the keys and values of what was read
last are kept, and a context that begins like a kept one is read only from where it departs: a view that only grows costs
its new tokens, a rewritten one costs everything after the rewrite. What several contexts of a call begin with is read once.

Models with ordinary attention caches (Llama, Qwen2/3, ...) are supported; recurrent and linear-attention layers aren't.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from envs.policies.base import seed_number
from envs.policies.sampler import Sampled, Sampler
from envs.policies.smollm2 import load_model, load_tokenizer

_GROUPED = "grouped_decode"
SHARED = 32
"""Ids that must be left of a beginning for a pass of its own to pay."""


@dataclass(slots=True)
class _Held:
    """Ids read before, with one (keys, values) pair a layer, each ``(heads, len(ids), head_dim)``."""

    ids: np.ndarray
    layers: list[tuple[torch.Tensor, torch.Tensor]]


@dataclass(slots=True)
class _Row:
    """One context on its way through a batch; the first ``reused`` ids come from ``held``."""

    index: int
    context: np.ndarray
    cap: int
    stream: torch.Generator
    held: _Held | None = None
    reused: int = 0
    ids: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)

    @property
    def unread(self) -> int:
        return len(self.context) - self.reused


class HFPolicy(Sampler):
    """A model that plays turns.

    Args:
        model: a loaded model, or a name for :func:`envs.policies.smollm2.load_model`.
        tokenizer: the model's; default: the one of the same name. Required with a loaded model.
        max_new_tokens: cap on a turn, the stop token included.
        temperature: 0 takes the likeliest token.
        top_p: nucleus mass; below 1 no log-probs are given, since training can't reproduce them.
        seed: of the random streams; stream ``(seed, call, position)`` belongs to one context of one call.
        batch_size: contexts read at once.
        dtype: ``"auto"`` is bf16 on a GPU or a CPU that multiplies it natively, else fp32. Ignored for a loaded model.
        device: default: the GPU if there is one. Ignored for a loaded model.
        reuse_tokens: how many read tokens to keep keys and values of (SmolLM2 in fp32: 46 kB each). Call :meth:`forget`
            after the weights have changed.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        batch_size: int = 16,
        dtype: str = "auto",
        device: str | None = None,
        reuse_tokens: int = 0,
    ) -> None:
        named = isinstance(model, str | Path)
        if tokenizer is None and not named:
            raise ValueError("tokenizer: required with a loaded model: pass the model's own")
        if batch_size < 1 or reuse_tokens < 0:
            raise ValueError(f"batch_size={batch_size}, reuse_tokens={reuse_tokens}: need at least 1, at least 0")
        chosen = tokenizer if tokenizer is not None else load_tokenizer(model)
        super().__init__(chosen, max_new_tokens, temperature, top_p, seed)
        self.model = load_model(model, dtype=dtype, device=device) if named else model
        self.batch_size, self.reuse_tokens = batch_size, reuse_tokens
        config = self.model.config.get_text_config()
        self.limit = getattr(config, "max_position_embeddings", None) or 1 << 30
        self._layers: int = config.num_hidden_layers
        self._kept: list[_Held] = []  # least recently made first
        self._version = -1

    def forget(self) -> None:
        """Drop kept keys and values; needed after a change of weights made behind autograd's back."""
        self._kept.clear()

    def sample(self, contexts: Sequence[Sequence[int]], asked: Sequence[tuple[int, str]], return_logps: bool) -> list[Sampled]:
        rows = [
            _Row(i, np.asarray(context, dtype=np.int64), cap, _stream(seed, self.model.device))
            for i, (context, (cap, seed)) in enumerate(zip(contexts, asked, strict=True))
        ]
        training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode(), _grouped_attention(self.model):
                self._play(rows, return_logps)
        finally:
            self.model.train(training)
        return [self.turn(row.ids, row.logps if return_logps else None) for row in rows]

    def _play(self, rows: list[_Row], want_logps: bool) -> None:
        version = sum(parameter._version for parameter in self.model.parameters())
        if version != self._version:
            self.forget()
            self._version = version
        waiting = list(rows)
        if self.reuse_tokens:
            for level in _shared([row.context for row in rows]):
                self._read(level, rows[0].stream)
            # On a CPU what a batch pads costs as much as what it reads, and sampling wants all rows at once: read apart, sample together.
            if self.model.device.type == "cpu" and sum(len(row.context) for row in rows) <= self.reuse_tokens // 2:
                self._read([row.context[:-1] for row in rows], rows[0].stream)
        while waiting:
            self._batch(self._next(waiting, self.batch_size), want_logps)

    def _read(self, contexts: Sequence[np.ndarray], stream: torch.Generator) -> None:
        """Read contexts into what is kept, those of like length together; what little is left of one is not worth a pass."""
        readers = [_Row(-1, ids, 0, stream) for ids in {ids.tobytes(): ids for ids in contexts}.values()]
        while readers:
            batch = self._next(readers, self.batch_size, even=True)
            if batch[-1].unread < SHARED:  # the most that any row has left
                return
            self._batch(batch, want_logps=False)

    def _next(self, waiting: list[_Row], size: int, *, even: bool = False) -> list[_Row]:
        """Take the next batch off ``waiting``: the rows with most left to read, so that a batch pads little.

        ``even``: none with less than three quarters as much left as the first.
        """
        for row in waiting:
            row.held, row.reused = None, 0
            for held in self._kept:
                common = _common(held.ids, row.context[:-1])
                if common > row.reused:
                    row.held, row.reused = held, common
        waiting.sort(key=lambda row: row.unread)
        if even:
            size = min(size, sum(row.unread >= 0.75 * waiting[-1].unread for row in waiting))
        batch = waiting[-size:]
        del waiting[-size:]
        return batch

    def _batch(self, rows: list[_Row], want_logps: bool) -> None:
        """Read the rows' contexts and sample until every row has stopped; columns are [kept | unread | sampled]."""
        device = self.model.device
        before, unread = max(row.reused for row in rows), max(row.unread for row in rows)
        read = before + unread
        cap = max(row.cap for row in rows)
        cache = _start_cache(rows, before, read + cap, self._layers)
        mask = torch.zeros(len(rows), read + cap, dtype=torch.long)
        ids, positions = torch.zeros(len(rows), unread, dtype=torch.long), torch.zeros(len(rows), unread, dtype=torch.long)
        for i, row in enumerate(rows):
            mask[i, before - row.reused : before] = 1
            mask[i, read - row.unread :] = 1
            ids[i, unread - row.unread :] = torch.from_numpy(row.context[row.reused :])
            positions[i, unread - row.unread :] = torch.arange(row.reused, len(row.context))
        mask, ids, positions = mask.to(device), ids.to(device), positions.to(device)
        alive = list(rows)  # the row of each batch entry; stopped rows stay until a quarter has stopped
        for step in range(max(cap, 1)):
            logits = self._forward(ids, mask[:, : read + step], positions, cache)
            if cap:
                self._sample(logits, alive, want_logps)
            going = [i for i, row in enumerate(alive) if not self._over(row)]
            if len(going) <= 0.75 * len(alive):
                if self.reuse_tokens:
                    for i, row in enumerate(alive):
                        if self._over(row):
                            self._keep(row, cache, i, before, read)
                if not going:
                    return
                index = torch.tensor(going, device=device)
                cache.batch_select_indices(index)
                mask, alive = mask[index], [alive[i] for i in going]
            ids = torch.tensor([[row.ids[-1]] for row in alive], device=device)
            positions = torch.tensor([[len(row.context) + step] for row in alive], device=device)

    def _over(self, row: _Row) -> bool:
        return len(row.ids) >= row.cap or (row.ids != [] and row.ids[-1] in self.stop_ids)

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Cache) -> torch.Tensor:
        """Next-token logits, ``(rows, vocabulary)`` in fp32."""
        out = self.model(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        return out.logits[:, -1].float()

    def _sample(self, logits: torch.Tensor, rows: list[_Row], want_logps: bool) -> None:
        if self.temperature > 0:
            logits = logits / self.temperature
            probs = _nucleus(logits.softmax(-1), self.top_p)
            # An exponential race draws token i with probability p_i. Unlike a search in the summed probabilities it gives
            # the same token under rounding differences, which add up over a vocabulary.
            races = torch.stack(
                [torch.empty_like(probs[0], dtype=torch.float64).exponential_(generator=row.stream) for row in rows]
            )
            chosen = (probs / races).argmax(-1, keepdim=True)
        else:
            chosen = logits.argmax(-1, keepdim=True)
        logps = (logits.gather(-1, chosen).squeeze(-1) - logits.logsumexp(-1)).tolist() if want_logps else None
        for i, (row, token) in enumerate(zip(rows, chosen.squeeze(-1).tolist(), strict=True)):
            if self._over(row):
                continue
            row.ids.append(token)
            if logps is not None:
                row.logps.append(logps[i])

    def _keep(self, row: _Row, cache: Cache, at: int, before: int, read: int) -> None:
        """Keep what was read for one row; entries that it begins with go, then the oldest over the budget."""
        # The last sampled id was never fed, and a row that stopped early was fed ids past its end.
        fed = max(len(row.ids) - 1, 0)
        ids = np.concatenate([row.context, np.asarray(row.ids[:fed], dtype=np.int64)])
        start, end = read - row.unread, read + fed
        layers = [
            (
                torch.cat([layer.keys[at, :, before - row.reused : before], layer.keys[at, :, start:end]], dim=1),
                torch.cat([layer.values[at, :, before - row.reused : before], layer.values[at, :, start:end]], dim=1),
            )
            for layer in cache.layers
        ]
        self._kept = [held for held in self._kept if _common(held.ids, ids) < len(held.ids)]
        self._kept.append(_Held(ids, layers))
        while sum(len(held.ids) for held in self._kept) > self.reuse_tokens:
            self._kept.pop(0)


class _Layer(DynamicLayer):
    """A cache layer with room for the whole turn, so that a step writes one column instead of copying all of them."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def fill(self, rows: int, like: torch.Tensor, length: int) -> None:
        """Start with ``length`` columns of zeros; ``like`` gives heads, head size, type and device."""
        self.lazy_initialization(like, like)
        heads, _, size = like.shape
        # Zeros, not garbage: a masked column still meets its weight of 0 in a product, and 0 times NaN is NaN.
        self._keys, self._values = like.new_zeros(rows, heads, self.room, size), like.new_zeros(rows, heads, self.room, size)
        self._show(length)

    def _show(self, length: int) -> None:
        self.keys, self.values = self._keys[:, :, :length], self._values[:, :, :length]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.fill(key_states.shape[0], key_states[0], 0)
        start = self.keys.shape[2]
        end = start + key_states.shape[2]
        self._keys[:, :, start:end], self._values[:, :, start:end] = key_states, value_states
        self._show(end)
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        length = self.keys.shape[2]
        self._keys, self._values = self._keys[indices], self._values[indices]
        self._show(length)


def _start_cache(rows: list[_Row], before: int, room: int, layers: int) -> Cache:
    """An empty cache, or one whose first ``before`` columns hold what the rows reuse, right-aligned."""
    cache = Cache(layers=[_Layer(room) for _ in range(layers)])
    some = next((row.held for row in rows if row.held), None)
    if some is not None:
        for depth, layer in enumerate(cache.layers):
            layer.fill(len(rows), some.layers[depth][0], before)
            for i, row in enumerate(rows):
                if row.held:
                    keys, values = row.held.layers[depth]
                    layer.keys[i, :, before - row.reused : before] = keys[:, : row.reused]
                    layer.values[i, :, before - row.reused : before] = values[:, : row.reused]
    return cache


def _stream(seed: str, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed_number(seed))


def _common(a: np.ndarray, b: np.ndarray) -> int:
    """Length of the common beginning of two id arrays."""
    size = min(len(a), len(b))
    differ = a[:size] != b[:size]
    return int(differ.argmax()) if differ.any() else size


def _shared(contexts: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """What two contexts or more begin with, in levels: a beginning comes after those that it begins with itself.

    Each is at least :data:`SHARED` ids longer than the one before it. The last id of a context is left out: every row reads its own.
    """
    ordered = sorted(contexts, key=lambda ids: ids.tolist())
    pairs = [(a, min(_common(a, b), len(a) - 1, len(b) - 1)) for a, b in pairwise(ordered)]
    levels: list[list[np.ndarray]] = []
    for ids, size in sorted(pairs, key=lambda pair: pair[1]):
        level, longest = 0, 0
        for depth, found in enumerate(levels):
            whole = max((len(b) for b in found if len(b) <= size and _common(b, ids) == len(b)), default=0)
            if whole:
                level, longest = depth + 1, max(longest, whole)
        if size - longest >= SHARED:
            if level == len(levels):
                levels.append([])
            levels[level].append(ids[:size])
    return levels


def _nucleus(probs: torch.Tensor, top_p: float) -> torch.Tensor:
    """Zero all but the smallest set of tokens whose mass reaches ``top_p`` (not renormalised)."""
    if top_p >= 1:
        return probs
    ordered, order = probs.sort(-1, descending=True)
    outside = ordered.cumsum(-1) - ordered >= top_p
    return probs.scatter(-1, order, ordered.masked_fill(outside, 0.0))


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """SDPA, where a single new token takes the heads that share keys as so many queries instead of copying the keys for each."""
    rows, heads, length, size = query.shape
    if length > 1 or dropout:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)
    query = query.reshape(rows, key.shape[1], heads // key.shape[1], size)
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scaling)
    return out.reshape(rows, 1, heads, size), None


AttentionInterface.register(_GROUPED, _attend)
AttentionMaskInterface.register(_GROUPED, sdpa_mask)


@contextmanager
def _grouped_attention(model: Any) -> Iterator[None]:
    """Use :func:`_attend` inside the block where the model uses plain SDPA."""
    if model.config.get_text_config()._attn_implementation != "sdpa":
        yield
        return
    model.set_attn_implementation(_GROUPED)
    try:
        yield
    finally:
        model.set_attn_implementation("sdpa")
