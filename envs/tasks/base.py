"""What a task is: a session script as frozen data, apart from any behaviour.

A session is a list of user turns over a small world of business tools whose answers are fixed texts. The ground truth (facts,
accepted answers) stands in fields that the host never reads: with all of it stripped, views and hashes are byte-equal.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FactKind = Literal["constraint", "exception", "fact", "decision", "evidence"]
Variant = Literal[
    "present", "missing", "superseded", "contradicted", "corrupted", "fabricated", "windowed", "dropped", "never_stated",
    "irrelevant_gap", "historical", "verify",
]  # fmt: skip
DAMAGED: tuple[Variant, ...] = ("missing", "superseded", "contradicted", "corrupted", "windowed", "dropped")
"""Variants whose fact is in the log and must be recovered; with signal ``none`` no view can tell."""
Signal = Literal["asked", "index", "conflict", "unsourced", "inconsistent", "none"]


class Frozen(BaseModel):
    """Base of task data: unknown fields refused, nothing changed once made."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolSpec(Frozen):
    """A business tool: its name and argument names, as the one-line signature of the tool contract."""

    name: str
    args: tuple[str, ...]
    missing: str = "nothing found"
    """Result text for arguments that the world does not know."""
    evidence: tuple[tuple[str, str], ...] = Field(default=(), exclude_if=lambda pairs: not pairs)
    """``(argument, memory key it rests on)``: the evidence gate looks for the key's source. Left out of content hashes when empty."""

    @property
    def signature(self) -> str:
        return " ".join((self.name, *self.args))


class Slot(Frozen):
    """One answer slot of a turn: ``name=?``. ``accept`` lists the accepted forms, the canonical one first."""

    name: str
    accept: tuple[str, ...]
    key: str = ""
    """Fact key whose value in force the slot asks for."""
    stale: tuple[str, ...] = ()
    """Values that were in force once: obeying one is a stale answer."""
    constraint: bool = False
    never: bool = False
    """The log never states it: ``unknown`` is right."""
    kind: str = "amount"
    source: Literal["kept", "detail", "fresh", "derived"] = "fresh"
    """Asked of what the text declared important, of a detail that only read-back gives, or of this turn's own result."""

    @property
    def weight(self) -> float:
        return 2.0 if self.constraint else 1.0


class Fact(Frozen):
    """One value that an event states. ``where`` names the stating event: ``turn:2`` or ``call:quote item=desk qty=4``."""

    key: str
    value: str
    where: str
    version: int = 1
    source: Literal["user", "tool", "inference"] = "tool"
    kind: FactKind = "fact"
    status: Literal["current", "superseded", "withdrawn", "never_true"] = "current"


class Turn(Frozen):
    """One user turn: its text (with the answer line last), the slots asked, and the business calls that it needs."""

    text: str
    slots: tuple[Slot, ...] = ()
    calls: tuple[str, ...] = ()
    question: str = "single"
    """Question tag: single, across, paraphrased, negation, ruled_out, aggregate, derived, exception, verify, bundle."""


class Session(Frozen):
    """A script of user turns over a small world of business tools."""

    v: int = 1
    id: str
    family: str
    lang: str = "en"
    seed: int
    tools: tuple[ToolSpec, ...]
    responses: dict[str, str]
    """Result text by canonical call (``name arg=value …`` in the tool's argument order)."""
    turns: tuple[Turn, ...]
    facts: tuple[Fact, ...] = ()
    tags: tuple[str, ...] = ()
    knobs: dict[str, Any] = Field(default_factory=dict)

    def stripped(self) -> Session:
        """The session without ground truth: what the host may read."""
        bare = tuple(t.model_copy(update={"slots": (), "calls": (), "question": "single"}) for t in self.turns)
        return self.model_copy(update={"turns": bare, "facts": (), "tags": (), "knobs": {}})


class Injection(Frozen):
    """What a probe changes in the state of its base. Applied in one step, before the first view of the policy."""

    brief: dict[str, str] = Field(default_factory=dict)
    """Fold or boundary id -> replaced text."""
    note: dict[str, tuple[str, int] | None] = Field(default_factory=dict)
    """Public key -> (value, source event) that now stands as current, or None: the entry is gone."""
    claim: dict[str, tuple[str, int]] = Field(default_factory=dict)
    """Public key -> (value, source event, 0 for none) with the standing that the host's rules give it: ``candidate`` without evidence."""
    old: dict[str, tuple[str, int]] = Field(default_factory=dict)
    """Public key -> (value, source event) of an entry that is marked as historical."""
    drop: tuple[int, ...] = ()
    """Policy turns whose exchanges are gone from the view, fold and all; the index lists them."""
    window: str = ""
    """Title of a new window in which the remaining turns are played: everything before sits in another one. Needs windows."""


class Probe(Frozen):
    """A frozen prefix (the policy turns that played it), an injection, and the remaining turns of the session."""

    v: int = 1
    id: str
    base: str
    family: str
    variant: Variant
    signal: Signal
    session: Session
    prefix: tuple[str, ...]
    """Texts of the policy turns that made the prefix, replayed through the simulator."""
    start: int
    """Index of the first user turn that the policy plays."""
    injection: Injection = Injection()
    twin: str | None = None
    """Id of the ``present`` probe of the same base."""
    damaged_key: str = ""
    wrong_note: bool = False
    """A note holds a wrong value, or a brief cannot be right: recovery includes a note with the right value."""
    hint: Literal["none", "vague", "explicit"] = "none"
    """Whether the question itself says that something may be missing, or what: never counted as autonomous."""
    windows: bool = False
    """Can be played under profiles with windows only."""


def canonical(obj: BaseModel) -> str:
    """Canonical JSON of a model: the text that content hashes are taken of."""
    return json.dumps(obj.model_dump(mode="json"), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def content_hash(obj: BaseModel, length: int = 16) -> str:
    """The first ``length`` hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(obj).encode()).hexdigest()[:length]


def split_of(session: Session) -> Literal["train", "val"]:
    """Split by content hash, never by seed: one session in five of a train family is validation."""
    body = session.model_copy(update={"id": "", "seed": 0})
    return "val" if int(content_hash(body, 8), 16) % 5 == 0 else "train"
