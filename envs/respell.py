"""A frozen prefix is written in core@1; here its turns are spelled for the profile that replays it."""

from __future__ import annotations

from collections.abc import Sequence

from envs import compact, hermes
from envs.profiles import CHANGING, CORE_TOOLS, Profile, get_profile
from envs.tasks.base import ToolSpec


def respell(text: str, given: Sequence[ToolSpec], profile: Profile, window: str) -> str:
    """A core@1 turn in the profile's syntax, with business tools ``given``.

    Context calls that the profile lacks never happened; ``""`` when nothing is left.
    """
    if profile.syntax == "compact" and profile.tools == CORE_TOOLS:
        return text
    parsed = compact.parse(text, False, get_profile("core@1"), tuple(given))
    if parsed.kind != "calls":
        return text
    tools = {t.name: t for t in given}
    lines: list[str] = []
    for call in parsed.calls:
        if call.code or (call.tool not in tools and call.tool not in profile.tools):
            continue
        args = dict(call.args)
        if profile.position_check and call.tool in CHANGING:
            args["expected"] = window
        if profile.syntax == "json":
            lines.append(hermes.spell(call.tool, args, lean=profile.lean))
        else:
            lines.append(compact.canonical_call(tools[call.tool], args) if call.tool in tools else compact.spell(call.tool, args))
    return "\n".join(lines)


def to_core(text: str, given: Sequence[ToolSpec], profile: Profile) -> str:
    """A turn of any profile as core@1 would write it: how a scripted policy reads its own earlier turns."""
    parsed = (hermes if profile.syntax == "json" else compact).parse(text, False, profile, tuple(given))
    if parsed.kind != "calls":
        return text
    tools = {t.name: t for t in given}
    lines = []
    for call in parsed.calls:
        args = {k: v for k, v in call.args.items() if k != "expected"}
        if not call.code:
            lines.append(compact.canonical_call(tools[call.tool], args) if call.tool in tools else compact.spell(call.tool, args))
    return "\n".join(lines)
