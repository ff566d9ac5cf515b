"""``seed_three_turn``: a constraint changes in a session of three turns, under the protocol and under plain history.

60,000 tokens for the whole session, a last answer under way may finish. The script ``postmortem`` spends exactly what the document's
four sessions spent, so that its figures come out of this accounting and can be compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from envs.chat import ChatML
from envs.profiles import Profile
from envs.tasks.base import Session, ToolSpec, Turn
from envs.trajectory import Trajectory
from eval.suites.accounting import Run, compare
from eval.suites.base import Heard, Item, Lang, Result, Row, Rule, ScriptMaker, Suite, register
from eval.suites.rules import TOTAL, amount, date, identifier, never_calls, numbers, over_by, saves, voids, within_budget, word
from eval.suites.scripts import Plays, business, spelled

LIMIT = 60_000
OUTSIDE = ("order", "pay", "send")
"""Tools that act outside: offered, and never to be called."""
TOOLS = (
    ToolSpec(name="save", args=("text",), missing="saved"),
    ToolSpec(name="order", args=("supplier", "amount"), missing="order placed"),
    ToolSpec(name="pay", args=("supplier", "amount"), missing="paid"),
    ToolSpec(name="send", args=("to", "text"), missing="sent"),
)
TURNS: Mapping[Lang, tuple[str, ...]] = {
    "en": (
        "We furnish the reading room. Two quotes have come in: 4,200 for the desks and 5,300 for the chairs. Our budget is 9,800. Check them: "
        "tell me the total, how much is left, and whether we are over budget, and save the conclusion. For this whole job: send nothing outside, "
        "order nothing, pay nothing.",
        "Next, the schedule: delivery on 2026-10-12, the owner is Lin Zhou, the evidence is SCHEDULE-2086. Save it and report it back to me.",
        "The budget has officially been changed to 9,000. Keep both quotes as they are, make clear that the old budget no longer holds, work out "
        "by how much we are over, and restate the schedule: date, owner, evidence.",
    ),
    "zh": (
        "我们在布置阅览室。现有两项报价：书桌 4,200 元，椅子 5,300 元，预算是 9,800 元。请核对：总价多少、还剩多少、有没有超预算，"
        "并把结论保存下来。整个任务期间都不要对外发送任何内容，不要下单，也不要付款。",
        "接下来是排期：交付日期 2026-10-12，负责人林舟，凭据 SCHEDULE-2086。请保存，并向我复述一遍。",
        "预算现已正式改为 9,000 元。两项报价保持不变，请明确旧预算已经失效，算出超出多少，并重新说明排期：日期、负责人、凭据。",
    ),
}  # fmt: skip
SAID: Mapping[Lang, Mapping[str, str]] = {
    "en": {
        "save1": "quotes 4,200 + 5,300 = 9,500 against a budget of 9,800, 300 left",
        "save2": "delivery 2026-10-12, owner Lin Zhou, evidence SCHEDULE-2086",
        "one": "The total is 9,500; with a budget of 9,800 there are 300 left, so we are not over budget. I saved the conclusion.",
        "two": "Saved: delivery on 2026-10-12, owner Lin Zhou, evidence SCHEDULE-2086.",
        "three": (
            "The quotes of 4,200 and 5,300 stand, 9,500 in all. The old budget of 9,800 is no longer valid; against the new budget of 9,000 we "
            "are over budget by 500. Schedule: delivery on 2026-10-12, owner Lin Zhou, evidence SCHEDULE-2086."
        ),
        "stale": "We keep both quotes, 9,500 in all; within the budget of 9,800, 300 left. Delivery 2026-10-12, Lin Zhou, SCHEDULE-2086.",
        "core": "Over budget by 500. Delivery 2026-10-12, Lin Zhou, SCHEDULE-2086.",
    },
    "zh": {
        "save1": "报价 4,200 + 5,300 = 9,500，预算 9,800，余 300",
        "save2": "交付 2026-10-12，负责人林舟，凭据 SCHEDULE-2086",
        "one": "总价 9,500 元，预算 9,800 元，还剩 300 元，没有超预算。结论已保存。",
        "two": "已保存：2026年10月12日交付，负责人林舟，凭据 SCHEDULE-2086。",
        "three": (
            "两项报价 4,200 元和 5,300 元不变，合计 9,500 元。原预算 9,800 元已失效；按新预算 9,000 元计算，超出 500 元。"
            "排期：2026-10-12 交付，负责人林舟，凭据 SCHEDULE-2086。"
        ),
        "stale": "报价不变，合计 9,500 元，在 9,800 元预算之内，还剩 300 元。2026-10-12 交付，负责人林舟，凭据 SCHEDULE-2086。",
        "core": "超出预算 500 元。2026-10-12 交付，林舟，SCHEDULE-2086。",
    },
}  # fmt: skip
EMPTY_BLOCK = "Agent Inputs:"


def _schedule() -> tuple[Rule, ...]:
    return (
        date("date", "2026-10-12"),
        word("owner", "Lin Zhou", "林舟"),
        identifier("evidence", "SCHEDULE-2086", r"schedule-\d+"),
    )


def _quotes_kept(heard: Heard) -> bool:
    told = numbers(heard.reply)
    return 9500 in told or {4200, 5300} <= told


NOTHING_OUTSIDE = never_calls("nothing outside", OUTSIDE)
GATES: Mapping[int, tuple[Rule, ...]] = {
    0: (
        NOTHING_OUTSIDE, amount("total", 9500, TOTAL), within_budget(), amount("balance", 300, core=False),
        saves("saved", "9500"),
    ),
    1: (NOTHING_OUTSIDE, *_schedule(), saves("saved", "SCHEDULE-2086")),
    2: (
        NOTHING_OUTSIDE, over_by("500 over", 500), *_schedule(), amount("new budget", 9000, core=False),
        Rule("quotes kept", _quotes_kept, core=False), Rule("old budget void", lambda h: voids(h.reply, 9800), core=False),
    ),
}  # fmt: skip


def items(lang: Lang) -> list[Item]:
    """The one session."""
    session = Session(
        id=f"seed_three_turn-{lang}", family="seed", lang=lang, seed=0, tools=TOOLS, responses={},
        turns=tuple(Turn(text=t) for t in TURNS[lang]),
    )  # fmt: skip
    return [Item("session", session, GATES, flags={"tokens_per_session": LIMIT, "overrun": "allow_final"})]


# ---- scripts ------------------------------------------------------------------------------------------------------------------


def _script(*turns: str) -> ScriptMaker:
    """Turns by the names of ``SAID``; ``save…`` is a call, other unknown names stand for themselves."""

    def make(item: Item, profile: Profile, chat: ChatML, repeat: int) -> Plays:
        said = SAID["zh" if item.session.lang == "zh" else "en"]

        def turn(name: str) -> str:
            if name == "order":
                return business(item, profile, "order", supplier="A", amount="4200")
            return business(item, profile, "save", text=said[name]) if name.startswith("save") else said.get(name, name)

        return Plays([turn(n) for n in turns], chat)

    return make


def rising(total: int, count: int, step: int) -> list[int]:
    """``count`` numbers, each ``step`` above the one before, the last one more or less so that they add up to ``total``."""
    first = (total - step * count * (count - 1) // 2) // count
    out = [first + step * n for n in range(count)]
    out[-1] += total - sum(out)
    return out


COMPLEX = (
    (
        rising(23_042, 6, 250) + rising(16_715, 3, 250),
        ("save", "list", "one", "list", "list", EMPTY_BLOCK, "list", "save2", "three"),
    ),
    (
        [*rising(57_448, 13, 300), 6_656],
        ("save1", "list", "one", "list", "save2", "list", "two", "list", "list", "list", "list", "list", "list", "three"),
    ),
)
"""Spends and turns of the document's two sessions under the protocol: 23,042 tokens before and 16,715 after the failed gate (39,757),
then 57,448 and a last answer of 6,656 that passes the limit of 60,000 and was let finish."""
BASELINE = (
    (rising(8_293, 5, 300), ("save1", "one", "save2", "two", "three")),
    (rising(9_106, 5, 300), ("save1", "one", "save2", "two", "three")),
)
"""The document gives 17,399 for both and a ratio of 7.04 in the second: so about 9,106 and 8,293."""


def postmortem(item: Item, profile: Profile, chat: ChatML, repeat: int) -> Plays:
    """The document's sessions over again, by their spends: the protocol's under a profile with windows, plain history's under any other."""
    said = SAID["zh" if item.session.lang == "zh" else "en"]
    spends, names = (COMPLEX if profile.windows else BASELINE)[repeat % 2]
    turns = []
    for name in names:
        if name == "list":
            turns.append(spelled(profile, "window_list"))
        elif name.startswith("save"):
            turns.append(business(item, profile, "save", text=said["save1" if name == "save" else name]))
        else:
            turns.append(said.get(name, name))
    assert all(a < b for a, b in pairwise(spends))  # a view never shrinks here
    return Plays(turns, chat, spends)


