"""The ``json`` syntax: Hermes ``<tool_call>{…}</tool_call>`` blocks, native to Qwen, with the semantics of the compact one.

One pydantic model per tool is the whole of it: its fields carry the internal names (what the host works on), their aliases the
JSON names (what the policy writes), their descriptions the contract. So validation, the inverse (``spell``) and the schemas in
the system prompt cannot drift apart. Pure parsing; nothing is looked up or changed here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, create_model

from envs.compact import KEY, REF, Call, Parsed
from envs.profiles import Profile
from envs.tasks.base import ToolSpec

EXPECTED = "expected_window_id"
BLOCK = re.compile(r"<tool_call>(.*?)(?:(</tool_call>)|(?=<tool_call>)|\Z)|</tool_call>", re.DOTALL)
TAG = re.compile(r"<(/?tool_call>)")
MARKUP = re.compile(r"</?\s*tool_?calls?\b", re.IGNORECASE)
STRING = re.compile(r'"(?:[^"\\]|\\.?)*"?', re.DOTALL)  # takes an open one to the end: no second look, linear
MAX_BRACKETS = 64  # a fixed bound, because where Python gives up on nesting depends on its stack
STATUS = {"current": "", "historical": "old", "open": "open"}


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number as written: ``9000.50`` stays that, and no digits are too many."""

    text: str


@dataclass(frozen=True, slots=True)
class Flaw:
    """Stands where a value should: what Python reads and a call must not hold. Marked, not refused, so that its tool is known."""

    why: str


