"""Where the time of a step goes: seconds by part, each second in one part only."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator


class Clock:
    """Seconds by part. Inside a nested part the outer one stands still.

    with clock("host"):        # view, parser, scorer, rows
        with clock("model"):   # forward and backward passes: not the host's
            ...
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    @contextlib.contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        self._pass()
        self._open.append(part)
        try:
            yield
        finally:
            self._pass()
            self._open.pop()

    def _pass(self) -> None:
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def take(self, part: str) -> float:
        """The seconds of a part since they were last taken."""
        self._pass()
        return self.seconds.pop(part, 0.0)
