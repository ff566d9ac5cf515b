"""What a data set holds: how many of each kind, from which families, in which sizes."""

from __future__ import annotations

from pydantic import Field, field_validator

from envs.config import Strict
from envs.tasks import FAMILIES, HELD_OUT_FAMILIES


class Sizes(Strict):
    """Size of the sessions of kinds ``direct``, ``managed`` and ``recovery``: ranges ``[low, high]``."""

    turns: tuple[int, int] = (1, 3)
    fillers: tuple[int, int] = (4, 7)
    attrs: tuple[int, int] = (4, 6)


class Counts(Strict):
    """How many units of each kind. A detect unit is a damaged probe with its ``present`` twin, or one control."""

    direct: int = Field(default=2, ge=0)
    managed: int = Field(default=3, ge=0)
    recovery: int = Field(default=4, ge=0)
    static: int = Field(default=26, ge=0)
    keep: int = Field(default=4, ge=0)
    other: int = Field(default=8, ge=0)
    changed: int = Field(default=30, ge=0)
    never: int = Field(default=1, ge=0)
    never_open: int = Field(default=3, ge=0)
    present: int = Field(default=0, ge=0)
    """Further ``present`` controls without their damaged sibling."""


class DataConfig(Strict):
    """One data set."""

    out: str = "runs/data"
    seed: int = 0
    families: tuple[str, ...] = ("procurement", "support")
    split: str = "train"
    held_out: bool = False
    """Allow held-out families: for evaluation sets only."""
    counts: Counts = Counts()
    questions: int = Field(default=2, ge=1)
    """Questions of a detect base in training, each with its damaged sibling. They share the view, so a row is cheap to compute."""
    open_questions: int = Field(default=5, ge=0)
    """Further questions on its undamaged view: what the brief lost on its own must be read, what was never told is unknown."""
    first_turn_only: float = Field(default=0.6, ge=0, le=1)
    """Share of the probes that read back whose first turn alone carries loss: the decision to read is what must be learned, and
    rows end with their last trained token, so these are cheap."""
    sizes: Sizes = Sizes()
    val_bases: int = Field(default=30, ge=0)
    """Bases of the validation probes, over all families; the variants of ``val_mix`` in turn."""
    val_mix: tuple[str, ...] = ("static", "changed", "static", "changed", "other", "never", "never_open")
    rl_bases: int = Field(default=40, ge=0)
    """Bases of the RL probes (train split, disjoint from the SFT ones)."""
    rl_mix: tuple[str, ...] = ("static", "changed", "static", "changed", "never_open")
    tokenizer: str = "smollm2"

    @field_validator("families")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [f for f in value if f not in FAMILIES]
        if unknown or not value:
            raise ValueError(f"unknown family {', '.join(unknown) or '(none given)'}: choose from {', '.join(FAMILIES)}")
        return value

    def check_held_out(self) -> None:
        """Raises ValueError when a held-out family would get into training or validation data unasked."""
        held = [f for f in self.families if f in HELD_OUT_FAMILIES]
        if held and not self.held_out:
            raise ValueError(
                f"families: {', '.join(held)} is held out from training and validation: leave it out, or set held_out=true for "
                "an evaluation set"
            )
