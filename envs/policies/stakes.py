"""What the expert does where the user's rule or the stakes ask for the source: rules checked, values entered in the register."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.compact import canonical_call
from envs.policies.reading import remembered
from envs.tasks.spec import ENTER, FamilySpec
from envs.tasks.surface import find_first

if TYPE_CHECKING:
    from envs.policies.expert import Mind


@remembered
def receipt(spec: FamilySpec, text: str) -> str:
    """The receipt that the register gives; empty for any other text."""
    found = find_first((spec.words.receipt,), text, {"v": spec.pattern("code")})
    return found["v"] if found else ""


def entry(mind: Mind, value: str) -> str:
    """The call that enters a value in the register, then the answer with its receipt."""
    results = [b for b in mind.seen.of("result") if b.place > mind.question.place]
    slot = mind.request.slots[0]
    if got := next((r for b in reversed(results) if (r := receipt(mind.spec, b.text))), ""):
        return f"{slot}={got}"
    if value == "unknown" or mind.called():
        return f"{slot}=unknown"
    return canonical_call(ENTER, {"record": mind.request.entity, "value": value})


def verify_rule(mind: Mind, most_notes: int) -> str:
    """Where the user wants the rule checked at its source: search what is compressed, read the hits, note what no note holds."""
    assert mind.spec.rule is not None
    words = (mind.spec.rule.noun, mind.request.entity)
    told = mind.rules.exceptions.get(mind.request.entity)
    found = told and mind.was_read(told[1])  # hits are read newest first: the newest word on the record decides
    if not found and (
        line := mind.search([" ".join(words)], lambda hit: [hit.first] if any(w in hit.text for w in words) else [])
    ):
        return line
    lines = mind.rules.lines(mind.seen.notes) if mind.seen.reads and not mind.refused() else []
    return "\n".join(lines[:3]) if len(mind.seen.notes) + len(lines) <= most_notes else ""
