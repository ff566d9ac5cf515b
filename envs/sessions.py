"""Session files: conversations brought from outside, one JSON object a line (docs/sessions.md). Read, checked, judged.

    cases = load("my_sessions.jsonl")
    score(cases[0], "7f3a-c91")

A file with a mistake is refused whole: the error names file, line, field and what belongs there. ``envs.session_run`` plays cases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from envs.config import _names_at, nearest
from envs.runs import DataError
from envs.session_score import SlowPattern, judge, plain, says, score

BAD_LINES = 10
"""Bad lines that an error lists."""
LONGEST_PATTERN = 500
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]
Number = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    """Base of the format: unknown keys refused, nothing coerced, nothing changed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=False)


class CaseCall(Part):
    """A tool call of the assistant."""

    id: Text
    name: Annotated[str, StringConstraints(pattern=r"^[^\s\[\]]+$")]
    args: dict[str, Any]


class CaseEvent(Part):
    """One event of the raw log. ``call`` only on assistant events, ``call_id`` on tool results."""

    n: int
    role: Literal["user", "assistant", "system", "tool", "memory", "notice"]
    text: str = ""
    call: CaseCall | None = None
    call_id: Text | None = None
    session: Annotated[str, StringConstraints(pattern=r"^[^\r\n\[\]]*[^\s\[\]][^\r\n\[\]]*$")] | None = None
    turn: int | str | None = None


class Insert(Part):
    """A text that stands in the damaged view and in no log, before an event or at the end."""

    kind: Literal["fold", "memory", "marker", "control"] = Field(alias="as")
    before: Number | Literal["end"]
    text: Text


class Damage(Part):
    """What is laid over the view: events hidden, texts inserted."""

    op: Text
    hide: list[Number] = []
    insert: list[Insert] = []
    note: str = ""


class CaseFact(Part):
    """A fact of the log, for people and tables."""

    key: Text
    value: Any
    status: str = "current"
    events: list[Number] = []


class Expected(Part):
    """How the reply is judged, and where its evidence stands."""

    check: Literal["exact", "all_of", "regex", "json"]
    value: Any
    aliases: list[Any] = []
    forbidden: list[Text] = []
    evidence: list[Number]
    needs_raw: list[Text] = []
    behaviour: Literal["read_back", "answer_from_view"]
    facts: list[CaseFact] = []
    invariants: list[str] = []

    @field_validator("forbidden", "needs_raw")
    @classmethod
    def _says_something(cls, tokens: list[str]) -> list[str]:
        if blank := [t for t in tokens if not plain(t)]:
            raise ValueError(f"{blank[0]!r} has no letter or digit to look for")
        return tokens


class Case(Part):
    """One session: its raw log, the damage to its view, the question asked last and how the reply is judged."""

    id: Text
    kind: Text
    mechanism: str = ""
    tags: list[str] = []
    source: Any = None
    events: list[CaseEvent] = Field(min_length=1)
    final_question: Text
    injection: Damage | None = None
    expected: Expected
    gold_reply: Text
    bad_reply: str

    @property
    def hidden(self) -> frozenset[int]:
        """Events that the damage takes out of view."""
        return frozenset(self.injection.hide if self.injection else ())

    def event_text(self, n: int) -> str:
        """An event's text as log and view have it: an assistant's call is spelled on a line of its own."""
        event = self.events[n - 1]
        spelled = [spell_call(event.call)] if event.call else []
        return "\n".join([event.text] * bool(event.text or not spelled) + spelled)

    def speaker(self, n: int) -> str:
        """Whose event it is, as its tag says: role and session, or a result's tool (and its call's event, unless just before)."""
        event = self.events[n - 1]
        if event.role != "tool":
            return f"{event.role} {event.session}" if event.session else event.role
        call = next(e for e in self.events if e.call and e.call.id == event.call_id)
        assert call.call
        return call.call.name if call.n == n - 1 else f"{call.call.name} of e{call.n}"

    def damaged_text(self) -> str:
        """All that the damaged view tells, the question included."""
        inserted = [i.text for i in self.injection.insert] if self.injection else []
        seen = [f"{self.speaker(e.n)} {self.event_text(e.n)}" for e in self.events if e.n not in self.hidden]
        return "\n".join([*inserted, *seen, self.final_question])


def spell_call(call: CaseCall) -> str:
    """``name arg=value``: texts with spaces or quotes as JSON strings, everything that is no text as JSON."""
    parts = [call.name]
    for name, value in call.args.items():
        bare = isinstance(value, str) and value and not re.search(r'[\s"]', value)
        parts.append(f"{name}={value if bare else json.dumps(value, ensure_ascii=False)}")
    return " ".join(parts)


# -- reading ---------------------------------------------------------------------------------------------------------


class _Mistake(Exception):  # noqa: N818
    """Something wrong on a line: ``field: what is there: what belongs there``."""


