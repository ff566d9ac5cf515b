"""``seed_mapping``: does it matter where the state block stands, and in which role?

The same five small tasks under ``unified@3`` with the block in the head (A), at the tail as user (B), at the tail as assistant (C) and
frozen (D). :func:`request_diff` proves that the requests differ in the block's position and role alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.chat import ChatML
from envs.policies.base import View
from envs.profiles import Profile, get_profile
from envs.tasks.base import Session, Turn
from eval.suites.base import Item, Lang, Result, Row, ScriptMaker, Suite, register
from eval.suites.play import SuiteEpisode
from eval.suites.rules import LEFT, TOTAL, amount, calls_exactly, within_budget
from eval.suites.scripts import Plays, spelled

MAPPINGS = ("A", "B", "C", "D")
ADVANTAGE = 0.10
"""Share of the tokens below which a difference between mappings says nothing."""
TEXTS: Mapping[Lang, Mapping[str, str]] = {
    "en": {
        "cold": (
            "Two quotes have come in: 4,200 for desks and 5,300 for chairs. The budget is 9,800. Work it out directly, without any tool: "
            "what is the total, how much of the budget is left, and is the budget exceeded?"
        ),
        "continued": (
            "First call the window list exactly once, and no other tool. Then answer in full: two quotes of 4,200 and 5,300 against a "
            "budget of 9,800. What is the total, how much of the budget is left, and is the budget exceeded?"
        ),
        "answer": "The total is 9,500, so 300 of the budget is left; the budget is not exceeded.",
        "short": "The total is 9,500; the budget is not exceeded.",
    },
    "zh": {
        "cold": "现有两项报价：办公桌 4,200 元，椅子 5,300 元，预算为 9,800 元。请不用任何工具直接算清：总价是多少，预算还剩多少，有没有超预算？",
        "continued": (
            "请先查看一次窗口列表，只查这一次，也不要用别的工具。然后给出完整答复：两项报价 4,200 元和 5,300 元，预算 9,800 元，"
            "总价是多少，预算还剩多少，有没有超预算？"
        ),
        "answer": "总价 9,500 元，预算余额 300 元，未超预算。",
        "short": "总价 9,500 元，未超预算。",
    },
}  # fmt: skip
ANSWER = (amount("total", 9500, TOTAL), amount("balance", 300, LEFT), within_budget())


def items(lang: Lang) -> list[Item]:
    """Three cold starts and two continuations."""
    made = []
    for kind, times in (("cold", 3), ("continued", 2)):
        for number in range(1, times + 1):
            name = f"{kind}-{number}"
            session = Session(
                id=f"seed_mapping-{lang}-{name}", family="seed", lang=lang, seed=number, tools=(), responses={},
                turns=(Turn(text=TEXTS[lang][kind]),),
            )  # fmt: skip
            calls = calls_exactly("one window_list", ("window_list",)) if kind == "continued" else calls_exactly("no call", ())
            needs = ("window_list",) if kind == "continued" else ()
            made.append(Item(id=name, session=session, gates={0: (calls, *ANSWER)}, needs=needs))
    return made


# ---- the proof --------------------------------------------------------------------------------------------------------------


def requests(item: Item, profile: Profile, chat: ChatML) -> list[View]:
    """The inputs of an item's inferences, by a policy that does as asked."""
    episode = SuiteEpisode(item, profile, chat)
    policy = _pass(item, profile, chat, 0)
    views = []
    while not episode.done:
        views.append(episode.view())
        episode.step(policy.act(views[-1:])[0])
    return views


def request_diff(view: View) -> tuple[str, str, str]:
    """``(place and role of the state block, the block, everything else)`` of one input.

    Everything else is the request with the block taken out, as text with roles. Raises ValueError without exactly one block.
    """
    found, rest = [], []
    for number, message in enumerate(view.messages):
        lines = message.content.split("\n")
        blocks = [line for line in lines if line.startswith("[state] ")]
        place = "head" if number == 0 else "tail" if number == len(view.messages) - 1 else "middle"
        found += [(f"{place} {message.role}", block) for block in blocks]
        left = "\n".join(line for line in lines if not line.startswith("[state] "))
        if left or not blocks:
            rest.append(f"<{message.role}>{left}")
    if len(found) != 1:
        raise ValueError(f"{len(found)} state blocks in the request, not one")
    return (*found[0], "\n".join(rest))


# ---- scripts and table --------------------------------------------------------------------------------------------------------


