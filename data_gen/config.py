"""What a data set holds: how many of each kind, from which families, in which sizes."""

from __future__ import annotations

import difflib
import os
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from envs.config import Strict
from envs.tasks import FAMILIES, HELD_OUT_FAMILIES
from envs.tasks.words import Lang

HERE = "here"
"""``plain.like`` of a set whose plain history is to equal its own other part."""
SMALL = 400
"""Units of a set that one process makes about as fast as two that must be started first."""


class Sizes(Strict):
    """Size of the sessions of kinds ``direct``, ``managed`` and ``recovery``: ranges ``[low, high]``."""

    turns: tuple[int, int] = (1, 3)
    fillers: tuple[int, int] = (4, 7)
    rows: tuple[int, int] = (12, 30)
    """Of a result, in the families with a table."""
    attrs: tuple[int, int] = (4, 6)


class Counts(Strict):
    """How many units of each kind. A detect unit is a damaged probe with its ``present`` twin, or one control."""

    direct: int = Field(default=2, ge=0)
    managed: int = Field(default=3, ge=0)
    recovery: int = Field(default=4, ge=0)
    repeats: int = Field(default=0, ge=0)
    """Sessions with one needless repeat: an old call, a read, a search or a note once more."""
    lapses: int = Field(default=0, ge=0)
    """Sessions with a false memory that the host accepts, found and mended at a later question."""
    static: int = Field(default=26, ge=0)
    keep: int = Field(default=4, ge=0)
    other: int = Field(default=8, ge=0)
    changed: int = Field(default=30, ge=0)
    never: int = Field(default=1, ge=0)
    never_open: int = Field(default=3, ge=0)
    present: int = Field(default=0, ge=0)
    """Further ``present`` controls without their damaged sibling."""
    rich: int = Field(default=0, ge=0)
    """Sessions with everything the families have: rules and exceptions, red herrings, negations, paraphrases, several records."""
    variants: int = Field(default=0, ge=0)
    """Bases with every variant that a view can tell: dropped, contradicted, unsourced, fabricated, controls; windows where the profile has them."""
    scope: int = Field(default=0, ge=0)
    """Bases of which the view holds a subset: what is asked must be read first, or what is in view suffices."""
    verify: int = Field(default=0, ge=0)
    """Bases whose value the user wants checked, or entered in a register behind the evidence gate; controls without the rule."""
    plain: int = Field(default=0, ge=0)
    """Sessions under plain history, for an arm that is trained without the protocol."""


class Shares(Strict):
    """The other way to say ``counts``: a total of units and each kind's share of it."""

    total: int = Field(ge=1)
    kinds: dict[str, float]
    """Share by kind, 1 in all; a kind that isn't named gets none."""

    @field_validator("kinds")
    @classmethod
    def _sum_to_one(cls, value: dict[str, float]) -> dict[str, float]:
        names = list(Counts.model_fields)
        for kind, share in value.items():
            if kind not in names:
                near = difflib.get_close_matches(kind, names, n=1)
                raise ValueError(
                    f"unknown kind {kind!r}: " + (f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(names)}")
                )
            if share < 0:
                raise ValueError(f"share of {kind} is {share}: it must be 0 or more")
        if abs(sum(value.values()) - 1) > 1e-6:
            raise ValueError(f"the shares add up to {sum(value.values()):g}: make it 1")
        return value

    def counts(self) -> Counts:
        """Whole numbers that add up to ``total``: rounded down, the rest to the largest remainders."""
        exact = {kind: self.total * share for kind, share in self.kinds.items()}
        whole = {kind: int(x + 1e-9) for kind, x in exact.items()}
        by_rest = sorted(exact, key=lambda kind: (whole[kind] - exact[kind], list(Counts.model_fields).index(kind)))
        for kind in by_rest[: self.total - sum(whole.values())]:
            whole[kind] += 1
        return Counts(**(dict.fromkeys(Counts.model_fields, 0) | whole))


class PlainTokens(Strict):
    """Plain-history sessions by their tokens in place of ``counts.plain``: as many as another set has, plain history left out."""

    like: str | tuple[str, ...] = ""
    """Folder of the finished set, or several, whose tokens are added; or ``here``: the rest of this same set."""
    tokens: int = Field(default=0, ge=0)
    """The number itself; with a folder it is read off and recorded."""
    measure: Literal["total", "trained"] = "total"
    """Input and output over all inferences (the card's tokens), or only sampled tokens that carry loss."""

    @model_validator(mode="after")
    def _some_goal(self) -> PlainTokens:
        if not self.like and not self.tokens:
            raise ValueError(f"neither like nor tokens is given: name a finished folder, {HERE}, or a number of tokens")
        if self.like == HERE and self.tokens:
            raise ValueError(f"tokens is given with like={HERE}: leave one out")
        if HERE in self.folders and self.like != HERE:
            raise ValueError(f"like names {HERE} among folders: name finished folders, or {HERE} alone")
        if len(set(self.folders)) < len(self.folders):
            raise ValueError(f"like names a folder twice: {', '.join(self.folders)}")
        return self

    @property
    def folders(self) -> tuple[str, ...]:
        """What ``like`` names, one or several."""
        return (self.like,) if isinstance(self.like, str) else self.like


