"""What a family is made of: its words (``FamilySpec``) and the knobs of its sessions."""

from __future__ import annotations

from dataclasses import dataclass

from envs.tasks.base import ToolSpec
from envs.tasks.surface import Attr
from envs.tasks.table import Table

NONE = "none"
NONES = ("none", "no", "0")
"""Accepted forms where a record states that there is none."""
SEVERAL_FILLERS, SEVERAL_RECORDS = 10, 3
"""Questions over several records are asked where all their results fit a view together."""
CLOSES = ("Then close this stage.", "That closes the stage.", "This stage ends here.", "Close the stage after that.")
KEEPS = ("Keep the {noun} at hand.", "Note the {noun} for later.", "We will need the {noun} again.")
TELLS = ("Tell me the {noun}.", "Give me the {noun}.", "What is the {noun}?")
VERIFIES = ("Check the {noun} against its source before you answer.", "Do not rely on a summary for the {noun}: look it up.")
"""The stated rule for what matters: the raw text is to be read even where a brief gives the value."""
ENTER = ToolSpec(name="enter", args=("record", "value"), missing="Refused: another value is on file.")
"""The register of the ``verify`` probes, beside the tools of any family: what is entered cannot be taken back."""
ENTERS = (
    "Enter the {noun} of {entity} in the register and bring me its receipt.",
    "Now the {noun} of {entity} goes into the register: under which receipt?",
    "Have the {noun} of {entity} put in the register; I want its receipt.",
)
RECEIPT = "Entered under receipt {v}."
ASKS = (
    "What is the {noun} for {entity}?",
    "Give me the {noun} for {entity} once more.",
    "I need the {noun} for {entity}.",
    "Back to {entity}: what is the {noun}?",
    "Which {noun} do we have for {entity}?",
)


@dataclass(frozen=True, slots=True)
class UserFact:
    """A constraint that the user states and may change."""

    key: str
    kind: str
    noun: str
    says: tuple[str, ...]
    changes: tuple[str, ...]
    asks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """A derived question: is an amount of a record over the user's cap, and by how much apart are they."""

    attr: str
    asks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A standing rule of the user, with exceptions for single records that may be withdrawn, reinstated, or hold just once."""

    noun: str
    kind: str
    says: tuple[str, ...]
    """``{v}``: the rule's value."""
    exceptions: tuple[str, ...]
    """``{entity}`` and ``{v}``: another value for one record, until further notice."""
    withdrawals: tuple[str, ...]
    """``{entity}``: its exception no longer holds."""
    reinstatements: tuple[str, ...]
    """``{entity}``: its exception holds again."""
    once: tuple[str, ...]
    """``{entity}`` and ``{v}``: consent for this one time; afterwards the rule holds again."""
    asks: tuple[str, ...]
    """``{entity}``: which value holds for it."""


@dataclass(frozen=True, slots=True)
class FamilySpec:
    """The words of one family."""

    name: str
    entities: tuple[str, ...]
    entity_phrase: str
    lookup: ToolSpec
    change: ToolSpec
    attrs: tuple[Attr, ...]
    sources: tuple[str, ...]
    heads: tuple[str, ...]
    change_heads: tuple[str, ...]
    work: tuple[str, ...]
    changes: tuple[str, ...]
    brief: str
    change_brief: str
    fillers: tuple[str, ...]
    user_fact: UserFact
    compare: Compare | None = None
    rule: Rule | None = None
    totals: tuple[str, ...] = ()
    """Questions for the sum of ``compare.attr`` over all records looked up so far."""
    across: tuple[str, ...] = ()
    """``{entity}`` and ``{other}``: which of the two has the larger ``compare.attr``, and by how much."""
    table: Table | None = None

    def phrase(self, entity: str) -> str:
        return self.entity_phrase.format(e=entity)

    def attr(self, name: str) -> Attr:
        return next(a for a in self.attrs if a.name == name)

    def key(self, entity: str, attr: str) -> str:
        return f"{entity.lower()}.{attr}"


SHARES = (
    "close", "keep", "change", "ask", "constraint", "rule", "guesses", "none", "paraphrased", "several", "verify", "twins",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Knobs:
    """Difficulty of a session. Token lengths follow from ``fillers`` and the number of stages."""

    turns: tuple[int, int] = (2, 12)
    fillers: tuple[int, int] = (2, 24)
    rows: tuple[int, int] = (12, 30)
    """Rows of a result, where the family has a table."""
    attrs: tuple[int, int] = (4, 6)
    close: float = 0.8
    """Share of sessions in which the text declares its stages finished."""
    keep: float = 0.7
    change: float = 0.2
    ask: float = 0.3
    constraint: float = 0.15
    rule: float = 0.0
    """Share of sessions in which the user states a standing rule, with exceptions later."""
    guesses: float = 0.0
    """Share of results with an unconfirmed value beside the true ones: a red herring."""
    none: float = 0.0
    """Share of the fields that may say so which state that there is none."""
    paraphrased: float = 0.0
    """Share of later questions in words that the record does not use."""
    several: float = 0.0
    """Share of later questions over two records or all of them."""
    verify: float = 0.0
    """Share of later questions that ask for a look at the source."""
    twins: float = 0.0
    """Share of stages about a near twin of a record met before, where the family has any."""

    def validate(self) -> None:
        """Raises ValueError naming the knob."""
        for name in ("turns", "fillers", "rows", "attrs"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ValueError(f"knob {name}: {low}..{high} must be a rising range above 0")
        for name in SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"knob {name}: {getattr(self, name)} must be a share between 0 and 1")


RICH = Knobs(turns=(2, 14), rule=0.5, guesses=0.4, none=0.15, paraphrased=0.25, several=0.12, verify=0.1, twins=0.4)
"""Everything at once: what the full data sets draw from."""


def near(one: str, two: str) -> bool:
    """Whether two names are near twins: of one length, and apart in one place or two swapped neighbours."""
    if one == two or len(one) != len(two):
        return False
    apart = [i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b]
    swapped = len(apart) == 2 and one[apart[0]] == two[apart[1]] and one[apart[1]] == two[apart[0]]
    return len(apart) == 1 or swapped
