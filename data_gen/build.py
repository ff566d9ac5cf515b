"""Build a data set: deterministic by seed, split by content hash, every stored trajectory checked before it is written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from data_gen.config import DataConfig
from data_gen.errors import ErringExpert
from envs.chat import ChatML, get_chat
from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.scoring import score
from envs.tasks import SPECS
from envs.tasks.base import Probe, Session, split_of
from envs.tasks.engine import Builder, Knobs
from envs.tasks.probes import make_base, open_questions, probes_of
from envs.trajectory import Trajectory

DETECT = ("static", "keep", "other", "changed", "never", "never_open", "present")
OFFSETS = {"sft": 0, "rl": 1_000_000, "val": 2_000_000}
MAX_TRIES = 400


@dataclass
class DataSet:
    """Everything a run of the stage makes, in memory."""

    trajectories: list[Trajectory] = field(default_factory=list)
    rl_probes: list[Probe] = field(default_factory=list)
    val_probes: list[Probe] = field(default_factory=list)
    skipped: int = 0


def build(config: DataConfig, on_unit: Callable[[str], None] = lambda _: None) -> DataSet:
    """Make the data set. ``on_unit`` is called with the kind of every finished unit."""
    config.check_held_out()
    chat = get_chat(config.tokenizer)
    data = DataSet()
    for kind in ("direct", "managed", "recovery"):
        for trajectory in _sessions(config, kind, getattr(config.counts, kind), chat):
            data.trajectories.append(trajectory)
            on_unit(kind)
    rng = random.Random(f"first turn only/{config.seed}")
    for kind in DETECT:
        for unit in _bases(config, "static" if kind == "present" else kind, getattr(config.counts, kind), "sft", chat, salt=kind):
            for probe in [p for p in unit if p.variant == "present"] if kind == "present" else unit:
                mends = probe.wrong_note or (kind == "keep" and probe.variant == "missing" and probe.twin is not None)
                trajectory = _play(probe, chat, "recovery" if mends else "detect")
                if not mends and rng.random() < config.first_turn_only:
                    for inference in trajectory.inferences[1:]:
                        inference.trained = False
                data.trajectories.append(trajectory)
            on_unit(kind)
    data.rl_probes = list(_mixed(config, config.rl_bases, config.rl_mix, "rl", chat, on_unit))
    data.val_probes = list(_mixed(config, config.val_bases, config.val_mix, "val", chat, on_unit))
    _disjoint(data)
    return data


def _seed(config: DataConfig, purpose: str, salt: str, number: int) -> int:
    base = sum(ord(c) * 31**i for i, c in enumerate(salt)) % 9973
    return config.seed * 10_000_019 + OFFSETS[purpose] + base * 10_007 + number


def _sessions(config: DataConfig, kind: str, count: int, chat: ChatML) -> Iterator[Trajectory]:
    """Free-play sessions of the train split: without stages (``direct``), with stages to close, with one mistake (``recovery``)."""
    sizes = config.sizes
    knobs = Knobs(turns=sizes.turns, fillers=sizes.fillers, attrs=sizes.attrs, close=0.0 if kind == "direct" else 1.0)
    made = number = 0
    while made < count:
        seed = _seed(config, "sft", kind, number)
        session: Session = Builder(SPECS[config.families[number % len(config.families)]], seed, knobs).session()
        number += 1
        if split_of(session) != "train":
            continue
        expert = Expert(chat)
        episode = Episode(session, get_profile("core@1"), chat)
        if kind == "recovery":
            trial = Episode(session, get_profile("core@1"), chat)
            play([trial], expert)
            play([episode], ErringExpert(chat, seed, at=seed % len(trial.inferences)))
        else:
            play([episode], expert)
        yield _checked(episode, kind)
        made += 1


def _play(probe: Probe, chat: ChatML, kind: str) -> Trajectory:
    episode = Episode.from_probe(probe, get_profile("core@1"), chat)
    play([episode], Expert(chat))
    return _checked(episode, kind)


def _checked(episode: Episode, kind: str) -> Trajectory:
    """The record of an expert episode, with its mistakes refused and its answers right. Raises RuntimeError otherwise."""
    trajectory = episode.trajectory("expert", kind)
    result = score(trajectory)
    wrong = [
        i.text for i in trajectory.inferences if not i.trained and all(o.code in ("ok", "result", "shown") for o in i.outcomes)
    ]
    if not result.fully_right or wrong:
        raise RuntimeError(f"{trajectory.id}: the expert's own episode is not right (q={result.q}, unrefused mistakes {wrong})")
    return trajectory


def _bases(config: DataConfig, kind: str, count: int, purpose: str, chat: ChatML, salt: str = "") -> Iterator[list[Probe]]:
    made = number = 0
    while made < count:
        if number > MAX_TRIES + 20 * count:
            raise RuntimeError(
                f"{kind}: only {made} of {count} bases in {number} tries: the session knobs never give such a base"
            )
        family = config.families[number % len(config.families)]
        base = make_base(family, _seed(config, purpose, salt or kind, number), kind, chat)
        number += 1
        wanted = "val" if purpose == "val" and not config.held_out else "train"
        if base is None or (not config.held_out and split_of(base.session) != wanted):
            continue
        probes = probes_of(base, config.questions if purpose == "sft" else 1)
        if purpose == "sft" and probes:
            probes += open_questions(base, config.open_questions, {p.session.turns[-1].slots[0].name for p in probes})
        if probes:
            made += 1
            yield probes


def _mixed(
    config: DataConfig, count: int, mix: tuple[str, ...], purpose: str, chat: ChatML, on_unit: Callable[[str], None]
) -> Iterator[Probe]:
    sources = {kind: _bases(config, kind, count, purpose, chat) for kind in dict.fromkeys(mix)}
    for i in range(count):
        yield from next(sources[mix[i % len(mix)]])
        on_unit(purpose)


def _disjoint(data: DataSet) -> None:
    """No session stands in two of the sets. Raises RuntimeError: the generator would be wrong."""
    sets = [
        {t.base or t.session.id for t in data.trajectories},
        {p.base for p in data.rl_probes},
        {p.base for p in data.val_probes},
    ]
    for i, one in enumerate(sets):
        for two in sets[i + 1 :]:
            if common := one & two:
                raise RuntimeError(f"sessions in two of the sets: {', '.join(sorted(common)[:3])}")
