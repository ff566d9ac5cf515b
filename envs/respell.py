"""A frozen prefix is written in core@1; here its turns are spelled for the profile that replays it."""

from __future__ import annotations

from envs import compact, hermes
from envs.profiles import CHANGING, CORE_TOOLS, Profile, get_profile
from envs.tasks.base import Session


def respell(text: str, session: Session, profile: Profile, window: str) -> str:
    """A core@1 turn in the profile's syntax. Context calls that the profile lacks never happened; ``""`` when nothing is left."""
    if profile.syntax == "compact" and profile.tools == CORE_TOOLS:
        return text
    parsed = compact.parse(text, False, get_profile("core@1"), session.tools)
    if parsed.kind != "calls":
        return text
    tools = {t.name: t for t in session.tools}
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
