"""What windows, folds and compressions do to an agent: ``seed_alpha_beta``, ``seed_sentinel``, ``seed_mechanism``.

The history up to the last turn is forced, so that every arm stands at the same point: back in a window whose history ends with the
old action of leaving it, or behind a fold and a compression. Profiles without these tools get the same dialogue without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.chat import ChatML
from envs.policies.base import View
from envs.profiles import Profile, get_profile
from envs.seeds import EVIDENCE, FETCH
from envs.tasks.base import Session, Turn
from envs.trajectory import Trajectory
from eval.suites.base import Heard, Item, Lang, Result, Row, Rule, ScriptMaker, Suite, register
from eval.suites.play import SuiteEpisode
from eval.suites.rules import amount, claims_no_task, date, identifier, says, word
from eval.suites.scripts import Plays, context_step, event_with, fixed, in_view, spelled
from eval.suites.scripts import Turn as Said

WINDOWED = ("unified@1", "unified@2", "unified@3", "unified@4", "plain@1")


def _open(title: str) -> Any:
    return context_step("window_open", title=title, handoff="", checkpoint="")


def _window_note(key: str, value: str, *refs: str) -> Any:
    made = context_step("note", scope="window", key=key, value=value, status="", refs=refs)
    return lambda episode: made(episode) if "window_open" in episode.rules.tools else ""


def _lang(item: Item) -> Lang:
    return "zh" if item.session.lang == "zh" else "en"


def _session(name: str, lang: Lang, turns: Sequence[str], **more: Any) -> Session:
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
        0: (_open("alpha"), _window_note("stage", t["alpha_note"], "e1"), t["noted"]),
        1: (_open("beta"), _window_note("stage", t["beta_note"], "e5"), t["noted"]),
        2: (context_step("window_switch", id="w2", checkpoint=""),),
    }
    return [Item("back", _session("seed_alpha_beta", lang, (t["alpha"], t["beta"], t["back"])), gates, forced)]


def _writes(name: str, claim: str) -> ScriptMaker:
    """Back in alpha: one memory write, then the answer. Profiles without windows get the answer alone."""

    def make(item: Item, profile: Profile, chat: ChatML, repeat: int) -> Plays:
        t = ALPHA_BETA[_lang(item)]
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
        0: (_open("delivery"), _window_note("delivery", t["note"], "e1"), t["noted"]),
        1: (context_step("window_switch", id="w1", checkpoint=""),),
    }
    return [Item("return", _session("seed_sentinel", lang, (t["work"], t["task"])), gates, forced)]


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


def _says(texts: Mapping[Lang, Mapping[str, str]], name: str) -> ScriptMaker:
    return lambda item, profile, chat, repeat: Plays([texts[_lang(item)][name]], chat)


register(
    Suite(
        name="seed_sentinel",
        about=(
            "After a return the window's history ends with the old action of leaving it. Does the model still see its task, or does it "
            "claim that there is none? It is to end its reply with a mark."
        ),
        items=sentinel_items,
        arms=("unified@2", "unified@3-A", "unified@3-C", "unified@4", "plain@1"),
        scripts={"pass": _says(SENTINEL, "answer"), "no_task": _says(SENTINEL, "no_task")},
        rows=sentinel_rows,
        repeats=2,
        measure=lambda item, trajectory: {"no task": claims_no_task(trajectory.replies.get(1, ""))},
        theirs=({"lang": "zh", "arm": "document v2", "claims there is no task": "1/2"},),
        theirs_note="At temperature 0 two repeats of one model are one.",
    )
)  # fmt: skip


# ---- the mechanism --------------------------------------------------------------------------------------------------------------

MECHANISM: Mapping[Lang, Mapping[str, str]] = {
    "en": {
        "fetch": "Fetch the offer of alpha and the general terms.", "plan": "In a stage of its own: plan the delivery for 2026-10-12.",
        "ask": "Back to the offer of alpha: which evidence identifier does it carry?", "fetched": "fetched", "planned": "planned",
        "offer": f"Supplier alpha offers forty desks. The evidence is {EVIDENCE}. ",
        "terms": (
            "The offer holds for thirty days. Packaging is taken back on request. Assembly is not part of it. Unloading takes two people. "
            "Shades may differ a little. Spare parts are kept for ten years. Returns need the first packaging. All wood is certified. "
        ),
        "brief": "Supplier alpha offers forty desks; the evidence and its terms stand in the document",
        "summary": "Supplier alpha offers forty desks; the evidence and the terms stand in the documents that were fetched",
        "answer": f"It carries {EVIDENCE}.",
    },
    "zh": {
        "fetch": "请取来 alpha 的报价文件和一般条款。", "plan": "请单开一个阶段：把交付安排在 2026-10-12。",
        "ask": "回到 alpha 的报价文件：它带有哪个凭据标识？", "fetched": "已取来", "planned": "已安排",
        "offer": f"供应商 alpha 提供四十张书桌。凭据是 {EVIDENCE}。",
        "terms": (
            "报价三十天内有效。包装可以应要求收回。不含安装。卸货需要两个人。颜色可能略有差别。备件保存十年。退货须用原包装。木料全部经过认证。运费按实际里程结算，节假日不送货。"
            "桌面的划痕不在保修之列，五金件保修三年。安装说明随货附上，另有一份电子版可供下载。"
        ),
        "brief": "供应商 alpha 提供四十张书桌；凭据和条款都写在文件里", "summary": "供应商 alpha 提供四十张书桌；凭据和一般条款都写在取来的两份文件里面",
        "answer": f"它的凭据标识是 {EVIDENCE}。",
    },
}  # fmt: skip


def mechanism_items(lang: Lang) -> list[Item]:
    """One session: an offer fetched, read, folded and read again; a stage apart; a compression; then the question."""
    t = MECHANISM[lang]
    alpha = event_with(EVIDENCE)

    def keep(episode: SuiteEpisode) -> tuple[str]:
        return (f"e{alpha(episode)}",)

    read = context_step("read", ref=lambda episode: f"e{alpha(episode)}", last=None, page=1)
    fold = context_step("fold", first=lambda e: alpha(e) - 1, last=alpha, text=t["brief"], refs=keep)
    compress = context_step("compress", upto=event_with(t["fetched"]), text=t["summary"], refs=keep)
    forced = {
        0: (_open("alpha"), "fetch doc=alpha", "fetch doc=terms", read, fold, read, t["fetched"]),
        1: (_open("beta"), _window_note("delivery", "2026-10-12"), t["planned"]),
        2: (context_step("window_switch", id="w2", checkpoint=""), compress),
    }
    responses = {"fetch doc=alpha": t["offer"] + t["terms"], "fetch doc=terms": 2 * t["terms"]}
    session = _session("seed_mechanism", lang, (t["fetch"], t["plan"], t["ask"]), tools=(FETCH,), responses=responses)
    gates = {2: (identifier("evidence", EVIDENCE, r"[a-z]+-evidence-\d+"),)}
    # With the session as one Run nothing may ever be compressed.
    return [Item("evidence", session, gates, forced, flags={"run_scope": "turn"}, evidence={2: (EVIDENCE,)})]


def _reads_back(item: Item, profile: Profile, chat: ChatML, repeat: int) -> Plays:
    """Answers what stands in view, after reading the fold where it does not."""
    answer = MECHANISM[_lang(item)]["answer"]
    read = spelled(profile, "read", ref="f1", last=None, page=1) if "read" in profile.tools else answer

    def first(view: View) -> str:
        return answer if in_view(view, EVIDENCE) else read

    turns: list[Said] = [first, lambda view: answer if in_view(view, EVIDENCE) else "unknown"]
    return Plays(turns, chat)


def mechanism_measure(item: Item, trajectory: Trajectory) -> dict[str, Any]:
    """Codes of the forced fold and compression, isolation of the windows, and how often a read showed the evidence."""
    tools = get_profile(trajectory.profile.partition("[")[0]).tools
    outcomes = [o for i in trajectory.inferences for o in i.outcomes]
    code = {o.tool: o.code for o in outcomes if o.tool in ("fold", "compress")}
    reads = [o.text for o in outcomes if o.tool == "read" and o.code == "shown"]
    inside = [
        "\n".join(m.content for m in view)
        for i, view in zip(trajectory.inferences, trajectory.views(), strict=True)
        if i.turn == 1 and not any(o.tool == "window_open" for o in i.outcomes)
    ]
    return {
        "fold": code.get("fold"), "compress": code.get("compress"), "reads": f"{sum(EVIDENCE in r for r in reads)}/{len(reads)}",
        "isolated": not any(EVIDENCE in text for text in inside) if "window_open" in tools else None,
    }  # fmt: skip


def mechanism_rows(results: Sequence[Result]) -> list[Row]:
    """One row of the first repeat's mechanics and all repeats' answers."""
    first = results[0]
    own = {k: first.extra[k] for k in ("fold", "compress", "isolated")}
    return [
        {
            "lang": first.lang, "arm": first.arm, **own, "reads that show the evidence": first.extra["reads"],
            "in view when asked": first.turns[2].in_view, "answered right": f"{sum(r.core for r in results)}/{len(results)}",
            "tokens": sum(r.tokens for r in results),
        }
    ]  # fmt: skip


register(
    Suite(
        name="seed_mechanism",
        about=(
            f"Windows keep apart, a fold and a compression replace text, and the raw text stays readable before and after: {EVIDENCE}. "
            "The history is a script; the arm is asked for the evidence at the end and has to read it back where it is out of view."
        ),
        items=mechanism_items,
        arms=(*WINDOWED, "core@1"),
        scripts={"pass": _reads_back, "blind": _says(MECHANISM, "brief")},
        rows=mechanism_rows,
        measure=mechanism_measure,
        theirs=({"lang": "zh", "arm": "document", "reads that show the evidence": "before and after", "isolated": True},),
    )
)  # fmt: skip
