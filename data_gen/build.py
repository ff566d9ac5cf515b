"""Units of a data set, each a pure function of config, stream and candidate number; every trajectory is checked before it is kept.

A *unit* is one session, or one base with its probes. A *stream* is a row of numbered candidates of one kind for one purpose; a
candidate that the seed does not give (other split, nothing folded) is passed over, and the first accepted ones form the set. So it
does not matter who makes which unit, in which order, or how often the work was interrupted.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from data_gen.config import DataConfig
from data_gen.equal import cut, of_trajectories, resolve
from data_gen.errors import ErringExpert, Hasty, label_refused, refused, unexplained
from data_gen.lapses import Lapsing, plan
from data_gen.repeats import Repeating, changed_records, choose
from envs.chat import ChatML, get_chat
from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.policies.unified import UnifiedExpert
from envs.profiles import Profile, get_profile, variant
from envs.scoring import score
from envs.tasks import get_spec
from envs.tasks.base import Probe, Session, split_of
from envs.tasks.damage import variants_of
from envs.tasks.engine import RICH, Builder, Knobs
from envs.tasks.judgement import scope_probes, verify_probes
from envs.tasks.probes import make_base, open_questions, probes_of
from envs.tasks.spec import FamilySpec
from envs.trajectory import Trajectory

FREE = ("direct", "managed", "recovery", "repeats", "lapses", "rich", "plain")
DETECT = ("static", "keep", "other", "changed", "never", "never_open", "present", "variants", "scope", "verify")
JUDGES = {"scope": scope_probes, "verify": verify_probes}
VERIFY = ("verify", "verify", "verify", "verify_open")
"""Bases of kind ``verify``: in one of four the source stands in view, and a further look would be wasteful."""
MAX_TRIES = 400


class Stream(NamedTuple):
    """Numbered candidates of one kind for one of the sets ``sft``, ``rl`` and ``val``."""

    purpose: str
    kind: str

    @property
    def name(self) -> str:
        return f"{self.purpose}.{self.kind}"


@dataclass
class Unit:
    """One accepted candidate: the session that the split is about, and what was made of it."""

    number: int
    body: Session
    """The session; of a base, its prefix without a question."""
    trajectories: list[Trajectory] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)
    played: list[Probe] = field(default_factory=list)
    """Of a base for ``sft``: the probes that its trajectories were played from, in their order."""


def streams(config: DataConfig) -> dict[Stream, int]:
    """The streams of the whole set in the order of the files, with the number of units wanted of each."""
    counts = config.units
    wanted = {Stream("sft", kind): int(getattr(counts, kind)) for kind in (*FREE, *DETECT)}
    if config.plain:
        del wanted[PLAIN]
        wanted[PLAIN] = OPEN  # after all others: its end may depend on them
    for purpose, total, mix in (("rl", config.rl_bases, config.rl_mix), ("val", config.val_bases, config.val_mix)):
        for i in range(total):
            stream = Stream(purpose, mix[i % len(mix)])
            wanted[stream] = wanted.get(stream, 0) + 1
    return {stream: count for stream, count in wanted.items() if count}


PLAIN = Stream("sft", "plain")
OPEN = 1 << 40
"""Units of a stream whose end is told by tokens."""


def quota(config: DataConfig, total: int) -> int:
    """How many of ``total`` units of a stream this shard makes."""
    i, n = config.part
    return total // n + (i < total % n)


def candidate(config: DataConfig, index: int) -> int:
    """Number of this shard's ``index``-th candidate. Shards take whole rounds of the surfaces, so that each has all of them."""
    i, n = config.part
    turn, surface = divmod(index, config.surfaces)
    return (turn * n + i) * config.surfaces + surface


def check_tries(stream: Stream, index: int, made: int, count: int) -> None:
    """Raises ValueError when a stream has passed over so many candidates that it will never be filled."""
    if index > MAX_TRIES + 20 * count:
        raise ValueError(
            f"{stream.name}: only {made} of {count} units in {index} tries: the session sizes and families never give such a one"
        )


def make_unit(config: DataConfig, stream: Stream, number: int, chat: ChatML) -> Unit | None:
    """The unit of a candidate number; None when it gives none."""
    family, lang = config.surface(number)
    spec = get_spec(family, lang)
    if stream.purpose == "sft" and stream.kind in FREE:
        return _session(config, stream.kind, spec, _seed(config, stream, number), number, chat)
    return _base(config, stream, spec, _seed(config, stream, number), number, chat)


def _seed(config: DataConfig, stream: Stream, number: int) -> int:
    """48 bits of a hash: no two streams, and no two data sets, run into each other's seeds."""
    return int(hashlib.sha256(f"{config.seed}/{stream.name}/{number}".encode()).hexdigest()[:12], 16)


