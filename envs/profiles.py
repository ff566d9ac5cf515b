"""Frozen profiles: a profile is a set of flags and limits on one state machine, versioned and hashed.

Every safeguard is a flag of its own, so each can be taken out alone: ``variant("core@1", index=False)``.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from envs.tasks.base import ToolSpec

CORE_TOOLS = ("note", "fold", "compress", "read", "find")
WINDOW_TOOLS = ("window_list", "window_open", "window_switch", "window_close")
LEAN_TOOLS = ("stage_done", "recall")
ALL_TOOLS = (*CORE_TOOLS, "local", *WINDOW_TOOLS, *LEAN_TOOLS, "memory_write", "read_raw", "search_raw")
"""Every name of a context tool in either syntax: a profile that lacks it answers ``unknown_tool``."""
CHANGING = ("note", "fold", "compress", "window_open", "window_switch", "window_close")
"""Tools that take the window the policy believes to be in, where the profile checks it."""
MODEL_WINDOW = 8192
"""Context window of SmolLM2, the default model: what the whole plain history may use."""

COMPACT_LINES = {
    "note": "note key=value @e3",
    "local": "local key=value @e3",
    "fold": "fold e2-e5 brief @e3",
    "compress": "compress e9 summary",
    "read": "read e3",
    "find": "find words",
    "window_list": "window_list",
    "window_open": 'window_open title="" handoff="" checkpoint=""',
    "window_switch": 'window_switch id=w1 checkpoint=""',
    "window_close": 'window_close outcome="" next=w1',
    "stage_done": "stage_done outcome | key=value @e3",
    "recall": "recall words",
}


@dataclass(frozen=True, slots=True)
class Profile:
    """Rules of the protocol that a policy meets. Token figures are counted by the policy's tokenizer.

    ``tools`` are the context tools by their internal names; none means plain history without tags, header and contract line.
    """

    name: str
    tools: tuple[str, ...] = ()
    syntax: Literal["compact", "json"] = "compact"
    mapping: Literal["A", "B", "C", "D"] = "D"
    """Where the state block stands (A head, B tail as user, C tail as assistant), or D: everything frozen between rewrites."""
    prompt: str = "neutral"
    """Prompt text of an episode that names none."""
    windows: bool = False
    state_block: bool = False
    position_check: bool = False
    """Changing tools say in which window the policy believes to be; a wrong one is refused."""
    source_rules: bool = True
    """A value without evidence is a candidate; a tool's value never silently replaces a user's."""
    index: bool = True
    conflict_flags: bool = False
    evidence_gate: bool = False
    refuse_empty: bool = True
    refuse_lossy: bool = True
    refuse_gainless: bool = True
    compress_by: Literal["model", "agent"] = "model"
    """Who writes the summary of a compression: the policy in its call, or a maintenance sub-agent that the host asks."""
    view_budget: int = MODEL_WINDOW
    page_tokens: int = 256
    reply_tokens: int = 96
    max_notes: int | None = 8
    note_tokens: int | None = 24
    """Of key and value together."""
    max_window_notes: int | None = 8
    max_windows: int = 6
    title_tokens: int = 12
    text_tokens: int = 120
    """Longest hand-over, checkpoint or outcome."""
    index_lines: int = 6
    max_slots: int = 8
    max_folds: int = 8
    """Folds standing in a window before the oldest must be compressed."""
    max_keep: int = 8
    min_gain: int = 32
    max_brief_share: float = 0.25
    min_brief_tokens: int = 8
    min_brief_share: float = 0.04
    find_hits: int = 4
    find_tokens: int = 12
    fill_marks: tuple[int, ...] = (70, 80, 90)
    run_scope: Literal["turn", "session"] = "turn"
    """A Run is one user turn, or the whole session: then every user message stays in view and nothing can be compressed."""
    whole_share: float = 0.0
    """Largest business result that is shown whole, as a share of the view budget: of a larger one the view shows the first page, and
    the others are read back. 0: all are shown whole."""
    clear_results: bool = False
    """Over budget, the host replaces the oldest results by references before it gives up."""
    admission: int = 0
    """Below this many tokens of plain history there are no context tools."""
    stage_tokens: int = 0
    """Under lean mechanics: the least size of a finished stage that the host folds."""
    stage_fill: float = 0.0
    """Under lean mechanics: the fill from which the host folds finished stages."""
    inferences_per_run: int = 20
    """Room for a policy that pages through a large result: twenty pages, three at a time, with the folds between."""
    notices_per_run: int = 3
    """Turns of a Run that are no call and no answer before the episode ends: a policy that babbles is not asked on."""
    inferences_per_session: int = 800
    tokens_per_session: int = 2_000_000
    """Input and output, undiscounted."""
    tokens_scope: Literal["session", "turn"] = "session"
    """What the token limit counts over: the whole session, or each user turn anew."""
    max_rewrites: int | None = None
    overrun: Literal["cut", "allow_final"] = "allow_final"
    """Passing the token limit in mid-inference: the answer under way still counts, or not."""

    @property
    def managed(self) -> bool:
        """Whether the policy has context tools (and so tags, header and index)."""
        return bool(self.tools)

    @property
    def lean(self) -> bool:
        """Whether the host does the mechanics on the policy's intents."""
        return "stage_done" in self.tools

    @property
    def hash(self) -> str:
        """Hash of every flag and limit."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    def system(self, prompt: str, tools: tuple[ToolSpec, ...]) -> str:
        """Prompt and tool contract: the part of the system message that never changes."""
        lines = [prompt_text(prompt, self.managed, self.syntax)]
        if self.syntax == "json":
            from envs.hermes import contract  # the contract's texts are needed by JSON profiles alone

            lines.append(contract(self, tools))
            return "\n".join(lines)
        if self.managed:
            told = " | ".join(COMPACT_LINES[t] for t in self.tools)
            lines.append(f"{told}; say the window first: w1 note key=value @e3" if self.position_check else told)
        if tools:
            lines.append(" | ".join(t.signature for t in tools))
        return "\n".join(lines)


_UNIFIED = Profile(
    "unified@1", tools=(*CORE_TOOLS, *WINDOW_TOOLS), syntax="json", mapping="A", prompt="stages", windows=True, index=False,
    run_scope="session", clear_results=True, page_tokens=256, reply_tokens=256, max_notes=None, max_window_notes=None, note_tokens=None,
    index_lines=12, inferences_per_run=40,
)  # fmt: skip
_SECOND = replace(_UNIFIED, name="unified@2", position_check=True)
_THIRD = replace(_SECOND, name="unified@3", prompt="neutral", state_block=True)
_FOURTH = replace(
    _THIRD, name="unified@4", mapping="D", run_scope="turn", max_notes=16, max_window_notes=8, note_tokens=40, index=True,
    conflict_flags=True, evidence_gate=True, text_tokens=60, whole_share=0.2,
)  # fmt: skip

PROFILES = {
    p.name: p
    for p in (
        Profile("plain@1"),
        Profile("core@1", tools=CORE_TOOLS, view_budget=1536, whole_share=0.35, clear_results=True),
        _UNIFIED,
        _SECOND,
        _THIRD,
        *(replace(_THIRD, name=f"unified@3-{m}", mapping=m) for m in ("A", "B", "C", "D")),
        _FOURTH,
        replace(_FOURTH, name="unified@4-compact", syntax="compact", tools=(*CORE_TOOLS, "local", *WINDOW_TOOLS)),
        Profile(
            "lean@1", tools=("note", *LEAN_TOOLS), view_budget=1536, clear_results=True, admission=1024, stage_tokens=160,
            stage_fill=0.6, index_lines=6, whole_share=0.35,
        ),
    )
}  # fmt: skip


_FLAGGED = re.compile(r"([\w@-]+)\[(\w+=(?:True|False|None|\d+(?:\.\d+)?)(?:,\w+=(?:True|False|None|\d+(?:\.\d+)?))*)\]")


def get_profile(name: str) -> Profile:
    """The profile of that name, or of a name that ``variant`` gave. Raises ValueError naming the choices."""
    base, flags = _flags_of(name)
    if flags:
        return variant(base, **flags)
    if name not in PROFILES:
        raise ValueError(f"unknown profile {name!r}: choose one of {', '.join(PROFILES)}")
    return PROFILES[name]


def _flags_of(name: str) -> tuple[str, dict[str, Any]]:
    """A profile's name without the flags that ``variant`` put into it, and those flags."""
    made = _FLAGGED.fullmatch(name)
    if not made:
        return name, {}
    parts = (part.split("=", 1) for part in made[2].split(","))
    return made[1], {flag: ast.literal_eval(value) for flag, value in parts}