class NearDuplicates(Strict):
    """The check that no RL or validation base is nearly a session of another set."""

    threshold: float = Field(default=0.8, gt=0, le=1)
    """MinHash Jaccard, values masked, from which two units count as near-duplicates."""
    drop: bool = True
    """Leave the offending RL or validation base out; false: count it only. Exact duplicates are always left out."""
    against: tuple[str, ...] = ()
    """Finished data folders whose units count as another set, e.g. the training set when this one is for testing."""


class DataConfig(Strict):
    """One data set."""

    out: str = "runs/data"
    seed: int = 0
    families: tuple[str, ...] = ("procurement", "support")
    languages: tuple[Lang, ...] = Field(default=("en",), min_length=1)
    """Languages of the sessions, in turn: ``[en, zh]`` makes as many of each."""
    split: str = "train"
    held_out: bool = False
    """Allow held-out families: for evaluation sets only."""
    counts: Counts = Counts()
    shares: Shares | None = None
    """In place of ``counts``: ``{total: 10000, kinds: {direct: 0.1, static: 0.9}}``."""
    plain: PlainTokens | None = None
    """Plain history until it has so many tokens: ``{like: runs/data_full}``."""
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
    hints: bool = False
    """Validation probes of kind ``variants`` get siblings whose question says that something may be missing: vaguely, and explicitly."""
    rl_bases: int = Field(default=40, ge=0)
    """Bases of the RL probes (train split, disjoint from the SFT ones)."""
    rl_mix: tuple[str, ...] = ("static", "changed", "static", "changed", "never_open")
    tokenizer: str = "smollm2"
    profile: Literal["core@1", "unified@4", "unified@4-compact"] = "core@1"
    """Protocol that the trajectories are played under; probes are neutral."""
    near_duplicates: NearDuplicates = NearDuplicates()
    processes: int = Field(default=0, ge=0)
    """Worker processes; 0: one a core, fewer for a small set. The data do not depend on it."""
    shard: str = "1/1"
    """``i/n``: make only the i-th of n parts; ``python -m data_gen merge`` joins them. The set depends on n, not on who made which part."""

    @field_validator("shard")
    @classmethod
    def _i_of_n(cls, value: str) -> str:
        i, _, n = value.partition("/")
        if not (i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n)):
            raise ValueError(f"shard {value!r} must be i/n with 1 <= i <= n, e.g. 2/4")
        return f"{int(i)}/{int(n)}"

    @model_validator(mode="after")
    def _counts_or_shares(self) -> DataConfig:
        if self.shares is not None and self.counts != Counts():
            raise ValueError("counts and shares are both given: leave one out")
        if self.plain is not None and self.units.plain:
            raise ValueError("plain and a count or share of kind plain are both given: leave one out")
        return self

    @property
    def surfaces(self) -> int:
        """How many pairs of family and language there are."""
        return len(self.families) * len(self.languages)

    def surface(self, number: int) -> tuple[str, Lang]:
        """Family and language of a candidate: the families in turn, then the languages."""
        turn, family = divmod(number, len(self.families))
        return self.families[family], self.languages[turn % len(self.languages)]

    @property
    def part(self) -> tuple[int, int]:
        """``(i, n)`` of the shard, i from 0."""
        i, n = self.shard.split("/")
        return int(i) - 1, int(n)

    @property
    def units(self) -> Counts:
        """How many units of each kind the whole set has."""
        return self.shares.counts() if self.shares else self.counts

    def identity(self) -> dict[str, Any]:
        """What decides the content of the whole set: everything but where it lies, who makes it, and which shard this is."""
        data = self.model_dump(mode="json", exclude={"out", "processes", "shard", *(() if self.plain else ("plain",))})
        if self.plain and self.plain.like != HERE:
            del data["plain"]["like"]  # the number decides, not where the other set lies
        if not self.hints:
            del data["hints"]  # sets made before there was a choice
        if self.languages == ("en",):
            del data["languages"]  # sets made before there was a choice
        if self.part[1] > 1:
            data["shards"] = self.part[1]
        return data

    def workers(self, units: int) -> int:
        """Processes to make ``units`` units with: a process costs a few seconds to start, which a small set is not worth."""
        return self.processes or max(1, min(len(os.sched_getaffinity(0)), units // SMALL))

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
