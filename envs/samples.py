"""A few episodes as rows of a table, short enough to read: what the tracker shows beside the curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envs.trajectory import Trajectory

COLUMNS = ("id", "family", "variant", "transcript", "q", "tokens", "view")
"""``transcript``: calls, outcomes and answers in order; ``tokens``: input + output over all inferences; ``view``: the last one."""
LINE, VIEW = 160, 1600
"""Characters that a line of the transcript, and the view, are shortened to."""


def sample_row(trajectory: Trajectory, q: float | None, own: Sequence[str | None] = ()) -> list[Any]:
    """One row of :data:`COLUMNS`.

    Args:
        trajectory: the episode.
        q: its quality, None where it has none.
        own: for each inference what another model would have said there, None where it would have said the same.
    """
    lines = []
    for number, inference in enumerate(trajectory.inferences):
        masked = "" if inference.trained else " (an error, shown to be repaired)"
        lines.append(f"e{inference.event} {inference.kind}{masked}: {short(inference.text)}")
        lines += [f"    model: {short(said)}" for said in own[number : number + 1] if said is not None]
        lines += [f"    {o.tool} {o.code}: {short(o.text)}" for o in inference.outcomes]
    lines.append(f"ended: {trajectory.reason}")
    *_, view = trajectory.views() if trajectory.inferences else iter([[]])
    shown = "\n".join(f"{m.role}: {m.content}" for m in view)
    variant = trajectory.variant or trajectory.kind or "session"
    return [trajectory.id, trajectory.family, variant, "\n".join(lines), q, trajectory.tokens, short(shown, VIEW, " ")]


def short(text: str, limit: int = LINE, newline: str = " / ") -> str:
    """``text`` within ``limit`` characters, its middle left out; line ends as ``newline`` where that isn't a space."""
    text = text if newline == " " else newline.join(text.split("\n"))
    half = (limit - 3) // 2
    return text if len(text) <= limit else f"{text[:half]} … {text[len(text) - half :]}"


class Picker:
    """Takes the first episode of each family and variant, up to ``limit``."""

    def __init__(self, limit: int = 8) -> None:
        self.limit = limit
        self.rows: list[list[Any]] = []
        self._seen: set[tuple[str, str]] = set()

    def wants(self, trajectory: Trajectory) -> bool:
        """Whether the next row would be of this episode; says yes once for each family and variant."""
        key = (trajectory.family, trajectory.variant or trajectory.kind or "session")
        if len(self._seen) >= self.limit or key in self._seen:
            return False
        self._seen.add(key)
        return True

    def take(self) -> list[list[Any]]:
        """The rows held; it begins anew."""
        rows, self.rows, self._seen = self.rows, [], set()
        return rows
