"""The post-mortem's failures, replayed by scripted policies and measured: what each version of the protocol lets happen.

The scripts make the mistakes that the document reports, so these are statements about the host, not about any model:

- ``alpha_beta``: back in window alpha, the policy writes what belongs to window beta.
- ``stale_public``: the budget changes, the policy updates its window memory alone, and answers right.
- ``mechanism``: windows keep apart, a fold and a compression replace text, and the raw text stays readable throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envs import compact, hermes
from envs.chat import ChatML
from envs.episode import Episode
from envs.policies.base import Sampled
from envs.profiles import CHANGING, Profile, get_profile
from envs.scoring import score
from envs.tasks.base import Fact, Session, Slot, ToolSpec, Turn
from envs.trajectory import StoredOutcome

EVIDENCE = "ALPHA-EVIDENCE-6913"
TERMS = (
    "The offer holds for thirty days from its date. Packaging is taken back on request. Assembly is not part of it. Unloading takes two "
    "people. Colours may differ slightly. Spare parts are kept for ten years. Returns need the original packaging. All wood is certified. "
)
FETCH = ToolSpec(name="fetch", args=("doc",), missing="no such document")
PROFILES = ("unified@1", "unified@2", "unified@3", "unified@4", "unified@4-compact")


@dataclass(frozen=True, slots=True)
class Step:
    """One context call of a script. ``claim`` is the window the policy believes to be in, where that isn't the true one."""

    tool: str
    args: dict[str, Any]
    claim: str = ""


Script = Sequence[Sequence[Step] | str]
"""Turn by turn: calls, or text (a business call or an answer)."""


def note(key: str, value: str, *refs: str, scope: str = "public", claim: str = "") -> Step:
    """A memory write."""
    return Step("note", {"scope": scope, "key": key, "value": value, "status": "", "refs": refs}, claim)


def play_script(session: Session, profile: Profile, chat: ChatML, script: Script) -> tuple[Episode, list[list[StoredOutcome]]]:
    """Play a script; returns the episode and the outcomes of every turn."""
    episode = Episode(session, profile, chat)
    for turn in script:
        text = turn if isinstance(turn, str) else "\n".join(_spelled(s, episode) for s in turn)
        if isinstance(turn, str) and profile.syntax == "json" and turn.startswith("fetch "):
            text = hermes.spell("fetch", {"doc": turn.split("=", 1)[1]})
        episode.step(Sampled(chat.turn_ids(text), text))
    return episode, [i.outcomes for i in episode.inferences]


def _spelled(step: Step, episode: Episode) -> str:
    args = dict(step.args)
    if episode.profile.position_check and step.tool in CHANGING:
        args["expected"] = step.claim or episode.state.current
    return (compact if episode.profile.syntax == "compact" else hermes).spell(step.tool, args)


# ---- the scenarios ----------------------------------------------------------------------------------------------------------


def _open(title: str, handoff: str = "") -> Step:
    return Step("window_open", {"title": title, "handoff": handoff, "checkpoint": ""})


def alpha_beta(profile: Profile, chat: ChatML) -> dict[str, Any]:
    """Was alpha's memory overwritten with beta's content, and what did the host say?"""
    session = Session(
        id="seed_alpha_beta", family="seed", seed=0, tools=(FETCH,), responses={},
        turns=tuple(
            Turn(text=t)
            for t in (
                "Stage alpha: the two quotes come to 4200 and 5300, 9500 in all.",
                "Stage beta: delivery is on 2026-10-12, the owner is Lin Zhou.",
                "Back to stage alpha. What is the total?",
            )
        ),
    )  # fmt: skip
    script: Script = [
        [_open("alpha")],
        [note("stage", "quotes 4200 and 5300, total 9500", "e1", scope="window")],
        "noted",
        [_open("beta")],
        [note("stage", "delivery 2026-10-12, owner Lin Zhou", "e5", scope="window")],
        "noted",
        [Step("window_switch", {"id": "w2", "checkpoint": "dates are set"})],
        # The mistake of the document: in alpha again, the policy takes itself to be in beta.
        [note("stage", "delivery 2026-10-12, owner Lin Zhou", "e5", scope="window", claim="w3")],
        "9500",
    ]
    episode, outcomes = play_script(session, profile, chat, script)
    alpha = next(n.value for n in episode.state.windows["w2"].memory if n.key == "stage")
    return {"wrong write": outcomes[7][0].code, "alpha overwritten": "total 9500" not in alpha}


