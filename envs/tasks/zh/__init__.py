"""Chinese surfaces of all families, one file each: the same records, tools and generator, in other words."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from envs.tasks.spec import FamilySpec


def chinese(name: str, english: FamilySpec) -> FamilySpec:
    """The Chinese words of a family. Answer slots and memory keys are those of the English one.

    Raises ValueError where the two do not describe the same records.
    """
    spec: FamilySpec = import_module(f"envs.tasks.zh.{name}").SPEC
    told = {
        "names": (spec.name, english.name),
        "ids": (spec.ids, tuple(e.lower() for e in english.entities)),
        "tools": (spec.lookup.signature, english.lookup.signature),
        "changes": (spec.change.signature, english.change.signature),
        "fields": ([(a.name, a.kind) for a in spec.attrs], [(a.name, a.kind) for a in english.attrs]),
        "constraint": (spec.user_fact.key, english.user_fact.key),
    }
    for what, (ours, theirs) in told.items():
        if ours != theirs:
            raise ValueError(f"envs/tasks/zh/{name}.py: {what} {ours} differ from the English ones {theirs}: make them equal")
    rule = replace(spec.rule, slot=english.rule.slot_name) if spec.rule and english.rule else spec.rule
    return replace(spec, bundle=english.bundle, rule=rule)
