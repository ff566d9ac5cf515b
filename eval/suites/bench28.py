"""``seed_bench28``: 28 records, ten questions, four ways to choose what of the records is shown.

The strategies are the project's managers: whole history, ``summary`` (28 % by word frequency), ``retrieval`` (five records nearest to
the question), ``recent`` (the last eight). Sizes are counted in characters here, for the managers too, so that the design is the same
for every tokenizer; :func:`design` checks it without a model. If the whole history does not hold all ten answers the material is
broken, and nothing is played (``BAD``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from envs.chat import ChatML
from envs.config import UserError
from envs.log import Log
from envs.managers import Manager, Picked, get_manager
from envs.managers.base import Record
from envs.policies.base import View
from envs.profiles import Profile
from envs.tasks.base import Session, Turn
from envs.trajectory import Trajectory
from eval.suites.base import Item, Lang, Result, Row, Rule, ScriptMaker, Suite, register
from eval.suites.bench28_texts import PRIOR, QUESTIONS, RECORDS, Question
from eval.suites.rules import abstains, clean, says
from eval.suites.scripts import Plays

STRATEGIES = ("full", "summary", "retrieval", "recent")
TARGETS: Mapping[str, tuple[int, int]] = {"full": (1498, 10), "summary": (401, 1), "retrieval": (220, 8), "recent": (375, 2)}
"""Strategy -> characters (about; over the ten questions), answers present of ten."""
ABOUT = 0.05
"""How far characters may be from their target."""
ROOM = 1_000_000
ASK: Mapping[Lang, str] = {
    "en": "Answer from the notes above in a few words. If they do not tell it, say: unknown.",
    "zh": "请只根据上面的记录简短回答；记录里没有的，就答：不知道。",
}
SPLIT = ("right", "half", "abstained", "off target", "invented", "no answer")


class Always(Manager):
    """A manager that decides whatever the budget, with characters as its measure, by the question's first line."""

    def __init__(self, inner: Manager) -> None:
        self.inner, self.name = inner, inner.name  # type: ignore[misc]

    def _decide(self, records: Sequence[Record], budget: int, chat: ChatML, system: str) -> tuple[Picked, list[Record]]:
        newest = max(i for i, r in enumerate(records) if r.role == "user")
        past, now = list(records[:newest]), list(records[newest:])
        return self.inner.pick(past, ROOM, len, now[0].text.split("\n")[0]), now

    def request(self, log: Log, budget: int, chat: ChatML, system: str) -> list[Any] | None:
        return self.inner.request(log, budget, chat, system)

    def receive(self, text: str) -> None:
        self.inner.receive(text)


def wrap(manager: Manager) -> Manager:
    """``Always``, unless the manager has its own way to decide (``layered`` measures its request)."""
    return Always(manager) if type(manager)._decide is Manager._decide else manager


# ---- the design ---------------------------------------------------------------------------------------------------------------


def context(strategy: str, question: str, records: Sequence[str]) -> str:
    """What of the records a strategy shows for a question, one a line."""
    if strategy == "full":
        return "\n".join(records)
    past = [Record("user", text, n) for n, text in enumerate(records)]
    picked = get_manager(strategy).pick(past, ROOM, len, question)
    return "\n".join([*picked.head.split("\n")[1:], *(r.text for r in picked.kept)])


def present(text: str, question: Question) -> bool:
    """Whether every value that the answer needs stands in a text."""
    return all(says(text, *forms) for forms in question.keys)


def design(records: Sequence[str], questions: Sequence[Question]) -> dict[str, tuple[float, list[str]]]:
    """Strategy -> mean characters over the questions, ids of the questions whose answer is present."""
    out = {}
    for strategy in STRATEGIES:
        shown = [context(strategy, q.text, records) for q in questions]
        out[strategy] = (
            sum(map(len, shown)) / len(shown),
            [q.id for q, s in zip(questions, shown, strict=True) if present(s, q)],
        )
    return out