def stale_public(profile: Profile, chat: ChatML) -> dict[str, Any]:
    """Is the last answer right, is public memory stale all the same, and did the host flag it?"""
    session = Session(
        id="seed_stale_public", family="seed", seed=0, tools=(FETCH,), responses={},
        turns=(
            Turn(text="The budget is 9800. Two quotes: 4200 and 5300. Answer: total=?", slots=(Slot(name="total", accept=("9500",)),)),
            Turn(
                text="The budget is now 9000. How much are the quotes over it? Answer: over=?",
                slots=(Slot(name="over", accept=("500",), key="budget", constraint=True),),
            ),
        ),
        facts=(
            Fact(key="budget", value="9800", where="turn:0", source="user", kind="constraint"),
            Fact(key="budget", value="9000", where="turn:1", version=2, source="user", kind="constraint"),
        ),
    )  # fmt: skip
    script: Script = [
        [note("budget", "9800", "e1")],
        "total=9500",
        [note("budget", "9000", "e4", scope="window")],
        "over=500",
    ]
    episode, outcomes = play_script(session, profile, chat, script)
    result = score(episode.trajectory("script"))
    said = outcomes[2][0].text
    shown = "conflicts: budget" in episode.state.header
    return {
        "answer right": result.task_correct,
        "stale entries": result.stale_entries,
        "flagged": "conflict budget" in said or shown,
    }


def mechanism(profile: Profile, chat: ChatML) -> dict[str, Any]:
    """Isolation of windows, and a piece of evidence that stays readable before and after a fold and a compression."""
    profile = replace(profile, run_scope="turn")  # with the session as one Run nothing may ever be compressed
    text = f"Supplier alpha offers forty desks. The evidence is {EVIDENCE}. {TERMS}"
    session = Session(
        id="seed_mechanism", family="seed", seed=0, tools=(FETCH,), responses={"fetch doc=alpha": text, "fetch doc=terms": 2 * TERMS},
        turns=tuple(Turn(text=t) for t in ("Fetch alpha.", "Plan the delivery.", "Which evidence is there?")),
    )  # fmt: skip
    read = Step("read", {"ref": "e4", "last": None, "page": 1})
    brief = "Supplier alpha offers forty desks; the evidence and its terms stand in the document"
    script: Script = [
        [_open("alpha")],
        "fetch doc=alpha",
        "fetch doc=terms",
        [read],
        [Step("fold", {"first": 3, "last": 4, "text": brief, "refs": ("e4",)})],
        [read],
        "fetched",
        [_open("beta")],
        [note("delivery", "2026-10-12", scope="window")],
        "planned",
        [Step("window_switch", {"id": "w2", "checkpoint": ""})],
        [Step("compress", {"upto": 10, "text": f"{brief}; the general terms too", "refs": ("e4",)})],
        [read],
        [Step("read", {"ref": "f1", "last": None, "page": 1})],
        f"evidence {EVIDENCE}",
    ]
    episode, outcomes = play_script(session, profile, chat, script)
    reads = [o[0].text for o in outcomes if o and o[0].tool == "read"]
    inside = [i for i in episode.inferences if i.turn == 1 and i.outcomes and i.outcomes[0].tool == "note"]
    beta = "\n".join(m.content for k in inside for m in list(episode.trajectory("script").views())[episode.inferences.index(k)])
    return {
        "fold": outcomes[4][0].code,
        "compress": outcomes[11][0].code,
        "isolated": EVIDENCE not in beta,
        "readable": f"{sum(EVIDENCE in r for r in reads)}/{len(reads)}",
    }


SCENARIOS: dict[str, Callable[[Profile, ChatML], dict[str, Any]]] = {
    "alpha_beta": alpha_beta,
    "stale_public": stale_public,
    "mechanism": mechanism,
}


def seed_table(chat: ChatML, profiles: Sequence[str] = PROFILES) -> str:
    """All scenarios under all profiles, as Markdown tables."""
    lines: list[str] = []
    for name, scenario in SCENARIOS.items():
        rows = {p: scenario(get_profile(p), chat) for p in profiles}
        columns = list(next(iter(rows.values())))
        lines += [f"| {name} | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
        for profile, row in rows.items():
            cells = ("yes" if v is True else "no" if v is False else str(v) for v in row.values())
            lines.append(f"| {profile} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)
