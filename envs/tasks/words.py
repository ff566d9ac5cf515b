"""What all families of a language share: the sentences that close, keep, tell, ask and verify, and how texts are put together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from envs.text import HAN

Lang = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class Words:
    """The generic words of one language."""

    lang: Lang
    closes: tuple[str, ...]
    keeps: tuple[str, ...]
    tells: tuple[str, ...]
    verifies: tuple[str, ...]
    """The stated rule for what matters: the raw text is to be read even where a brief gives the value."""
    asks: tuple[str, ...]
    rule_outs: tuple[str, ...]
    """``{noun}``, ``{v}``, ``{entity}``: the user rules a value out."""
    ruled_asks: tuple[str, ...]
    """``{noun}``, ``{entity}``: which value was ruled out."""
    enters: tuple[str, ...]
    """``{noun}``, ``{entity}``: a value is to be entered in the register, which cannot be undone."""
    receipt: str
    refusal: str
    """What the register says to the right value, and to any other."""
    stage: str
    """Title of a window for what comes next."""
    hints: dict[str, str]
    """Sentences that say that something may be missing, by hint level."""
    answer: str
    """What opens the line of answer slots."""
    joint: str
    """Between two sentences."""
    none: str
    """How a brief or note says that there is none."""
    nones: tuple[str, ...]
    """Accepted forms where a record states that there is none."""
    yes: tuple[str, ...]
    no: tuple[str, ...]
    unknown: tuple[str, ...]
    """Accepted forms of abstaining."""
    colon: str
    comma: str
    entry: str
    """Between the head of a brief and its fields, between two fields, between two entries of a summary."""
    stop: str
    """Ends a list."""
    space: str
    """Between a noun and its value."""
    unlisted: str
    """End of a brief that had no room for values."""
    without: str
    more: str
    tail: str
    """Of a brief of pages: ``{noun}`` does not stand on them; more fields do; the sentence that the last page breaks off in."""
    padding: str
    """What makes a summary long enough, where its entries are short."""

    def pair(self, noun: str, value: str) -> str:
        """A field as briefs and summaries give it."""
        return f"{noun}{self.space}{value}"

    def answer_line(self, slots: list[str]) -> str:
        """The last line of a user turn: the slots to fill."""
        return f"{self.answer}{self.joint}" + " ".join(f"{s}=?" for s in slots)


ENGLISH = Words(
    lang="en",
    closes=("Then close this stage.", "That closes the stage.", "This stage ends here.", "Close the stage after that."),
    keeps=("Keep the {noun} at hand.", "Note the {noun} for later.", "We will need the {noun} again."),
    tells=("Tell me the {noun}.", "Give me the {noun}.", "Which {noun} is given?"),
    verifies=("Check the {noun} against its source before you answer.", "Do not rely on a summary for the {noun}: look it up."),
    asks=(
        "Which {noun} is on file for {entity}?",
        "Give me the {noun} for {entity} once more.",
        "I need the {noun} for {entity}.",
        "Back to {entity}: the {noun}, please.",
        "Which {noun} do we have for {entity}?",
    ),
    rule_outs=(
        "Strike {v} as the {noun} for {entity}: it has been disproved.",
        "Rule out {v}, the {noun} for {entity}; it does not hold up.",
    ),
    ruled_asks=("Which {noun} for {entity} did we rule out?", "Name the {noun} for {entity} that was struck off."),
    enters=(
        "Enter the {noun} of {entity} in the register and bring me its receipt.",
        "Now the {noun} of {entity} goes into the register: under which receipt?",
        "Have the {noun} of {entity} put in the register; I want its receipt.",
    ),
    receipt="Entered under receipt {v}.",
    refusal="Refused: another value is on file.",
    stage="a new stage",
    hints={
        "vague": "Something may be missing here.",
        "explicit": "What you have of it may be incomplete: read the raw text again.",
    },
    answer="Answer:", joint=" ", none="none", nones=("none", "no", "0"), yes=("yes",), no=("no",), unknown=("unknown",),
    colon=": ", comma=", ", entry="; ", stop=".", space=" ", unlisted="; the values are not listed here",
    without="; nothing on the {noun}", more="; more stands there", tail="; breaks off at: ",
    padding="; the rest stands in these events",
)  # fmt: skip

CHINESE = Words(
    lang="zh",
    closes=("做完这一步就收尾。", "这一阶段到此结束。", "然后就结束这个环节。", "之后本阶段结束。"),
    keeps=("{noun}后面还要用，请留意。", "请记住{noun}，以后会问到。", "先把{noun}记下，留着备用。"),
    tells=("告诉我它的{noun}。", "把{noun}报给我。", "{noun}也一并说明。"),
    verifies=("回答前请对照原文核实{noun}。", "{noun}不要凭摘要回答，请查原文。"),
    asks=(
        "请告诉我{entity}的{noun}。",
        "再报一下{entity}的{noun}。",
        "我需要{entity}的{noun}。",
        "回到{entity}：{noun}请再给我一次。",
        "{entity}这边登记的{noun}，麻烦查一下。",
    ),
    rule_outs=("经核实，{entity}的{noun}{v}不成立，请作废。", "{entity}原先的{noun}{v}已被否定，不再采用。"),
    ruled_asks=("{entity}被否定的{noun}是哪一个？", "我们当初为{entity}排除掉的{noun}，请写出来。"),
    enters=(
        "请把{entity}的{noun}登记入册，并把回执号给我。",
        "现在要登记{entity}的{noun}，登记后的回执号是多少？",
        "{entity}的{noun}可以正式入册了，办完告诉我回执号。",
    ),
    receipt="已登记入册，回执号{v}。",
    refusal="登记被拒：与备案的值不符。",
    stage="新阶段",
    hints={"vague": "这里可能缺了些什么。", "explicit": "你手头的内容可能不全：请重新读一遍原文。"},
    answer="回答：", joint="", none="无", nones=("无", "没有", "none", "0"), yes=("是", "yes"), no=("否", "不是", "no"),
    unknown=("unknown", "未知", "不知道", "不详"),
    colon="：", comma="，", entry="；", stop="。", space="", unlisted="；数值未在此列出", without="；未见{noun}", more="；另有内容未列", tail="；断在：", padding="；其余内容见上述事件",
)  # fmt: skip

TOKENIZERS: dict[str, str] = {"en": "smollm2", "zh": "qwen"}
"""Whose tokens are counted where a report compares languages: each with a tokenizer that knows it."""
WORDS: dict[str, Words] = {"en": ENGLISH, "zh": CHINESE}
ABSTAINS = tuple(dict.fromkeys(u for w in WORDS.values() for u in w.unknown))
"""Every accepted form of abstaining, the canonical one first: the protocol's word serves in any language."""


def bounded(value: str) -> str:
    """A regex for a value as a whole: not inside a longer Latin word or number. Han characters stand side by side by nature."""
    left = r"(?<![A-Za-z0-9_-])" if re.match(r"[\w-]", value) and not HAN.match(value) else ""
    right = r"(?![A-Za-z0-9_-])" if re.search(r"[\w-]$", value) and not HAN.search(value[-1]) else ""
    return f"{left}{re.escape(value)}{right}"