def check(lang: Lang, records: Sequence[str] | None = None) -> None:
    """Raises UserError (``BAD``) unless the whole history holds the answer to every question."""
    found = design(RECORDS[lang] if records is None else records, QUESTIONS[lang])["full"][1]
    if lost := [q.id for q in QUESTIONS[lang] if q.id not in found]:
        raise UserError(
            f"seed_bench28 {lang}: BAD: the whole history lacks the answer to {', '.join(lost)}: mend the records before any result is read"
        )


# ---- items and judging ----------------------------------------------------------------------------------------------------------


@cache
def items(lang: Lang) -> tuple[Item, ...]:
    """Ten questions and the bare yes/no, each over the same 28 records."""
    made = []
    for question in (*QUESTIONS[lang], PRIOR[lang]):
        session = Session(
            id=f"seed_bench28-{lang}-{question.id}", family="seed", lang=lang, seed=0, tools=(), responses={},
            turns=(Turn(text=f"{question.text}\n{ASK[lang]}"),),
        )  # fmt: skip
        rule = Rule("answer", lambda heard, q=question, la=lang: verdict(heard.reply, q, la) == "right")  # type: ignore[misc]
        made.append(Item(question.id, session, {0: (rule,)}, laid=RECORDS[lang], facts={"question": question}))
    return tuple(made)


def verdict(reply: str, question: Question, lang: Lang) -> str:
    """One of ``SPLIT``. A reply with a value that answers another question is no right answer, and a hedged one abstains."""
    text = clean(reply).replace(clean(question.text), " ")  # an echo of the question says nothing
    if not text.strip():
        return "no answer"
    if question.kind == "yes_no":
        other = ("yes",) if lang == "en" else ("丢了", "有丢")
        if abstains(text):
            return "abstained"
        return "right" if says(text, *question.keys[0]) and not says(text, *other) else "invented"
    if abstains(text):
        return "abstained"
    given = [says(text, *forms) for forms in question.keys]
    if any(says(text, *forms) for q in QUESTIONS[lang] if q.id != question.id for forms in q.keys):
        return "off target"
    return "right" if all(given) else "half" if any(given) else "invented"


def measure(item: Item, trajectory: Trajectory) -> dict[str, Any]:
    """Is the answer in view, what kind of answer came, and how many characters of the records were shown."""
    question: Question = item.facts["question"]
    lang: Lang = "zh" if item.session.lang == "zh" else "en"
    views = (v for i, v in zip(trajectory.inferences, trajectory.views(), strict=True) if i.kind != "maintenance")
    text = "\n".join(m.content for m in next(views, []))
    asked = item.session.turns[0].text
    shown = text.replace(asked, " ")
    in_view = RECORDS[lang][question.records[0] - 1] in shown if question.kind == "yes_no" else present(shown, question)
    strategy = trajectory.manager or ("full" if trajectory.profile.startswith("plain") else "")
    chars = len(context(strategy, question.text, RECORDS[lang])) if strategy in STRATEGIES else len(shown)
    return {"in view": in_view, "verdict": verdict(trajectory.replies.get(0, ""), question, lang), "characters": chars}


def rows(results: Sequence[Result]) -> list[Row]:
    """One row: the strategy's size, answers present, and the split of answers by whether they stood in view."""
    asked = [r for r in results if r.item != "prior"]
    prior = [r for r in results if r.item == "prior"]
    there, gone = ([r.extra["verdict"] for r in asked if r.extra["in view"] is side] for side in (True, False))
    shown, lost = Counter(there), Counter(gone)
    once = [r for r in asked if r.repeat == 0]
    guessed = sum(r.extra["verdict"] == "right" and not r.extra["in view"] for r in prior)
    return [
        {
            "lang": results[0].lang, "arm": results[0].arm,
            "characters": round(sum(r.extra["characters"] for r in once) / max(len(once), 1)),
            "answer present": f"{sum(r.extra['in view'] for r in once)}/{len(once)}",
            "in view: right": f"{shown['right']}/{len(there)}", "half": shown["half"],
            "abstained": shown["abstained"], "wrong": shown["off target"] + shown["invented"], "no answer": shown["no answer"],
            # Right without the material is a guess: never credited.
            "absent: credited": f"0/{len(gone)}", "said unknown": lost["abstained"],
            "invented": lost["off target"] + lost["invented"] + lost["half"], "silent": lost["no answer"], "guessed": lost["right"],
            "yes/no right without material": f"{guessed}/{sum(not r.extra['in view'] for r in prior)}",
            "tokens": sum(r.tokens for r in results),
        }
    ]  # fmt: skip


