"""How a server is asked: what passes is tried again, after waits that grow; what stays is told with server and remedy.

    endpoint = Endpoint("http://localhost:8000/v1", "policy", timeout=60, retries=5, backoff=0.5)
    answer = await endpoint.ask(lambda: client.completions.create(...), Completion)
    answers = await at_once([...], concurrency=16)

The official client asks, with its own retries off: it takes half an answer or a proxy's error page for an answer, it can't be told how
long to wait, and its time limit starts again with every byte.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from envs.config import UserError

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from tenacity import RetryCallState

T = TypeVar("T")
LONGEST_WAIT = 60.0
"""Seconds between two tries, unless the server asks for more."""
LONGEST_ASKED = 120.0
"""Seconds that a server may ask to wait (``Retry-After``); one that asks for more is an error."""
PASSING = frozenset({408, 409, 425, 429})
"""Statuses that are tried again, with those from 500 on."""
REMEDIES = {
    401: "set the environment variable that api_key_env names to a key that the server takes",
    403: "this key may not use the model: name another key by api_key_env",
    404: "GET /v1/models names what it serves: mend served_model, or base_url (it ends in /v1)",
    413: "the input is too long for the server: start it with a longer context",
    429: "fewer requests at once (requests.concurrency), or longer waits (requests.backoff, requests.retries)",
}
SERVE = "pip install -c constraints.txt -e '.[serve]'"


class EndpointError(UserError):
    """The server can't be had, refuses, or answers what can't be used: infrastructure, not the model's doing."""


class EndpointDownError(EndpointError):
    """No request of anybody would fare better: nobody listens, the key or the model is refused, the quota is used up."""


class GarbledError(EndpointError):
    """The answer broke off, or isn't one: what is behind a proxy that restarts, say. The next may be whole."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A served model and the patience that is had with it.

    Args:
        base_url: of the API, ``/v1`` included.
        model: the model's name there.
        timeout: seconds for one try, from the first byte sent to the last one read.
        retries: tries after the first.
        backoff: seconds before the first of them; each wait is twice the one before, up to a minute, and as much as ``backoff`` more by
            chance. A server's ``Retry-After`` is kept to where it is longer.
        api_key_env: environment variable that holds the key; local servers want none.
    """

    base_url: str
    model: str
    timeout: float = 600.0
    retries: int = 5
    backoff: float = 0.5
    api_key_env: str = "OPENAI_API_KEY"

    def client(self) -> AsyncOpenAI:
        """The official client. Raises EndpointDownError where it isn't installed."""
        try:
            from openai import AsyncOpenAI
        except ImportError:
            raise EndpointDownError(f"policy openai: package openai isn't installed: {SERVE}") from None
        # A local server asks for no key, but the client wants a text.
        key = os.environ.get(self.api_key_env) or "none"
        return AsyncOpenAI(base_url=self.base_url, api_key=key, timeout=self.timeout, max_retries=0)

    async def ask(self, send: Callable[[], Awaitable[Any]], kind: type[T]) -> T:
        """The answer, of this kind and with a choice. Raises EndpointError once no try is left."""
        from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

        async def once() -> T:
            async with asyncio.timeout(self.timeout):
                return self._whole(await send(), kind)

        tries = AsyncRetrying(
            stop=stop_after_attempt(self.retries + 1), wait=self._wait, retry=retry_if_exception(_passes), reraise=True
        )
        try:
            return await tries(once)
        except EndpointError:
            raise
        except Exception as error:
            raise self.told(error) from error

    def _whole(self, answer: Any, kind: type[T]) -> T:
        if not isinstance(answer, kind):
            raise GarbledError(
                f"{self.base_url}: answers no JSON but {_short(answer)!r}: is base_url the API's (it ends in /v1), and no proxy in "
                "between?"
            )
        if not getattr(answer, "choices", None):
            raise GarbledError(
                f"{self.base_url}: model {self.model!r}: an answer without a choice ({_short(answer)}): see the server's log"
            )
        return answer

    def _wait(self, state: RetryCallState) -> float:
        from tenacity import wait_exponential_jitter

        error = state.outcome.exception() if state.outcome else None
        grown = wait_exponential_jitter(multiplier=self.backoff, max=LONGEST_WAIT, jitter=self.backoff)
        return max(grown(state), _asked_wait(error))

    def told(self, error: Exception) -> Exception:
        """The client's error with server and remedy; any other as it is."""
        from openai import APIConnectionError, APIStatusError, APITimeoutError, OpenAIError

        tries = f"{self.retries + 1} times"
        if isinstance(error, TimeoutError | APITimeoutError):
            return EndpointError(
                f"{self.base_url}: no answer within {self.timeout:g} s, {tries}: a longer requests.timeout, a faster machine, or fewer "
                "requests at once (requests.concurrency)"
            )
        if isinstance(error, APIConnectionError):
            why = _short(error.__cause__ or error)
            return EndpointDownError(f"{self.base_url}: no server answers there ({why}), {tries}: start it, or mend base_url")
        if isinstance(error, APIStatusError):
            status, said = error.status_code, _short(error.response.text)
            wait = _asked_wait(error)
            remedy = REMEDIES.get(status, "GET /v1/models names what it serves, its log tells the rest")
            if wait > LONGEST_ASKED:
                remedy = f"it asks to wait {wait:.0f} s: the same command resumes then"
            kind = EndpointDownError if status in (401, 403, 404, 429) else EndpointError
            return kind(f"{self.base_url}: model {self.model!r}: the server answers {status} {said}: {remedy}")
        if isinstance(error, ValueError):  # JSON that broke off in an answer whose length nobody said
            return GarbledError(f"{self.base_url}: an answer that breaks off ({_short(error)}), {tries}: see the server's log")
        return (
            EndpointError(f"{self.base_url}: {_short(error)}: see the server's log") if isinstance(error, OpenAIError) else error
        )


async def at_once(jobs: Sequence[Callable[[], Awaitable[T]]], concurrency: int) -> list[T]:
    """The results in the order of the jobs, at most ``concurrency`` under way; the first failure is raised and ends the others."""
    gate = asyncio.Semaphore(concurrency)

    async def one(job: Callable[[], Awaitable[T]]) -> T:
        async with gate:  # also while it waits to try again: a server that is overrun gets fewer requests
            return await job()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(job)) for job in jobs]
    except ExceptionGroup as group:
        raise group.exceptions[0] from group.exceptions[0].__cause__
    return [task.result() for task in tasks]


def _passes(error: BaseException) -> bool:
    """Whether the same request may succeed a little later."""
    from openai import APIConnectionError, APIStatusError

    if isinstance(error, APIStatusError):
        return (error.status_code in PASSING or error.status_code >= 500) and _asked_wait(error) <= LONGEST_ASKED
    return isinstance(error, APIConnectionError | TimeoutError | GarbledError | ValueError)


def _asked_wait(error: BaseException | None) -> float:
    """Seconds that the server's ``Retry-After`` asks for, as a number or a date; 0 without one."""
    text = str(getattr(getattr(error, "response", None), "headers", {}).get("retry-after") or "")
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return 0.0


def _short(text: object) -> str:
    return " ".join(str(text).split())[:300]
