"""Stored and scored episodes of a run as one page to step through: ``python -m eval view CONFIG.yaml|RUN_FOLDER`` (docs/viewer.md).

Verdicts, causes and rewards are those of ``scores.jsonl``; the page itself is made by ``envs.viewer``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tqdm import tqdm

from envs.config import UserError, load_config
from envs.profiles import get_profile
from envs.rewards import reference_cost
from envs.runs import hash_obj, read_json, read_jsonl
from envs.scoring import Score
from envs.tasks.base import Probe, Session
from envs.trajectory import Trajectory
from envs.viewer import DamagedError, Sample, write_page
from eval.config import EvalConfig
from eval.freeze import Lock, LockError, load_samples, read_lock
from eval.needed import needed_in_input
from eval.run import chat_of, chosen_arms
from eval.score import check_arm
from eval.store import Key, read_arm, stored_key, told

PAGE = "episodes.html"
"""Name of the page in the run folder."""
TURNS = (4, 8, 16, 32, 64)
"""Upper bounds of the classes of session length, in user turns."""
READS = 3
"""From so many read-backs on an episode is of the last class."""


class Only(StrEnum):
    """Which episodes a page is made of."""

    failed = "failed"
    right = "right"


@dataclass(frozen=True, slots=True)
class Viewed:
    """What became of a call: the page, how many of the scored episodes it shows, its bytes, and what could not be told."""

    path: Path
    shown: int
    scored: int
    size: int
    notes: tuple[str, ...]


def view(
    config: EvalConfig,
    arms: Sequence[str] | None = None,
    only: Only | None = None,
    limit: int | None = None,
    out: Path | None = None,
) -> Viewed:
    """Write the page. ``limit`` keeps the worst: lowest quality first, then most tokens.

    Raises LockError for episodes, scores or samples of another lock, UserError where nothing is scored or nothing is left to show.
    """
    names, lock = chosen_arms(config, arms), read_lock(config)
    samples = _frozen_samples(config, lock)
    scores = [row for row in _scores(config, lock) if row["arm"] in names]
    picked = [row for row in scores if only is None or bool(row["score"]["task_correct"]) == (only == Only.right)]
    if not picked:
        raise UserError(f"{config.folder / 'scores.jsonl'}: no {only or 'scored'} episode of {', '.join(names)}: nothing to show")
    if limit is not None:
        picked = sorted(picked, key=lambda row: (row["score"]["q"], -row["score"]["tokens"], row["arm"], _key(row)))[:limit]
    notes: list[str] = []
    path = out or config.folder / PAGE
    made = _samples(config, lock, samples, picked, names, notes)
    intro = _intro(config, lock, len(picked), len(scores), only, limit)
    title = f"Episodes of {config.name}"
    with tqdm(total=len(picked), desc="view", unit="episode", disable=len(picked) < 50) as bar:

        def step() -> None:
            bar.update()

        try:
            size = write_page(made, path, title=title, intro=intro, noun="episodes", on_sample=step)
        except DamagedError as error:
            raise UserError(f"{config.folder / 'arms'}: {error}: python -m eval replay says what was changed") from None
    return Viewed(path, len(picked), len(scores), size, tuple(notes))


def config_of(target: str, overrides: Sequence[str] = ()) -> EvalConfig:
    """The config of a file or of a run folder. Raises LockError for a folder that is none."""
    path = Path(target)
    if not path.is_dir():
        return load_config(EvalConfig, path, list(overrides))
    if not (path / "eval.yaml").is_file():
        raise LockError(f"{path}: no eval.yaml with its lock.json: name a run folder of `eval freeze`, or its config file")
    return load_config(EvalConfig, path / "eval.yaml", list(overrides)).model_copy(update={"out": str(path)})


def name_of(arm: str, sample: str, repeat: int) -> str:
    """Id of an episode on the page."""
    return f"{arm}/{sample}" + (f"/repeat-{repeat}" if repeat else "")


def link_to(folder: Path, arm: str, sample: str, repeat: int, inference: int) -> str:
    """Address of an inference (from 1) on the page of a run, beside which the link stands; empty where no page was made."""
    if not (folder / PAGE).is_file():
        return ""
    return f"{PAGE}#{quote(name_of(arm, sample, repeat), safe='')}/{max(1, inference)}"


def _frozen_samples(config: EvalConfig, lock: Lock) -> dict[tuple[str, str], Probe | Session]:
    """Source and id -> what was played, in order. Raises LockError where the files are not the frozen ones."""
    probes, sessions = load_samples(config)
    for field, items in (("probes", probes), ("sessions", sessions)):
        if hash_obj([hash_obj(item) for item in items]) != lock.rules[field]:
            raise LockError(
                f"{config.folder / 'lock.json'}: {field} changed since the freeze: the page shows what was injected, undo the change"
            )
    return {**{("probe", p.id): p for p in probes}, **{("session", s.id): s for s in sessions}}


def _scores(config: EvalConfig, lock: Lock) -> list[dict[str, Any]]:
    scores, results = config.folder / "scores.jsonl", config.folder / "results.json"
    if not scores.is_file() or not results.is_file():
        raise UserError(f"{config.folder}: nothing is scored: run the score command first")
    if (made := read_json(results)["lock"]) != lock.lock:
        raise LockError(f"{results}: made under lock {made[:12]}, not {lock.short}: run the score command again")
    found: list[dict[str, Any]] = read_jsonl(scores)
    return found


def _key(row: Mapping[str, Any]) -> Key:
    return row["source"], row["sample"], row["repeat"]


def _samples(
    config: EvalConfig,
    lock: Lock,
    samples: Mapping[tuple[str, str], Probe | Session],
    rows: Sequence[Mapping[str, Any]],
    arms: Sequence[str],
    notes: list[str],
) -> Iterator[Sample]:
    """The episodes in the order of the samples, all arms of one together. ``notes`` gets what could not be told."""
    stored: dict[str, dict[Key, Trajectory]] = {}
    for arm in arms:
        check_arm(config, arm, lock)
        stored[arm] = read_arm(config.arm_folder(arm), Trajectory, stored_key)
    place = {key: number for number, key in enumerate(samples)}
    references = _References(config, notes)
    for row in sorted(rows, key=lambda r: (place[r["source"], r["sample"]], arms.index(r["arm"]), r["repeat"])):
        arm, key = row["arm"], _key(row)
        if (trajectory := stored[arm].get(key)) is None:
            raise UserError(
                f"{config.folder / 'scores.jsonl'}: {told(key)} of arm {arm} is scored but not stored: run the score command again"
            )
        yield _sample(row, trajectory, samples[key[0], key[1]], references)


def _sample(row: Mapping[str, Any], trajectory: Trajectory, sample: Probe | Session, references: _References) -> Sample:
    score = Score.model_validate(row["score"])
    needed = {(n.turn, n.slot): n.in_input for n in needed_in_input(trajectory, score)}
    probe = sample if isinstance(sample, Probe) else None
    labels = {
        "arm": row["arm"],
        "family": row["family"],
        "variant": row["variant"] or "whole session",
        "signal": row["signal"],
        "hint": probe.hint if probe else "",
        "language": row["lang"],
        "length": length_of(len(trajectory.session.turns)),
        "repeat": str(row["repeat"]) if row["repeat"] else "",
        "cause": row["cause"] or "",
        "task": "right" if score.task_correct else "failed",
        "reads": reads_of(len(score.reads)),
        "needed in input": {True: "yes", False: "no", None: ""}[row["needed_in_input"]],
        "ended": score.reason,
        "kind": "",
        "question": "",
    }
    return Sample(
        trajectory, labels, score, probe.injection if probe else None, name_of(row["arm"], row["sample"], row["repeat"]),
        f"{row['source']}/{row['sample']}", needed, references.of(row["arm"], sample),
    )  # fmt: skip


def length_of(turns: int) -> str:
    """Class of a session's length, by its user turns."""
    low = 1
    for high in TURNS:
        if turns <= high:
            return f"{low}-{high} turns"
        low = high + 1
    return f"{low}+ turns"


