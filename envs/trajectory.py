"""The stored record of an episode: versioned, JSONL, enough to rebuild every input of every inference.

Views share long prefixes, so an inference stores how many messages it keeps of the previous inference's view and only the
messages that are new. ``Trajectory.views()`` rebuilds them exactly, sampled ids included.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from envs.chat import Message
from envs.tasks.base import Session

VERSION = 2


def view_hash(ids: list[int]) -> str:
    """Hash of the exact token ids of an input (as 32-bit little-endian numbers)."""
    return hashlib.sha256(struct.pack(f"<{len(ids)}I", *ids)).hexdigest()[:16]


def shared_prefix(before: Sequence[int], now: Sequence[int]) -> int:
    """How many ids two inputs have in common from their beginning on."""
    low, high = 0, min(len(before), len(now))
    while low < high:  # slices compare at C speed: no loop over thousands of ids
        middle = (low + high + 1) // 2
        low, high = (middle, high) if before[low:middle] == now[low:middle] else (low, middle - 1)
    return low


def pack_inputs(inputs: Iterable[Sequence[int]]) -> str:
    """Inputs of an episode as one compressed text: of each, how many ids it shares with the one before, and the ids that follow."""
    numbers: list[int] = []
    before: Sequence[int] = ()
    for ids in inputs:
        keep = shared_prefix(before, ids)
        numbers += [keep, len(ids) - keep, *ids[keep:]]
        before = ids
    return base64.b85encode(zlib.compress(_words(array("I", numbers)).tobytes(), 9)).decode()


def unpack_inputs(packed: str) -> list[list[int]]:
    """The exact token ids of every input, as :func:`pack_inputs` was given them. Raises ValueError for a damaged text."""
    if not packed:
        return []
    try:
        numbers = array("I", zlib.decompress(base64.b85decode(packed)))
    except zlib.error as error:
        raise ValueError(f"stored inputs can't be unpacked ({error})") from None
    numbers, at, out = _words(numbers), 0, list[list[int]]()
    while at < len(numbers):
        keep, new = numbers[at : at + 2]
        ids = [*(out[-1][:keep] if out else []), *numbers[at + 2 : at + 2 + new]]
        if len(ids) != keep + new:
            raise ValueError("stored inputs end in the middle of one")
        out.append(ids)
        at += 2 + new
    return out


def _words(numbers: array[int]) -> array[int]:
    """Little-endian, whatever the machine's order is."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


class Record(BaseModel):
    """Base of stored records: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class StoredMessage(Record):
    """One message of a view; ``ids`` on the policy's own turns."""

    role: Literal["system", "user", "assistant"]
    content: str
    ids: list[int] | None = None


class StoredOutcome(Record):
    """What became of one call: ``code`` is ``ok``, ``result``, ``shown``, a rejection code or ``notice``."""

    tool: str
    code: str
    text: str
    args: dict[str, Any] = Field(default_factory=dict)
    event: int = 0
    """Main event number of a business result, 0 for the others."""
    shows: list[int] = Field(default_factory=list)
    """Events whose logged text this outcome shows (read and find)."""


class StoredEntry(Record):
    """A memory entry: ``scope`` is ``public`` or the window's id, ``standing`` the host's word."""

    scope: str
    key: str
    value: str
    status: str
    standing: str


class Inference(Record):
    """One inference: what was new in its view, what was sampled, what became of it."""

    turn: int
    """Index of the user turn (Run) in the session."""
    event: int
    """Event number of the policy's turn in the log."""
    keep: int
    """Messages taken over from the previous inference's view."""
    new: list[StoredMessage]
    hash: str
    tokens_in: int
    ids: list[int]
    text: str
    cut: bool = False
    kind: Literal["answer", "calls", "notice", "maintenance"]
    """``maintenance``: not the policy's turn but the sub-agent's, asked by the host for a summary; its tokens count."""
    outcomes: list[StoredOutcome] = Field(default_factory=list)
    rewrite: bool = False
    out: list[str] = Field(default_factory=list)
    """What the view left out, one entry a range: ``e2-e3 f1 1 own 1 tool``."""
    visible: list[int] = Field(default_factory=list)
    """Events whose full text stood in the view."""
    trained: bool = True
    """False on a step that stays in context but out of the loss: an error, or what follows the one decision a row teaches."""
    error: str = Field(default="", exclude_if=lambda label: not label)
    """Label of an erroneous step of training data (``data_gen.errors``). Left out where empty: files without errors are as before."""
    fill: float = 0.0
    shared: int | None = Field(default=None, exclude_if=lambda n: n is None)
    """Input tokens that repeat the previous inference, output included: what a prefix cache holds. None in files from before it was stored."""


class Trajectory(Record):
    """One episode as stored: the whole log, and every input of every inference."""

    v: int = VERSION
    id: str
    session: Session
    probe: str | None = None
    variant: str | None = None
    signal: str | None = None
    base: str | None = None
    hint: str = Field(default="none", exclude_if=lambda level: level == "none")
    """Whether the probe's question says that something may be missing (``vague``) or what (``explicit``)."""
    family: str
    profile: str
    prompt: str
    manager: str | None = None
    policy: str
    kind: str | None = None
    wrong_note: bool = False
    """The probe's injection put a wrong value into keyed memory: recovery includes mending it."""
    start: int = 0
    """First user turn that the policy played (the earlier ones are the frozen prefix)."""
    prefix_events: int = 0
    events: list[dict[str, Any]]
    """The whole log, ground truth."""
    inferences: list[Inference]
    replies: dict[int, str] = Field(default_factory=dict)
    """Reply by user turn."""
    stated: dict[str, list[int]] = Field(default_factory=dict)
    """Ground truth: fact key -> events that state the value in force at the end."""
    reason: str
    """``answered``, ``limit_run``, ``limit_notices``, ``limit_session``, ``limit_tokens``, ``context_overflow`` ``backend_error``, or ``unfinished``."""
    notes: dict[str, str] = Field(default_factory=dict)
    """Public notes at the end: key -> value."""
    memory: list[StoredEntry] = Field(default_factory=list)
    """Entries of all memories at the end, public ones first."""
    truth: dict[str, str] = Field(default_factory=dict)
    """Ground truth: fact key -> the value in force at the end."""
    indexed: bool = True
    """The policy saw an omission index."""
    over_tokens: bool = False
    """The token limit was passed, though a final answer under way was let finish."""
    repeat: int = Field(default=0, exclude_if=lambda number: not number)
    """Which repeat of its sample an evaluation played."""
    inputs: str = Field(default="", exclude_if=lambda packed: not packed, repr=False)
    """Exact token ids of every input as the policy was given them (:func:`unpack_inputs`); evaluations store them."""

    def views(self) -> Iterator[list[Message]]:
        """The messages of every inference's input, in order."""
        held: list[Message] = []
        for inference in self.inferences:
            new = [Message(m.role, m.content, None if m.ids is None else tuple(m.ids)) for m in inference.new]
            held = held[: inference.keep] + new
            yield list(held)

    @property
    def tokens(self) -> int:
        """Cumulative tokens, input + output over all inferences, undiscounted."""
        return sum(i.tokens_in + len(i.ids) for i in self.inferences)
