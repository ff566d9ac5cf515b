"""Builds every view of stored episodes again and holds it against the exact input that was stored when the policy was asked.

The episode is begun anew from its frozen sample, every recorded turn is fed to the simulator, and each view that comes up must be
the stored input id for id, with the stored hash. No model is needed, only the tokenizer of the arm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from tqdm import tqdm

from envs.chat import ChatML
from envs.config import UserError
from envs.policies.base import Sampled
from envs.scoring import score
from envs.trajectory import Trajectory, unpack_inputs, view_hash
from eval.config import EvalConfig
from eval.freeze import LockError, build_lock, changed_entries, read_lock
from eval.needed import Needed, needed_in_input
from eval.player import Sample
from eval.run import chat_of, chosen_arms, samples_of
from eval.score import check_arm
from eval.store import Key, read_arm, stored_key, told

CONTEXT = 12
"""Tokens shown on either side of the first difference."""
SHOWN = 5
"""Differing episodes, and changed entries, that are told one by one."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing in an episode that did not come up again. ``token`` is -1 where no token differs, but something else."""

    arm: str
    key: Key
    inference: int
    token: int
    what: str
    stored: str = ""
    rebuilt: str = ""

    def __str__(self) -> str:
        place = f"arm {self.arm}, {told(self.key).rstrip(',')}, inference {self.inference + 1}"
        if self.token < 0:
            return f"{place}: {self.what}"
        return f"{place}, token {self.token}: {self.what}\n  stored:  {self.stored!r}\n  rebuilt: {self.rebuilt!r}"


@dataclass
class Replayed:
    """What replaying an arm found. ``failures`` maps each failed episode to what its wrong answers needed."""

    episodes: int = 0
    inputs: int = 0
    differences: list[Difference] = field(default_factory=list)
    failures: dict[Key, list[Needed]] = field(default_factory=dict)


def replay(config: EvalConfig, arms: Sequence[str] | None = None) -> tuple[dict[str, Replayed], list[str]]:
    """Replay the stored episodes of every arm (or of ``arms``); the second value names the entries that changed since the freeze.

    Changed sources are no error here: whether they change a view is what a replay tells. Raises LockError when the samples or
    the arms' settings are not those that were played.
    """
    names = chosen_arms(config, arms)
    lock, now = read_lock(config), build_lock(config, weights=False)
    changed = changed_entries(lock.rules, now.rules)
    if data := [name for name in changed if name in {"probes", "sessions", "repeats", *(f"arm.{n}" for n in names)}]:
        raise LockError(
            f"{config.folder / 'lock.json'}: {data[0]} changed since the freeze: replay needs what was played, undo it"
        )
    found = {}
    for name in names:
        check_arm(config, name, lock)
        chat = chat_of(config, name)
        samples = {s.key: s for s in samples_of(config, name, chat)}
        stored = read_arm(config.arm_folder(name), Trajectory, stored_key)
        found[name] = replay_arm(name, samples, stored, chat, _failed)
    if not any(r.episodes for r in found.values()):
        raise UserError(f"{config.folder / 'arms'}: no episode is stored: run the run command first")
    return found, changed


def _failed(trajectory: Trajectory) -> list[Needed]:
    return needed_in_input(trajectory, score(trajectory))


def replay_arm(
    name: str,
    samples: Mapping[Key, Sample],
    stored: Mapping[Key, Trajectory],
    chat: ChatML,
    failed: Callable[[Trajectory], list[Needed]] | None = None,
) -> Replayed:
    """Replay stored episodes against the samples they were played on."""
    found = Replayed()
    for key, trajectory in tqdm(stored.items(), desc=f"replay {name}", unit="episode"):
        if key not in samples:
            raise UserError(f"arm {name}: {told(key)} is not among the frozen ones: the file belongs to another run")
        found.episodes += 1
        found.inputs += len(trajectory.inferences)
        if difference := first_difference(name, key, samples[key], trajectory, chat):
            found.differences.append(difference)
        if failed and (needed := failed(trajectory)):
            found.failures[key] = needed
    return found


def first_difference(name: str, key: Key, sample: Sample, trajectory: Trajectory, chat: ChatML) -> Difference | None:
    """What in one episode does not come up again, or None."""

    def differs(number: int, what: str, token: int = -1, stored: str = "", rebuilt: str = "") -> Difference:
        return Difference(name, key, number, token, what, stored, rebuilt)

    try:
        inputs = unpack_inputs(trajectory.inputs)
    except ValueError as error:
        return differs(0, str(error))
    if len(inputs) != len(trajectory.inferences):
        return differs(
            min(len(inputs), len(trajectory.inferences)),
            f"{len(inputs)} inputs are stored for {len(trajectory.inferences)} inferences",
        )
    episode = sample.make()
    for number, (inference, ids) in enumerate(zip(trajectory.inferences, inputs, strict=True)):
        if view_hash(ids) != inference.hash or len(ids) != inference.tokens_in:
            return differs(number, f"the stored input is not the one of the stored hash {inference.hash}: the file was changed")
        if episode.done:
            return differs(number, f"the replayed episode is over ({episode.reason}), the stored one goes on")
        view = episode.view()
        if view.ids != ids:
            token = next(n for n, (a, b) in enumerate(zip_longest(ids, view.ids)) if a != b)
            around = slice(max(0, token - CONTEXT), token + CONTEXT)
            both = (str(chat.tokenizer.decode(side[around])) for side in (ids, view.ids))
            return differs(number, "the view comes out differently", token, *both)
        episode.step(
            Sampled(tuple(inference.ids), inference.text, inference.cut, trained=inference.trained, error=inference.error)
        )
    last = len(trajectory.inferences) - 1
    if (episode.reason or "unfinished") != trajectory.reason:
        return differs(
            last, f"the stored episode ended with {trajectory.reason}, the replayed one with {episode.reason or 'no end'}"
        )
    again = [e.as_dict() for e in episode.log]
    for a, b in zip_longest(trajectory.events, again):
        if a != b:
            return differs(last, f"the log differs at {(a or b)['role']} event e{(a or b)['seq']}.{(a or b)['sub']}")
    return None


def report_lines(found: Mapping[str, Replayed], changed: Sequence[str]) -> Iterator[str]:
    """What a replay has to say, line by line: differences first, each failure, then one line an arm."""
    if changed:
        more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        yield f"changed since the freeze: {', '.join(changed[:SHOWN])}{more}; what follows says whether any view is another"
    for replayed in found.values():
        yield from (f"DIFFERS: {difference}" for difference in replayed.differences[:SHOWN])
        if len(replayed.differences) > SHOWN:
            yield f"… and {len(replayed.differences) - SHOWN} more episodes differ"
    for name, replayed in found.items():
        for key, needed in replayed.failures.items():
            first = needed[0]
            words = {True: "yes", False: "no", None: "nothing was needed"}[first.in_input]
            events = f" ({', '.join(f'e{e}' for e in first.events)})" if first.events else ""
            yield f"arm {name}, {told(key)} failed in turn {first.turn + 1}, {first.slot}: needed message{events} in the input: {words}"
    for name, replayed in found.items():
        same = replayed.episodes - len(replayed.differences)
        yield f"{name}: {same} of {replayed.episodes} episodes come out the same, {replayed.inputs} inputs checked"
