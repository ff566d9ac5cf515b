"""Chunks of all streams made by worker processes with a bounded look-ahead, and written in order."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

from data_gen.build import Stream, check_tries
from data_gen.config import DataConfig
from data_gen.equal import SESSION
from data_gen.journal import Journal
from data_gen.records import caches_of_texts, chunk_size, make_chunk
from envs.chat import get_chat
from envs.config import ConfigError
from envs.runs import DataError

AHEAD = 3
"""Chunks under way or waiting for their turn, for each process: what bounds memory."""


COLLECT_EVERY = 20_000
"""New objects between two collections of garbage: at Python's 700 they take a third of the time, over objects that hardly form cycles."""


@dataclass
class Work:
    """One stream on its way to ``count`` units."""

    stream: Stream
    count: int
    journal: Journal
    goal: int | None = None
    """Tokens to reach in place of ``count``."""
    submitted: int = 0
    """First candidate that nobody was given."""
    waiting: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Chunks made before their predecessors."""

    def __post_init__(self) -> None:
        self.submitted = self.journal.next

    @property
    def full(self) -> bool:
        """Whether what is written is enough."""
        return self.journal.made >= self.count if self.goal is None else self.journal.tokens >= self.goal

    @property
    def chunk(self) -> int:
        """Candidates of one task."""
        return chunk_size(self.count if self.goal is None else self.goal // SESSION)

    @property
    def wants_more(self) -> bool:
        """Whether the units written and the candidates under way may not be enough."""
        if self.goal is not None:
            return not self.full  # how much the candidates under way will come to is not known
        return self.journal.made + self.submitted - self.journal.next < self.count

    def take(self) -> int:
        """The first candidate of the next chunk. Raises ConfigError when the stream never fills."""
        try:
            if self.goal is None:
                check_tries(self.stream, self.submitted, self.journal.made, self.count)
            else:
                check_tries(self.stream, self.journal.next, self.journal.made, self.journal.made + 1)
        except ValueError as error:
            raise ConfigError(f"data_gen: {error}: change sizes, families or counts") from None
        first = self.submitted
        self.submitted += self.chunk
        return first

    def put(self, chunk: dict[str, Any]) -> int:
        """Hand in a chunk; what is next in order is written. Returns how many wanted units that added."""
        self.waiting[chunk["first"]] = chunk
        before = min(self.journal.made, self.count)
        while not self.full and self.journal.next in self.waiting:
            self.journal.append(self.waiting.pop(self.journal.next))
        if self.full:
            self.waiting.clear()
        return min(self.journal.made, self.count) - before


def make_all(config: DataConfig, work: list[Work], processes: int, on_units: Callable[[str, int], None]) -> None:
    """Fill every stream. ``on_units`` hears of every chunk written: the stream's name and the number of wanted units in it."""
    if processes == 1:
        with _rare_collections():
            for w in work:
                while w.wants_more:
                    on_units(w.stream.name, w.put(make_chunk(config, w.stream, w.take(), w.chunk)))
        return
    with _executor(config, processes) as executor:
        under_way: dict[Future[dict[str, Any]], Work] = {}
        try:
            while True:
                while len(under_way) + sum(len(w.waiting) for w in work) < AHEAD * processes and (owed := _next(work)):
                    future = executor.submit(make_chunk, config, owed.stream, owed.take(), owed.chunk)
                    under_way[future] = owed
                if not under_way:
                    return
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    made = under_way.pop(future)
                    on_units(made.stream.name, made.put(future.result()))
        except BrokenProcessPool:
            raise DataError(
                "data_gen: a worker process died (out of memory?): the same command resumes, with processes=1 in less memory"
            ) from None


def _next(work: list[Work]) -> Work | None:
    return next((w for w in work if w.wants_more), None)


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def _executor(config: DataConfig, processes: int) -> Iterator[ProcessPoolExecutor]:
    # Forked from a clean server: forking a process that has threads (a test runner, a tracker) may hang.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["data_gen.pool", "transformers.tokenization_utils_tokenizers"])
    executor = ProcessPoolExecutor(processes, mp_context=context, initializer=_start, initargs=(config.tokenizer,))
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _start(tokenizer: str) -> None:
    """Set up a worker: Ctrl-C is for the parent to hear, and a worker whose parent is gone ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    get_chat(tokenizer)
    caches_of_texts()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, 10, 10)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
