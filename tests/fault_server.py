"""An OpenAI-compatible server that the tests start: it answers as the expert would, and misbehaves by plan."""

from __future__ import annotations

import contextlib
import copy
import http.server
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Fault = Callable[["Handler", dict[str, Any]], None]
"""What becomes of one request instead of its answer, which is given."""


def key_of(asked: list[Any]) -> str:
    """Of a request's messages, or of the ids of its prompt."""
    return json.dumps(asked, sort_keys=True)


@dataclass
class Server:
    """``answers``: a view's key -> the answer. ``plan``: what goes wrong with the first requests, ``always`` with those after them."""

    answers: Mapping[str, dict[str, Any]]
    plan: list[Fault | None] = field(default_factory=list)
    always: Fault | None = None
    delay: Callable[[int], float] = lambda number: 0.0
    """Seconds before the answer to request ``number``."""
    address: str = ""
    at: list[float] = field(default_factory=list)
    """When each request came."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    """Numbers of the requests, in the order of their answers."""
    now: int = 0
    most: int = 0
    """Requests under way, and the most at once."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def waits(self) -> list[float]:
        return [b - a for a, b in zip(self.at, self.at[1:], strict=False)]


class Handler(http.server.BaseHTTPRequestHandler):
    server: Any

    def do_POST(self) -> None:
        plan: Server = self.server.plan
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with plan.lock:
            number = len(plan.at)
            plan.at.append(time.monotonic())
            plan.bodies.append(body)
            plan.now += 1
            plan.most = max(plan.most, plan.now)
        try:
            time.sleep(plan.delay(number))
            fault = plan.plan[number] if number < len(plan.plan) else plan.always
            answer = copy.deepcopy(plan.answers[key_of(body.get("messages") or body["prompt"])])
            with contextlib.suppress(OSError):  # a client that gave up has gone
                (fault or whole)(self, answer)
        finally:
            with plan.lock:
                plan.now -= 1
                plan.ended.append(number)

    def do_GET(self) -> None:
        self.give(200, json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode())

    def log_message(self, *arguments: Any) -> None:
        pass

    def give(self, status: int, data: bytes, length: int | None = None, kind: str = "application/json", **headers: str) -> None:
        """``length`` -1: none is told, the closed connection ends the answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length != -1:
            self.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
        self.close_connection = True


def said(text: str, read: int) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": read, "completion_tokens": 1, "total_tokens": read + 1}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}


def drawn(ids: list[int], prompt: list[int]) -> dict[str, Any]:
    """The same of vLLM's endpoint for ids."""
    choice = {"index": 0, "finish_reason": "stop", "text": "", "token_ids": ids, "prompt_token_ids": prompt}
    return {"id": "1", "object": "text_completion", "created": 0, "model": "m", "choices": [choice]}


def whole(handler: Handler, answer: dict[str, Any]) -> None:
    handler.give(200, json.dumps(answer).encode())


def status(code: int, message: str = "", **headers: str) -> Fault:
    return lambda handler, answer: handler.give(code, json.dumps({"error": {"message": message}}).encode(), **headers)


def hang(seconds: float) -> Fault:
    return lambda handler, answer: time.sleep(seconds)


def drip(handler: Handler, answer: dict[str, Any]) -> None:
    """A byte now and then: no single wait is long, the whole never ends."""
    data = json.dumps(answer).encode()
    handler.give(200, b"", len(data))
    handler.close_connection = True
    for byte in data[:40]:
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
        time.sleep(0.05)


def cut(handler: Handler, answer: dict[str, Any]) -> None:
    """The connection ends in mid-JSON, with more announced."""
    data = json.dumps(answer).encode()
    handler.give(200, data[: len(data) // 2], len(data))


def cut_unannounced(handler: Handler, answer: dict[str, Any]) -> None:
    """The same with no length told: for HTTP the answer is whole."""
    data = json.dumps(answer).encode()
    handler.give(200, data[: len(data) // 2], -1)


def reset(handler: Handler, answer: dict[str, Any]) -> None:
    """The connection is reset before a word."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def cut_stream(handler: Handler, answer: dict[str, Any]) -> None:
    """Server-sent events, which nobody asked for, that break off."""
    handler.give(200, b'data: {"id": "1", "choices": [{"delta": {"content": "ov"}}]}\n\ndata: {"id', -1, "text/event-stream")


def page(handler: Handler, answer: dict[str, Any]) -> None:
    """A proxy's error page, as if all were well."""
    handler.give(200, b"<html><title>502 Bad Gateway</title></html>", kind="text/html")


def as_text(handler: Handler, answer: dict[str, Any]) -> None:
    """The right answer under the wrong name."""
    handler.give(200, json.dumps(answer).encode(), kind="application/octet-stream")


def changed(**fields: Any) -> Fault:
    """The answer with these fields; ``read`` is added to the count of prompt tokens."""
    read = fields.pop("read", 0)

    def answer_with(handler: Handler, answer: dict[str, Any]) -> None:
        answer["usage"]["prompt_tokens"] += read
        whole(handler, {**answer, **fields})

    return answer_with


@contextlib.contextmanager
def serving(server: Server) -> Iterator[Server]:
    host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    host.daemon_threads, host.plan = True, server  # type: ignore[attr-defined]
    server.address = f"http://127.0.0.1:{host.server_port}/v1"
    thread = threading.Thread(target=host.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        host.shutdown()
        host.server_close()
        thread.join()
