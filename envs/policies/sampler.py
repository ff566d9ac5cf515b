"""What every engine that samples a model's turns has in common: settings, stop ids, and the checks of a call. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envs.policies.smollm2 import END_OF_TEXT, IM_END


@dataclass(frozen=True, slots=True)
class Sampled:
    """One sampled turn.

    Attributes:
        ids: the sampled ids, the stop token (``<|im_end|>`` or ``<|endoftext|>``) included if it was reached.
        logps: log-probability of each id under the distribution it was drawn from (at temperature 0: of the unscaled
            softmax), or None if not asked for.
        cut: the token cap ended the turn.
    """

    ids: list[int]
    logps: list[float] | None
    cut: bool


class Sampler:
    """The settings of an engine. Its ``limit`` is the model's number of positions; whoever knows it sets it.

    Args:
        tokenizer: the model's.
        max_new_tokens: cap on a turn, the stop token included.
        temperature: 0 takes the likeliest token.
        top_p: nucleus mass; below 1 no log-probs are given, since training can't reproduce them.
        seed: of the random streams; stream ``(seed, call, position)`` belongs to one context of one call.
    """

    limit: int = 1 << 30

    def __init__(self, tokenizer: Any, max_new_tokens: int, temperature: float, top_p: float, seed: int) -> None:
        if max_new_tokens < 1 or temperature < 0 or not 0 < top_p <= 1:
            raise ValueError(
                f"max_new_tokens={max_new_tokens}, temperature={temperature}, top_p={top_p}: need at least 1, at least 0, within (0, 1]"
            )
        self.tokenizer = tokenizer
        self.max_new_tokens, self.temperature, self.top_p, self.seed = max_new_tokens, temperature, top_p, seed
        known = tokenizer.get_vocab()
        self.stop_ids = frozenset(known[token] for token in (IM_END, END_OF_TEXT) if token in known)
        self._calls = 0

    def generate(
        self,
        contexts: Sequence[Sequence[int]],
        return_logps: bool = False,
        *,
        seeds: Sequence[int | str] | None = None,
        max_new_tokens: int | None = None,
    ) -> list[Sampled]:
        """Sample one turn after each context (non-empty lists of ids); results come in the order of ``contexts``.

        ``seeds`` gives each context its own stream, whatever was called before (a resumed run then samples what an
        uninterrupted one would have); ``max_new_tokens`` lowers or raises the cap for this call. Raises ValueError for an
        empty context, one that fills the model's positions, or log-probs with ``top_p`` below 1.
        """
        return self.sample(contexts, self.requests(contexts, return_logps, seeds, max_new_tokens), return_logps)

    def sample(self, contexts: Sequence[Sequence[int]], asked: Sequence[tuple[int, str]], return_logps: bool) -> list[Sampled]:
        """The engine's part of :meth:`generate`: ``asked`` holds cap and stream of each context."""
        raise NotImplementedError

    def requests(
        self, contexts: Sequence[Sequence[int]], return_logps: bool, seeds: Sequence[int | str] | None, max_new_tokens: int | None
    ) -> list[tuple[int, str]]:
        """Cap and name of the random stream of each context of a call. Raises ValueError as :meth:`generate` says."""
        if return_logps and self.top_p < 1:
            raise ValueError(f"top_p={self.top_p}: log-probs need top_p=1")
        if seeds is None:
            seeds = [f"{self.seed}/{self._calls}/{i}" for i in range(len(contexts))]
        self._calls += 1
        found = []
        for i, (context, seed) in enumerate(zip(contexts, seeds, strict=True)):
            cap = min(max_new_tokens or self.max_new_tokens, self.limit - len(context))
            if not len(context) or cap < 1:
                raise ValueError(f"context {i}: {len(context)} tokens, need 1 to {self.limit - 1}: shorten the view")
            found.append((cap, str(seed)))
        return found

    def turn(self, ids: Sequence[int], logps: list[float] | None) -> Sampled:
        """The turn of these ids; one that doesn't end in a stop id was cut."""
        held = list(ids)
        return Sampled(held, logps, held[-1] not in self.stop_ids)
