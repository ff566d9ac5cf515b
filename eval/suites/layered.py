"""``seed_support``, ``seed_order_id``, ``seed_analysis``, ``seed_address``: what an article on layered context claims, as tests.

The history is forced (recorded turns, the same for every arm), the arm answers the questions about it. So every row says two things
apart: did the needed value stand in the view (the host's or the policy's management), and was the reply right (the model).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from envs.chat import ChatML
from envs.policies.base import View
from envs.profiles import Profile
from envs.tasks.base import Session, ToolSpec, Turn
from eval.suites.base import Heard, Item, Lang, Row, Rule, ScriptMaker, Step, Suite, register
from eval.suites.layered_texts import ADDRESS, ANALYSIS, CATEGORIES, FIFTY, ORDER, PRODUCTS, SMALL_TALK, SUPPORT, policy
from eval.suites.recall import measure, notes, rows
from eval.suites.rules import SENTENCE, abstains, clean, identifier, numbers, says, states_amount, word
from eval.suites.scripts import Plays, context_step, in_view
from eval.suites.scripts import Turn as Said

ORDERS = r"so-\d{4}-\d{4}-\d{4}"
ARMS = ("plain@1", "plain@1/recent", "plain@1/summary", "plain@1/layered", "core@1")
FLAGS = {"tokens_per_session": 50_000_000}
"""Recorded turns cost tokens too, and none of these suites is about a limit."""
ROWS = 5_000


class Script:
    """A session in the making: forced turns, and turns that the arm answers."""

    def __init__(self, name: str, lang: Lang, tools: tuple[ToolSpec, ...] = ()) -> None:
        self.name, self.lang, self.tools = name, lang, tools
        self.turns: list[Turn] = []
        self.forced: dict[int, tuple[Step, ...]] = {}
        self.gates: dict[int, tuple[Rule, ...]] = {}
        self.evidence: dict[int, tuple[str, ...]] = {}
        self.right: dict[int, str] = {}
        self.responses: dict[str, str] = {}

    def past(self, text: str, *steps: Step) -> None:
        """A recorded turn: what the user said, and the calls and the reply that followed."""
        self.forced[len(self.turns)] = steps
        self.turns.append(Turn(text=text))

    def ask(self, text: str, right: str, evidence: tuple[str, ...], *rules: Rule) -> None:
        """A turn that the arm answers: its right reply, and the forms of the value that this rests on."""
        number = len(self.turns)
        self.gates[number], self.right[number], self.evidence[number] = rules, right, evidence
        self.turns.append(Turn(text=text))

    def item(self, squeeze: int | None, **facts: Any) -> Item:
        """The finished item."""
        session = Session(
            id=f"{self.name}-{self.lang}", family="seed", lang=self.lang, seed=0, tools=self.tools, responses=self.responses,
            turns=tuple(self.turns),
        )  # fmt: skip
        # With the session as one Run nothing may be compressed, and all user messages would stay in view.
        flags = {**FLAGS, "run_scope": "turn"}
        evidence = {t: forms for t, forms in self.evidence.items() if forms}
        return Item(self.name, session, self.gates, self.forced, (), flags, (), evidence, squeeze, {"right": self.right, **facts})


# ---- the four sessions ------------------------------------------------------------------------------------------------------


@cache
def support_items(lang: Lang) -> tuple[Item, ...]:
    """The order number in turn 2, an 8,000-character policy four times by turn 9, the question in turn 13, and one never told."""
    t = SUPPORT[lang]
    made = Script("support", lang, (ToolSpec(name="policy", args=("topic",)),))
    text = policy(lang)
    small = iter(zip(t["talk"].split("|"), t["talk_a"].split("|"), strict=True))
    made.past(t["hello"], t["hello_a"])
    made.past(t["order"], t["order_a"])
    for topic in ("returns", "shipping", "refund", "large"):
        made.responses[f"policy topic={topic}"] = text
        made.past(t[topic], f"policy topic={topic}", t[f"{topic}_a"])
        made.past(*next(small))
    for said, reply in small:
        made.past(said, reply)
    made.ask(t["ask"], t["right"], (ORDER,), identifier("order number", ORDER, ORDERS))
    made.ask(t["never"], t["unknown"], (), Rule("never told: unknown", lambda h: abstains(h.reply), core=False))
    return (made.item(squeeze=6, again=t["again"]),)


@cache
def order_id_items(lang: Lang) -> tuple[Item, ...]:
    """Fifty turns: the order number in turn 3, compressed away in turn 30, asked in turns 31 and 50, other facts between."""
    t = FIFTY[lang]
    made = Script("order_id", lang)
    pairs = [(q.format(p=p), a.format(p=p)) for q, a in SMALL_TALK[lang] for p in PRODUCTS[lang]]
    small = iter(pairs)
    made.past(t["name"], t["name_a"])
    made.past(*next(small))
    for key in ("order", "phone", "door"):
        made.past(t[key], t[f"{key}_a"])
    compress = context_step("compress", upto=lambda e: e.log.last - 1, text=t["summary"], refs=())
    checks: dict[int, tuple[str, str, tuple[str, ...], Rule]] = {
        30: ("ask_order", "right_order", (ORDER,), identifier("order number", ORDER, ORDERS)),
        35: ("ask_phone", "right_phone", ("13800452217",), word("phone", "13800452217")),
        40: ("ask_customer", "right_customer", ("70318",), word("customer", "70318")),
        45: ("ask_door", "right_door", ("neighbour", "邻居"), Rule("neighbour", _with_the_neighbour)),
        49: ("ask_order_2", "right_order", (ORDER,), identifier("order number again", ORDER, ORDERS)),
    }
    while len(made.turns) < 50:
        number = len(made.turns)
        if number in checks:
            ask, right, evidence, rule = checks[number]
            made.ask(t[ask], t[right], evidence, rule)
        else:
            said, reply = next(small)
            made.past(said, *([compress] if number == 29 else []), reply)
    return (made.item(squeeze=29, again=t["again"]),)


def _with_the_neighbour(heard: Heard) -> bool:
    text = clean(heard.reply)
    at_door = re.search(
        r"(?<!not )(?<!never )(?<!not be left )(?<!rather than )\bat the door|(?<![不别勿非])(?<!不要)(?<!不会)放(?:在|到)?门口",
        text,
    )
    return says(text, "neighbour", "neighbor", "neighbours", "邻居") and not at_door


@cache
def sales(lang: Lang) -> tuple[str, dict[str, int]]:
    """5,000 rows ``date, category, amount`` as CSV, and the totals by category."""
    rng = random.Random(6913)
    head = "date,category,amount" if lang == "en" else "日期,品类,金额"
    lines, totals = [head], dict.fromkeys(CATEGORIES[lang], 0)
    for _ in range(ROWS):
        category, amount = rng.choice(CATEGORIES[lang]), rng.randint(11, 190)
        totals[category] += amount
        lines.append(f"2026-07-{rng.randint(1, 31):02},{category},{amount}")
    return "\n".join(lines), totals


@cache
def analysis_items(lang: Lang) -> tuple[Item, ...]:
    """``period``: 2025, then 2026-Q1 instead. ``rows``: 5,000 rows, asked by category."""
    t = ANALYSIS[lang]
    made = Script("period", lang, (ToolSpec(name="sales", args=("period", "by")),))
    calls = []
    for number, by in enumerate(("quarter", "region", "category"), 1):
        call = f"sales period=2025 by={by}"
        made.responses[call] = t["charts"].format(n=number)
        calls.append(call)
    made.responses["sales period=2026-Q1 by=region"] = t["q1"]
    made.past(t["year"], *calls, t["year_a"])
    made.past(t["more"], t["more_a"])
    made.past(t["switch"], "sales period=2026-Q1 by=region", t["switch_a"])
    made.past(t["talk"], t["talk_a"])
    made.ask(
        t["ask"], t["right"], ("231,775",),
        word("period", "2026-Q1", "2026 Q1", "2026Q1", "Q1 2026", "Q1 of 2026", "2026年第一季度", "2026年一季度", "first quarter of 2026"),
        Rule("sales", lambda h: states_amount(h.reply, 231_775)), word("region", "south", "南区", "南部"),
        Rule("nothing of 2025", lambda h: not numbers(h.reply) & {884_120, 198_340, 402_610}),
    )  # fmt: skip
    rows = Script("rows", lang, (ToolSpec(name="rows", args=("month",)),))
    text, totals = sales(lang)
    rows.responses["rows month=2026-07"] = text
    asked = CATEGORIES[lang][:3]
    rows.past(t["rows"], "rows month=2026-07", t["rows_a"])
    right = ", ".join(f"{c} {totals[c]:,}" for c in asked)
    rows.ask(
        t["totals"].format(a=asked[0], b=asked[1], c=asked[2]), right, (str(totals[asked[0]]),),
        *(Rule(c, lambda h, c=c: states_amount(h.reply, totals[c], re.escape(c))) for c in asked),  # type: ignore[misc]
    )  # fmt: skip
    return (made.item(squeeze=4, old=t["old"], stale=("884,120", "402,610")), rows.item(squeeze=None))


@cache
def address_items(lang: Lang) -> tuple[Item, ...]:
    """Beijing in the profile, to Shanghai, back, and to Shanghai for good; then the profile says Beijing once more."""
    t = ADDRESS[lang]
    made = Script("address", lang, (ToolSpec(name="profile", args=("customer",)),))
    made.responses["profile customer=70318"] = t["result"]
    call = "profile customer=70318"
    made.past(t["profile"], call, t["profile_a"])
    for key in ("chair", "change", "cushion", "back", "final", "wrap"):
        made.past(t[key], t[f"{key}_a"])
    made.past(t["again"], call, t["again_a"])
    made.ask(
        t["ask"],
        t["right"],
        ("Pudong", "浦东"),
        word("Shanghai", "Shanghai", "上海", "Pudong", "浦东"),
        Rule("not Beijing", _not_beijing),
    )
    return (made.item(squeeze=5, old=t["old"], both=t["both"], stale=("Beijing", "北京")),)


def _not_beijing(heard: Heard) -> bool:
    """Beijing is named only where the reply says that it no longer holds."""
    old = r"no longer|\bnot\b|n't\b|\bold\b|instead of|rather than|previous|former|void|作废|不再|不是|不寄|旧|原|而非|无效|失效"
    return all(re.search(old, s) for s in SENTENCE.findall(clean(heard.reply)) if says(s, "Beijing", "北京", "Chaoyang", "朝阳"))


# ---- scripts and registration ---------------------------------------------------------------------------------------------------


def _says(kind: str) -> ScriptMaker:
    """``pass``: right where the value is in view, else unknown; ``knows``: right in any case; other kinds say the item's fact of that name."""

    def make(item: Item, profile: Profile, chat: ChatML, repeat: int) -> Plays:
        unknown = SUPPORT["zh" if item.session.lang == "zh" else "en"]["unknown"]

        def turn(number: int) -> Callable[[View], str]:
            forms = item.evidence.get(number, ())
            right = item.facts["right"][number]
            if kind == "pass":
                return lambda view: right if not forms or in_view(view, *forms) else unknown
            return lambda view: right if kind == "knows" else item.facts.get(kind, unknown)

        turns: list[Said] = [turn(n) for n in sorted(item.gates)]
        return Plays(turns, chat)

    return make


