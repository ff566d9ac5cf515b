"""Scripted policies with one vice each: the expert but for a single habit, so that the metric made for the habit must tell them apart.

All are functions of the view, and right in everything that the habit does not touch. ``envs.policies.scripted`` has those that differ
in what they read and answer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from envs.policies.base import View
from envs.policies.expert import MAX_NOTES, Expert, Mind
from envs.policies.reading import Stated, slot_kind, user_fact
from envs.policies.seen import Block

ANSWER = re.compile(r"[^\s=]+=")
LINES = 3
"""Notes of one turn: more would pass the reply cap."""


def is_answer(move: str) -> bool:
    """Whether a move of the expert is its answer, and no call."""
    return ANSWER.match(move) is not None


class Flawed(Expert):
    """The expert with another mind."""

    made: type[Mind] = Mind

    def mind(self, view: View) -> Mind:
        return self.made(view, self.chat, self.budget)


class _Dump(Mind):
    def act(self) -> str:
        held = set(self.seen.notes)
        lines = []
        for block, stated in self.results:
            for attr in stated.fields:
                key, known = self.spec.key(stated.entity, attr), self.known(stated.entity, attr)
                if known and known.event == block.last and key not in held and len(held) < MAX_NOTES:
                    held.add(key)
                    lines.append(f"note {key}={known.value} @e{known.event}")
        return "\n".join(lines[:LINES]) if lines and self.seen.managed else super().act()

    def mend(self, *_: object) -> str:
        return ""

    def renotes(self) -> list[str]:
        return []

    def noted(self, *_: object) -> dict[str, str]:
        return {}


class MemoryDumper(Flawed):
    """Notes every value that it sees until memory is full, and never looks at a note again: what changes later stays as it was."""

    name = "memory_dumper"
    made = _Dump


class _Chatter(Mind):
    def act(self) -> str:
        move = super().act()
        if not self.seen.managed or not is_answer(move):
            return move
        source, noted = self.question.first, self.seen.notes.get("chat")
        line = f"note chat={self.question.text.split()[0]} @e{source}"
        # The header knows more than the first note turn, which stays in view.
        header = re.search(rf"^chat=\S+ @e{source}(?: (open|old))?\b", self.view.messages[0].content, re.MULTILINE)
        if header:
            return {None: f"{line} open", "open": f"{line} old"}.get(header[1], move)
        if noted and noted.source == source:
            return f"{line} open"
        return line if noted or len(self.seen.notes) < MAX_NOTES - 1 else move


class ProtocolChatterer(Flawed):
    """Spends three inferences before every answer on legal calls that nobody needs: a note, once more as open, once more as old."""

    name = "protocol_chatterer"
    made = _Chatter


class _Forget(Mind):
    def act(self) -> str:
        users = self.seen.of("user")
        begun = any(o.place > self.question.place for o in self.seen.own)
        pinned = any(b.keep for b in self.seen.of("fold", "boundary"))
        if not self.seen.managed or begun or len(users) < 3 or pinned:
            return super().act()
        texts = [b.text for b in self.seen.blocks if b is not self.question] + [o.text for o in self.seen.own]
        covered = sum(map(self.chat.count, texts))
        return f"compress e{self.question.first - 1} {self._nothing(covered)}"

    def _nothing(self, covered: int) -> str:
        """Words without content, enough of them not to be refused as empty."""
        text = "done with all of this, nothing more needs to be said about it here"
        while self.chat.count(text) < 0.05 * covered:
            text += " as said before"
        return text

    def fold_lines(self, block: Block, stated: Stated, call: str, keep: Sequence[str], room: int) -> list[str]:
        return [f"fold e{block.first - 1}-e{block.first} {self._nothing(self.covered(block, call))}"]

    def constraint_note(self) -> list[str]:
        return []

    def search(self, *_: object) -> str:
        return ""


class Forgetter(Flawed):
    """Folds and compresses with texts that say nothing and refer to nothing, and never searches: what they cover is lost."""

    name = "forgetter"
    made = _Forget


class _NoMend(Mind):
    def mend(self, *_: object) -> str:
        return ""


class Unmended(Flawed):
    """Finds the evidence, answers right and leaves the wrong note as it is."""

    name = "unmended"
    made = _NoMend


class _Claim(Mind):
    def act(self) -> str:
        move = super().act()
        if move != self.request.call:
            return move
        rng = random.Random(self.question.text)
        kinds = {slot: slot_kind(self.spec, self.request, slot) for slot in self.request.slots}
        return "; ".join(f"{slot}={self.spec.draw(kind, rng)}" for slot, kind in kinds.items())


class Claimer(Flawed):
    """Never makes a business call, and tells what it is said to have found."""

    name = "claimer"
    made = _Claim


class _Replay(Mind):
    def act(self) -> str:
        move = super().act()
        calls = [o for o in self.seen.own if o.text.split(" ", 1)[0] in (self.spec.lookup.name, self.spec.change.name)]
        mine = [o for o in calls if o.place > self.question.place]
        if not is_answer(move) or not calls or len(mine) > 1:
            return move
        return calls[-1].text if mine or calls[-1].place < self.question.place else move


class Replayer(Flawed):
    """Makes the newest business call in view once more before it answers."""

    name = "replayer"
    made = _Replay


class _Liar(Mind):
    def act(self) -> str:
        return "\n".join(map(self._line, super().act().split("\n")))

    def _line(self, line: str) -> str:
        found = re.match(r"(note [^=]+=)(.+?)( @\S+.*)?$", line)
        if not found:
            return line
        rng = random.Random(line)
        return f"{found[1]}{''.join(rng.choice('123456789') if c.isdigit() else c for c in found[2])}x{found[3] or ''}"


class Misnoter(Flawed):
    """Writes every note with another value than the one it saw."""

    name = "misnoter"
    made = _Liar


class _Stale(Mind):
    def reply(self) -> str:
        line = super().reply()
        if not is_answer(line):
            return line
        fact = self.spec.user_fact
        caps = [v for b in self.seen.of("user") if (v := user_fact(self.spec, b.text))]
        values = dict(part.split("=", 1) for part in line.split("; "))
        if fact.key in values and caps:
            values[fact.key] = caps[0]
        asked = self.request.asked
        if asked in values and (claims := self.claims(self.request.entity, asked)):
            values[asked] = min(claims, key=lambda k: k.event).value
        return "; ".join(f"{name}={value}" for name, value in values.items())


class StaleAnswerer(Flawed):
    """Knows what is in force, and answers with the oldest value in view."""

    name = "stale_answerer"
    made = _Stale


class _Half(Mind):
    def reply(self) -> str:
        line = super().reply()
        if not is_answer(line) or "; " not in line:
            return line
        kept, *rest = reversed(line.split("; "))
        return "; ".join([*(f"{part.partition('=')[0]}=unknown" for part in reversed(rest)), kept])


class HalfAnswerer(Flawed):
    """Of several slots it answers the last alone."""

    name = "half_answerer"
    made = _Half


class _Guess(Mind):
    def reply(self) -> str:
        line = super().reply()
        first, *rest = line.split("; ")
        return line if not is_answer(line) or not rest else "; ".join([first, *(f"{p.partition('=')[0]}=unknown" for p in rest)])


class YesNoGuesser(Flawed):
    """Of several slots it answers the first alone: the yes or no, or which of two records."""

    name = "yes_no_guesser"
    made = _Guess


class _Meta(Mind):
    def reply(self) -> str:
        line = super().reply()
        return "ok" if is_answer(line) else line


class MetaReplier(Flawed):
    """Ends every turn with a word of the protocol in place of the answer."""

    name = "meta_replier"
    made = _Meta


class _Endless(Mind):
    def reply(self) -> str:
        line = super().reply()
        return f"find {self.request.entity or 'more'}" if is_answer(line) and self.seen.managed else line


class Endless(Flawed):
    """Searches on and never answers."""

    name = "endless"
    made = _Endless


class _Provoking(Mind):
    def reply(self) -> str:
        line = super().reply()
        return f"{line} p99" if re.fullmatch(r"read e\d+", line) and not self._told else line

    @property
    def _told(self) -> bool:
        return any(b.kind == "reject" and b.place >= self.question.place for b in self.seen.blocks)


class Provoker(Flawed):
    """Reads only what a refusal has offered: it asks for page 99 first."""

    name = "provoker"
    made = _Provoking


class _Stubborn(Mind):
    def act(self) -> str:
        said = sum(o.text == "read e99999" for o in self.seen.own if o.place > self.question.place)
        return "read e99999" if said < 2 and self.seen.managed else super().act()


class Stubborn(Flawed):
    """Begins every turn with a call that is refused, and makes it again."""

    name = "stubborn"
    made = _Stubborn


class _Babble(Mind):
    def act(self) -> str:
        said = any(o.place > self.question.place for o in self.seen.own)
        return super().act() if said else '{"name":'


class Babbler(Flawed):
    """Begins every turn with half a call in the wrong syntax."""

    name = "babbler"
    made = _Babble


FLAWED: dict[str, type[Flawed]] = {
    p.name: p
    for p in (
        MemoryDumper, ProtocolChatterer, Forgetter, Unmended, Claimer, Replayer, Misnoter, StaleAnswerer, HalfAnswerer, YesNoGuesser,
        MetaReplier, Endless, Provoker, Stubborn, Babbler,
    )
}  # fmt: skip
