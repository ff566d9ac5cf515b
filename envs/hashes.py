"""The protocol hash: rules, renderer, templates and tokenizer of a profile in one word. The prompt's hash stands apart."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources

from envs.chat import END, START, ChatML
from envs.profiles import Profile, prompt_hash

SOURCES = (
    "calls", "chat", "compact", "episode", "gate", "header", "hermes", "index", "lean", "log", "maintenance", "omissions", "profiles",
    "rewrites", "respell", "search", "segments", "shown", "state", "text", "tools", "view", "windows",
)  # fmt: skip
"""Modules of ``envs`` that decide what a policy sees and what its calls do."""


def protocol_hash(profile: Profile, chat: ChatML) -> str:
    """Hash of a profile's flags and limits, the sources above, the chat template and the tokenizer (16 hex digits)."""
    parts = [
        profile.hash,
        START,
        END,
        repr(chat.generation),
        tokenizer_hash(chat),
        prompt_hash("maintenance"),
        *(source_hash(name) for name in SOURCES),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def source_hash(module: str) -> str:
    """Hash of a module's source text."""
    return hashlib.sha256((resources.files("envs") / f"{module}.py").read_bytes()).hexdigest()


@lru_cache(maxsize=8)
def tokenizer_hash(chat: ChatML) -> str:
    """Hash of the tokenizer: its whole engine where it has one, else its vocabulary."""
    backend = getattr(chat.tokenizer, "backend_tokenizer", None)
    text = backend.to_str() if backend is not None else repr(sorted(chat.tokenizer.get_vocab().items()))
    return hashlib.sha256(text.encode()).hexdigest()
