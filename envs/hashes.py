"""The protocol hash: rules, renderer, templates and tokenizer of a profile in one word. The prompt's hash stands apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from envs.chat import END, START, ChatML
from envs.profiles import Profile, get_profile, prompt_hash

SOURCES = (
    "calls", "chat", "compact", "episode", "gate", "header", "hermes", "index", "lean", "log", "maintenance", "omissions", "profiles",
    "rewrites", "respell", "search", "segments", "shown", "state", "text", "tools", "view", "windows",
)  # fmt: skip
"""Modules of ``envs`` that decide what a policy sees and what its calls do."""


def protocol_hash(profile: Profile, chat: ChatML) -> str:
    """Hash of a profile's flags and limits, the sources above, the chat template and the tokenizer (16 hex digits)."""
    return protocol_of(profile.hash, chat, prompt_hash("maintenance"), {name: source_hash(name) for name in SOURCES})


def protocol_of(profile: str, chat: ChatML, maintenance: str, sources: Mapping[str, str]) -> str:
    """The same from hashes that were kept, as an evaluation's lock keeps them: of profile, maintenance prompt and sources by name."""
    parts = [profile, START, END, repr(chat.generation), tokenizer_hash(chat), maintenance, *(sources[name] for name in SOURCES)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def rules_record(used: Iterable[tuple[str, str]], chat: ChatML) -> dict[str, Any]:
    """What a run keeps of the rules it trains under, as plain hashes: ``used`` are (profile, prompt) pairs by name.

    Returns ``protocol`` and ``profile`` by profile, ``prompt`` by "<profile> <prompt>", and ``tokenizer``. Raises ValueError for an
    unknown name.
    """
    pairs = sorted(set(used))
    profiles = {name: get_profile(name) for name, _ in pairs}
    return {
        "protocol": {name: protocol_hash(profile, chat) for name, profile in profiles.items()},
        "profile": {name: profile.hash for name, profile in profiles.items()},
        "prompt": {f"{p} {n}": prompt_hash(n, profiles[p].managed, profiles[p].syntax) for p, n in pairs},
        "tokenizer": tokenizer_hash(chat),
    }


def source_hash(module: str) -> str:
    """Hash of a module's source text."""
    return hashlib.sha256((resources.files("envs") / f"{module}.py").read_bytes()).hexdigest()


@lru_cache(maxsize=8)
def tokenizer_hash(chat: ChatML) -> str:
    """Hash of the tokenizer: its whole engine where it has one, else its vocabulary."""
    backend = getattr(chat.tokenizer, "backend_tokenizer", None)
    text = backend.to_str() if backend is not None else repr(sorted(chat.tokenizer.get_vocab().items()))
    return hashlib.sha256(text.encode()).hexdigest()