def variant(name: str, **flags: Any) -> Profile:
    """A profile with some flags changed, named for them: one safeguard taken out, another limit. Raises ValueError for unknown flags."""
    known = {f.name for f in fields(Profile)} - {"name"}
    if unknown := sorted(set(flags) - known):
        raise ValueError(f"unknown flag {', '.join(unknown)}: choose from {', '.join(sorted(known))}")
    base, earlier = _flags_of(name)
    flags = {**earlier, **flags}
    label = ",".join(f"{k}={v}" for k, v in sorted(flags.items()))
    return replace(get_profile(base), name=f"{base}[{label}]" if label else base, **flags)


def prompt_text(name: str, managed: bool, syntax: str = "compact") -> str:
    """Text of a prompt: ``envs/prompts/<name>.txt``, or ``<name>.plain.txt`` without context tools, ``<name>.json.txt`` in JSON.

    A name that ends in ``.txt`` is the path of a file with the text, the same for all profiles. Raises ValueError naming the choices.
    """
    if not name.endswith(".txt"):
        return _own_prompt(name, managed, syntax)
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"prompt {name}: not a readable text file ({error})") from None


@lru_cache(maxsize=64)
def _own_prompt(name: str, managed: bool, syntax: str) -> str:
    folder = resources.files("envs") / "prompts"
    special = [f"{name}.json.txt"] if syntax == "json" else [] if managed else [f"{name}.plain.txt"]
    for file in [*special, f"{name}.txt"]:
        path = folder / file
        if path.is_file():
            return path.read_text(encoding="utf-8").strip()
    known = sorted(p.name.split(".")[0] for p in folder.iterdir() if p.name.endswith(".txt"))
    raise ValueError(f"unknown prompt {name!r}: choose one of {', '.join(dict.fromkeys(known))}")


def prompt_hash(name: str, managed: bool = True, syntax: str = "compact") -> str:
    """Hash of a prompt's text, apart from the protocol's."""
    return hashlib.sha256(prompt_text(name, managed, syntax).encode()).hexdigest()[:16]
