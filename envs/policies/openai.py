"""A policy behind any OpenAI-compatible server (``transformers serve``, ``vllm serve``, …), through the official client.

    policy = OpenAIPolicy(chat, base_url="http://localhost:8000/v1", model="exports/best", max_new_tokens=96)
    turns = policy.act(views)

Views go out as chat messages, so the server renders and encodes them with its own template: weights that ``python -m rl export`` wrote
carry one that gives the ids of training. The server's count of prompt tokens is held against the view's; another count is an error.
A chat endpoint returns text, not ids: the record holds the ids that our chat writer makes of it, which are not always those that were
sampled. vLLM takes and returns ids: :class:`envs.policies.vllm.VLLMServerPolicy` asks for those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from envs.chat import ChatML
from envs.policies.base import Sampled, View, seed_number
from envs.policies.endpoint import Endpoint, EndpointError, at_once
from envs.trajectory import view_hash

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIPolicy:
    """A served model that plays turns, many requests at a time.

    Args:
        chat: the chat writer with the served model's tokenizer.
        base_url: of the API, ``/v1`` included.
        model: the model's name on the server (``GET /v1/models``; for ``transformers serve FOLDER`` the folder as it was given).
        api_key_env: environment variable that holds the key; local servers want none.
        max_new_tokens: cap on a turn, the end-of-turn token included.
        temperature: 0 takes the likeliest token, as far as the server's batching lets it.
        seed: with a view, the seed of what is sampled: neither the order of requests nor a resumed run changes it.
        stop: texts that end a turn, for servers whose model doesn't end it by itself.
        concurrency: requests under way at once.
        timeout, retries, backoff: of one request (:class:`envs.policies.endpoint.Endpoint`).
    """

    def __init__(
        self,
        chat: ChatML,
        *,
        base_url: str,
        model: str,
        api_key_env: str = "OPENAI_API_KEY",
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        seed: int = 0,
        stop: Sequence[str] = (),
        concurrency: int = 16,
        timeout: float = 600.0,
        retries: int = 5,
        backoff: float = 0.5,
    ) -> None:
        self.chat, self.endpoint = chat, Endpoint(base_url, model, timeout, retries, backoff, api_key_env)
        self.max_new_tokens, self.temperature, self.seed = max_new_tokens, temperature, seed
        self.stop, self.concurrency = tuple(stop), concurrency

    def act(self, views: Sequence[View]) -> list[Sampled]:
        """One turn a view, in order. Raises EndpointError."""
        return asyncio.run(self._act(views))

    async def _act(self, views: Sequence[View]) -> list[Sampled]:
        async with self.endpoint.client() as client:
            return await at_once([partial(self.turn, client, view) for view in views], self.concurrency)

    async def turn(self, client: AsyncOpenAI, view: View) -> Sampled:
        """One view's turn. Raises EndpointError."""
        from openai.types.chat import ChatCompletion

        extra: dict[str, Any] = {"stop": list(self.stop)} if self.stop else {}
        answer = await self.endpoint.ask(
            lambda: client.chat.completions.create(
                model=self.endpoint.model,
                messages=[message.as_dict() for message in view.messages],  # type: ignore[misc]
                temperature=self.temperature,
                max_tokens=self.max_new_tokens,
                seed=seed_number(f"{self.seed}/{view_hash(view.ids)}"),
                **extra,
            ),
            ChatCompletion,
        )
        self._check_count(view, answer.usage.prompt_tokens if answer.usage else None)
        choice = answer.choices[0]
        if choice.message is None:  # the client takes half a choice for one
            raise EndpointError(f"{self._where}: a choice without a message: see the server's log")
        if choice.message.tool_calls or getattr(choice.message, "reasoning_content", None):
            raise EndpointError(
                f"{self._where}: the server took calls or thoughts out of the turn's text: serve it without tool "
                "and reasoning parsers (weights of python -m rl export tell transformers serve so)"
            )
        text = choice.message.content or ""
        ids = self.chat.encode(text)
        # Stopped by the last token that was allowed, some servers say "length": then the count holds the end-of-turn token too.
        used = answer.usage.completion_tokens if answer.usage else self.max_new_tokens
        cut = choice.finish_reason == "length" and used <= len(ids)
        return Sampled(ids if cut else self.chat.turn_ids(text), text, cut)

    @property
    def _where(self) -> str:
        return f"{self.endpoint.base_url}: model {self.endpoint.model!r}"

    def _check_count(self, view: View, counted: int | None) -> None:
        """Raise EndpointError unless the server counted the view's tokens as the chat writer does."""
        if counted is None:
            raise EndpointError(
                f"{self._where}: the server doesn't tell how many prompt tokens it read, so that its template "
                "can't be checked: use one that reports usage"
            )
        if counted != view.tokens:
            raise EndpointError(
                f"{self._where}: the server read {counted} prompt tokens, the view has {view.tokens}: another "
                "tokenizer or chat template than the policy's: serve what python -m rl export wrote, and name that folder as the model"
            )
