"""Sampling with vLLM behind the interface of ``envs.policies.hf.HFPolicy``: ids in, exactly the sampled ids and log-probs out.

    policy = VLLMPolicy("smollm2", max_new_tokens=64)                    # an engine in this process
    policy = VLLMServerPolicy("http://localhost:8000/v1", "smollm2")     # a running `vllm serve`
    turns = policy.generate([chat.render(messages), ...])                # one Sampled a context, in order

Nothing is tokenised by vLLM: prompts go in as ids, and what comes back is the ids that were drawn. Every context has a seed of its
own. Prefix caching is the engine's, so a view that only grows costs its new tokens.

Needs the extra ``vllm`` (CUDA), or vLLM's CPU build in an environment of its own (``make test-vllm``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.policies.base import seed_number
from envs.policies.endpoint import Endpoint, EndpointError, at_once
from envs.policies.sampler import Sampled, Sampler
from envs.policies.smollm2 import ModelError, load_tokenizer, pick_dtype, resolve_model

if TYPE_CHECKING:
    from openai import AsyncOpenAI

LOGPROBS_MODE = "processed_logprobs"
"""Log-probabilities of the distribution that was drawn from, after the temperature."""
REMEDY = 'pip install -e ".[vllm]" on a CUDA machine; on a CPU run make test-vllm once, which makes .venv-vllm'


class _Requests(Sampler):
    """Requests as vLLM takes them, in process and through a server."""

    def __init__(
        self, name: str | Path | None, tokenizer: Any, max_new_tokens: int, temperature: float, top_p: float, seed: int
    ) -> None:
        if tokenizer is None and name is None:
            raise ValueError("tokenizer: required with a running engine: pass the model's own")
        super().__init__(
            tokenizer if tokenizer is not None else load_tokenizer(name or ""), max_new_tokens, temperature, top_p, seed
        )

    def _settings(self, asked: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
        """Sampling settings of each context, by the names that engine and server share."""
        return [
            {"max_tokens": cap, "seed": seed_number(seed), "temperature": self.temperature, "top_p": self.top_p}
            for cap, seed in asked
        ]


class VLLMPolicy(_Requests):
    """A model that plays turns on a vLLM engine in this process.

    Args:
        model: name or folder of a model, or None with ``llm``.
        tokenizer: the model's; default: the one of the same name. Required with ``llm``.
        llm: a running ``vllm.LLM`` instead, made with ``logprobs_mode="processed_logprobs"``.
        max_new_tokens, temperature, top_p, seed: as of :class:`envs.policies.hf.HFPolicy`.
        dtype: of the weights; ``"auto"`` as everywhere here.
        max_model_len: positions that the engine provides for; default: the model's own.
        memory_share: of the GPU's (on a CPU the machine's) memory that the engine may take; default: 0.9, on a CPU 0.2. There the
            cache of keys and values takes what ``VLLM_CPU_KVCACHE_SPACE`` says, in GiB.

    Raises:
        ModelError: vLLM isn't installed, or its engine can't load the model.
    """

    def __init__(
        self,
        model: str | Path | None,
        tokenizer: Any = None,
        *,
        llm: Any = None,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        dtype: str = "auto",
        max_model_len: int | None = None,
        memory_share: float | None = None,
    ) -> None:
        super().__init__(model, tokenizer, max_new_tokens, temperature, top_p, seed)
        self.llm = llm if llm is not None else _engine(model or "", dtype, seed, max_model_len, memory_share)
        self.limit = int(self.llm.llm_engine.model_config.max_model_len)
        self._room = _room(self.llm.llm_engine.vllm_config)

    def close(self) -> None:
        """Stop the engine and its process."""
        self.llm.llm_engine.engine_core.shutdown()

    def sample(self, contexts: Sequence[Sequence[int]], asked: Sequence[tuple[int, str]], return_logps: bool) -> list[Sampled]:
        from vllm import SamplingParams

        settings = [
            SamplingParams(**each, stop_token_ids=sorted(self.stop_ids), logprobs=0 if return_logps else None, detokenize=False)
            for each in self._settings(asked)
        ]
        prompts = [{"prompt_token_ids": list(context)} for context in contexts]
        turns = []
        for part in _waves([len(context) for context in contexts], self._room):
            for output in self.llm.generate(prompts[part], settings[part], use_tqdm=False):
                ids, found = output.outputs[0].token_ids, output.outputs[0].logprobs
                logps = [found[i][token].logprob for i, token in enumerate(ids)] if return_logps else None
                turns.append(self.turn(ids, logps))
        return turns


def _room(config: Any) -> int | None:
    """Tokens that may wait to be read at once; None: any number.

    vLLM's CPU build dies when it reads a prompt in parts that has a seed (it sets back a random stream that can't be set back).
    """
    if config.device_config.device_type != "cpu" or not config.scheduler_config.enable_chunked_prefill:
        return None
    return int(config.scheduler_config.max_num_batched_tokens)


def _waves(lengths: Sequence[int], room: int | None) -> list[slice]:
    """Slices of contexts of ``lengths`` tokens that are read together; with ``room`` none needs reading in parts."""
    if room is None or sum(lengths) <= room:
        return [slice(0, len(lengths))]
    found, first, held = [], 0, 0
    for i, length in enumerate(lengths):
        if length > room:
            raise ValueError(
                f"context {i}: {length} tokens, vLLM's CPU build reads {room} at once: set max_num_batched_tokens higher"
            )
        if held + length > room:
            found.append(slice(first, i))
            first, held = i, 0
        held += length
    return [*found, slice(first, len(lengths))]


def _engine(model: str | Path, dtype: str, seed: int, max_model_len: int | None, share: float | None) -> Any:
    try:
        from vllm import LLM
    except ImportError as error:
        raise ModelError(f"model {str(model)!r}: vLLM can't be imported ({error}): {REMEDY}") from error
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = pick_dtype(device) if dtype == "auto" else dtype
    share = share or (0.9 if device == "cuda" else 0.2)
    whole: dict[str, Any] = {}
    if device == "cpu":  # see _room: prompts are read whole
        whole = {"enable_chunked_prefill": False, "max_num_batched_tokens": max(max_model_len or 0, 16_384)}
    try:
        return LLM(
            model=resolve_model(model), dtype=chosen, seed=seed, max_model_len=max_model_len, gpu_memory_utilization=share,
            logprobs_mode=LOGPROBS_MODE, generation_config="vllm", enable_prefix_caching=True, disable_log_stats=True, **whole,
        )  # fmt: skip
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"model {str(model)!r}: vLLM can't load it ({' '.join(str(error).split())[:200]})") from error


class VLLMServerPolicy(_Requests):
    """A model that plays turns on a running vLLM server, through its completions endpoint with token ids.

    The server must give log-probabilities of what is drawn: ``vllm serve FOLDER --logprobs-mode processed_logprobs``.

    Args:
        base_url: of the OpenAI-compatible API, with ``/v1``.
        model: name or folder of the model, for its tokenizer, where none is given.
        tokenizer: the model's.
        served: the model's name on the server; default: the only one that it serves.
        concurrency: requests under way at once.
        timeout, retries, backoff: of one request (:class:`envs.policies.endpoint.Endpoint`).
        api_key_env: environment variable that holds the key, where the server asks for one.

    Raises:
        ModelError: no server answers there, or it serves another model.
    """

    def __init__(
        self,
        base_url: str,
        model: str | Path | None = None,
        tokenizer: Any = None,
        *,
        served: str | None = None,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        concurrency: int = 64,
        timeout: float = 600.0,
        retries: int = 5,
        backoff: float = 0.5,
        api_key_env: str = "OPENAI_API_KEY",
    ) -> None:
        super().__init__(model, tokenizer, max_new_tokens, temperature, top_p, seed)
        self.base_url, self.concurrency = base_url.rstrip("/"), concurrency
        self._patience = (timeout, retries, backoff, api_key_env)
        self._loop = asyncio.Runner()
        self._client: AsyncOpenAI | None = None
        self.served, self.limit = self._run(self._who(served))
        self._endpoint = Endpoint(self.base_url, self.served, *self._patience)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run(work)

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._run(self._client.close())
        self._loop.close()

    def _connect(self) -> AsyncOpenAI:
        if self._client is None:
            self._client = Endpoint(self.base_url, "", *self._patience).client()
        return self._client

    async def _who(self, served: str | None) -> tuple[str, int]:
        from openai import OpenAIError

        try:
            retries = self._patience[1]
            models = {m.id: m async for m in self._connect().with_options(max_retries=retries).models.list()}
        except OpenAIError as error:
            raise ModelError(
                f"server {self.base_url}: no answer ({error}): start it with vllm serve FOLDER, or correct the address"
            ) from error
        name = served or next(iter(models), "")
        if name not in models:
            raise ModelError(
                f"server {self.base_url}: serves {', '.join(models) or 'nothing'}, not {served!r}: name one of these"
            )
        return name, int(getattr(models[name], "max_model_len", None) or 1 << 30)

    def sample(self, contexts: Sequence[Sequence[int]], asked: Sequence[tuple[int, str]], return_logps: bool) -> list[Sampled]:
        """As of every engine.

        Raises EndpointError when a request fails on every try, or the server read other ids than it was sent.
        """
        settings = self._settings(asked)
        return list(self._run(self._ask_all(contexts, settings, return_logps)))

    async def _ask_all(self, contexts: Sequence[Sequence[int]], settings: Sequence[dict[str, Any]], logps: bool) -> list[Sampled]:
        jobs = [partial(self._ask, c, s, logps) for c, s in zip(contexts, settings, strict=True)]
        return await at_once(jobs, self.concurrency)

    async def _ask(self, context: Sequence[int], setting: dict[str, Any], logps: bool) -> Sampled:
        from openai.types import Completion

        answer = await self._endpoint.ask(
            lambda: self._connect().completions.create(
                model=self.served, prompt=list(context), logprobs=1 if logps else None, **setting,
                extra_body={"stop_token_ids": sorted(self.stop_ids), "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "return_token_ids": True},
            ),
            Completion,
        )  # fmt: skip
        choice: Any = answer.choices[0]
        read = getattr(choice, "prompt_token_ids", None) or ()
        if list(read) != list(context):
            raise EndpointError(
                f"{self.base_url}: model {self.served!r}: read {len(read)} ids of {len(context)}: no vLLM server of this model? Use "
                "endpoint: chat for any other"
            )
        return self.turn(choice.token_ids, list(choice.logprobs.token_logprobs) if logps else None)
