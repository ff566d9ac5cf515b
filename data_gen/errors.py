"""Errors for the ``recovery`` kind: the expert first makes a mistake that the host refuses, then does what it would have done.

The erroneous step stays in context and is masked in training; only the repair is learned.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence

from envs.chat import ChatML
from envs.policies.base import Sampled, View
from envs.policies.expert import Expert
from envs.policies.reading import read_view
from envs.policies.unified import UnifiedExpert
from envs.profiles import Profile, get_profile


def mistake(move: str, view: View, rng: random.Random) -> str:
    """A wrong version of the expert's move that the host is bound to refuse (a rejection or the no-answer notice)."""
    lines = move.split("\n")
    line = lines[-1]
    word, _, rest = line.partition(" ")
    blocks = read_view(view.messages).blocks
    last = max((b.last for b in blocks), default=1)
    choices: list[str]
    if word == "read":
        choices = [
            f"read e{last + rng.randrange(20, 60)}",
            f"read f{rng.randrange(5, 9)}",
            f"read {rest} p{rng.randrange(8, 20)}",
            "read",
        ]
    elif word == "fold" and (m := re.match(r"fold (e\d+)-(e\d+) (.*)$", line)):
        choices = [
            f"fold {m[1]}-e{last + 1} {m[3]}",
            f"fold e1-{m[2]} {m[3]}",
            f"fold {m[1]}-{m[2]} done",
            f"fold {m[2]} {m[3]}",
            f"fold {m[1]}-e{last + rng.randrange(20, 60)} {m[3]}",
        ]
    elif word == "note":
        key, _, value = rest.partition("=")
        choices = [f"note {key.upper()}={value}", f"note {key} {value}", f"note {key}={value.split(' @')[0]} @e{last + 30}"]
    elif word == "compress":
        choices = [f"compress e{last + 1} {rest.partition(' ')[2]}", f"compress {rest.partition(' ')[2]}"]
    elif "=" in word:  # the answer
        choices = [json.dumps(dict(p.split("=", 1) for p in move.split("; "))), "", f"<answer>{move}</answer>"]
    else:  # a business call
        name, _, first = rest.partition("=")
        choices = [
            f"{word} {rest.replace('=', ' ', 1)}",
            f"{word} {name}s={first}",
            word,
            f"get_{word} {rest}",
            json.dumps({"tool": word}),
        ]
    return rng.choice(choices)


def unified_mistake(move: str, profile: Profile, rng: random.Random) -> str:
    """A wrong version of a move under a profile with windows: the wrong window, a malformed call, a reply that is protocol alone."""
    if profile.syntax == "json":
        if "<tool_call>" not in move:
            return rng.choice(("", "<tool_call>", json.dumps({"answer": move})))
        choices = [move.replace("</tool_call>", ""), move.replace('"arguments"', '"args"'), move.replace('"name"', '"tool"')]
        if '"expected_window_id"' in move:
            choices += [re.sub(r'"expected_window_id": "w\d+"', '"expected_window_id": "w9"', move)] * 3
            choices.append(re.sub(r'"expected_window_id": "w\d+", ', "", move))
        return rng.choice(choices)
    placed = re.match(r"w\d+ ", move)
    if placed:
        wrong = "\n".join(re.sub(r"^w\d+ ", "w9 ", line) for line in move.split("\n"))
        return rng.choice((wrong, wrong, "\n".join(re.sub(r"^w\d+ ", "", line) for line in move.split("\n"))))
    if "=" in move.split(" ", 1)[0]:  # the answer
        return rng.choice(("", f"<answer>{move}</answer>", json.dumps({"answer": move})))
    return move.split(" ", 1)[0]  # a call without its arguments


class ErringExpert:
    """The expert with one mistake at a random step of each episode, masked."""

    name = "erring_expert"

    def __init__(self, chat: ChatML, seed: int, at: int, profile: Profile | None = None) -> None:
        self.chat, self.rng, self.at = chat, random.Random(f"errors/{seed}"), at
        self.profile = profile or get_profile("core@1")
        self.expert = UnifiedExpert(chat, self.profile) if self.profile.windows else Expert(chat, self.profile.view_budget)
        self._step = 0

    def act(self, views: Sequence[View]) -> list[Sampled]:
        """Turns for the views of one episode (one view a call)."""
        (view,) = views
        text = self.expert.text(view)
        self._step += 1
        if self._step - 1 == self.at:
            wrong = unified_mistake(text, self.profile, self.rng) if self.profile.windows else mistake(text, view, self.rng)
            return [Sampled(self.chat.turn_ids(wrong), wrong, trained=False)]
        return [Sampled(self.chat.turn_ids(text), text)]
