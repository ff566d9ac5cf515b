"""Scripted policies for suites: lists of turns, each a text or a function of the view. One policy plays one episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from envs import compact, hermes
from envs.chat import ChatML
from envs.policies.base import Sampled, View
from envs.policies.unified import WINDOW
from envs.profiles import CHANGING, Profile, prompt_text
from envs.text import normalise
from eval.suites.base import Item, ScriptMaker
from eval.suites.play import SuiteEpisode

Turn = str | Callable[[View], str]
SUMMARY = "a summary of what was said so far, in a few plain words"
"""What every script answers when the host asks it for a summary."""


class Plays:
    """Gives its turns in order, and the last one again for as long as it is asked. ``spends`` are token totals to be reached.

    Args:
        turns: what is said.
        chat: counts and encodes.
        spends: input + output of each inference, in order; the reply is padded with tokens that no text has. Raises ValueError
            when a view alone takes more.
    """

    def __init__(self, turns: Sequence[Turn], chat: ChatML, spends: Sequence[int] = ()) -> None:
        self.turns, self.chat, self.spends = tuple(turns), chat, tuple(spends)
        self._next = 0

    def act(self, views: Sequence[View]) -> list[Sampled]:
        return [self._one(v) for v in views]

    def _one(self, view: View) -> Sampled:
        if view.messages[0].content == prompt_text("maintenance", True):
            return Sampled(self.chat.turn_ids(SUMMARY), SUMMARY)
        number = self._next
        self._next += 1
        turn = self.turns[min(number, len(self.turns) - 1)]
        text = turn(view) if callable(turn) else turn
        ids = self.chat.turn_ids(text)
        if number < len(self.spends):
            short = self.spends[number] - view.tokens - len(ids)
            if short < 0:
                raise ValueError(f"inference {number + 1}: {view.tokens} + {len(ids)} tokens, more than {self.spends[number]}")
            ids = (*ids[:-1], *[self.chat.newline[0]] * short, ids[-1])
        return Sampled(ids, text)


def spelled(profile: Profile, tool: str, window: str = "", **args: Any) -> str:
    """A call in the profile's syntax. ``window`` is the window the caller claims to be in, where the profile asks for it."""
    if profile.position_check and tool in CHANGING:
        args["expected"] = window or "w1"
    if profile.syntax == "json":
        return hermes.spell(tool, args, lean=profile.lean)
    return compact.spell(tool, args)


def business(item: Item, profile: Profile, tool: str, **args: str) -> str:
    """A call of a business tool in the profile's syntax (plain history speaks compact)."""
    spec = next(t for t in item.session.tools if t.name == tool)
    return hermes.spell(tool, args) if profile.syntax == "json" else compact.canonical_call(spec, args)


def window_of(view: View) -> str:
    """The window that a view says is current, ``w1`` where it says of none."""
    text = "\n".join(m.content for m in view.messages)
    return (WINDOW.findall(text) or ["w1"])[-1]


def context_step(tool: str, claim: str = "", **args: Any) -> Callable[[SuiteEpisode], str]:
    """A forced context call: ``""`` under profiles that lack the tool; arguments may be functions of the episode."""

    def step(episode: SuiteEpisode) -> str:
        if tool not in episode.rules.tools:
            return ""
        given = {k: v(episode) if callable(v) else v for k, v in args.items()}
        return spelled(episode.rules, tool, claim or episode.state.current, **given)

    return step


def event_with(text: str) -> Callable[[SuiteEpisode], int]:
    """The first logged event that holds a text."""
    return lambda episode: next(e.seq for e in episode.log if not e.sub and text in e.text)


def fixed(*turns: Turn) -> ScriptMaker:
    """A script that says the same whatever the item."""
    return lambda item, profile, chat, repeat: Plays(turns, chat)


def in_view(view: View, *forms: str) -> bool:
    """Whether a view shows one of the forms."""
    text = normalise("\n".join(m.content for m in view.messages))
    return any(normalise(f) in text for f in forms)
