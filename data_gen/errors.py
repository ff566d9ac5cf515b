"""Errors for the ``recovery`` kind: the expert first makes a mistake, then does what it would have done.

The erroneous step stays in context and is masked in training; only the repair is learned. Every such step bears a label. Here are the
mistakes that the host refuses, with all labels and what each must look like; ``repeats`` and ``lapses`` make those that it accepts.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence

from envs.chat import ChatML
from envs.policies.base import Sampled, View
from envs.policies.expert import Expert
from envs.policies.seen import read_view
from envs.policies.stakes import entry
from envs.policies.unified import UnifiedExpert
from envs.profiles import Profile, get_profile
from envs.trajectory import Inference, Trajectory

META = (
    '{"status": "context updated", "folds": 1}',
    "<state>notes and folds are up to date</state>",
    "<tool_response>ok</tool_response>",
    '{"window": "w1", "ready": true}',
)
"""Replies that talk of the protocol in place of the answer; both syntaxes take them for no answer."""
FINE = ("ok", "result", "shown")
REPEATS = ("replayed", "read_again", "search_again", "note_again")
LAPSES = ("lossy_brief", "false_brief", "inconsistent_brief", "conflicting_note", "lost_exception")


def refused(inference: Inference) -> bool:
    """Whether the host told the policy that its step was wrong."""
    return any(o.code not in FINE for o in inference.outcomes)


def label(inference: Inference) -> str:
    """The label of a step that the host refused: what was wrong with the turn, else the rejection's code."""
    code = next(o.code for o in inference.outcomes if o.code not in FINE)
    if code == "notice":
        return "meta" if inference.text in META else "malformed" if inference.text.strip() else "empty"
    return "malformed" if code in ("bad_arguments", "unknown_tool") else code


def label_refused(trajectory: Trajectory) -> None:
    """Put labels on the refused steps that bear none yet. What the host refuses is never trained, whoever did it."""
    for inference in trajectory.inferences:
        if not inference.error and refused(inference):
            inference.error, inference.trained = label(inference), False


def unexplained(trajectory: Trajectory) -> list[str]:
    """Masked steps that are not the error that their label says, or that nothing after them repairs.

    A step that the host accepted is an error only if the record itself proves it: a call made before, a text read before, or a memory
    that a later, trained step of the same episode read at its source and set right.
    """
    steps = trajectory.inferences
    truth = trajectory.truth
    return [i.text for n, i in enumerate(steps) if not i.trained and not _explained(steps[:n], i, steps[n + 1 :], truth)]


def _explained(before: Sequence[Inference], step: Inference, after: Sequence[Inference], truth: dict[str, str]) -> bool:
    if not after or after[0].text == step.text or not after[0].trained:
        return False  # nothing follows, or the error again
    if refused(step):
        return bool(step.error) and step.error not in ("replayed", "read_again", "search_again", *LAPSES)
    if step.error in LAPSES:
        return step.kind == "calls" and _mended(after, truth)
    return step.error in REPEATS and all(_repeats(before, step, n) for n in range(len(step.outcomes)))


def _repeats(before: Sequence[Inference], step: Inference, n: int) -> bool:
    """Whether a call brings nothing that the policy did not have, or had not done, before."""
    call = step.outcomes[n]
    if step.error == "read_again":
        same_run = [o for i in before if i.turn == step.turn for o in i.outcomes]
        return call.code == "shown" and set(call.shows) <= {*step.visible, *(s for o in same_run for s in o.shows)}
    wanted = "result" if step.error == "replayed" else "shown"
    return call.code == wanted and any(
        (o.tool, o.args, o.code) == (call.tool, call.args, wanted) for i in before for o in i.outcomes
    )


def _mended(after: Sequence[Inference], truth: dict[str, str]) -> bool:
    """Whether trained steps read the source and then note, citing it, what is in force."""
    read: set[int] = set()
    for inference in after:
        for outcome in inference.outcomes if inference.trained else ():
            if outcome.tool == "note" and outcome.code == "ok":
                sources = {int(str(r).removeprefix("e")) for r in outcome.args["refs"]}
                if read & sources and truth.get(outcome.args["key"]) == outcome.args["value"]:
                    return True
            read |= set(outcome.shows)
    return False


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
        choices = [json.dumps(dict(p.split("=", 1) for p in move.split("; "))), "", f"<answer>{move}</answer>", rng.choice(META)]
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
            return rng.choice(("", "<tool_call>", json.dumps({"answer": move}), rng.choice(META)))
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
        return rng.choice(("", f"<answer>{move}</answer>", json.dumps({"answer": move}), rng.choice(META)))
    return move.split(" ", 1)[0]  # a call without its arguments


class Hasty:
    """The expert that at first acts on what its memory says, without a look at the source: the evidence gate refuses that."""

    name = "hasty_expert"

    def __init__(self, expert: Expert) -> None:
        self.expert, self.begun = expert, False

    def act(self, views: Sequence[View]) -> list[Sampled]:
        """Turns for the views of one episode (one view a call)."""
        (view,) = views
        mind = self.expert.mind(view)
        known = mind.known(mind.request.entity, mind.request.asked)
        hasty = not self.begun and mind.request.enter and known is not None
        self.begun = True
        text = self.expert.spell(view, entry(mind, known.value) if hasty and known else mind.act())
        return [Sampled(self.expert.chat.turn_ids(text), text, trained=not hasty)]


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
