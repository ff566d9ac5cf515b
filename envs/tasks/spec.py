"""What a family is made of: its words (``FamilySpec``) and the knobs of its sessions."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from envs.tasks.base import ToolSpec
from envs.tasks.surface import Attr, accepted, draw, patterns
from envs.tasks.table import Table
from envs.tasks.words import WORDS, Lang, Words

SEVERAL_FILLERS, SEVERAL_RECORDS = 10, 3
"""Questions over several records are asked where all their results fit a view together."""
ENTER = ToolSpec(name="enter", args=("record", "value"), missing="Refused: another value is on file.")
"""The register of the ``verify`` probes, beside the tools of any family: what is entered cannot be taken back."""


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
    slot: str = ""
    """Name of the answer slot; from the noun where that is Latin."""

    @property
    def slot_name(self) -> str:
        return self.slot or self.noun.replace(" ", "_").replace("-", "_")


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
    bundle: float = 0.0
    """Least share of later turns with several independent questions."""
    lang: Lang = "en"
    ids: tuple[str, ...] = ()
    """What stands for each record in memory keys, where its name is not Latin."""
    id_of: dict[str, str] = field(init=False, repr=False, compare=False)
    """Record -> its name in memory keys."""
    words: Words = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = self.ids or tuple(e.lower() for e in self.entities)
        object.__setattr__(self, "id_of", dict(zip(self.entities, ids, strict=True)))
        object.__setattr__(self, "words", WORDS[self.lang])

    @property
    def id(self) -> str:
        """The family in this language."""
        return self.name if self.lang == "en" else f"{self.name}.{self.lang}"

    def pattern(self, kind: str) -> str:
        """The regex of a kind of value, as this language writes it."""
        return patterns(self.lang)[kind]

    def draw(self, kind: str, rng: random.Random) -> str:
        """A random value of a kind."""
        return draw(kind, rng, self.lang)

    def accepted(self, kind: str, value: str, says: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Accepted forms of a value, the canonical one first; of the word for none, all its forms.

        ``says``: the sentences that state it, whose units of measure may be given too.
        """
        return self.words.nones if value == self.words.none else accepted(kind, value, self.lang, says)

    def pair(self, attr: str, value: str) -> str:
        """A field as briefs and summaries give it."""
        return self.words.pair(self.attr(attr).noun, value)

    def phrase(self, entity: str) -> str:
        return self.entity_phrase.format(e=entity)

    def attr(self, name: str) -> Attr:
        return next(a for a in self.attrs if a.name == name)

    def key(self, entity: str, attr: str) -> str:
        return f"{self.id_of[entity]}.{attr}"


SHARES = (
    "close", "keep", "change", "ask", "constraint", "rule", "guesses", "none", "paraphrased", "several", "verify", "twins", "bundle",
    "rule_out",
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
    bundle: float = 0.0
    """Share of later turns with several independent questions; a family may have a share of its own."""
    rule_out: float = 0.0
    """Share of later turns in which the user rules a stated value out, or asks about one that is."""

    def validate(self) -> None:
        """Raises ValueError naming the knob."""
        for name in ("turns", "fillers", "rows", "attrs"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ValueError(f"knob {name}: {low}..{high} must be a rising range above 0")
        for name in SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"knob {name}: {getattr(self, name)} must be a share between 0 and 1")


RICH = Knobs(
    turns=(2, 14),
    rule=0.5,
    guesses=0.4,
    none=0.15,
    paraphrased=0.25,
    several=0.12,
    verify=0.1,
    twins=0.4,
    bundle=0.06,
    rule_out=0.08,
)
"""Everything at once: what the full data sets draw from."""
LARGE = Knobs(turns=(4, 10), fillers=(120, 160), rows=(200, 400))
"""Results of some 1,000 to 2,500 tokens and tables of hundreds of rows: more than a view of 1,536 tokens shows whole."""
LONG = Knobs(turns=(40, 60))
"""Forty to sixty user turns; with ``fillers=(320, 360)`` up to about 100,000 tokens of log."""


def near(one: str, two: str) -> bool:
    """Whether two names are near twins: of one length, and apart in one place or two swapped neighbours."""
    if one == two or len(one) != len(two):
        return False
    apart = [i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b]
    swapped = len(apart) == 2 and one[apart[0]] == two[apart[1]] and one[apart[1]] == two[apart[0]]
    return len(apart) == 1 or swapped
