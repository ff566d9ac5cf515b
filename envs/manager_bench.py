"""What every host-only manager costs and keeps: one bench of sessions, played by the script, judged by what stands in the view.

Each session runs with its right business calls and right replies, so all managers meet the same history. At every inference the
manager makes a view; at the last one of a turn that asks about the past it is looked up whether the needed values stand in it. No model
takes part (``llm_summary`` apart), so this says what could be answered, not what would be.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from envs.chat import ChatML, Message, get_chat
from envs.log import Log
from envs.managers import MANAGERS, get_manager
from envs.managers.base import Manager, messages_of, records_of
from envs.profiles import get_profile
from envs.scoring import normal_form
from envs.tasks import get_spec
from envs.tasks.base import Session, Slot
from envs.tasks.engine import Builder, Knobs
from envs.tasks.words import TOKENIZERS, Lang
from envs.text import holds

BENCH_FAMILIES = ("procurement", "support")
"""Two train families, so that the table stays comparable as families are added."""
SEEDS = 4_000_000
"""First seed of these sessions: apart from those of training, validation and the cost table."""
KNOBS = Knobs(turns=(6, 14), fillers=(8, 24))
SOURCES = ("kept", "detail", "derived")
"""Asked of what the text declared important, of a detail in passing, or of several values together."""
USE = """## Use from Python

```python
from envs.managers import Layered, get_manager, layered

shorter = layered(messages, budget=2000)  # a list of {"role": …, "content": …}, as any chat endpoint takes it
shorter = get_manager("pinned")(messages, 2000)  # any other by name

manager = Layered()  # for a conversation that goes on
shorter = manager(messages, 2000)  # before every request
manager.requests[-1].as_dict()  # tokens, facts, health, repairs of that request
```

