"""What a reply answers: its slots, how values are compared, and the verdict on each."""

from __future__ import annotations

from typing import Literal

from envs.tasks.base import Slot
from envs.tasks.words import ABSTAINS, WORDS
from envs.text import normalise

Verdict = Literal["right", "abstained", "wrong", "stale"]


def normal_form(value: str) -> str:
    """How answers are compared: NFKC, casefold, squeezed spaces, outer quotes and a final dot off."""
    text = normalise(value)
    text = text[:-1].rstrip() if text.endswith(".") else text
    for left, right in (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("`", "`")):
        if len(text) >= 2 and text[0] == left and text[-1] == right:
            text = text[1:-1].strip()
    return text[:-1].rstrip() if text.endswith(".") else text


YES_NO = {normal_form(v) for w in WORDS.values() for v in (*w.yes, *w.no)}
_SEPARATORS = str.maketrans({"\n": ";", "；": ";", "＝": "="})


def read_slots(reply: str) -> dict[str, list[str]]:
    """Slot name -> the values given for it (``over=yes; by=500``, separated by ``;`` or line feeds, full-width forms too)."""
    found: dict[str, list[str]] = {}
    for part in reply.translate(_SEPARATORS).split(";"):
        name, sep, value = part.partition("=")
        if sep:
            found.setdefault(name.strip().casefold(), []).append(value)
    return found


def judge(slot: Slot, reply: str) -> tuple[Verdict, str]:
    """Verdict on one slot, and the value given (``""`` when absent or repeated: both are wrong)."""
    given = read_slots(reply).get(slot.name.casefold(), [])
    if len(given) != 1:
        return "wrong", ""
    value = normal_form(given[0])
    if value in {normal_form(a) for a in slot.accept}:
        return "right", value
    if value in ABSTAINS:
        return "abstained", value
    return ("stale" if value in {normal_form(s) for s in slot.stale} else "wrong"), value


def is_choice(slot: Slot) -> bool:
    """Whether a derived answer is one of two (a yes/no, a record that the question names): right half the time by chance."""
    return slot.source == "derived" and (slot.kind == "entity" or normal_form(slot.accept[0]) in YES_NO)
