"""``python -m data_gen sessions CONFIG``: whole sessions by length, to be played from their first turn (an evaluation's ``sessions``).

Every family gives the same number of each length, half of them with a user's constraint that may change on the way. A candidate of
another length or split is passed over, so the file is a function of the config alone.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from data_gen.config import DataConfig
from envs.chat import ChatML, get_chat
from envs.config import ConfigError, Strict
from envs.lengths import LENGTHS, length_of, log_tokens
from envs.runs import write_jsonl_atomic
from envs.tasks import get_spec
from envs.tasks.base import Session, split_of
from envs.tasks.engine import Builder, Knobs
from envs.tasks.words import Lang

SHAPES: dict[str, dict[str, Any]] = {
    "short": {"turns": (1, 6), "fillers": (4, 14)},
    "medium": {"turns": (5, 14), "fillers": (8, 28)},
    "long": {"turns": (9, 20), "fillers": (16, 36)},
    "very long": {"turns": (60, 90), "fillers": (28, 40)},
}
"""User turns, and sentences of small print in a result, that sessions of a length are drawn with."""
KNOBS = Knobs(close=0.8, constraint=0.5, change=0.25, ask=0.3, rule=0.25, none=0.05, paraphrased=0.1)
MAX_TRIES = 1000


class SuiteConfig(Strict):
    """Sessions for an evaluation."""

    out: str
    """JSONL file to write."""
    families: tuple[str, ...]
    languages: tuple[Lang, ...] = Field(default=("en",), min_length=1)
    held_out: bool = False
    """Allow held-out families: for the final test alone."""
    seed: int = 0
    each: dict[str, int] = {"short": 1, "medium": 2, "long": 2, "very long": 1}
    """Sessions of each length, per family and language."""
    max_tokens: int | None = Field(default=None, ge=256)
    """Longest log, in tokens of the script: one that plain history can still hold, say."""
    tokenizer: str = "smollm2"

    @field_validator("each")
    @classmethod
    def _lengths(cls, value: dict[str, int]) -> dict[str, int]:
        names = [name for name, _ in LENGTHS]
        for name, count in value.items():
            if name not in names:
                raise ValueError(f"unknown length {name!r}: choose from {', '.join(names)}")
            if count < 0:
                raise ValueError(f"{name}: {count} sessions: it must be 0 or more")
        return value

    @model_validator(mode="after")
    def _families(self) -> SuiteConfig:
        DataConfig(families=self.families, held_out=self.held_out).check_held_out()
        return self


def draw(config: SuiteConfig) -> Iterator[Session]:
    """The sessions, family by family. Raises ConfigError where a length can't be drawn."""
    chat = get_chat(config.tokenizer)
    for family, lang in itertools.product(config.families, config.languages):
        for length, count in config.each.items():
            yield from itertools.islice(_candidates(config, family, lang, length, chat), count)


def _candidates(config: SuiteConfig, family: str, lang: Lang, length: str, chat: ChatML) -> Iterator[Session]:
    for number in range(MAX_TRIES):
        key = f"suite/{config.seed}/{family}/{lang}/{length}/{number}"
        seed = int(hashlib.sha256(key.encode()).hexdigest()[:12], 16)
        session = Builder(get_spec(family, lang), seed, replace(KNOBS, **SHAPES[length])).session()
        if not config.held_out and split_of(session) != "val":
            continue
        if length_of(session, chat) != length or (config.max_tokens and log_tokens(session, chat) > config.max_tokens):
            continue
        yield session
    raise ConfigError(f"{family}: no more {length} sessions in {MAX_TRIES} tries: raise max_tokens, or ask for fewer")


def run(config: SuiteConfig) -> dict[str, Any]:
    """Write the file; returns the number of sessions and turns, and of sessions by length."""
    from tqdm import tqdm

    chat = get_chat(config.tokenizer)
    total = sum(config.each.values()) * len(config.families) * len(config.languages)
    sessions = list(tqdm(draw(config), total=total, desc="sessions", unit="session"))
    write_jsonl_atomic(Path(config.out), sessions)
    lengths = [length_of(s, chat) for s in sessions]
    return {
        "sessions": len(sessions),
        "turns": sum(len(s.turns) for s in sessions),
        "tokens": sum(log_tokens(s, chat) for s in sessions),
        **{name: lengths.count(name) for name in dict.fromkeys(lengths)},
    }
