"""False memories for the ``recovery`` kind: the expert writes one that the host accepts, and a later question lets it be noticed.

- ``lossy_brief``: a brief without a value that the user then wants kept (the question names what the view lacks).
- ``false_brief``: a brief with a wrong value; the user's rule to check the source is what makes the policy look.
- ``inconsistent_brief``: a brief that gives a field two values.
- ``conflicting_note``: a note with another value of the same event than its brief: two memories in conflict.
- ``lost_exception``: a compression that leaves out an exception to the user's rule; again the rule to check the source leads back. In half of
  these the search that finds it is made twice (``search_again``).

The step is masked. What is trained is the rest: suspect, read the source, note the right value citing it, answer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from data_gen.errors import LAPSES
from envs.chat import ChatML
from envs.episode import Episode, play
from envs.policies.base import Sampled, View
from envs.policies.expert import Expert, Mind
from envs.policies.reading import brief_facts
from envs.profiles import Profile
from envs.tasks.base import Session
from envs.tasks.engine import Builder, Knobs
from envs.tasks.probes import drop_field, names
from envs.tasks.spec import FamilySpec


@dataclass(frozen=True)
class Lapse:
    """One planned error: what is written wrong about which record."""

    label: str
    entity: str
    attr: str = ""
    value: str = ""
    wrong: str = ""
    key: str = ""

    def brief(self, spec: FamilySpec, text: str, rng: random.Random) -> str:
        """The damaged form of a brief."""
        if self.label == "lossy_brief":
            return drop_field(text, spec, self.attr, self.value)
        said = [self.wrong] if self.label == "false_brief" else rng.sample((self.value, self.wrong), 2)
        return text.replace(spec.pair(self.attr, self.value), spec.words.comma.join(spec.pair(self.attr, v) for v in said))


class Lapsing:
    """The expert with the planned error in the turn that folds the record, or, for a lost exception, at the next Run's start."""

    name = "lapsing_expert"

    def __init__(self, expert: Expert, lapse: Lapse, seed: int) -> None:
        self.expert, self.lapse, self.rng, self.done = expert, lapse, random.Random(f"lapses/{seed}"), False
        # Free play hardly ever searches: here is the occasion for a search made twice.
        self.again = lapse.label == "lost_exception" and self.rng.random() < 0.5

    def act(self, views: Sequence[View]) -> list[Sampled]:
        """Turns for the views of one episode (one view a call)."""
        (view,) = views
        mind = self.expert.mind(view)
        move = mind.act()
        wrong = (
            "" if self.done else self._compression(mind) if self.lapse.label == "lost_exception" else self._fold(mind.spec, move)
        )
        label = self.lapse.label
        searches = [o.text for o in mind.seen.own if o.place > mind.question.place and o.text.startswith("find ")]
        if not wrong and self.again and searches and move not in searches:
            self.again, wrong, label = False, searches[-1], "search_again"
        text = self.expert.spell(view, wrong or move)
        ids = self.expert.chat.turn_ids(text)
        if not wrong:
            return [Sampled(ids, text)]
        self.done = True
        return [Sampled(ids, text, trained=False, error=label)]

    def _fold(self, spec: FamilySpec, move: str) -> str:
        """The move with its fold of the record spoiled; nothing when it folds another one."""
        lapse = self.lapse
        *notes, fold = move.split("\n")
        m = re.match(r"(fold e\d+-e\d+ )(.*)( @(e\d+))$", fold)
        if not m or not names(m[2], lapse.entity):
            return ""
        if lapse.label == "conflicting_note":
            return "\n".join([*notes, f"note {lapse.key}={lapse.wrong} {m[3].strip()}", fold])
        return "\n".join([*notes, m[1] + lapse.brief(spec, m[2], self.rng) + m[3]])

    def _compression(self, mind: Mind) -> str:
        """A compression of all finished Runs once the exception is told and no note has it; nothing before."""
        told = mind.rules.exceptions.get(self.lapse.entity)
        if not told or told[1] >= mind.question.first:
            return ""
        entries, words = [], mind.spec.words
        for block, stated in [*mind.briefs, *mind.results]:
            body = words.comma.join(mind.spec.pair(a, v) for a, v in list(stated.fields.items())[:2])
            entries.append(f"{stated.entity} e{(block.keep or (block.last,))[-1]}" + (words.colon + body if body else ""))
        return f"compress e{mind.question.first - 1} {words.entry.join(dict.fromkeys(entries))}"


def plan(
    profile: Profile, expert: Expert, spec: FamilySpec, seed: int, sizes: dict[str, tuple[int, int]], chat: ChatML
) -> tuple[Session, Lapse] | None:
    """A session with its error, drawn from the seed; None when the drawn one gives no occasion for it."""
    rng = random.Random(f"lapse/{spec.id}/{seed}")
    label = rng.choice(LAPSES)
    exception = label == "lost_exception"
    knobs = Knobs(fillers=sizes["fillers"], attrs=sizes["attrs"], close=1.0, keep=0.4, rule=float(exception))
    builder = Builder(spec, seed, knobs)
    entity = builder.work(close=True)
    if exception:
        if not builder.book.value:
            return None
        builder.rule_turn("except")
        entity = next(iter(builder.book.exceptions))
    for _ in range(rng.randint(int(exception), 2)):
        builder.work(close=True)
    if exception:
        builder.ask_rule(entity, verify=True)
        return builder.finish({"lapse": label}), Lapse(label, entity)
    return _about_a_field(builder, label, entity, rng, Episode(builder.finish({"lapse": label}), profile, chat), expert)


def _about_a_field(
    builder: Builder, label: str, entity: str, rng: random.Random, trial: Episode, expert: Expert
) -> tuple[Session, Lapse] | None:
    """The session asks last for a field that the expert's brief of the record gives."""
    play([trial], expert)
    spec, record = builder.spec, builder.records[entity]
    briefs = [s for f in trial.state.window.folds if (s := brief_facts(spec, f.brief)) and s.entity == entity]
    fields = sorted(a for s in briefs for a in s.fields if (entity, a) not in builder.answered)
    # Where the brief lacks what its own Run asks, the expert has read the result again: the source would stand in view.
    if not fields or not any((entity, a) in builder.answered for s in briefs for a in s.fields):
        return None
    attr = rng.choice(fields)
    value, kind = record[attr], spec.attr(attr).kind
    others = [v for a, v in record.items() if spec.attr(a).kind == kind and v != value]
    if label == "conflicting_note":
        if not others:
            return None
        wrong = rng.choice(others)  # stated by the same event, so the host has no objection
    else:
        while (wrong := spec.draw(kind, rng)) == value:
            pass
    builder.ask(entity, attr, keep=label == "lossy_brief", verify=label == "false_brief")
    lapse = Lapse(label, entity, attr, value, wrong, spec.key(entity, attr))
    return builder.finish({"lapse": label}), lapse