def _said(kind: str, *before: str) -> ScriptMaker:
    def make(item: Item, profile: Profile, chat: ChatML, repeat: int) -> Plays:
        lang: Lang = "zh" if item.session.lang == "zh" else "en"
        calls = [spelled(profile, tool) for tool in before] if item.needs else []
        return Plays([*calls, TEXTS[lang][kind]], chat)

    return make


_pass = _said("answer", "window_list")


def tokens_verdict(ours: Sequence[Result], others: Sequence[Result]) -> str:
    """``no advantage``, ``fewer`` or ``more`` tokens than another arm.

    A difference counts only above a tenth of the larger sum and with the same sign in every item: a few hundred tokens over five
    small tasks are noise.
    """
    theirs = {(r.item, r.repeat): r.tokens for r in others}
    pairs = [(r.tokens, theirs[r.item, r.repeat]) for r in ours if (r.item, r.repeat) in theirs]
    a, b = sum(p[0] for p in pairs), sum(p[1] for p in pairs)
    if not pairs or abs(a - b) <= ADVANTAGE * max(a, b) or len({x > y for x, y in pairs}) > 1 or any(x == y for x, y in pairs):
        return "no advantage"
    return "fewer" if a < b else "more"


def rows(results: Sequence[Result]) -> list[Row]:
    """One row: gates passed of each kind, tokens."""

    def of(kind: str) -> str:
        mine = [r for r in results if r.item.startswith(kind)]
        return f"{sum(r.core for r in mine)}/{len(mine)}" if mine else "-"

    missed = [m for r in results for t in r.turns for m in t.missed]
    counts = ", ".join(f"{name} {missed.count(name)}" for name in dict.fromkeys(missed))
    return [
        {
            "lang": results[0].lang, "arm": results[0].arm, "cold starts": of("cold"), "continuations": of("continued"),
            "all gates": results and all(r.core for r in results), "tokens": sum(r.tokens for r in results), "missed": counts or "-",
        }
    ]  # fmt: skip


def notes(table: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the token figures of the mappings may be taken for."""
    told: dict[tuple[str, str], list[int]] = {}
    for row in table:
        who, _, profile = str(row["arm"]).partition("/")
        if profile.startswith("unified@3-"):
            told.setdefault((str(row["lang"]), who), []).append(int(str(row["tokens"]).replace(",", "")))
    lines = []
    for (lang, who), tokens in told.items():
        if len(tokens) > 1:
            apart = max(tokens) - min(tokens)
            word = "no advantage" if apart <= ADVANTAGE * max(tokens) else "look at it item by item before any word on it"
            lines.append(f"{lang}, {who}: the mappings are {apart:,} tokens apart at most ({apart / max(tokens):.1%}): {word}.")
    return lines


SUITE = register(
    Suite(
        name="seed_mapping",
        about=(
            "Where the derived state block stands and in which role: `unified@3` with mappings A to D, everything else the same "
            "(`tests/test_suite_mapping.py` takes the requests apart). Three cold starts (4,200 + 5,300 against 9,800: 9,500, 300 left, not "
            "over) and two continuations (exactly one `window_list`, then the full answer; a missing balance fails)."
        ),
        items=items,
        arms=tuple(f"unified@3-{m}" for m in MAPPINGS),
        scripts={
            "pass": _pass, "no_balance": _said("short", "window_list"), "two_lists": _said("answer", "window_list", "window_list"),
            "no_list": _said("answer"),
        },
        rows=rows,
        notes=notes,
        theirs=(
            {"lang": "zh", "arm": "document A", "cold starts": "3/3", "continuations": "2/2", "all gates": True},
            {"lang": "zh", "arm": "document B", "cold starts": "-", "continuations": "failed", "all gates": False, "missed": "balance 1"},
            {"lang": "zh", "arm": "document C", "cold starts": "3/3", "continuations": "2/2", "all gates": True, "tokens": "162 below A"},
        ),
        theirs_note="The document used a larger model; its 162 tokens between A and C are no advantage by the same rule.",
    )
)  # fmt: skip


def proof(lang: Lang, chat: ChatML) -> dict[str, list[tuple[str, str, str]]]:
    """Mapping -> ``request_diff`` of every request of the first continuation."""
    item = next(i for i in items(lang) if i.id == "continued-1")
    return {m: [request_diff(v) for v in requests(item, get_profile(f"unified@3-{m}"), chat)] for m in MAPPINGS}
