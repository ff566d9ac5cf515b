"""What a return to a window does to an agent: ``seed_alpha_beta`` and ``seed_sentinel``.

The history up to the last turn is forced, so that every arm stands at the same point: back in a window whose history ends with the
old action of leaving it. Profiles without these tools get the same dialogue without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.chat import ChatML
from envs.profiles import Profile
from envs.tasks.base import Session, Turn
from envs.trajectory import Trajectory
from eval.suites.base import Heard, Item, Lang, Result, Row, Rule, ScriptMaker, Suite, register
from eval.suites.rules import amount, claims_no_task, date, says, word
from eval.suites.scripts import Plays, context_step, fixed, spelled

WINDOWED = ("unified@1", "unified@2", "unified@3", "unified@4", "plain@1")


def open_window(title: str) -> Any:
    """A forced step that opens a window, where the profile has windows."""
    return context_step("window_open", title=title, handoff="", checkpoint="")


def window_note(key: str, value: str, *refs: str) -> Any:
    """A forced step that writes to window memory, where the profile has windows."""
    made = context_step("note", scope="window", key=key, value=value, status="", refs=refs)
    return lambda episode: made(episode) if "window_open" in episode.rules.tools else ""


def lang_of(item: Item) -> Lang:
    """An item's language."""
    return "zh" if item.session.lang == "zh" else "en"


def session_of(name: str, lang: Lang, turns: Sequence[str], **more: Any) -> Session:
    """A session of these user turns; ``more`` are fields of ``Session``."""
    made = {"tools": (), "responses": {}} | more
    return Session(id=f"{name}-{lang}", family="seed", lang=lang, seed=0, turns=tuple(Turn(text=t) for t in turns), **made)


# ---- alpha and beta -----------------------------------------------------------------------------------------------------------

ALPHA_BETA: Mapping[Lang, Mapping[str, str]] = {
    "en": {
        "alpha": "Stage alpha, the quotes: 4,200 and 5,300, together 9,500. Keep that for this stage.",
        "beta": "Stage beta, the schedule: delivery on 2026-10-12, owner Lin Zhou. Keep that for this stage.",
        "back": "Back to stage alpha. Add to its memory that the quotes were checked, and tell me their total.",
        "alpha_note": "quotes 4200 and 5300, total 9500", "beta_note": "delivery 2026-10-12, owner Lin Zhou",
        "checked": "quotes 4200 and 5300, total 9500, checked", "noted": "noted", "answer": "The total of the quotes is 9,500.",
    },
    "zh": {
        "alpha": "alpha 阶段是报价：4,200 元和 5,300 元，合计 9,500 元。请在本阶段记住。",
        "beta": "beta 阶段是排期：2026-10-12 交付，负责人林舟。请在本阶段记住。",
        "back": "回到 alpha 阶段。请在它的记忆里补记报价已核对，并告诉我报价的总价。",
        "alpha_note": "报价 4200 与 5300，合计 9500", "beta_note": "2026-10-12 交付，负责人林舟",
        "checked": "报价 4200 与 5300，合计 9500，已核对", "noted": "已记下", "answer": "两项报价的总价是 9,500 元。",
    },
}  # fmt: skip


def _betas(args: Mapping[str, Any]) -> bool:
    """Whether a memory write holds the schedule and not the quotes."""
    value = str(args.get("value", ""))
    return says(value, "2026-10-12", "Lin Zhou", "林舟") and not says(value, "9500")


def _alpha_kept(heard: Heard) -> bool:
    return not any(
        c.tool == "note" and c.code == "ok" and c.args.get("scope") == "window" and _betas(c.args) for c in heard.calls
    )


def alpha_beta_items(lang: Lang) -> list[Item]:
    """One session: alpha, beta, and back in alpha."""
    t = ALPHA_BETA[lang]
    gates = {2: (amount("total", 9500), Rule("alpha kept", _alpha_kept))}
    forced = {
        0: (open_window("alpha"), window_note("stage", t["alpha_note"], "e1"), t["noted"]),
        1: (open_window("beta"), window_note("stage", t["beta_note"], "e5"), t["noted"]),
        2: (context_step("window_switch", id="w2", checkpoint=""),),
    }
    return [Item("back", session_of("seed_alpha_beta", lang, (t["alpha"], t["beta"], t["back"])), gates, forced)]


def _writes(name: str, claim: str) -> ScriptMaker:
    """Back in alpha: one memory write, then the answer. Profiles without windows get the answer alone."""

    def make(item: Item, profile: Profile, chat: ChatML, repeat: int) -> Plays:
        t = ALPHA_BETA[lang_of(item)]
        note = {
            "scope": "window",
            "key": "stage",
            "value": t[name],
            "status": "",
            "refs": ("e5" if name == "beta_note" else "e1",),
        }
        calls = [spelled(profile, "note", claim, **note)] if profile.windows else []
        return Plays([*calls, t["answer"]], chat)

    return make