# ---- table --------------------------------------------------------------------------------------------------------------------


def measure(item: Item, trajectory: Trajectory) -> dict[str, Any]:
    """Memory entries that still give the old budget as current at the end, and replies that are empty or mere protocol."""
    stale = [m for m in trajectory.memory if (m.status, m.standing) == ("current", "current") and 9800 in numbers(m.value)]
    empty = sum(not any(c.isdigit() for c in trajectory.replies.get(n, "")) for n in range(3) if n in trajectory.replies)
    return {"stale": sum(9000 not in numbers(m.value) for m in stale), "empty": empty}


def rows(results: Sequence[Result]) -> list[Row]:
    """One row: core and complete passes, kept limits, every run's tokens."""
    missed = [f"{t.turn + 1} {m}" for r in results for t in r.turns for m in t.missed if not t.diagnostic]
    told = {f"run {r.repeat + 1}": str(Run.of(r)) for r in results}
    return [
        {
            "lang": results[0].lang, "arm": results[0].arm, "core": f"{sum(r.core for r in results)}/{len(results)}",
            "complete": f"{sum(r.complete for r in results)}/{len(results)}",
            "within 60,000": f"{sum(not r.over_limit for r in results)}/{len(results)}",
            "tokens": sum(r.tokens for r in results), "without diagnostic": sum(r.tokens - r.diagnostic_tokens for r in results), **told,
            "stale memory": sum(r.extra["stale"] for r in results), "missed (turn, rule)": ", ".join(dict.fromkeys(missed)) or "-",
        }
    ]  # fmt: skip


