"""What managing costs: the expert's tokens under ``core@1`` against plain history, on the same sessions, by number of turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tqdm import tqdm

from envs.chat import get_chat
from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.tasks import get_spec
from envs.tasks.base import Session
from envs.tasks.engine import Builder, Knobs
from envs.tasks.words import TOKENIZERS, Lang

BENCH_FAMILIES = ("procurement", "support")
"""Two train families, so that the table stays comparable as families are added."""
SEEDS = 3_000_000
"""First seed of these sessions: apart from those of training and validation."""
BUDGETS = {"core@1": 1536, "plain@1": 1_000_000}
"""Plain history is given room without end here: what it would cost, not whether a model could read it."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """One line of the table: token sums over ``sessions`` sessions."""

    mix: str
    """``stages``: every turn brings a result; ``questions``: drawn as the tasks are, the last turn always a later question."""
    turns: int
    sessions: int
    managed: int
    plain: int
    peak: float
    """Mean largest input, managed over plain."""
    lang: Lang = "en"
    unfinished: int = 0
    """Episodes that did not end in an answer (a limit, an overflow)."""

    @property
    def ratio(self) -> float:
        return self.managed / self.plain


def cost_session(mix: str, turns: int, number: int, fillers: tuple[int, int], lang: Lang = "en") -> Session:
    """One session of the comparison. At most 16 stages: a family has no more records."""
    spec = get_spec(BENCH_FAMILIES[number % len(BENCH_FAMILIES)], lang)
    builder = Builder(spec, SEEDS + number, Knobs(turns=(turns, turns), fillers=fillers, close=1.0))
    if mix == "questions":
        return builder.session()
    while len(builder.turns) < turns:
        if builder.free:
            builder.work()
        else:
            builder.revise(list(builder.records)[len(builder.turns) - len(builder.records)])
    return builder.finish({})


def cost_table(
    turns: Sequence[int], sessions: int, langs: Sequence[Lang] = ("en",), fillers: tuple[int, int] = (30, 40)
) -> list[CostRow]:
    """Play the expert on both profiles. Episodes that do not end in an answer are counted, their tokens too."""
    rows = []
    cases = [(lang, m, n) for lang in langs for m in ("stages", "questions") for n in turns]
    for lang, mix, n in tqdm(cases, desc="cost", unit="length"):
        unfinished, chat = 0, get_chat(TOKENIZERS[lang])
        totals, peaks = {"core@1": 0, "plain@1": 0}, {"core@1": 0, "plain@1": 0}
        for i in range(sessions):
            session = cost_session(mix, n, i, fillers, lang)
            for profile in totals:
                episode = Episode(session, replace(get_profile(profile), view_budget=BUDGETS[profile]), chat)
                play([episode], Expert(chat))
                unfinished += episode.reason != "answered"
                totals[profile] += sum(x.tokens_in + len(x.ids) for x in episode.inferences)
                peaks[profile] += max(x.tokens_in for x in episode.inferences)
        rows.append(
            CostRow(mix, n, sessions, totals["core@1"], totals["plain@1"], peaks["core@1"] / peaks["plain@1"], lang, unfinished)
        )
    return rows


def cost_markdown(rows: Sequence[CostRow], command: str) -> str:
    """The table as Markdown, under the command that made it."""
    lines = [
        "# What managing the context costs",
        "",
        "Cumulative tokens (input + output over all inferences) of the scripted expert on the same sessions: `core@1` against plain history.",
        "Turns of about 420 log tokens; SmolLM2's tokenizer for English, Qwen's for Chinese. Below 1 managing is cheaper. `stages`: every turn brings a result, the case",
        "of the design's cost model (1.08, 0.90, 0.66, 0.48, 0.34 after 3, 5, 8, 12, 18 turns). `questions`: sessions as the tasks draw",
        "them; a turn that asks an earlier detail brings no result, and managing pays for the read-back.",
        "",
        f"Made with `{command}`.",
        "",
        "| language | sessions of | turns | sessions | expert tokens | plain tokens | expert ÷ plain | largest input, expert ÷ plain | unfinished |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {r.lang} | {r.mix} | {r.turns} | {r.sessions} | {r.managed:,} | {r.plain:,} | {r.ratio:.2f} | {r.peak:.2f} | {r.unfinished} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"
