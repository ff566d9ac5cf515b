"""How values are compared with texts and with each other."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

HAN = re.compile(r"[\u3400-\u9fff]")
"""A Han character."""


@lru_cache(maxsize=100_000)
def normalise(text: str) -> str:
    """NFKC, casefolded, whitespace squeezed: how values are looked for in texts."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(maxsize=20_000)
def _whole(value: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z0-9]){re.escape(value)}(?![a-z0-9])")


def holds(text: str, value: str) -> bool:
    """Whether a normalised text holds a normalised value as a whole: ``4 march`` does not stand in ``14 march``."""
    return bool(value) and value in text and _whole(value).search(text) is not None


def states(text: str, value: str) -> bool:
    """Whether a text holds a value."""
    return holds(normalise(text), normalise(value))


def same_value(one: str, two: str) -> bool:
    """Whether two values are the same but for case, width and spaces."""
    return normalise(one) == normalise(two)
