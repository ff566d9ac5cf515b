"""Task families, one file each: their words, their tools, their generator."""

from __future__ import annotations

from types import ModuleType

from envs.tasks import procurement, support, travel
from envs.tasks.engine import FamilySpec

FAMILIES = {m.SPEC.name: m for m in (procurement, support, travel)}
SPECS: dict[str, FamilySpec] = {name: m.SPEC for name, m in FAMILIES.items()}
TRAIN_FAMILIES = ("procurement", "support")
HELD_OUT_FAMILIES = ("travel",)


def get_family(name: str) -> ModuleType:
    """The module of a family. Raises ValueError naming the choices."""
    if name not in FAMILIES:
        raise ValueError(f"unknown family {name!r}: choose one of {', '.join(FAMILIES)}")
    return FAMILIES[name]