def alpha_beta_measure(item: Item, trajectory: Trajectory) -> dict[str, Any]:
    """What became of writes of beta's content, and of alpha's own entry."""
    mine = [
        o for i in trajectory.inferences if i.turn == 2 and i.trained for o in i.outcomes if o.tool == "note" and _betas(o.args)
    ]
    alpha = next((m.value for m in trajectory.memory if m.scope == "w2" and m.key == "stage"), None)
    code = mine[0].code if mine else None if alpha is None else "none"
    return {"wrong write": code, "overwritten": None if alpha is None else not says(alpha, "9500")}


def alpha_beta_rows(results: Sequence[Result]) -> list[Row]:
    """One row a repeat at most: they are told apart only where they differ."""
    first = results[0]
    return [
        {
            "lang": first.lang, "arm": first.arm, "right total": f"{_count(results, 'total')}/{len(results)}",
            "write of beta's content": ", ".join(dict.fromkeys(r.extra["wrong write"] or "-" for r in results)),
            "alpha overwritten": first.extra["overwritten"], "tokens": sum(r.tokens for r in results),
        }
    ]  # fmt: skip


def _count(results: Sequence[Result], rule: str) -> int:
    return sum(t.judged and t.played and rule not in t.missed for r in results for t in r.turns)


register(
    Suite(
        name="seed_alpha_beta",
        about=(
            "Back in window alpha, an agent takes itself to be in beta and writes what belongs there: overwritten under `unified@1`, "
            "refused from `unified@2` on (`mistake`). A model stands at the same point and is asked to add to alpha's memory."
        ),
        items=alpha_beta_items,
        arms=WINDOWED,
        scripts={"pass": _writes("checked", "w2"), "mistake": _writes("beta_note", "w3"), "silent": fixed("?")},
        rows=alpha_beta_rows,
        measure=alpha_beta_measure,
        theirs=(
            {"lang": "zh", "arm": "document v1", "write of beta's content": "ok", "alpha overwritten": True},
            {"lang": "zh", "arm": "document v2", "write of beta's content": "refused", "alpha overwritten": False},
        ),
    )
)  # fmt: skip


# ---- the sentinel ---------------------------------------------------------------------------------------------------------------

MARK = "SENTINEL-4417"
SENTINEL: Mapping[Lang, Mapping[str, str]] = {
    "en": {
        "work": "Look at the delivery in a stage of its own: it is set for 2026-10-12. Keep that.", "noted": "noted",
        "task": f"Go back to the main window. There, tell me the delivery date, and end your reply with {MARK}.",
        "answer": f"The delivery is on 2026-10-12. {MARK}", "no_task": "There is no current task. How can I help you?",
        "note": "delivery 2026-10-12",
    },
    "zh": {
        "work": "请单开一个阶段来看交付：定在 2026-10-12。请记住。", "noted": "已记下",
        "task": f"请回到主窗口，在那里告诉我交付日期，并以 {MARK} 结束你的回答。",
        "answer": f"交付日期是 2026-10-12。{MARK}", "no_task": "当前没有任务，请问需要我做什么？", "note": "交付日期 2026-10-12",
    },
}  # fmt: skip


def sentinel_items(lang: Lang) -> list[Item]:
    """One session: a stage apart, and a task after the return to a window whose history ends with leaving it."""
    t = SENTINEL[lang]
    gates = {
        1: (Rule("no claim of no task", lambda h: not claims_no_task(h.reply)), word("mark", MARK), date("date", "2026-10-12"))
    }
    forced = {
        0: (open_window("delivery"), window_note("delivery", t["note"], "e1"), t["noted"]),
        1: (context_step("window_switch", id="w1", checkpoint=""),),
    }
    return [Item("return", session_of("seed_sentinel", lang, (t["work"], t["task"])), gates, forced)]


def sentinel_rows(results: Sequence[Result]) -> list[Row]:
    """One row: claims that there is no task, marks and dates given."""
    total = len(results)
    return [
        {
            "lang": results[0].lang, "arm": results[0].arm, "claims there is no task": f"{sum(r.extra['no task'] for r in results)}/{total}",
            "mark given": f"{_count(results, 'mark')}/{total}", "date right": f"{_count(results, 'date')}/{total}",
            "passed": f"{sum(r.core for r in results)}/{total}", "tokens": sum(r.tokens for r in results),
        }
    ]  # fmt: skip


def says_text(texts: Mapping[Lang, Mapping[str, str]], name: str) -> ScriptMaker:
    """A script that says one of the texts of a suite, in the item's language."""
    return lambda item, profile, chat, repeat: Plays([texts[lang_of(item)][name]], chat)


register(
    Suite(
        name="seed_sentinel",
        about=(
            "After a return the window's history ends with the old action of leaving it. Does the model still see its task, or does it "
            "claim that there is none? It is to end its reply with a mark."
        ),
        items=sentinel_items,
        arms=("unified@2", "unified@3-A", "unified@3-C", "unified@4", "plain@1"),
        scripts={"pass": says_text(SENTINEL, "answer"), "no_task": says_text(SENTINEL, "no_task")},
        rows=sentinel_rows,
        repeats=2,
        measure=lambda item, trajectory: {"no task": claims_no_task(trajectory.replies.get(1, ""))},
        theirs=({"lang": "zh", "arm": "document v2", "claims there is no task": "1/2"},),
        theirs_note="At temperature 0 two repeats of one model are one.",
    )
)  # fmt: skip