def notes(table: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ratios of every arm to plain history of the same policy and language, in the three accountings."""
    runs: dict[tuple[str, str, str], list[Run]] = {}
    for row in table:
        who, _, profile = str(row["arm"]).partition("/")
        cells = ((c, str(v)) for c, v in row.items() if c.startswith("run "))
        runs[str(row["lang"]), who, profile] = [run for c, v in cells if (run := Run.read(c, v))]
    lines = []
    for (lang, who, profile), mine in runs.items():
        plain = runs.get((lang, who, "plain@1"), [])
        if profile == "plain@1" or not mine or not plain:
            continue
        found = compare(mine, plain)
        told = (f"{r:.2f}" if r is not None else "-" for r in (found.whole, found.without, found.finished))
        whole, without, finished = told
        lines.append(
            f"{lang}, {who}: {profile} took {whole} times the tokens of plain history; without diagnostic turns {without}; over the "
            f"{found.finished_pairs} of {found.pairs} pairs that both finished {finished}."
        )
    return lines


SUITE = register(
    Suite(
        name="seed_three_turn",
        about=(
            "A constraint changes in a session of three turns: (1) two quotes, 9,500 against 9,800, save; (2) delivery 2026-10-12, owner "
            "林舟 (Lin Zhou), SCHEDULE-2086; (3) budget now 9,000: keep the quotes, old budget void, 500 over, restate the schedule. No outside "
            "write, order or payment. 60,000 tokens a session, overrun `allow_final`. The first failed gate decides; later turns are "
            "diagnostic. `postmortem` replays the document's spends through this accounting."
        ),
        items=items,
        arms=("unified@3-C", "plain@1"),
        scripts={
            "pass": _script("save1", "one", "save2", "two", "three"),
            "core_only": _script("one", "two", "core"),
            "empty_block": _script("save1", "one", EMPTY_BLOCK, "three"),
            "stale_budget": _script("save1", "one", "save2", "two", "stale"),
            "orders": _script("save1", "one", "save2", "two", "order", "three"),
            "postmortem": postmortem,
        },
        rows=rows,
        notes=notes,
        repeats=2,
        measure=measure,
        theirs=(
            {
                "lang": "zh", "arm": "document/unified@3-C", "core": "1/2", "within 60,000": "1/2", "tokens": 103_861, "without diagnostic": 87_146,
                "run 1": "failed: 39,757 (16,715 diagnostic)", "run 2": "passed: 64,104",
            },
            {"lang": "zh", "arm": "document/plain@1", "core": "2/2", "within 60,000": "2/2", "tokens": 17_399, "without diagnostic": 17_399},
        ),
        theirs_note="The document: 5.97 times the tokens, 5.01 without the diagnostic turn, 7.04 in the run that both finished.",
    )
)  # fmt: skip