def load(path: str | Path) -> list[Case]:
    """The cases of a session file, in order. Raises DataError: any mistake refuses the whole file, up to ten bad lines are told."""
    path = Path(path)
    cases: list[Case] = []
    bad: list[str] = []
    places: dict[str, int] = {}
    last = 0
    for number, line, ends in _lines(path):
        last = number
        try:
            case = _case(line, ends)
            if case.id in places:
                raise _Mistake(f"id: {case.id!r} stands on line {places[case.id]} already: give every session its own id")
            places[case.id] = number
            cases.append(case)
        except _Mistake as mistake:
            bad.append(f"{path}:{number}: {mistake}")
    if bad and _is_one_value(path):
        raise DataError(
            f"{path}:1: (the file): one JSON value over many lines: write one session a line, without line breaks in it"
        )
    if len(bad) > 1:
        more = f"\n… and {len(bad) - BAD_LINES} more bad lines" if len(bad) > BAD_LINES else ""
        raise DataError(f"{path}: {len(bad)} bad lines, nothing of the file is used:\n" + "\n".join(bad[:BAD_LINES]) + more)
    if bad:
        raise DataError(bad[0])
    if not last:
        raise DataError(f"{path}: holds no session: write one JSON object a line (docs/sessions.md)")
    return cases


def _is_one_value(path: Path) -> bool:
    """Whether a file is one JSON value spread over lines: a list of sessions, or one session printed for reading."""
    try:
        data = path.read_bytes().strip()
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return b"\n" in data


def _lines(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Number, text and whether a line feed ended it, of every line that is not blank. A byte-order mark and CRLF are fine."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file: check the path") from None
    except OSError as error:
        raise DataError(f"{path}: can't be read ({error.strerror or error}): give a JSONL file") from None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{path}:1: (encoding): UTF-16, but a session file is UTF-8: save it as UTF-8")
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        try:
            yield number, raw.decode("utf-8").strip(), number < len(lines)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}:{number}: (encoding): byte {error.start + 1} of the line is not UTF-8: save the file as UTF-8"
            ) from None


def _case(line: str, ends: bool) -> Case:
    from envs.session_checks import check

    value = _object(line, ends)
    try:
        case = Case.model_validate(value)
    except ValidationError as error:
        raise _Mistake(_told(error)) from None
    try:
        problem = next(check(case), "")
    except SlowPattern as slow:
        problem = f"expected.value: {slow} on the gold or bad reply: write a pattern without repeats inside repeats"
    if problem:
        raise _Mistake(problem)
    return case


def _object(line: str, ends: bool) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_number)
    except RecursionError:
        raise _Mistake("(the line): nested too deep: a session holds no such value") from None
    except json.JSONDecodeError as error:
        where = f"(the line): not valid JSON at column {error.pos + 1}"
        if not ends:
            raise _Mistake(f"{where}, and the file ends here: if it is torn, write the line whole or delete it") from None
        raise _Mistake(f"{where}: one whole object on every line") from None
    except ValueError as error:
        raise _Mistake(f"(the line): not valid JSON ({error}): correct the number") from None
    if not isinstance(value, dict):
        raise _Mistake(f"(the line): holds a {type(value).__name__}, not an object: one session is one JSON object a line")
    if torn := _half_character(value, ""):
        raise _Mistake(f"{torn}: holds half of a surrogate pair, which is no text: write the whole character")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Mistake(f"{key}: given twice in one object: keep one")
        found[key] = value
    return found


def _no_number(word: str) -> Any:
    raise _Mistake(f"(the line): {word} is no JSON number: write a finite number or null")


def _half_character(value: Any, where: str) -> str:
    """The field that holds a text which cannot be written as UTF-8, or ``""``."""
    if isinstance(value, str):
        return where if re.search("[\ud800-\udfff]", value) else ""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        place = f"{where}.{key}" if where else str(key)
        if isinstance(key, str) and _half_character(key, "key"):
            return f"{where or '(the object)'}: a key"
        if found := _half_character(item, place):
            return found
    return ""


def _told(error: ValidationError) -> str:
    """The first problem of a line, an unknown key before others: it is often why a required one is missing."""
    problems = error.errors(include_url=False)
    first = min(problems, key=lambda p: p["type"] != "extra_forbidden")
    steps = list(first["loc"])
    either = next((i for i, s in enumerate(steps[:-1]) if s in ("before", "turn")), None)
    if either is not None:
        steps = steps[: either + 1]  # what follows names a member of the union
    field = ".".join(map(str, steps)) or "(the object)"
    others = len({p["loc"][: len(steps)] for p in problems}) - 1
    more = f" (and {others} more on this line)" if others else ""
    if first["type"] == "extra_forbidden":
        return f"{field}: unknown key: {nearest(str(steps[-1]), _names_at(Case, steps[:-1]))}{more}"
    if first["type"] == "missing":
        return f"{field}: required but not given: add it{more}"
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if first["type"] == "string_pattern_mismatch":
        special = {"name": "should be one word without [ or ]", "session": "should be one line without [ or ]"}
        message = special.get(str(steps[-1]), "should hold visible text")
    if either is not None:
        message = "should be an event number or 'end'" if steps[-1] == "before" else "should be a number or a text"
    shown = repr(first["input"])
    return f"{field}: {shown if len(shown) <= 60 else shown[:57] + '...'}: {message}{more}"


__all__ = ["Case", "CaseCall", "CaseEvent", "Damage", "Expected", "Insert", "judge", "load", "says", "score", "spell_call"]
