"""Frozen profiles: a profile is a set of flags and limits on one state machine, versioned and hashed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources

from envs.chat import ChatML
from envs.tasks.base import ToolSpec

CORE_TOOLS = ("note", "fold", "compress", "read", "find")
ALL_TOOLS = (
    "note", "fold", "compress", "read", "find", "window_list", "window_open", "window_switch", "window_close",
    "memory_write", "read_raw", "search_raw",
)  # fmt: skip
CORE_LINE = "note key=value @e3 | fold e2-e5 brief @e3 | compress e9 summary | read e3 | find words"
MODEL_WINDOW = 8192
"""Context window of SmolLM2, the default model: what the whole plain history may use."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Rules of the protocol that a policy meets. Token figures are counted by the policy's tokenizer.

    ``tools`` are the context tools; none means plain history without tags, header and contract line.
    """

    name: str
    tools: tuple[str, ...] = ()
    view_budget: int = MODEL_WINDOW
    page_tokens: int = 256
    reply_tokens: int = 96
    max_notes: int = 8
    note_tokens: int = 24
    index_lines: int = 6
    max_slots: int = 8
    max_folds: int = 8
    """Folds standing before the oldest must be compressed."""
    max_keep: int = 8
    min_gain: int = 32
    max_brief_share: float = 0.25
    min_brief_tokens: int = 8
    min_brief_share: float = 0.04
    find_hits: int = 4
    find_tokens: int = 12
    fill_marks: tuple[int, ...] = (70, 80, 90)
    run_scope: str = "turn"
    clear_results: bool = False
    """Over budget, the host replaces the oldest results by references before it gives up."""
    inferences_per_run: int = 10
    notices_per_run: int = 3
    """Turns of a Run that are no call and no answer before the episode ends: a policy that babbles is not asked on."""
    inferences_per_session: int = 160
    tokens_per_session: int = 400_000

    @property
    def managed(self) -> bool:
        """Whether the policy has context tools (and so tags, header and index)."""
        return bool(self.tools)

    @property
    def hash(self) -> str:
        """Hash of every flag and limit."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    def system(self, prompt: str, tools: tuple[ToolSpec, ...]) -> str:
        """Prompt and tool contract: the part of the system message that never changes."""
        lines = [prompt_text(prompt, self.managed)]
        if self.managed:
            lines.append(CORE_LINE)
        if tools:
            lines.append(" | ".join(t.signature for t in tools))
        return "\n".join(lines)


PROFILES = {
    "plain@1": Profile("plain@1"),
    "core@1": Profile("core@1", tools=CORE_TOOLS, view_budget=1536, clear_results=True),
}


def get_profile(name: str) -> Profile:
    """The profile of that name. Raises ValueError naming the choices."""
    if name not in PROFILES:
        raise ValueError(f"unknown profile {name!r}: choose one of {', '.join(PROFILES)}")
    return PROFILES[name]


@lru_cache(maxsize=32)
def prompt_text(name: str, managed: bool) -> str:
    """Text of a prompt file (``envs/prompts/<name>.txt``; ``<name>.plain.txt`` for profiles without context tools, if there is one)."""
    folder = resources.files("envs") / "prompts"
    for file in ([] if managed else [f"{name}.plain.txt"]) + [f"{name}.txt"]:
        path = folder / file
        if path.is_file():
            return path.read_text(encoding="utf-8").strip()
    known = sorted(p.name.split(".")[0] for p in folder.iterdir() if p.name.endswith(".txt"))
    raise ValueError(f"unknown prompt {name!r}: choose one of {', '.join(dict.fromkeys(known))}")


def prompt_hash(name: str, managed: bool = True) -> str:
    """Hash of a prompt's text, apart from the protocol's."""
    return hashlib.sha256(prompt_text(name, managed).encode()).hexdigest()[:16]


def check_capacity(profile: Profile, chat: ChatML, prompt: str, tools: tuple[ToolSpec, ...]) -> int:
    """Tokens of system + fullest header + a page + a reply. Raises ValueError past 60 % of the view budget."""
    if not profile.managed:
        return 0
    note = profile.note_tokens + chat.count(" @e100 candidate was @e100\n")
    entry = max(chat.count(f"e100-e120 {why} 34 own 34 tool; ") for why in ("f10", "cleared", "control", "dropped"))
    folds = "+".join(f"f{10 + 2 * n}" for n in range(profile.max_folds))
    merged = chat.count(f"e1-e120 c10+{folds}+cleared+control 12 user 34 own 34 tool; ")
    header = profile.max_notes * note + (profile.index_lines - 1) * entry + merged + chat.count("notes:\nout: ")
    need = chat.count(profile.system(prompt, tools)) + header + profile.page_tokens + profile.reply_tokens
    room = int(0.6 * profile.view_budget)
    if need > room:
        raise ValueError(
            f"profile {profile.name}: system, full header, a page and a reply take {need} tokens, more than 60 % of the "
            f"{profile.view_budget}-token view ({room}): raise view_budget or shorten prompt {prompt!r} or the tools"
        )
    return need