def reads_of(number: int) -> str:
    """Class of a number of read-backs."""
    return f"{READS}+ read-backs" if number >= READS else f"{number} read-back{'' if number == 1 else 's'}"


class _References:
    """Reference costs, each played once: by tokenizer, profile, prompt and sample."""

    def __init__(self, config: EvalConfig, notes: list[str]) -> None:
        self.config, self.notes = config, notes
        self._chats: dict[str, Any] = {}
        self._costs: dict[tuple[str, str, str, str], int] = {}

    def of(self, arm: str, sample: Probe | Session) -> int | None:
        """None where the arm's tokenizer is no longer there."""
        settings = self.config.arms[arm]
        if arm not in self._chats:
            try:
                self._chats[arm] = chat_of(self.config, arm)
            except (UserError, OSError, ValueError) as error:
                self._chats[arm] = None
                self.notes.append(f"arm {arm}: its tokenizer can't be read, so no saving s is shown ({error})")
        if self._chats[arm] is None:
            return None
        key = (settings.model or self.config.tokenizer, settings.profile, settings.prompt, sample.id)
        if key not in self._costs:
            self._costs[key] = reference_cost(sample, self._chats[arm], get_profile(settings.profile).name, settings.prompt)
        return self._costs[key]


def _intro(config: EvalConfig, lock: Lock, shown: int, scored: int, only: Only | None, limit: int | None) -> str:
    part = f"{shown} of {scored} scored episodes" if shown < scored else f"all {shown} scored episodes"
    which = (f", {only} ones" if only else "") + (
        ", the worst" if limit is not None and shown == limit and shown < scored else ""
    )
    return f"Split {config.split}, lock {lock.short}: {part}{which}."
