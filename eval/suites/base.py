"""What a seed suite is: sessions to play, rules that judge every turn, and the numbers that its document reported.

A suite's item is a session of ``envs`` with three things beside it: turns that are *forced* (recorded history: the same calls and
replies for every arm, spelled for its profile), records that are *laid* into the log before the session, and the *gates* of its turns.
A gate is a set of rules on one turn's reply and calls. Rules are mechanical; none asks a model.

The first failed gate decides the verdict. Later turns are *diagnostic*: played, their tokens counted, without a say in the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from envs.chat import ChatML
from envs.policies.base import Policy
from envs.profiles import Profile
from envs.tasks.base import Session
from envs.trajectory import Record, StoredOutcome, Trajectory

if TYPE_CHECKING:
    from eval.suites.play import SuiteEpisode

Lang = Literal["en", "zh"]
LANGS: tuple[Lang, ...] = ("en", "zh")


@dataclass(frozen=True, slots=True)
class Heard:
    """One turn as the rules hear it: its reply (``""`` without one) and what became of its calls."""

    reply: str
    calls: tuple[StoredOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One requirement on a turn. The *core* ones decide the verdict; all of them together make a turn complete."""

    name: str
    holds: Callable[[Heard], bool]
    core: bool = True


Step = str | Callable[["SuiteEpisode"], str]
"""A forced policy turn: text in the compact syntax, or a function of the episode that gives text in the profile's own."""


@dataclass(frozen=True)
class Item:
    """One session of a suite.

    Args:
        id: unique within the suite and language.
        session: the turns and tools; its ``lang`` is the language.
        gates: rules by turn (from 0); turns without an entry are not judged.
        forced: policy turns by user turn, played before the arm is asked; a turn whose steps end in an answer is all forced.
        laid: user records that stand in the log before the first turn.
        flags: flags of the profile that this item sets (limits, Run scope).
        needs: context tools without which the item means nothing.
        evidence: by turn, the value that a right reply rests on, in its accepted forms: is one of them in view?
        squeeze: turn at which the whole history is no longer to fit a manager's view (its budget follows from that).
        facts: whatever a suite's own columns need of the item.
    """

    id: str
    session: Session
    gates: Mapping[int, tuple[Rule, ...]]
    forced: Mapping[int, tuple[Step, ...]] = field(default_factory=dict)
    laid: tuple[str, ...] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    evidence: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    squeeze: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class TurnResult(Record):
    """One user turn, judged. ``tokens`` are input + output over its inferences, ``forced_tokens`` those of the forced ones among them."""

    turn: int
    judged: bool
    played: bool
    """The turn got a reply."""
    core: bool = True
    complete: bool = True
    missed: list[str] = []
    diagnostic: bool = False
    tokens: int = 0
    forced_tokens: int = 0
    inferences: int = 0
    in_view: bool | None = None
    """The evidence stood in the first view of the arm's own part of the turn; None where the turn rests on none."""


class Result(Record):
    """One item played once by an arm, judged."""

    suite: str
    lang: Lang
    arm: str
    item: str
    repeat: int
    turns: list[TurnResult]
    core: bool
    """Every gate's core rules hold."""
    complete: bool
    failed_at: int | None
    """First turn whose gate failed."""
    reason: str
    limit: int
    """Tokens that the session may take."""
    extra: dict[str, Any] = {}

    @property
    def tokens(self) -> int:
        """Input and output of all inferences, forced and diagnostic ones included."""
        return sum(t.tokens for t in self.turns)

    @property
    def diagnostic_tokens(self) -> int:
        return sum(t.tokens for t in self.turns if t.diagnostic)

    @property
    def over_limit(self) -> bool:
        """The strict limit was passed, though a last answer may have been let finish."""
        return self.tokens > self.limit


class Line(Record):
    """One line of a suite's file: who played what, and the whole episode. Judged anew whenever it is read."""

    v: int = 1
    suite: str
    lang: Lang
    arm: str
    item: str
    repeat: int
    key: str
    """Hash of all that decides how the episode plays: session, forced turns, profile, prompt, arm, decoding."""
    limit: int
    trajectory: Trajectory


Row = dict[str, Any]
"""A table row: column -> cell. The first columns are ``lang`` and ``arm``."""
ScriptMaker = Callable[[Item, Profile, ChatML, int], Policy]
"""A fresh scripted policy for one episode: item, profile, chat, repeat (from 0)."""


@dataclass(frozen=True)
class Suite:
    """A seed suite, registered by name.

    Args:
        name: as on the command line.
        about: what it reproduces, for the page and ``--list``.
        items: the sessions of a language.
        arms: default arms as ``PROFILE[/MANAGER]``; who plays them is chosen on the command line.
        scripts: scripted policies by name; each shows one way to pass or fail.
        rows: table rows of one arm's results.
        theirs: the document's own numbers, as rows with the same columns.
        repeats: how often each item is played.
        theirs_note: what the document's numbers are, and what ours can and can't say.
        measure: what the suite's own columns need of an episode.
        check: raises UserError when the suite's material is broken (before anything is played).
        notes: lines below the table that follow from all rows of the table.
        manager: wraps a manager for this suite.
    """

    name: str
    about: str
    items: Callable[[Lang], Sequence[Item]]
    arms: tuple[str, ...]
    scripts: Mapping[str, ScriptMaker]
    rows: Callable[[Sequence[Result]], list[Row]]
    theirs: tuple[Row, ...] = ()
    repeats: int = 1
    theirs_note: str = ""
    measure: Callable[[Item, Trajectory], dict[str, Any]] = lambda item, trajectory: {}
    check: Callable[[Lang], None] = lambda lang: None
    notes: Callable[[Sequence[Row]], list[str]] = lambda rows: []
    manager: Callable[[Any], Any] = lambda manager: manager


SUITES: dict[str, Suite] = {}
"""All suites by name, in order of registration."""


def register(suite: Suite) -> Suite:
    """Enter a suite in ``SUITES``. Raises ValueError for a name that is taken."""
    if suite.name in SUITES:
        raise ValueError(f"suite {suite.name!r} is registered twice")
    SUITES[suite.name] = suite
    return suite