def _session(config: DataConfig, kind: str, spec: FamilySpec, seed: int, number: int, chat: ChatML) -> Unit | None:
    """A free-play session of the train split: without stages (``direct``), with stages to close, with one mistake (``recovery``,
    ``repeats``, ``lapses``), with all that the families have (``rich``), or under plain history (``plain``).
    """
    sizes = config.sizes
    if kind == "lapses":
        return _lapse(config, spec, seed, number, chat)
    knobs = replace(
        RICH if kind == "rich" else Knobs(), turns=sizes.turns, fillers=sizes.fillers, rows=sizes.rows, attrs=sizes.attrs,
        close=0.0 if kind == "direct" else 1.0,
    )  # fmt: skip
    session = Builder(spec, seed, knobs).session()
    if split_of(session) != "train":
        return None
    profile = get_profile("plain@1" if kind == "plain" else config.profile)
    expert = expert_for(profile, chat)
    episode = Episode(session, profile, chat)
    if kind == "recovery":
        trial = Episode(session, profile, chat)
        play([trial], expert)
        play([episode], ErringExpert(chat, seed, at=seed % len(trial.inferences), profile=profile))
    elif kind == "repeats":
        dry = Repeating(expert, changed_records(session))
        play([Episode(session, profile, chat)], dry)
        chosen = choose(dry.options, random.Random(f"repeats/{seed}"))
        if chosen is None:
            return None
        play([episode], Repeating(expert, changed_records(session), *chosen))
    else:
        play([episode], expert)
    return Unit(number, session, trajectories=[_checked(episode, "recovery" if kind == "repeats" else kind)])


def _lapse(config: DataConfig, spec: FamilySpec, seed: int, number: int, chat: ChatML) -> Unit | None:
    """A session in which the expert writes a false memory that the host accepts, and sets it right later.

    Passed over where the host refuses that very brief (too long, too short), or where the episode goes on without need of it.
    """
    profile = get_profile(config.profile)
    expert = expert_for(profile, chat)
    made = plan(profile, expert, spec, seed, {"fillers": config.sizes.fillers, "attrs": config.sizes.attrs}, chat)
    if made is None or split_of(made[0]) != "train":
        return None
    session, lapse = made
    episode = Episode(session, profile, chat)
    play([episode], Lapsing(expert, lapse, seed))
    trajectory = episode.trajectory("expert", "recovery")
    wrong = [i for i in trajectory.inferences if not i.trained]
    if not wrong or refused(wrong[0]):
        return None
    return Unit(number, session, trajectories=[_checked(episode, "recovery")])


def _base(config: DataConfig, stream: Stream, spec: FamilySpec, seed: int, number: int, chat: ChatML) -> Unit | None:
    """A base with its probes: played by the expert for ``sft``, as they are for ``rl`` and ``val``."""
    purpose, kind = stream
    # Two bases in three of ``variants`` are static ones: they give more variants than changed ones.
    of_kind = {"present": "static", "variants": "changed" if seed % 3 == 0 else "static", "verify": VERIFY[seed % len(VERIFY)]}
    base = make_base(spec.name, seed, of_kind.get(kind, kind), chat, spec.lang)
    wanted = "val" if purpose == "val" and not config.held_out else "train"
    if base is None or (not config.held_out and split_of(base.session) != wanted):
        return None
    if kind in JUDGES:
        probes = [p for p in JUDGES[kind](base) if usable(config, purpose, p)]
    elif kind == "variants":
        made = variants_of(base, config.questions if purpose == "sft" else 1, hint=config.hints and purpose == "val")
        probes = [p for p in made if usable(config, purpose, p)]
    else:
        probes = probes_of(base, config.questions if purpose == "sft" else 1)
    if purpose == "sft" and probes and kind not in ("variants", *JUDGES):
        probes += open_questions(base, config.open_questions, {p.session.turns[-1].slots[0].name for p in probes})
    if not probes:
        return None
    unit = Unit(number, base.session.model_copy(update={"id": base.name, "turns": base.session.turns[: base.start]}))
    if purpose != "sft":
        unit.probes = probes
        return unit
    for probe in [p for p in probes if p.variant == "present"] if kind == "present" else probes:
        unit.trajectories.append(_played(config, kind, probe, chat))
        unit.played.append(probe)
    return unit


def usable(config: DataConfig, purpose: str, probe: Probe) -> bool:
    """Whether a variant belongs into a set: trained is only what a view can tell, and windows need a profile that has them."""
    if probe.windows and not get_profile(config.profile).windows:
        return False
    return purpose != "sft" or not (probe.variant == "corrupted" and probe.signal == "none")


