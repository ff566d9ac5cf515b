"""Right or wrong: how the reply to a session's final question is judged. Mechanical, whole reply, one bit.

A text is compared by its *plain form*: spaces squeezed, outer dots and quotes off, lower case. A *token* counts as said when its
plain form stands in that of the reply with no letter, digit or underscore touching it on either side.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envs.sessions import Case

MOST_CHARACTERS = 100_000
"""A longer reply is wrong unread."""
REGEX_SECONDS = 5.0
_SEARCH = "import json,re,sys; ps,t=json.load(sys.stdin); print(int(all(re.search(p,t,re.IGNORECASE|re.DOTALL) is not None for p in ps)))"


class SlowPattern(Exception):  # noqa: N818  (what became of a search, for the loader to tell)
    """A pattern found no end in ``REGEX_SECONDS``, or broke down."""


def plain(value: object) -> str:
    """The form in which texts are compared."""
    return " ".join(str(value).split()).strip("\"'`.").lower()


def says(text: str, token: object) -> bool:
    """Whether a text holds a token as a word of its own (or several)."""
    body, wanted = plain(text), plain(token)
    at = body.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        if not _wordy(body[at - 1 : at]) and not _wordy(body[end : end + 1]):
            return True
        at = body.find(wanted, at + 1)
    return False


def _wordy(character: str) -> bool:
    return character == "_" or character.isalnum()


def first_json(text: str) -> Any:
    """The first JSON array or object in a text, wherever it begins; None without one."""
    decoder = json.JSONDecoder()
    for opening in re.finditer(r"[{\[]", text):
        try:
            return decoder.raw_decode(text, opening.start())[0]
        except ValueError:
            continue
        except RecursionError:
            return None
    return None


def comparable(value: Any) -> Any:
    """A JSON value with texts in plain form and arrays as sets that count: their order never matters."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(comparable, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


@lru_cache(maxsize=4096)
def matches(patterns: tuple[str, ...], text: str) -> bool:
    """Whether every pattern is found, case ignored, ``.`` for any character. Raises SlowPattern.

    The search runs in a process of its own, because Python's has no time limit and a careless pattern never ends.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _SEARCH], input=json.dumps([patterns, text]), capture_output=True, text=True,
            timeout=REGEX_SECONDS, check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SlowPattern(f"no end after {REGEX_SECONDS:g} s") from None
    except subprocess.CalledProcessError:
        raise SlowPattern("the search breaks down") from None
    return done.stdout.strip() == "1"


def judge(case: Case, reply: str) -> bool:
    """Whether a reply is right. Raises SlowPattern."""
    expected = case.expected
    if len(reply) > MOST_CHARACTERS:
        return False
    accepted = [expected.value, *expected.aliases]
    if expected.check == "json":
        try:
            return comparable(first_json(reply)) in [comparable(v) for v in accepted]
        except RecursionError:  # nested deeper than any value
            return False
    if any(says(reply, token) for token in expected.forbidden):
        return False
    if expected.check == "exact":
        return plain(reply) in [plain(v) for v in accepted]
    if expected.check == "all_of":
        return all(any(says(reply, t) for t in (v if isinstance(v, list) else [v])) for v in expected.value)
    return matches(tuple(expected.value), reply.strip())


def score(case: Case, reply: str) -> bool:
    """Whether a reply is right; one that a pattern finds no end on is not."""
    try:
        return judge(case, reply)
    except SlowPattern:
        return False