def notes(table: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sums over the four strategies of one policy, as the document gives them."""
    told: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in table:
        who, _, spec = str(row["arm"]).partition("/")
        if spec in ARMS:
            told.setdefault((str(row["lang"]), who), []).append(row)
    lines = []
    for (lang, who), mine in told.items():
        right, there = (sum(int(str(r["in view: right"]).split("/")[n].replace(",", "")) for r in mine) for n in (0, 1))
        gone = sum(int(str(r["absent: credited"]).split("/")[1].replace(",", "")) for r in mine)
        unknown, invented = (sum(int(str(r[c]).replace(",", "")) for r in mine) for c in ("said unknown", "invented"))
        lines.append(
            f"{lang}, {who}, {len(mine)} strategies: in view {right} of {there} right; absent 0 of {gone} credited, {unknown} said unknown, "
            f"{invented} invented (or answered another question)."
        )
    return lines


# ---- scripts ------------------------------------------------------------------------------------------------------------------


def _answers(kind: str) -> ScriptMaker:
    """``pass``: right where the answer is in view, else unknown. The others: half of it, an invention, another question's answer, all."""

    def make(item: Item, profile: Profile, chat: ChatML, repeat: int) -> Plays:
        lang: Lang = "zh" if item.session.lang == "zh" else "en"
        question: Question = item.facts["question"]
        unknown = "unknown" if lang == "en" else "不知道"

        def text(view: View) -> str:
            shown = "\n".join(m.content for m in view.messages).replace(item.session.turns[0].text, " ")
            right = " / ".join(forms[0] for forms in question.keys)
            if kind == "half":
                return question.keys[0][0]
            if kind == "invent":
                return "XQ-0000"
            if kind == "other":
                return next(q for q in QUESTIONS[lang] if q.id != question.id).keys[0][0]
            if kind == "list":
                return "\n".join(RECORDS[lang])
            if question.kind == "yes_no":
                return right if RECORDS[lang][question.records[0] - 1] in shown else unknown
            return right if present(shown, question) else unknown

        return Plays([text], chat)

    return make


ARMS = ("plain@1", "plain@1/summary", "plain@1/retrieval", "plain@1/recent")
SUITE = register(
    Suite(
        name="seed_bench28",
        about=(
            "28 records, ten questions (eight single, q9 over records 4 and 13, q10 without a word in common with its record), four "
            "strategies: the whole history (`plain@1`), `summary`, `retrieval`, `recent`. Design targets, checked before anything is played: "
            "characters about 1498, 401, 220, 375; answers present 10, 1, 8, 2; BAD unless the whole history holds all ten. Answers are "
            "split by whether their values stood in view; a bare yes/no is asked beside them as a control for guessing and counts nowhere."
        ),
        items=items,
        arms=ARMS,
        scripts={k: _answers(k) for k in ("pass", "half", "invent", "other", "list")},
        rows=rows,
        notes=notes,
        repeats=3,
        measure=measure,
        check=check,
        manager=wrap,
        theirs=(
            *(
                {"lang": "zh", "arm": f"document {s}", "characters": chars, "answer present": f"{found}/10"}
                for s, (chars, found) in TARGETS.items()
            ),
            {
                "lang": "zh", "arm": "document, two models", "in view: right": "118/126", "half": 5, "absent: credited": "0/114",
                "said unknown": 68, "invented": 43, "guessed": 3,
            },
        ),
        theirs_note="The document's three guesses are its yes/no question, which was one of its ten; here it stands apart.",
    )
)  # fmt: skip
