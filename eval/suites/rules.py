"""What a reply says, mechanically: amounts, dates, identifiers, whether a budget is kept, abstaining. English and Chinese alike.

All functions take the reply as it is and work on a cleaned copy: NFKC, case folded, thousands separators out, dates as ``2026-10-12``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from eval.suites.base import Heard, Rule

MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_MONTH = "|".join(f"{m[:3]}(?:{m[3:]})?" if len(m) > 3 else m for m in MONTHS)
THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:[,\u00a0\u2009\u202f'’]\d{3})+(?!\d)")
NUMERIC_DATE = re.compile(r"(?<!\d)(\d{4})\s*[-/.年]\s*(\d{1,2})\s*[-/.月]\s*(\d{1,2})(?!\d)\s*[日号]?")
DAY_FIRST = re.compile(rf"(?<!\d)(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\.?,?\s+(\d{{4}})(?!\d)")
MONTH_FIRST = re.compile(rf"(?<![a-z])({_MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}})(?!\d)")
NUMBER = re.compile(r"(?<![\d.\-/a-z_])(\d+(?:\.\d+)?)(?!\d|\.\d|-\d|/\d)")
SUM = re.compile(r"\d+(?:\.\d+)?\s*[元¥$]?(?:\s*[+\-−–x×*]\s*[¥$]?\d+(?:\.\d+)?\s*元?)+\s*=\s*")
TOTAL = r"total|sum|in all|altogether|总价|总计|总额|总共|共计|合计|一共"
LEFT = r"left|remain\w*|balance|余额|剩余|还剩|结余|余下|剩下|节余"
BUDGET = re.compile(r"budget|limit|cap\b|预算|上限")
SENTENCE = re.compile(r"[^.!?;。！？；\n]*(?:\.(?=\d)[^.!?;。！？；\n]*)*")


@lru_cache(maxsize=10_000)
def clean(text: str) -> str:
    """The text as the rules read it."""
    text = THOUSANDS.sub(lambda m: re.sub(r"\D", "", m[0]), text)  # before NFKC, which makes list commas of full width into these
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"[‐‑‒–—−]", "-", re.sub(r"[*`]", "", text))
    text = NUMERIC_DATE.sub(lambda m: f"{m[1]}-{int(m[2]):02}-{int(m[3]):02}", text)
    text = DAY_FIRST.sub(lambda m: _iso(m[3], m[2], m[1]), text)
    text = MONTH_FIRST.sub(lambda m: _iso(m[3], m[1], m[2]), text)
    return re.sub(r"[^\S\n]+", " ", text)


def _iso(year: str, month: str, day: str) -> str:
    number = next(i for i, m in enumerate(MONTHS, 1) if m.startswith(month[:3]))
    return f"{year}-{number:02}-{int(day):02}"


def numbers(text: str) -> set[float]:
    """The amounts of a text; digits inside identifiers and dates are none."""
    return {float(n) for n in NUMBER.findall(clean(text))}


def states_amount(text: str, value: float, label: str = "") -> bool:
    """Whether ``value`` is stated, and not as one of several candidates, nor another number where ``label`` (a pattern) asks for it."""
    flat = SUM.sub("", clean(text))  # of "4200 + 5300 = 9500" the result counts
    if value not in {float(n) for n in NUMBER.findall(flat)}:
        return False
    shown = f"{value:g}"
    if re.search(
        rf"(?<![\d.]){shown}(?:\.0+)?\s*元?\s*(?:or|或者?|/)\s*[¥$]?\d|\d\s*元?\s*(?:or|或者?)\s*[¥$]?{shown}(?!\d)", flat
    ):
        return False
    for found in re.finditer(rf"(?:{label})([^.;。；\n\d]{{0,16}})(?<![\d\-/])(\d+(?:\.\d+)?)", flat) if label else ():
        if float(found[2]) != value and not BUDGET.search(found[1]):
            return False
    return True


# ---- budgets ----------------------------------------------------------------------------------------------------------------

_WITHIN = re.compile(
    r"(?:\bnot?\b|n't\b|\bnever\b|\bwithout\b|\bnothing\b|\bneither\b)[^.;,\n]{0,24}?(?:\bover\w*|\bexceed\w*|\babove\b|\bbeyond\b)"
    r"|\b(?:within|under|below|inside) (?:the |our |your |this |that )?(?:\w+ )?(?:budget|limit|cap)\b"
    r"|\b(?:over|exceed|exceeded|exceeds|overrun|over budget)\W{0,3}[:=?]\W{0,3}(?:no|false)\b"
    r"|(?:并未|没有|尚未|未|没|不|无)(?:有|会|曾)?[^,。;\n]{0,4}超|预算(?:之|以|范围之?)?内|低于[^,。;\n]{0,6}预算"
    r"|超[^,。;\n]{0,5}[:=?]\s*(?:否|没有|没|未|不|无)"
)
_ASKED = re.compile(r"是否[^,。;\n]{0,6}超[出过支]?(?:了)?(?:预算)?|whether[^.;,\n]{0,20}(?:over|exceed\w*)(?: (?:the )?budget)?")
_OVER = re.compile(
    r"\b(?:over|above|beyond) (?:the |our |your |this |that )?(?:\w+ )?(?:budget|limit|cap)\b|\bover by\b|\d ?(?:yuan |cny |rmb )?over\b"
    r"|exceed|\boverr[au]ns?\b|\boverage\b|\bover\W{0,3}[:=]\W{0,3}(?:yes|true|¥?\d)|超"
)


def budget_claims(text: str) -> set[str]:
    """What a reply claims of the budget: ``within``, ``over``, both (it contradicts itself) or neither."""
    flat = clean(text)
    rest = _WITHIN.sub(" ", flat)
    found = {"within"} if rest != flat else set()
    return found | ({"over"} if _OVER.search(_ASKED.sub(" ", rest)) else set())


def voids(text: str, value: float) -> bool:
    """Whether a sentence says that the old budget ``value`` is no longer in force."""
    gone = (
        r"no longer|\bvoid|supersed|replac|expired|invalid|\bold\b|previous|former|\bearlier\b|\boriginal\b|instead of|cancel|withdrawn"
        r"|historical|not (?:valid|in force|apply)|作废|失效|无效|不再|取代|替代|旧|原|之前|此前|废止|停用|改为|下调|调整为"
    )
    for sentence in SENTENCE.findall(clean(text)):
        named = value in {float(n) for n in NUMBER.findall(sentence)} or re.search(
            r"(?:old|previous|former|earlier|original) (?:budget|limit|cap)|(?:旧|原|之前的?|此前的?|先前的?)预算", sentence
        )
        still = re.search(
            r"still (?:valid|in force|appl|stand)|remains? (?:valid|in force)|仍然?(?:有效|适用)|继续有效", sentence
        )
        if named and re.search(gone, sentence) and not still:
            return True
    return False


OLD = re.compile(r"\bold\b|previous|former|\boriginal\b|\bearlier\b|旧|原|之前|此前")
OVER_NOW = re.compile(r"\bnew\b|\bnow\b|新预算|现在|现预算|改为")


# ---- values -----------------------------------------------------------------------------------------------------------------


def says(text: str, *forms: str) -> bool:
    """Whether one of the forms stands in the text as a whole word (Latin) or at all (Chinese)."""
    flat = clean(text)
    return any(re.search(rf"(?<![a-z0-9_-]){re.escape(f)}(?![a-z0-9_]|-\d)", flat) for f in (clean(form) for form in forms))


def only(text: str, value: str, family: str) -> bool:
    """Whether ``value`` is the only text of its family (a pattern, such as order numbers) that stands in the reply."""
    return set(re.findall(family, clean(text))) == {clean(value)}


ABSTAINS = re.compile(
    r"\bunknown\b|\b(?:do|does|did|is|are|was|were|can|could) ?n[o']t (?:know|sure|clear|mention|state|say|have|tell|determine|find|specified|"
    r"stated|mentioned|given|provided|available|answer|recorded)|\bdon't know\b|\bcan(?:not|'t) (?:tell|determine|find|say|answer|know)|\bnot (?:sure|known|"
    r"mentioned|stated|given|provided|specified|recorded|available|in the)|\bno (?:information|record|mention|data|details?)\b|\bunable to\b"
    r"|不知道|未知|不清楚|不确定|无法(?:确定|判断|得知|回答|从|知道|确认)|没有(?:提到|提及|说明|记录|相关|找到|足够|给出|写明)|未(?:提及|提到|说明|给出|记录|找到)|查不到|不详"
)
NO_TASK = re.compile(
    r"\bno (?:current |active |specific |pending |open |clear |new |further )*(?:tasks?|requests?|questions?|instructions?)\b"
    r"|\b(?:what|how) (?:would|can|may|should|do) (?:you|i)\b[^.?\n]{0,30}\b(?:like|help|do|assist)|\b(?:waiting|ready|wait) for (?:your|a|the|further|"
    r"next|new)\b[^.\n]{0,20}\b(?:tasks?|requests?|questions?|instructions?|input)|\b(?:have|has|did|was|were)(?: not|n't) (?:been )?(?:given|receiv|provid|"
    r"specif)\w*[^.\n]{0,20}\b(?:tasks?|requests?|questions?|instructions?)|\bnothing to do\b|\bplease (?:provide|give|tell|specify|state)\b[^.\n]{0,24}"
    r"\b(?:tasks?|requests?|questions?|instructions?)\b"
    r"|(?:没有|没|无|未收到|尚无|未见|没收到|并无|暂无|未提供)(?:任何|具体|当前|新的?|明确的?|待办的?|待处理的?|可执行的?|收到|看到)*(?:任务|请求|问题|指令|要求)"
    r"|请(?:您)?(?:问|提供|告诉我?|告知|说明|给出)[^。\n]{0,10}(?:任务|需要(?:我|什么)|帮|具体要求)|等待[^。\n]{0,6}(?:任务|指令|指示|请求)"
)
ASKS_AGAIN = re.compile(
    r"\b(?:provide|give|share|tell|confirm|send|need|what(?:'s| is))\b[^.\n]{0,30}\border (?:number|id|no\b)"
    r"|(?:提供|告诉|告知|给出|确认|发一?下|请问)[^。\n]{0,10}订单(?:号|编号)|订单(?:号|编号)是(?:多少|什么)"
)


def abstains(text: str) -> bool:
    """Whether the reply says that it does not know."""
    return bool(ABSTAINS.search(clean(text)))


def claims_no_task(text: str) -> bool:
    """Whether the reply claims that there is no task, or asks for one."""
    return bool(NO_TASK.search(clean(text)))


def asks_again(text: str) -> bool:
    """Whether the reply asks the user for the order number."""
    return bool(ASKS_AGAIN.search(clean(text)))


# ---- rules ------------------------------------------------------------------------------------------------------------------


def amount(name: str, value: float, label: str = "", core: bool = True) -> Rule:
    """The reply states an amount."""
    return Rule(name, lambda heard: states_amount(heard.reply, value, label), core)


def word(name: str, *forms: str, core: bool = True) -> Rule:
    """The reply holds one of the forms."""
    return Rule(name, lambda heard: says(heard.reply, *forms), core)


def identifier(name: str, value: str, family: str, core: bool = True) -> Rule:
    """The reply names this identifier and no other of its family."""
    return Rule(name, lambda heard: only(heard.reply, value, family), core)


def date(name: str, value: str, core: bool = True) -> Rule:
    """The reply names this date (``2026-10-12``), in any common spelling, and no other."""
    return identifier(name, value, r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)", core)


def within_budget(name: str = "not over") -> Rule:
    """The reply says that the budget is kept, and does not say the opposite too."""
    return Rule(name, lambda heard: budget_claims(heard.reply) == {"within"})


def over_by(name: str, value: float) -> Rule:
    """The reply says that the budget is exceeded, and by how much; what it says of an old budget is left aside."""

    def holds(heard: Heard) -> bool:
        claims = [budget_claims(s) for s in SENTENCE.findall(clean(heard.reply)) if not OLD.search(s) or OVER_NOW.search(s)]
        told = set().union(*claims) if claims else set()
        return told == {"over"} and states_amount(heard.reply, value)

    return Rule(name, holds)


def called(heard: Heard, tool: str) -> list[dict[str, object]]:
    """Arguments of the calls of a tool that were carried out."""
    return [c.args for c in heard.calls if c.tool == tool and c.code in ("ok", "shown", "result")]


def saves(name: str, *forms: str, core: bool = False) -> Rule:
    """A value was stored: by the business tool ``save``, or in a memory of the protocol."""

    def holds(heard: Heard) -> bool:
        made = [*called(heard, "save"), *called(heard, "note"), *called(heard, "stage_done")]
        return any(says(" ".join(map(str, args.values())), *forms) for args in made)

    return Rule(name, holds, core)


def never_calls(name: str, tools: Iterable[str]) -> Rule:
    """None of the tools was called."""
    banned = frozenset(tools)
    return Rule(name, lambda heard: not any(c.tool in banned for c in heard.calls))


def calls_exactly(name: str, tools: Sequence[str]) -> Rule:
    """The turn's calls are these, in this order, all of them carried out."""
    wanted = list(tools)
    return Rule(
        name,
        lambda heard: (
            [c.tool for c in heard.calls if c.code != "notice"] == wanted
            and all(c.code in ("ok", "shown", "result") for c in heard.calls if c.tool)
        ),
    )
