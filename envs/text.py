"""How values are compared with texts and with each other."""

from __future__ import annotations

import unicodedata
from functools import lru_cache


@lru_cache(maxsize=100_000)
def normalise(text: str) -> str:
    """NFKC, casefolded, whitespace squeezed: how values are looked for in texts."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def states(text: str, value: str) -> bool:
    """Whether a text holds a value."""
    return normalise(value) in normalise(text)


def same_value(one: str, two: str) -> bool:
    """Whether two values are the same but for case, width and spaces."""
    return normalise(one) == normalise(two)
