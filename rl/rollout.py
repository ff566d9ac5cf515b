"""Episodes of a batch played in lock-step, every inference recorded into append-only segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from envs.chat import ChatML
from envs.policies.base import Sampled, View
from envs.segments import Recorder, Segment
from rl.sampling import Turn


class Playable(Protocol):
    """What the trainer asks of an episode (``envs.episode.Episode``)."""

    done: bool

    def view(self) -> View: ...
    def step(self, sampled: Sampled) -> None: ...


Sample = Callable[[list[list[int]], list[str]], list[Turn]]
"""Contexts and a seed for each -> a turn for each."""


@dataclass(slots=True)
class Played:
    """One episode, a :class:`Playable`, after its play.

    ``stopped`` is "" or the trainer's cap that ended it: ``turns`` or ``segments``.
    """

    episode: Any
    recorder: Recorder = field(default_factory=Recorder)
    transcript: list[dict[str, str]] = field(default_factory=list)
    stopped: str = ""

    @property
    def segments(self) -> list[Segment]:
        return self.recorder.segments

    @property
    def live(self) -> bool:
        return not self.episode.done and not self.stopped


def roll_out(
    episodes: Sequence[Playable],
    sample: Sample,
    chat: ChatML,
    *,
    seeds: Sequence[str],
    max_turns: int,
    max_segments: int,
    widest: Callable[[int], int] = lambda n: n,
    on_turn: Callable[[int, int], None] | None = None,
) -> list[Played]:
    """Play all episodes to their end or a cap, one call of ``sample`` a turn for those that still run.

    Args:
        episodes: episodes that have just begun.
        sample: turns for the given contexts.
        seeds: of the random streams, one an episode; each of its turns has its own.
        chat: the chat writer, for the text of sampled ids.
        max_turns: inferences of an episode; one that isn't done then is stopped, a failure.
        max_segments: segments of an episode; it is stopped when its view is rewritten once more.
        widest: the largest of a number over all processes. Every process makes the same number of calls of the same
            width, so that collectives inside ``sample`` meet; one that has fewer live episodes samples from a dummy.
        on_turn: called before each turn with its number, from 1, and the live episodes of this process.
    """
    played = [Played(e) for e in episodes]
    for turn in range(1, max_turns + 1):
        live, contexts, streams = [], [], []
        for one, seed in zip(played, seeds, strict=True):
            if not one.live:
                continue
            ids = list(one.episode.view().ids)
            one.recorder.begin(ids)
            if len(one.segments) > max_segments:
                one.segments.pop()
                one.stopped = "segments"
                continue
            live.append(one)
            contexts.append(ids)
            streams.append(f"{seed}/{turn}")
        width = widest(len(live))
        if width == 0:
            break
        if on_turn:
            on_turn(turn, len(live))
        idle = width - len(live)
        turns = sample(contexts + [[chat.end_id]] * idle, streams + ["idle"] * idle)
        for one, sampled in zip(live, turns, strict=False):
            text = chat.decode(sampled.ids)
            one.recorder.end(sampled.ids, sampled.logps)
            one.transcript.append({"role": "assistant", "content": text})
            one.episode.step(Sampled(tuple(sampled.ids), text, cut=sampled.cut, logps=tuple(sampled.logps)))
    for one in played:
        if one.live:
            one.stopped = "turns"
    return played
