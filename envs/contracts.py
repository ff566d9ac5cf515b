"""What prompt and tool contract of each profile cost: tokens that stand in every input, before the task says a word."""

from __future__ import annotations

from envs.capacity import header_bound
from envs.chat import ChatML
from envs.profiles import PROFILES, prompt_text
from envs.tasks.base import ToolSpec

EXAMPLE = (ToolSpec(name="quote", args=("item", "qty")), ToolSpec(name="revise", args=("item",)))
"""The business tools that the figures contain."""


def contract_table(chat: ChatML) -> str:
    """A Markdown table: tokens of the prompt, of the tool contract, and of the fullest header, by profile."""
    lines = [
        "| profile | syntax | mapping | prompt | tool contract | fullest header | hash of the flags |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for profile in PROFILES.values():
        prompt = chat.count(prompt_text(profile.prompt, profile.managed, profile.syntax))
        whole = chat.count(profile.system(profile.prompt, EXAMPLE))
        full = (
            str(header_bound(profile, chat))
            if profile.managed and profile.max_notes
            else "-"
            if not profile.managed
            else "no caps"
        )
        lines.append(
            f"| {profile.name} | {profile.syntax if profile.managed else '-'} | {profile.mapping if profile.managed else '-'} | {prompt} "
            f"({profile.prompt}) | {whole - prompt} | {full} | `{profile.hash}` |"
        )
    return "\n".join(lines)