SCRIPTS = {k: _says(k) for k in ("pass", "knows", "again", "old", "both")}


def _suite(name: str, about: str, items: Callable[[Lang], Sequence[Item]], theirs: tuple[Row, ...], note: str) -> Suite:
    return register(
        Suite(
            name=name, about=about, items=items, arms=ARMS, scripts=SCRIPTS, rows=rows, notes=notes, measure=measure, theirs=theirs,
            theirs_note=note,
        )
    )  # fmt: skip


CLAIM = "The article gives no data: its figures are claims, and ours come of other texts, another model and a small window."
_suite(
    "seed_support",
    "A support desk: the order number in turn 2, the same 8,000-character policy from a tool in turns 3, 5, 7 and 9, the question for the "
    "order number in turn 13, and one about something never told. A manager's view gets what the whole history takes in turn 7, at most "
    "the window.",
    support_items,
    (
        {"lang": "zh", "arm": "article, no governance", "asks again": "yes"},
        {"lang": "zh", "arm": "article, governed", "asks again": "no"},
    ),
    CLAIM,
)
_suite(
    "seed_order_id",
    f"Fifty turns of a support chat: {ORDER} in turn 3, a compression in turn 30 that does not carry it (profiles with context tools) or a view "
    "budget that is passed in turn 30 (managers), questions in turns 31, 36, 41, 46 and 50.",
    order_id_items,
    (
        {"lang": "zh", "arm": "article, no governance", "part": "order_id", "session tokens": "about 80K", "right": "about 70 %"},
        {"lang": "zh", "arm": "article, governed", "part": "order_id", "session tokens": "about 25K", "right": "about 95 %"},
    ),
    CLAIM,
)
_suite(
    "seed_analysis",
    "`period`: sales of 2025 in three charts, then 2026-Q1 instead; the conclusion may hold no figure of 2025. `rows`: a tool gives 5,000 rows, "
    "asked for are the totals of three categories (in view only where somebody added them up).",
    analysis_items,
    (
        {"lang": "zh", "arm": "article, no governance", "part": "period", "right": "62 % consistent"},
        {"lang": "zh", "arm": "article, governed", "part": "period", "right": "91 % consistent"},
        {"lang": "zh", "arm": "article, no governance", "part": "rows", "largest input": "25K (from 8K)"},
        {"lang": "zh", "arm": "article, governed", "part": "rows", "largest input": "9K"},
    ),
    CLAIM,
)
_suite(
    "seed_address",
    "The profile says Beijing; the user moves the delivery to Shanghai, back, and to Shanghai for good; then a tool gives the old profile again.",
    address_items,
    (
        {"lang": "zh", "arm": "article, no governance", "part": "address", "missed (turn, rule)": "7 mistakes a week"},
        {"lang": "zh", "arm": "article, governed", "part": "address", "missed (turn, rule)": "0 mistakes"},
    ),
    CLAIM,
)
