"""``seed_mechanism``: windows keep apart, a fold and a compression replace text, and the raw text stays readable before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.chat import ChatML
from envs.policies.base import View
from envs.profiles import Profile, get_profile
from envs.seeds import EVIDENCE, FETCH
from envs.trajectory import Trajectory
from eval.suites.base import Item, Lang, Result, Row, Suite, register
from eval.suites.play import SuiteEpisode
from eval.suites.rules import identifier
from eval.suites.scripts import Plays, context_step, event_with, in_view, spelled
from eval.suites.scripts import Turn as Said
from eval.suites.windows import WINDOWED, lang_of, open_window, says_text, session_of, window_note

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
        0: (open_window("alpha"), "fetch doc=alpha", "fetch doc=terms", read, fold, read, t["fetched"]),
        1: (open_window("beta"), window_note("delivery", "2026-10-12"), t["planned"]),
        2: (context_step("window_switch", id="w2", checkpoint=""), compress),
    }
    responses = {"fetch doc=alpha": t["offer"] + t["terms"], "fetch doc=terms": 2 * t["terms"]}
    session = session_of("seed_mechanism", lang, (t["fetch"], t["plan"], t["ask"]), tools=(FETCH,), responses=responses)
    gates = {2: (identifier("evidence", EVIDENCE, r"[a-z]+-evidence-\d+"),)}
    # With the session as one Run nothing may ever be compressed.
    return [Item("evidence", session, gates, forced, flags={"run_scope": "turn"}, evidence={2: (EVIDENCE,)})]


def _reads_back(item: Item, profile: Profile, chat: ChatML, repeat: int) -> Plays:
    """Answers what stands in view, after reading the fold where it does not."""
    answer = MECHANISM[lang_of(item)]["answer"]
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
        scripts={"pass": _reads_back, "blind": says_text(MECHANISM, "brief")},
        rows=mechanism_rows,
        measure=mechanism_measure,
        theirs=({"lang": "zh", "arm": "document", "reads that show the evidence": "before and after", "isolated": True},),
    )
)  # fmt: skip
