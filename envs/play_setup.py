"""What a game of ``python -m envs play`` is made of: its options read and checked, its session, its episodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

from pydantic import BeforeValidator, ValidationError, create_model

from envs.chat import ChatML, get_chat
from envs.config import ConfigError, Strict, UserError, load_config
from envs.episode import Episode
from envs.managers import get_manager
from envs.profiles import COMPACT_LINES, Profile, get_profile, prompt_text, variant
from envs.runs import read_jsonl
from envs.tasks import get_family
from envs.tasks.base import Probe, Session
from envs.tasks.engine import Knobs
from envs.tasks.probes import KINDS, make_probes


def _named(option: str, get: Callable[[str], Any], name: str) -> Any:
    try:
        return get(name)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None


def _range(value: Any) -> Any:
    """A range as people write it: ``5`` or ``3-8``."""
    if isinstance(value, str) and len(ends := value.split("-")) == 2 and all(e.strip().isdecimal() for e in ends):
        return [int(e) for e in ends]
    if isinstance(value, int) and not isinstance(value, bool):
        return [value, value]
    if not isinstance(value, list | tuple):
        raise ValueError("give a whole number, or a range such as 3-8")
    return value


def _settings(kind: type, option: str, given: Sequence[str]) -> dict[str, Any]:
    """``name=value`` texts, checked against the fields of a dataclass."""
    hints = get_type_hints(kind)
    shape: dict[str, Any] = {}
    for field in fields(kind):
        if field.name != "name":
            hint = hints[field.name]
            pair = get_origin(hint) is tuple and kind is Knobs
            shape[field.name] = (Annotated[hint, BeforeValidator(_range)] if pair else hint, field.default)
    if wrong := [text for text in given if "=" not in text]:
        raise UserError(
            f"{option} {wrong[0]!r}: not of the form name=value: write e.g. {'fillers=20' if kind is Knobs else 'index=false'}"
        )
    try:
        found: Strict = load_config(create_model("Settings", __base__=Strict, **shape), None, given)
    except ConfigError as error:
        raise UserError(str(error).replace("override ", f"{option} ", 1)) from None
    values = {name: getattr(found, name) for name in found.model_fields_set}
    for name, value in values.items():
        least = 1 if name == "view_budget" else 0
        if isinstance(value, int | float) and not isinstance(value, bool) and value < least:
            raise UserError(f"{option} {name}={value}: must not be below {least}: give a larger number")
    return values


def read_profile(name: str, given: Sequence[str]) -> Profile:
    """The profile with its changed flags (``name=value``). Raises UserError."""
    _named("--profile", get_profile, name)
    values = _settings(Profile, "--flag", given)
    if unknown := [t for t in values.get("tools", ()) if t not in COMPACT_LINES]:
        raise UserError(f"--flag tools: no context tool {unknown[0]!r}: choose from {', '.join(COMPACT_LINES)}")
    return variant(name, **values)


def check_options(rules: Profile, manager: str | None, prompt: str) -> None:
    """Refuse a manager or a prompt that the profile cannot have. Raises UserError."""
    if prompt:
        _named("--prompt", lambda name: prompt_text(name, rules.managed, rules.syntax), prompt)
    if manager is not None:
        _named("--manager", get_manager, manager)
        if rules.name.split("[")[0] != "plain@1":
            raise UserError(f"--manager {manager}: {rules.name} lets the player manage the view: add --profile plain@1")


def load_chat(model: str) -> ChatML:
    """The chat writer with the tokenizer of a model. Raises UserError."""
    return _named("--model", get_chat, model)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The options that say which session or probe is drawn; None where one was not given."""

    family: str | None = None
    seed: int | None = None
    turns: str | None = None
    knobs: Sequence[str] = ()
    probe: str | None = None
    undamaged: bool = False

    def refuse_with(self, file: Path) -> None:
        """A stored line is played: nothing else may say what."""
        told = (bool(self.knobs) or None, self.undamaged or None)
        named = zip(
            ("--family", "--seed", "--turns", "--probe", "--knob", "--undamaged"),
            (self.family, self.seed, self.turns, self.probe, *told),
            strict=True,
        )
        for option in (name for name, value in named if value is not None):
            raise UserError(f"{option}: a line of {file} is played, nothing is drawn: leave {option} or the file away")

    def task(self, chat: ChatML) -> Session | Probe:
        """The session, or the probe where a kind of probe was given."""
        family = self.family or "procurement"
        module = _named("--family", get_family, family)
        if self.probe is not None:
            if self.turns or self.knobs:
                raise UserError(f"--probe {self.probe}: probes have sizes of their own: leave --turns and --knob away")
            return _probe(family, self.seed or 0, self.probe, chat, self.undamaged)
        if self.undamaged:
            raise UserError("--undamaged: only a probe that is drawn has an undamaged sibling: add --probe static")
        values = _settings(Knobs, "--knob", self.knobs)
        if self.turns is not None:
            values |= _settings(Knobs, "--turns", [f"turns={self.turns}"])
        try:
            knobs = [replace(Knobs(), **values)] if values else []
            return module.generate(self.seed or 0, *knobs)  # type: ignore[no-any-return]
        except ValueError as error:
            option = "--knob" if self.knobs else "--turns"
            raise UserError(f"{option}: no such session can be drawn ({error}): try other values") from None


def _probe(family: str, seed: int, kind: str, chat: ChatML, undamaged: bool) -> Probe:
    if kind not in KINDS:
        raise UserError(f"--probe {kind!r}: unknown kind of probe: choose one of {', '.join(KINDS)}")
    made = make_probes(family, seed, kind, chat)
    if not made:
        near = next((s for s in range(seed + 1, seed + 40) if make_probes(family, s, kind, chat)), None)
        remedy = "another kind or family" if near is None else f"--seed {near}"
        raise UserError(f"--seed {seed}: it makes no {kind} probe of {family}: try {remedy}")
    return made[0] if undamaged else made[-1]


def stored_task(file: Path, number: int) -> Session | Probe:
    """The session of a stored episode, or the probe or session that a line holds."""
    records = read_jsonl(file)
    if not 1 <= number <= len(records):
        raise UserError(f"{file}: there is no line {number}, it has {len(records)}: choose another with --number")
    record = records[number - 1]
    keys = set(record) if isinstance(record, dict) else set()
    kind: type[Probe] | type[Session] = Probe if {"prefix", "injection"} <= keys else Session
    try:
        # From the text, as JSON: lists become tuples under strict schemas.
        task = kind.model_validate_json(json.dumps(record["session"] if {"session", "inferences"} <= keys else record))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the line"
        raise UserError(
            f"{file}:{number}: no episode, probe or session ({where}: {first['msg'].lower()}): name another line"
        ) from None
    if not (task.session if isinstance(task, Probe) else task).turns:
        raise UserError(f"{file}:{number}: its session has no user turn: name another line")
    return task


def starter(
    task: Session | Probe, rules: Profile, chat: ChatML, prompt: str, manager: str | None
) -> Callable[[Probe | None], Episode]:
    """What makes the game's episode, as often as it is asked (``envs.play.Start``)."""

    def start(twin: Probe | None) -> Episode:
        made = get_manager(manager) if manager else None  # a manager may remember: every replay has a new one
        played = twin or task
        make: Callable[..., Episode] = Episode.from_probe if isinstance(played, Probe) else Episode
        try:
            return make(played, rules, chat, prompt=prompt, manager=made)
        except ValueError as error:
            raise UserError(f"--profile {rules.name}: this cannot be played under it ({error}): use another profile") from None

    return start