As an arm of an evaluation: `{policy: hf, model: …, profile: plain@1, manager: layered, view_budget: 1536}`."""
Summarise = Callable[[list[Message]], str]


@dataclass
class ManagerRow:
    """Sums of one manager."""

    name: str
    lang: Lang = "en"
    sessions: int = 0
    inferences: int = 0
    tokens: int = 0
    plain: int = 0
    """Tokens of the whole history on the same sessions."""
    asked: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOURCES, 0))
    present: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOURCES, 0))
    changed: int = 0
    """Questions about a value that had been changed."""
    stale: int = 0
    """Of those, views in which an old value stands too."""


class Whole(Manager):
    """The whole history, whatever the budget."""

    name = "whole"

    def view(self, log: Log, budget: int, chat: ChatML, system: str) -> list[Message]:
        return messages_of(system, records_of(log))


def bench_sessions(number: int, lang: Lang = "en") -> list[Session]:
    """The sessions: train families in turn, six to fourteen turns."""
    return [Builder(get_spec(BENCH_FAMILIES[n % len(BENCH_FAMILIES)], lang), SEEDS + n, KNOBS).session() for n in range(number)]


def scripted(session: Session, log: Log) -> Iterator[tuple[int, str, Sequence[Slot]]]:
    """Play the script on ``log``. Yields at every inference: user turn, text to come, and the slots asked about the past (last one of a turn)."""
    for number, turn in enumerate(session.turns):
        log.append("user", turn.text, window="w1", run=number)
        for call in turn.calls:
            yield number, call, ()
            event = log.append("assistant", call, window="w1", run=number)
            log.append("tool", session.responses[call], window="w1", run=number, name=call.split(" ")[0], turn=event.seq)
        reply = "; ".join(f"{s.name}={s.accept[0]}" for s in turn.slots)
        yield number, reply, [s for s in turn.slots if s.source in SOURCES and not s.never]
        log.append("assistant", reply, window="w1", run=number)


def needed(session: Session, slot: Slot, turn: int, called: set[str]) -> list[tuple[str, ...]]:
    """Accepted forms of every value that the slot rests on: its own, or for a derived one those in force of the fact it is about.

    ``turn`` is the user turn that asks, ``called`` the business calls made until then.
    """
    if slot.source != "derived":
        return [slot.accept]
    newest: dict[str, tuple[int, str]] = {}
    for fact in session.facts:
        kind, _, where = fact.where.partition(":")
        told = int(where) <= turn if kind == "turn" else where in called
        if told and fact.key == slot.key and fact.version >= newest.get(fact.key, (0, ""))[0]:
            newest[fact.key] = (fact.version, fact.value)
    return [(value,) for _, value in newest.values()]


def measure(manager: Manager, session: Session, budget: int, chat: ChatML, row: ManagerRow, summarise: Summarise | None) -> None:
    """Run one session under a manager; adds to ``row``."""
    log = Log()
    system = get_profile("plain@1").system("neutral", session.tools)
    called: set[str] = set()
    for turn, text, slots in scripted(session, log):
        while asked := manager.request(log, budget, chat, system) if summarise else None:
            assert summarise
            told = summarise(asked)
            row.tokens += len(chat.render(asked)) + len(chat.turn_ids(told))
            manager.receive(told)
        messages = manager.view(log, budget, chat, system)
        own = len(chat.turn_ids(text))
        row.tokens += len(chat.render(messages)) + own
        row.plain += len(chat.render(messages_of(system, records_of(log)))) + own
        row.inferences += 1
        called |= {text} & session.responses.keys()
        if slots:
            shown = normal_form("\n".join(m.content for m in messages))
            for slot in slots:
                row.asked[slot.source] += 1
                forms = needed(session, slot, turn, called)
                row.present[slot.source] += all(any(holds(shown, normal_form(f)) for f in accepted) for accepted in forms)
                row.changed += bool(slot.stale)
                row.stale += any(holds(shown, normal_form(v)) for v in slot.stale)
    row.sessions += 1


def bench(
    number: int, budget: int, lang: Lang = "en", summarise: Summarise | None = None, summarised: int = 0
) -> list[ManagerRow]:
    """All managers on ``number`` sessions; ``llm_summary`` on the first ``summarised`` of them, with the model behind ``summarise``."""
    sessions, chat = bench_sessions(number, lang), get_chat(TOKENIZERS[lang])
    rows = []
    for name in ("whole", *MANAGERS):
        by_model = name == "llm_summary"
        if by_model and not (summarise and summarised):
            continue
        row = ManagerRow(name, lang)
        for session in tqdm(sessions[:summarised] if by_model else sessions, desc=f"{name} {lang}", unit="session"):
            manager = Whole() if name == "whole" else get_manager(name)
            measure(manager, session, budget, chat, row, summarise if by_model else None)
        rows.append(row)
    return rows


def bench_markdown(rows: Sequence[ManagerRow], budget: int, command: str) -> str:
    """The table as Markdown, under the command that made it."""
    lines = [
        "# Host-only managers on one bench",
        "",
        f"Train families, sessions of {KNOBS.turns[0]} to {KNOBS.turns[1]} turns, views of at most {budget} tokens (SmolLM2's tokenizer for",
        "English, Qwen's for Chinese). Each session runs with its right calls and replies; *answer present* says whether the values that a later question needs stand in the",
        "view when it is asked: `kept` were declared important by the user, `detail` were not, `derived` need several values. The whole",
        "history is not bound to the budget. The last column: of the questions about a changed value, those where an old one stands in the",
        "view too, so that a reader must tell them apart.",
        "",
        f"Made with `{command}`.",
        "",
        "| language | manager | sessions | tokens | ÷ whole | "
        + " | ".join(f"answer present: {s}" for s in SOURCES)
        + " | all | old value in view too |",
        "| --- | --- | ---: | ---: | ---: |" + " ---: |" * (len(SOURCES) + 2),
    ]
    for r in rows:
        cells = [_share(r.present[s], r.asked[s]) for s in SOURCES] + [_share(sum(r.present.values()), sum(r.asked.values()))]
        cells.append(_share(r.stale, r.changed))
        lines.append(
            f"| {r.lang} | {r.name} | {r.sessions} | {r.tokens:,} | {r.tokens / r.plain:.2f} | " + " | ".join(cells) + " |"
        )
    lines += ["", "## What each does", "", *manager_docs(), "", USE]
    return "\n".join(lines) + "\n"


def manager_docs() -> list[str]:
    """A list item a manager, from its module's own words."""
    out = []
    for kind in MANAGERS.values():
        text = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "")
        first, *rest = text.split("\n\n")
        loses = next((p for p in rest if "oses" in p or "lost" in p or "blind" in p), rest[0] if rest else "")
        out.append("- " + " ".join(f"{first} {loses}".split()))
    return out


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f} ({part}/{whole})" if whole else "-"


def model_summariser(model: Any, chat: ChatML, most: int = 96) -> Summarise:
    """A summariser that asks a model, greedily."""
    from envs.policies.hf import HFPolicy

    policy = HFPolicy(model, max_new_tokens=most, batch_size=1)
    return lambda messages: chat.decode(policy.generate([chat.render(messages)])[0].ids)
