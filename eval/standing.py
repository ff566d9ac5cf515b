"""Where the code stood when a result was made: commit and uncommitted changes, for the front page of every report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

State = Mapping[str, Any]
"""What :func:`envs.runs.provenance` gives."""


def code_lines(frozen: State, starts: Mapping[str, Sequence[State]]) -> list[str]:
    """Where the code stood at the freeze and at the starts of every arm, arms of equal states in one line, each state once."""
    told: dict[str, list[str]] = {}
    for arm, found in starts.items():
        told.setdefault(", then ".join(dict.fromkeys(map(_code, found))) or "not played", []).append(arm)
    return [
        f"freeze: {_code(frozen)}",
        *(f"arm{'s' if len(arms) > 1 else ''} {', '.join(arms)}: {states}" for states, arms in told.items()),
    ]


def _code(state: State) -> str:
    if not state.get("git_commit"):
        return "commit unknown (no git checkout)"
    count = state.get("git_changed")
    files = "" if count is None else f" ({count} file{'s' * (count != 1)})"
    return f"commit {state['git_commit'][:12]}, " + (f"dirty{files}" if state.get("git_dirty") else "clean")


def code_warnings(frozen: State, starts: Mapping[str, Sequence[State]]) -> list[str]:
    """What a reader must know of the code before any figure: uncommitted changes, commits that differ."""
    lines = []
    states = {"the freeze": [frozen], **{f"arm {arm}": found for arm, found in starts.items()}}
    if dirty := [name for name, found in states.items() if any(s.get("git_dirty") for s in found)]:
        lines.append(
            f"DIRTY: made from code with uncommitted changes ({', '.join(dirty)}): the lock's hashes say which sources, the commit "
            "alone does not."
        )
    commits = {s["git_commit"][:12] for found in states.values() for s in found if s.get("git_commit")}
    if len(commits) > 1:
        lines.append(f"The commits of freeze and arms differ ({', '.join(sorted(commits))}): the lock's hashes were the same.")
    if any(found and not s.get("git_commit") for found in states.values() for s in found):
        lines.append("Made outside a git checkout: the lock's hashes alone say which sources.")
    return lines
