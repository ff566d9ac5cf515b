"""Hand-made sessions and a short way to play them turn by turn: what the tests of the protocol share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from envs.chat import ChatML
from envs.episode import Episode
from envs.policies.base import Sampled, View
from envs.profiles import Profile, get_profile
from envs.tasks.base import Fact, Session, Slot, ToolSpec, Turn
from envs.trajectory import StoredOutcome

QUOTE = ToolSpec(name="quote", args=("item", "qty"), missing="No offer.")
REVISE = ToolSpec(name="revise", args=("item",), missing="No offer to revise.")

BRIEF = "Norra offer for the desks with the price, a code and the usual terms"

SENTENCES = (
    "Prices exclude tax.", "The offer is valid for thirty days.", "Packaging is taken back on request.",
    "Assembly is not part of the offer.", "Samples can be seen in the showroom.", "Our general terms apply.",
    "Colours may differ slightly from the pictures.", "Spare parts are kept for ten years.",
    "The goods stay ours until they are paid in full.", "Unloading takes two people and about an hour.",
    "Larger orders are shipped in two lots.", "The surface can be cleaned with mild soap.",
    "All wood comes from certified forests.", "Returns are accepted in the original packaging.",
)  # fmt: skip


def filler(n: int, start: int = 0) -> str:
    """``n`` sentences of small print, about nine tokens each."""
    return " ".join(SENTENCES[(start + i) % len(SENTENCES)] for i in range(n))


def make_session(
    texts: Sequence[str],
    responses: dict[str, str],
    *,
    tools: tuple[ToolSpec, ...] = (QUOTE, REVISE),
    slots: Sequence[tuple[Slot, ...]] | None = None,
    facts: Iterable[Fact] = (),
    **more: object,
) -> Session:
    turns = tuple(Turn(text=t, slots=slots[i] if slots else ()) for i, t in enumerate(texts))
    return Session(
        id=str(more.pop("id", "hand-made")), family="procurement", seed=0, tools=tools, responses=responses, turns=turns,
        facts=tuple(facts), **more,
    )  # fmt: skip


def shop(n_turns: int = 6, long: int = 24) -> Session:
    """A session whose first turns each have a quote of about 200 tokens to get: desks, chairs, lamps, shelves, sofas, benches."""
    items = ("desks", "chairs", "lamps", "shelves", "sofas", "benches")
    responses = {
        f"quote item={item} qty={i + 2}": f"Norra Office offers {i + 2} {item}. The total is {4100 + 111 * i}. "
        f"The approval code is AP-{7741 + i}. {filler(long, i)}"
        for i, item in enumerate(items)
    }
    responses["revise item=desks"] = f"Norra Office revised the desks. The total is 9500. {filler(long, 3)}"
    texts = ["Quote 2 desks. The cap is 9000. Answer: total=?"]
    texts += [f"Quote {i + 2} {items[i]}. Answer: total=?" for i in range(1, len(items))]
    texts += [f"Question {i}. Answer: total=?" for i in range(len(texts), 400)]
    return make_session(texts[:n_turns], responses)


class Game:
    """An episode played by hand."""

    def __init__(self, session: Session, chat: ChatML, profile: Profile | str = "core@1", **more: object) -> None:
        self.chat = chat
        self.profile = get_profile(profile) if isinstance(profile, str) else profile
        self.episode = Episode(session, self.profile, chat, **more)
        self.texts: list[tuple[str, bool]] = []

    def say(self, *lines: str, cut: bool = False) -> list[StoredOutcome]:
        """Play one turn; returns what became of its calls."""
        text = "\n".join(lines)
        self.texts.append((text, cut))
        ids = self.chat.encode(text) if cut else self.chat.turn_ids(text)
        self.episode.step(Sampled(tuple(ids), text, cut=cut))
        return self.episode.inferences[-1].outcomes

    def codes(self, *lines: str, cut: bool = False) -> list[str]:
        return [o.code for o in self.say(*lines, cut=cut)]

    def refused(self, *lines: str) -> StoredOutcome:
        """Play a turn of one call that must be refused, and changes nothing: returns the rejection."""
        before, last = self.episode.state, self.episode.log.last
        outcomes = self.say(*lines)
        assert len(outcomes) == 1, outcomes
        assert outcomes[0].text.startswith(f"! {outcomes[0].code}: "), outcomes
        assert "; try " in outcomes[0].text
        assert "\n" not in outcomes[0].text
        assert self.episode.state == before
        assert self.episode.log.last == last + 1, "only the turn itself is a new main event"
        assert [e.text for e in self.episode.log if e.turn == last + 1] == [outcomes[0].text]
        return outcomes[0]

    @property
    def view(self) -> View:
        return self.episode.view()

    @property
    def system(self) -> str:
        return self.view.messages[0].content

    @property
    def header(self) -> list[str]:
        """Lines of notes and index."""
        return self.system[self.system.index("\nnotes:") + 1 :].split("\n")

    @property
    def out(self) -> str:
        return self.header[-1].removeprefix("out: ")

    @property
    def body(self) -> str:
        """Everything after the system message, as text."""
        return "\n".join(m.content for m in self.view.messages[1:])

    @property
    def last(self) -> str:
        """The newest host message."""
        assert self.view.messages[-1].role == "user"
        return self.view.messages[-1].content


def two_quotes(game: Game) -> Game:
    """Play two quotes of ``shop``: e1 user, e2 call, e3 result, e4 answer, e5 user, e6 call, e7 result."""
    game.say("quote item=desks qty=2")
    game.say("total=4100")
    game.say("quote item=chairs qty=3")
    return game


def instead(outcome: StoredOutcome) -> str:
    """The alternative that a rejection names."""
    return outcome.text.split("; try ", 1)[1]


def roomy(profile: str = "core@1", **more: object) -> Profile:
    """A profile without the limits that a long test would run into."""
    wide = {"inferences_per_run": 10**6, "notices_per_run": 10**6, "inferences_per_session": 10**6, "tokens_per_session": 10**12}
    return replace(get_profile(profile), **{**wide, **more})


def text_of(chat: ChatML, ids: Sequence[int]) -> str:
    """Text of ids with the special tokens written out."""
    return str(chat.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))