def _match(pattern: str, must: str) -> BeforeValidator:
    def check(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError(must)
        return value

    return BeforeValidator(check)


def _list(pattern: str, must: str) -> BeforeValidator:
    def check(value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(v, str) and re.fullmatch(pattern, v) for v in value):
            raise ValueError(must)
        return tuple(dict.fromkeys(v.strip() for v in value))

    return BeforeValidator(check)


# Of validators that run before the type's own, the last one runs first.
Unquoted = BeforeValidator(lambda v: v.text if isinstance(v, Number) else v)
Int = BeforeValidator(lambda v: int(v.lstrip("e")))
ToEvent = PlainSerializer(lambda n: f"e{n}", return_type=str, when_used="json")
Event = Annotated[int, Int, _match(r"e?[1-9][0-9]{0,5}", 'must be an event such as "e5"'), Unquoted, ToEvent]
Page = Annotated[int, Int, _match(r"[1-9][0-9]{0,3}", "must be a whole number from 1 to 9999"), Unquoted]
Key = Annotated[str, _match(KEY, "must be a string of 1 to 40 of a-z 0-9 _ .")]
Span = Annotated[str, _match(rf"{REF}|e[1-9][0-9]{{0,5}}-e[1-9][0-9]{{0,5}}", 'must be such as "e3", "f1" or "e2-e5"')]
Window = Annotated[str, _match(r"w[1-9][0-9]{0,3}", 'must be a window such as "w2"')]
Loose = Annotated[str, AfterValidator(str.strip)]
Filled = Annotated[Loose, _match(r"(?s).*\S.*", "must be a string that is not empty")]
Line = Annotated[Loose, _match(r"\s*\S(?:.*\S)?\s*", "must be a string of one line")]
Value = Annotated[Line, Unquoted]
Scalar = Annotated[str, BeforeValidator(lambda v: json.dumps(v) if isinstance(v, bool) else v), Unquoted]
Refs = Annotated[tuple[str, ...], _list(REF, 'must be a list of references such as ["e3"]')]
Lines = Annotated[tuple[str, ...], _list(r"\s*\S(?:.*\S)?\s*", 'must be a list of one-line strings such as ["cap 9000"]')]


# The docstrings and descriptions of the models are the contract that the policy reads.
class Args(BaseModel):
    """Base: no unknown arguments, no types turned into others unless a validator says so."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Business(Args):
    """Base of the models made of business tools."""


class Changing(Args):
    """Base of the tools that change state: from unified@2 on they say which window they believe to be in."""

    expected: Window = Field("", alias="expected_window_id", description="Id of the window you are in.")


class Note(Changing):
    """Store one value in memory, or replace the value of its key."""

    key: Key = Field(description="Name of the value, of a-z 0-9 _ . only.")
    value: Value = Field(description="The value on one line, as its source words it.")
    status: Literal["current", "historical", "open"] = Field(
        "current", description="current (default), historical, open: undecided."
    )
    refs: Refs = Field((), alias="sources", description="Events that state the value.")


class MemoryWrite(Note):
    """Store one value in memory, or replace the value of its key."""

    scope: Literal["public", "window"] = Field(
        "public", description="public (default): the whole task; window: only this window."
    )


class Fold(Changing):
    """Replace a range of finished events of this window by a brief; the events stay readable."""

    first: Event = Field(alias="from", description="First event of the range.")
    last: Event = Field(alias="to", description="Last event of the range.")
    text: Filled = Field(alias="brief", description="What later steps need from the range.")
    refs: Refs = Field((), alias="keep", description="Events of the range to keep listed as references.")


class Compress(Changing):
    """Replace everything up to an event of a finished turn by a summary; the events stay readable."""

    upto: Event = Field(description="Last event to cover.")
    text: Loose = Field("", alias="summary", description="What later steps need from all that is covered.")
    refs: Refs = Field((), alias="keep", description="Covered events to keep listed as references.")


class ReadRaw(Args):
    """Show the raw text of an event, a range, a fold or a compressed part."""

    ref: Span = Field(description='What to read, such as "e3", "e2-e5", "f1" or "c1".')
    page: Page = Field(1, description="Page of a long text, from 1.")


class SearchRaw(Args):
    """Search the raw text of all events, also of those out of view."""

    query: Filled = Field(description="Words to look for.")
    in_window: Window = Field("", alias="window", description="Id of the only window to search.")


class WindowList(Args):
    """List all windows with id, title and status."""


class WindowOpen(Changing):
    """Open a new window for a separate stage and move there; must be the last call of the turn."""

    title: Line = Field(description="Title of the stage.")
    handoff: Loose = Field("", description="What the new window needs to know.")
    checkpoint: Loose = Field("", description="Where the window you leave stands.")


class WindowSwitch(Changing):
    """Move to another window, opening it again if it is done; must be the last call of the turn."""

    id: Window = Field(description="Id of the window to move to.")
    checkpoint: Loose = Field("", description="Where the window you leave stands.")


class WindowClose(Changing):
    """Close this window with its outcome and move on; must be the last call of the turn."""

    outcome: Filled = Field(description="What the window achieved.")
    next: Window = Field(description="Id of the window to move to.")


class StageDone(Args):
    """Say that a stage of the task is finished."""

    outcome: Filled = Field(description="What the stage achieved.")
    constraints: Lines = Field((), description="Limits that hold from now on, each as key=value @e3.")


class Recall(Args):
    """Get raw evidence of earlier stages back."""

    what: Filled = Field(description="What you need to know.")


TOOLS: dict[str, tuple[str, type[Args], dict[str, Any]]] = {
    "memory_write": ("note", MemoryWrite, {"key": "budget_cap", "value": "9000", "refs": ("e3",)}),
    "fold": ("fold", Fold, {"first": 2, "last": 5, "text": "what it held"}),
    "compress": ("compress", Compress, {"upto": 9, "text": "what it held"}),
    "read_raw": ("read", ReadRaw, {"ref": "e3"}),
    "search_raw": ("find", SearchRaw, {"query": "approval code"}),
    "window_list": ("window_list", WindowList, {}),
    "window_open": ("window_open", WindowOpen, {"title": "venue", "handoff": "what it needs"}),
    "window_switch": ("window_switch", WindowSwitch, {"id": "w2"}),
    "window_close": ("window_close", WindowClose, {"outcome": "what was done", "next": "w1"}),
    "stage_done": ("stage_done", StageDone, {"outcome": "what was done"}),
    "recall": ("recall", Recall, {"what": "approval code"}),
    "note": ("note", Note, {"key": "budget_cap", "value": "9000", "refs": ("e3",)}),
}
"""JSON name -> internal name, model, internal arguments of the example."""
NAMES = {name: internal for name, (internal, _, _) in TOOLS.items()}


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as one profile has it, with its JSON arguments. Not told is the second name of a tool: understood, not in the contract."""

    name: str
    internal: str
    model: type[Args]
    arguments: tuple[str, ...]
    needs: tuple[str, ...]
    example: str
    told: bool = True


def parse(text: str, cut: bool, profile: Profile, tools: tuple[ToolSpec, ...]) -> Parsed:
    """Parse the text of one turn. Never raises, whatever the text.

    A turn that is empty, was cut by the token cap, or holds call markup without one readable block is a notice. Beside a readable
    block the unreadable ones are rejected one by one, stray tags included; text outside blocks is remarks.
    """
    body = text.strip()
    if cut or not body:
        return Parsed("notice")
    blocks = list(BLOCK.finditer(body))
    objects = [_named(b[1]) if b[2] else None for b in blocks]
    if not any(o is not None for o in objects):
        return Parsed("notice" if body[0] in "{[<" or MARKUP.search(body) else "answer")
    offers = _offers(profile, tools)
    told = [o for o in offers.values() if o.told]
    calls = []
    for n, (block, held) in enumerate(zip(blocks, objects, strict=True), 1):
        if held is None:
            why = f"block {n} {'is not a JSON object with a name' if block[2] else 'lacks one of its tags'}"
            calls.append(Call("", code="bad_arguments", why=why, instead=told[0].example if told else "an answer"))
        elif held["name"] in offers:
            calls.append(_call(offers[held["name"]], held))
        else:
            name, names = _short(held["name"]), ", ".join(o.name for o in told)
            calls.append(Call(name, code="unknown_tool", why=f"no tool {name}", instead=names or "an answer"))
    remarks = (line.strip() for line in BLOCK.sub("\n", body).split("\n"))
    return Parsed("calls", tuple(calls), tuple(filter(None, remarks)))


def _load(text: str) -> Any:
    """JSON with numbers as written and flaws marked, or None."""
    if len(re.findall(r"[\[{]", STRING.sub("", text))) > MAX_BRACKETS:
        return None

    def pairs(held: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(held) | {k: Flaw(f"{_short(k)} stands twice") for k, n in Counter(k for k, _ in held).items() if n > 1}

    numbers: dict[str, Any] = {"parse_int": Number, "parse_float": Number, "parse_constant": lambda c: Flaw(f"{c} is not JSON")}
    try:
        return json.loads(text, object_pairs_hook=pairs, **numbers)
    except (ValueError, RecursionError):
        return None


def _named(block: str) -> dict[str, Any] | None:
    """The object of a block, or None if it is none with a string name."""
    held = _load(block.strip())
    name = held.get("name") if isinstance(held, dict) else None
    return held if isinstance(name, str) and not _flaw(name) else None


def _flaw(value: object) -> str:
    """What makes a value unusable wherever it stands, or nothing."""
    if isinstance(value, Flaw):
        return value.why
    if isinstance(value, str):
        return "half of a surrogate pair is no text" if re.search("[\ud800-\udfff]", value) else ""
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return next(filter(None, map(_flaw, parts)), "")


def _short(text: str) -> str:
    """The start of a policy's own words, fit for one line of reason."""
    return "".join(c if c.isprintable() else " " for c in text[:40])


def _call(offer: Offer, held: dict[str, Any]) -> Call:
    """The call of a block whose tool is known."""
    given = held.get("arguments", {})
    given = _load(given) if isinstance(given, str) else given
    try:
        if flaw := _flaw(held) or _flaw(given):
            raise ValueError(flaw)
        if extra := [k for k in held if k not in ("name", "arguments")]:
            raise ValueError(f"only name and arguments stand in a call, not {_short(extra[0])}")
        if not isinstance(given, dict):
            raise ValueError("arguments must be an object")
        made = _validated(offer, given)
    except ValueError as error:
        return Call(offer.internal, code="bad_arguments", why=str(error), instead=offer.example)
    if isinstance(made, Business):
        return Call(offer.internal, made.model_dump(by_alias=True))
    args = {k: v for k, v in made.model_dump().items() if v or k not in ("expected", "in_window")}
    if isinstance(made, Note):
        args = {"scope": "public", **args, "status": STATUS[made.status]}
    if isinstance(made, ReadRaw):
        ref, _, last = made.ref.partition("-e")
        args |= {"ref": ref, "last": int(last) if last else None}
    return Call(offer.internal, args)


def _validated(offer: Offer, given: dict[str, Any]) -> Args:
    """The arguments as the model has them. Raises ValueError: unknown names first, then missing ones, then wrong values."""
    if issubclass(offer.model, Changing) and EXPECTED not in offer.arguments:
        given = {k: v for k, v in given.items() if k != EXPECTED}
    for name in (n for n in given if n not in offer.arguments):
        near = get_close_matches(name[:40], offer.arguments, n=1, cutoff=0)
        raise ValueError(f"no argument {_short(name)}, " + (f"the nearest is {near[0]}" if near else f"{offer.name} takes none"))
    if missing := [n for n in offer.needs if n not in given]:
        raise ValueError(f"{', '.join(missing)} missing" + (": say the window you are in" if EXPECTED in missing else ""))
    try:
        made = offer.model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        why = first["msg"].removeprefix("Value error, ").replace("Input should be a valid", "must be a")
        raise ValueError(f"{first['loc'][0]} {why.replace('Input should be', 'must be')}") from None
    if isinstance(made, Compress) and "summary" in offer.needs and not made.text:
        raise ValueError("summary must be a string that is not empty")
    return made


def _offers(profile: Profile, tools: tuple[ToolSpec, ...]) -> dict[str, Offer]:
    """What a call may name in this profile. A context tool hides a business tool of its name."""
    agent = getattr(profile, "compress_by", "model") == "agent"
    return _offers_of(tuple(profile.tools), bool(getattr(profile, "position_check", False)), agent, tools)


@lru_cache(maxsize=256)
def _offers_of(names: tuple[str, ...], check: bool, agent: bool, tools: tuple[ToolSpec, ...]) -> dict[str, Offer]:
    made = {}
    second = "memory_write" if {"stage_done", "recall"} & set(names) else "note"
    for name, (internal, model, args) in TOOLS.items():
        if internal in names:
            fields = {f.alias or n: f.is_required() for n, f in model.model_fields.items() if check or n != "expected"}
            needs = (n for n, must in fields.items() if must or n == EXPECTED or (n == "summary" and not agent))
            shown = {k: v for k, v in args.items() if k != "text" or internal == "fold" or not agent}
            example = _dump(name, _json_args(name, shown | ({"expected": "w1"} if EXPECTED in fields else {})))
            made[name] = Offer(name, internal, model, tuple(fields), tuple(needs), example, name != second)
    for tool in tools:
        if tool.name not in made and tool.name not in names:
            # Aliases, because an argument may have any name.
            held: dict[str, Any] = {f"a{n}": (Scalar, Field(alias=arg)) for n, arg in enumerate(tool.args)}
            example = _dump(tool.name, dict.fromkeys(tool.args, "…"))
            business = create_model("Business", __base__=Business, **held)
            made[tool.name] = Offer(tool.name, tool.name, business, tool.args, tool.args, example)
    return made


def _json_args(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Internal arguments as the policy would write them, those at their default left out."""
    held = dict(args)
    if "status" in held:
        held["status"] = next(k for k, v in STATUS.items() if v == held["status"])
    if name == "read_raw" and held.get("last"):
        held["ref"] += f"-e{held['last']}"
    return TOOLS[name][1].model_construct(**held).model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _dump(name: str, args: Mapping[str, Any]) -> str:
    return json.dumps({"name": name, "arguments": args}, ensure_ascii=False)


def spell(tool: str, args: Mapping[str, Any], lean: bool = False) -> str:
    """The canonical block of an internal call: the inverse of ``parse``. ``lean`` writes a note by that name."""
    names = [n for n, internal in NAMES.items() if internal == tool]
    name = names[-1 if lean else 0] if names else tool
    block = _dump(name, _json_args(name, args) if names else {k: str(v) for k, v in args.items()})
    # A tag inside a string would end the block.
    return "<tool_call>\n" + TAG.sub(r"\\u003c\1", block) + "\n</tool_call>"


def example(tool: str, args: Mapping[str, Any], lean: bool = False) -> str:
    """A call on one line, without its tags: the form in which a refusal offers a valid alternative."""
    return " ".join(spell(tool, args, lean).removeprefix("<tool_call>\n").removesuffix("\n</tool_call>").split("\n"))


def contract(profile: Profile, tools: tuple[ToolSpec, ...]) -> str:
    """The tool part of the system prompt, worded as Qwen's own template does; empty without tools."""
    told = [o for o in _offers(profile, tools).values() if o.told]
    lines = "\n".join(json.dumps({"type": "function", "function": _schema(o)}, ensure_ascii=False) for o in told)
    text = (
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        f"You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n{lines}\n</tools>\n\n"
        "For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n"
        '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
    )
    return text if told else ""


def _schema(offer: Offer) -> dict[str, Any]:
    full = offer.model.model_json_schema(mode="serialization")
    held = {n: {k: v for k, v in full["properties"][n].items() if k not in ("title", "default")} for n in offer.arguments}
    about = {"description": full["description"]} if "description" in full else {}
    return {"name": offer.name, **about, "parameters": {"type": "object", "properties": held, "required": offer.needs}}