def expert_for(profile: Profile, chat: ChatML) -> Expert:
    """The scripted expert of a profile."""
    return UnifiedExpert(chat, profile) if profile.windows else Expert(chat, profile.view_budget)


def _judged(config: DataConfig, kind: str, probe: Probe, chat: ChatML) -> Trajectory:
    """A probe of judgement, all of it trained. Entries in the register are played with the evidence gate on, whatever the profile;
    one in three of those that it watches begins with the hasty call that it refuses, and then is a ``recovery``.
    """
    gated = len(probe.session.tools) > 2
    profile = get_profile(config.profile)
    if gated and not profile.evidence_gate:
        profile = variant(config.profile, evidence_gate=True)
    expert = expert_for(profile, chat)
    hasty = gated and probe.variant == "verify" and random.Random(f"hasty/{config.seed}/{probe.id}").random() < 1 / 3
    episode = Episode.from_probe(probe, profile, chat)
    play([episode], Hasty(expert) if hasty else expert)
    return _checked(episode, "recovery" if hasty else kind)


def _played(config: DataConfig, kind: str, probe: Probe, chat: ChatML) -> Trajectory:
    if kind in JUDGES:
        return _judged(config, kind, probe, chat)
    mends = probe.wrong_note or (kind == "keep" and probe.variant == "missing" and probe.twin is not None)
    profile = get_profile(config.profile)
    episode = Episode.from_probe(probe, profile, chat)
    play([episode], expert_for(profile, chat))
    trajectory = _checked(episode, "recovery" if mends else "detect")
    if not mends and random.Random(f"first turn only/{config.seed}/{probe.id}").random() < config.first_turn_only:
        for inference in trajectory.inferences[1:]:
            inference.trained = False
    return trajectory


def _checked(episode: Episode, kind: str) -> Trajectory:
    """The record of an expert episode: its answers right, every mistake labelled, refused or proved, and followed by its repair.

    Raises RuntimeError otherwise.
    """
    trajectory = episode.trajectory("expert", kind)
    label_refused(trajectory)
    result, wrong = score(trajectory), unexplained(trajectory)
    if not result.fully_right or wrong:
        raise RuntimeError(f"{trajectory.id}: the expert's own episode is not right (q={result.q}, unexplained mistakes {wrong})")
    return trajectory


@dataclass
class DataSet:
    """A small set in memory: what the files would hold, but for the check for duplicates."""

    trajectories: list[Trajectory] = field(default_factory=list)
    rl_probes: list[Probe] = field(default_factory=list)
    val_probes: list[Probe] = field(default_factory=list)


def units_of(config: DataConfig, stream: Stream, count: int, chat: ChatML) -> Iterator[Unit]:
    """The first ``count`` accepted units of a stream, made here and now."""
    made = index = 0
    while made < count:
        check_tries(stream, index, made, made + 1 if count == OPEN else count)
        unit = make_unit(config, stream, candidate(config, index), chat)
        index += 1
        if unit is not None:
            made += 1
            yield unit


def build(config: DataConfig, on_unit: Callable[[str], None] = lambda _: None) -> DataSet:
    """Make the data set in memory. ``on_unit`` is called with the kind of every finished unit."""
    config.check_held_out()
    config = resolve(config)
    chat, data, wanted = get_chat(config.tokenizer), DataSet(), streams(config)
    sources = {s: units_of(config, s, quota(config, n), chat) for s, n in wanted.items()}
    if config.plain:
        del wanted[PLAIN]
    for stream in in_order(config, wanted):
        unit = next(sources[stream], None)
        if unit is None:
            continue  # a shard has fewer
        data.trajectories += unit.trajectories
        (data.rl_probes if stream.purpose == "rl" else data.val_probes).extend(unit.probes)
        on_unit(stream.kind)
    if plain := config.plain:
        goal = quota(config, plain.tokens) or of_trajectories(plain, data.trajectories)
        for unit in cut(sources[PLAIN], lambda u: of_trajectories(plain, u.trajectories), goal):
            data.trajectories += unit.trajectories
            on_unit(PLAIN.kind)
    return data


def in_order(config: DataConfig, wanted: dict[Stream, int]) -> Iterator[Stream]:
    """The stream of every unit of the set, in the order of the files: kind by kind, the RL and validation bases mixed."""
    for stream, count in wanted.items():
        if stream.purpose == "sft":
            yield from (stream for _ in range(count))
    for purpose, total, mix in (("rl", config.rl_bases, config.rl_mix), ("val", config.val_bases, config.val_mix)):
        yield from (Stream(purpose, mix[i % len(mix)]) for i in range(total))
