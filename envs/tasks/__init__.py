"""Task families, one file each: their words, their tools, their generator."""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType

from envs.tasks import (
    analysis,
    broadcast,
    casework,
    catering,
    fieldwork,
    incident,
    laboratory,
    lending,
    logistics,
    multi_objective,
    permissions,
    procurement,
    release,
    scheduling,
    support,
    tenancy,
    travel,
)
from envs.tasks.spec import FamilySpec
from envs.tasks.words import Lang
from envs.tasks.zh import chinese

TRAIN = (procurement, support, scheduling, incident, analysis, release, logistics, permissions, multi_objective)
HELD_OUT = (travel, tenancy, laboratory, catering, lending, casework, fieldwork, broadcast)
FAMILIES = {m.SPEC.name: m for m in (*TRAIN, *HELD_OUT)}
SPECS: dict[str, FamilySpec] = {name: m.SPEC for name, m in FAMILIES.items()}
"""The English words of every family."""
CHINESE: dict[str, FamilySpec] = {name: chinese(name, spec) for name, spec in SPECS.items() if find_spec(f"envs.tasks.zh.{name}")}
ALL_SPECS: dict[str, FamilySpec] = {spec.id: spec for spec in (*SPECS.values(), *CHINESE.values())}
"""The words of every family in every language, by ``FamilySpec.id``."""
TRAIN_FAMILIES = tuple(m.SPEC.name for m in TRAIN)
"""For training and validation."""
HELD_OUT_FAMILIES = tuple(m.SPEC.name for m in HELD_OUT)
"""Never in training, validation or tuning. Eight, because claims about unseen families in general need at least that many."""


def get_family(name: str) -> ModuleType:
    """The module of a family. Raises ValueError naming the choices."""
    if name not in FAMILIES:
        raise ValueError(f"unknown family {name!r}: choose one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


def get_spec(name: str, lang: Lang = "en") -> FamilySpec:
    """The words of a family. Raises ValueError naming the choices."""
    found = {"en": SPECS, "zh": CHINESE}
    if lang not in found:
        raise ValueError(f"unknown language {lang!r}: choose one of {', '.join(found)}")
    if name not in found[lang]:
        raise ValueError(f"unknown family {name!r}: choose one of {', '.join(FAMILIES)}")
    return found[lang][name]
