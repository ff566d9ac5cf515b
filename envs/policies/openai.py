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
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from envs.chat import ChatML
from envs.config import UserError
from envs.policies.base import Sampled, View, seed_number
from envs.trajectory import view_hash

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class EndpointError(UserError):
    """The server can't be had, refuses, or answers what can't be used: infrastructure, not the model's doing."""


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
        timeout: seconds for one request.
        retries: of a request that failed by connection, timeout, 408, 409, 429 or 5xx; the client waits longer before each.
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
    ) -> None:
        self.chat, self.base_url, self.model = chat, base_url, model
        self.api_key_env, self.max_new_tokens, self.temperature = api_key_env, max_new_tokens, temperature
        self.seed, self.stop, self.concurrency, self.timeout, self.retries = seed, tuple(stop), concurrency, timeout, retries

    def act(self, views: Sequence[View]) -> list[Sampled]:
        """One turn a view, in order. Raises EndpointError."""
        return asyncio.run(self._act(views))

    async def _act(self, views: Sequence[View]) -> list[Sampled]:
        try:
            from openai import AsyncOpenAI
        except ImportError:
            raise EndpointError("policy openai: package openai isn't installed: pip install -e '.[serve]'") from None
        gate = asyncio.Semaphore(self.concurrency)
        # A local server asks for no key, but the client wants a text.
        key = os.environ.get(self.api_key_env) or "none"
        async with AsyncOpenAI(base_url=self.base_url, api_key=key, timeout=self.timeout, max_retries=self.retries) as client:

            async def one(view: View) -> Sampled:
                async with gate:
                    return await self.turn(client, view)

            try:
                # The first failure cancels the requests that are still out.
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(one(view)) for view in views]
            except ExceptionGroup as group:
                raise self._told(group.exceptions[0]) from group.exceptions[0]
        return [task.result() for task in tasks]

    async def turn(self, client: AsyncOpenAI, view: View) -> Sampled:
        """One view's turn. Raises EndpointError and the client's errors."""
        extra: dict[str, Any] = {"stop": list(self.stop)} if self.stop else {}
        answer = await client.chat.completions.create(
            model=self.model,
            messages=[message.as_dict() for message in view.messages],  # type: ignore[misc]
            temperature=self.temperature,
            max_tokens=self.max_new_tokens,
            seed=seed_number(f"{self.seed}/{view_hash(view.ids)}"),
            **extra,
        )
        self._check_count(view, answer.usage.prompt_tokens if answer.usage else None)
        if not answer.choices:
            raise EndpointError(f"{self.base_url}: model {self.model!r}: an answer without a choice: see the server's log")
        choice = answer.choices[0]
        if choice.message.tool_calls or getattr(choice.message, "reasoning_content", None):
            raise EndpointError(
                f"{self.base_url}: model {self.model!r}: the server took calls or thoughts out of the turn's text: serve it without tool "
                "and reasoning parsers (weights of python -m rl export tell transformers serve so)"
            )
        text = choice.message.content or ""
        ids = self.chat.encode(text)
        # Stopped by the last token that was allowed, some servers say "length": then the count holds the end-of-turn token too.
        used = answer.usage.completion_tokens if answer.usage else self.max_new_tokens
        cut = choice.finish_reason == "length" and used <= len(ids)
        return Sampled(ids if cut else self.chat.turn_ids(text), text, cut)

    def _check_count(self, view: View, counted: int | None) -> None:
        """Raise EndpointError unless the server counted the view's tokens as the chat writer does."""
        if counted is None:
            raise EndpointError(
                f"{self.base_url}: model {self.model!r}: the server doesn't tell how many prompt tokens it read, so that its template "
                "can't be checked: use one that reports usage"
            )
        if counted != view.tokens:
            raise EndpointError(
                f"{self.base_url}: model {self.model!r}: the server read {counted} prompt tokens, the view has {view.tokens}: another "
                "tokenizer or chat template than the policy's: serve what python -m rl export wrote, and name that folder as the model"
            )

    def _told(self, error: Exception) -> Exception:
        """The client's error with server and remedy; any other as it is."""
        from openai import APIConnectionError, APIStatusError, APITimeoutError, OpenAIError

        if isinstance(error, APITimeoutError):
            return EndpointError(
                f"{self.base_url}: no answer within {self.timeout:g} s, {self.retries + 1} times: a larger machine, or fewer requests "
                "at once"
            )
        if isinstance(error, APIConnectionError):
            return EndpointError(f"{self.base_url}: no server answers there ({_short(error)}): start it, or mend base_url")
        if isinstance(error, APIStatusError):
            return EndpointError(
                f"{self.base_url}: model {self.model!r}: the server answers {error.status_code} {_short(error.response.text)}: "
                "GET /v1/models names what it serves, its log tells the rest"
            )
        return (
            EndpointError(f"{self.base_url}: {_short(error)}: see the server's log") if isinstance(error, OpenAIError) else error
        )


def _short(text: object) -> str:
    return " ".join(str(text).split())[:300]
