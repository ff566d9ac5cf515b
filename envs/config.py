"""One pydantic schema a stage, one YAML file a run, dotted overrides; a mistake is one line that says where and what to do.

    class SftConfig(Strict):
        model: str
        trainer: dict[str, Any] = {}

    config = load_config(SftConfig, "configs/sft_probes.yaml", ["trainer.learning_rate=1e-5"])

YAML is read by the 1.2 core rules: ``1e-5`` is a number, ``on``, ``off``, ``yes`` and ``no`` are words. A key given twice is
refused.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError


class UserError(Exception):
    """A mistake its reader can mend: one line, no traceback on the command line (see ``envs.runs.cli_errors``)."""


class ConfigError(UserError):
    """A config that can't be used; the message names the file, the field, the value and the remedy."""


class Strict(BaseModel):
    """Base of every schema: unknown keys refused, values fixed once read, defaults checked like given values."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, protected_namespaces=())


Schema = TypeVar("Schema", bound=BaseModel)


def load_config(schema: type[Schema], path: str | Path | None, overrides: Sequence[str] = ()) -> Schema:
    """Read ``path`` (``None``: start from the defaults), apply ``overrides`` in order, check against ``schema``.

    An override is ``dotted.key=value`` with the value read as YAML; a number in the key indexes a list. Raises ConfigError.
    """
    file = str(path) if path is not None else "(defaults)"
    data = read_yaml(Path(path)) if path is not None else {}
    sources: dict[tuple[str, ...], str] = {}
    for override in overrides:
        keys, value = _parse_override(override)
        _put(data, keys, value, override)
        sources[keys] = f"override {override!r}"
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_explain(schema, error, data, file, sources)) from None


def dump_config(config: BaseModel, *, without: Iterable[str] = ()) -> str:
    """The resolved config as YAML text that :func:`load_config` reads back to an equal one; fields ``without`` stay at their defaults."""
    return yaml.safe_dump(config.model_dump(mode="json", exclude=set(without)), sort_keys=False, allow_unicode=True, width=1000)


def check_fields(
    dataclass_type: type, mapping: Mapping[str, Any], where: str, *, reserved: Mapping[str, str] | None = None
) -> None:
    """Refuse keys of ``mapping`` that ``dataclass_type`` doesn't take (SFTConfig, GRPOConfig) or that this project sets itself.

    ``where`` names the section, as in ``"configs/sft.yaml: trainer"``; ``reserved`` maps a key to the reason it's refused.
    Raises ConfigError with the nearest valid name.
    """
    names = [field.name for field in dataclasses.fields(dataclass_type) if field.init]
    for key, value in mapping.items():
        if reserved and key in reserved:
            raise ConfigError(f"{where}.{key}: {value!r} not allowed here: {reserved[key]}")
        if key not in names:
            raise ConfigError(f"{where}.{key}: {dataclass_type.__name__} has no such setting: {nearest(str(key), names)}")


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's plain scalars and no double keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} is given twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node))  # YAML 1.1 would read 010 as eight


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file as a mapping; an empty one is empty. Raises ConfigError naming file, line and remedy."""
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except FileNotFoundError:
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.y*ml")], n=1)
        raise ConfigError(
            f"{path}: no such file: {f'did you mean {path.parent / near[0]}?' if near else 'check the path'}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: can't be read ({error}): give a UTF-8 YAML file") from None
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: not valid YAML ({error.problem}): correct that line") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML ({' '.join(str(error).split())}): correct the file") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: holds a {type(data).__name__}, not a mapping: write 'key: value' lines")
    return data


def _parse_override(override: str) -> tuple[tuple[str, ...], Any]:
    key, equals, text = override.partition("=")
    keys = tuple(key.strip().split("."))
    if not equals or not all(keys):
        raise ConfigError(f"override {override!r}: not of the form dotted.key=value: write e.g. trainer.learning_rate=1e-5")
    try:
        return keys, yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except yaml.YAMLError:
        raise ConfigError(f"override {override!r}: the value {text!r} isn't valid YAML: quote it") from None


def _put(data: Any, keys: tuple[str, ...], value: Any, override: str) -> None:
    for depth, key in enumerate(keys):
        last = depth == len(keys) - 1
        if isinstance(data, list):
            if not key.isdigit() or int(key) >= len(data):
                raise ConfigError(
                    f"override {override!r}: {'.'.join(keys[:depth])} is a list of {len(data)}: use an index below that"
                )
            index: Any = int(key)
        elif isinstance(data, dict):
            index = key
            if not last and data.get(key) is None:
                data[key] = {}
        else:
            raise ConfigError(
                f"override {override!r}: {'.'.join(keys[:depth])} is {data!r}, which has no keys: override it whole"
            )
        if last:
            data[index] = value
        else:
            data = data[index]


def _explain(
    schema: type[BaseModel], error: ValidationError, data: Any, file: str, sources: Mapping[tuple[str, ...], str]
) -> str:
    problems = error.errors(include_url=False)
    # An unknown key is often the reason why a required one is missing, so it is told first.
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    location = _path_in(data, first["loc"])
    source = next((text for keys, text in reversed(list(sources.items())) if location[: len(keys)] == keys), file)
    field = ".".join(location) or "(top level)"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if first["type"] == "extra_forbidden":
        names = _names_at(schema, first["loc"][:-1])
        return f"{source}: {field}: unknown key: {nearest(location[-1], names)}{more}"
    if first["type"] == "missing":
        return f"{source}: {field}: required but not given: add it{more}"
    message = first["msg"].removeprefix("Value error, ")
    shown = repr(first["input"])
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return f"{source}: {field}: {shown} not accepted: {message[0].lower() + message[1:]}{more}"


def _path_in(data: Any, location: Sequence[Any]) -> tuple[str, ...]:
    """The keys of ``data`` that lead to pydantic's ``location``, which under a union also holds the member's tag or name."""
    path: list[str] = []
    for depth, part in enumerate(location):
        if (isinstance(data, dict) and part in data) or (isinstance(data, list) and isinstance(part, int)):
            data = data[part]
        elif depth < len(location) - 1:
            continue
        path.append(str(part))
    return tuple(path)


def nearest(name: str, names: Iterable[str]) -> str:
    """What to put into a message about an unknown name: the nearest valid one, or all of them where none is near."""
    names = sorted(names)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"use one of {', '.join(names)}" if len(names) <= 30 else "see its documentation for the valid names"


def _names_at(kind: Any, location: Sequence[int | str]) -> set[str]:
    """Field names of the model (or models, under a union) that ``location`` leads to from ``kind``."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _names_at(get_args(kind)[0], location)
    if origin in (Union, types.UnionType):
        members = get_args(kind)
        found = set().union(*(_names_at(member, location) for member in members))
        # Under a union pydantic puts the member's tag or name into the location.
        return found or (set().union(*(_names_at(member, location[1:]) for member in members)) if location else found)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = kind.model_fields
        if not location:
            return {field.alias or name for name, field in fields.items()}
        inner = next((f for name, f in fields.items() if location[0] in (name, f.alias)), None)
        return _names_at(inner.annotation, location[1:]) if inner else set()
    if origin is not None and location:
        return _names_at(get_args(kind)[-1] if get_args(kind)[-1] is not ... else get_args(kind)[0], location[1:])
    return set()
