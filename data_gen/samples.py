"""One sample of everything a data set can hold, as a page: ``python -m data_gen samples OUT.html``.

For each family and language: every data kind of the config, made as ``make_unit`` makes it, with one more for each label of a mistake
that comes up; and every variant and signal of the probes, hints and controls included. Kinds, variants and labels are read from the code,
so those added later come by themselves. Samples depend on the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from data_gen.build import Stream, candidate, expert_for, make_unit
from data_gen.config import Counts, DataConfig
from envs.chat import ChatML, get_chat
from envs.config import UserError
from envs.episode import Episode, play
from envs.profiles import get_profile
from envs.scoring import score
from envs.tasks import FAMILIES
from envs.tasks.base import DAMAGED, Probe
from envs.tasks.damage import variants_of
from envs.tasks.probes import make_base, probes_of
from envs.tasks.words import Lang
from envs.trajectory import Trajectory
from envs.viewer import Sample

Labels = Mapping[str, str | Sequence[str]]
TOKENIZERS: dict[str, str] = {"en": "smollm2", "zh": "qwen"}
"""Who counts the tokens of a language: a small English tokenizer spells every Chinese character in bytes."""
WINDOWS = "unified@4"
"""Profile of the variants that need windows, and of nothing else unless it is asked for."""
TRIES = 80
"""Candidates of a kind or bases of a kind that are looked at before a family is said to lack it."""
LABELLED = 24
"""Candidates of a kind whose mistakes are looked at for labels not met yet."""
BASES = ("static", "changed", "never_open")
"""Bases that the variants are taken from."""


@dataclass(frozen=True)
class Surface:
    """One family in one language."""

    family: str
    lang: Lang
    config: DataConfig
    chat: ChatML


def kinds() -> tuple[str, ...]:
    """Every data kind of the config."""
    return tuple(Counts.model_fields)


def surfaces(families: Sequence[str], languages: Sequence[str], profile: str, seed: int) -> list[Surface]:
    """All pairs of family and language. Raises UserError naming what is not known."""
    profiles = get_args(DataConfig.model_fields["profile"].annotation)
    for what, given, known in (
        ("family", families, tuple(FAMILIES)),
        ("language", languages, tuple(TOKENIZERS)),
        ("profile", [profile], profiles),
    ):
        if not given:
            raise UserError(f"no {what} is given: choose from {', '.join(known)}")
        if unknown := [g for g in given if g not in known]:
            raise UserError(f"unknown {what} {', '.join(unknown)}: choose from {', '.join(known)}")
    found = []
    for family in dict.fromkeys(families):
        for lang in dict.fromkeys(languages):
            fields: dict[str, Any] = {
                "families": (family,), "languages": (lang,), "profile": profile, "seed": seed, "tokenizer": TOKENIZERS[lang],
                "held_out": True,
            }  # fmt: skip
            config = DataConfig(**fields)
            found.append(Surface(family, config.languages[0], config, get_chat(config.tokenizer)))
    return found


def samples(found: Sequence[Surface], on_kind: Callable[[], None] = lambda: None) -> Iterator[Sample]:
    """The samples of all surfaces. ``on_kind`` is called after each data kind, and after the variants, of each."""
    for surface in found:
        for kind in kinds():
            yield from _of_kind(surface, kind)
            on_kind()
        yield from _variants(surface)
        on_kind()


def steps(found: Sequence[Surface]) -> int:
    """How often ``samples`` calls back."""
    return len(found) * (len(kinds()) + 1)


# ---- data kinds --------------------------------------------------------------------------------------------------------


def mistakes(trajectory: Trajectory) -> list[str]:
    """Labels of the steps that stay out of the loss because they were wrong: their own, or the code of what refused them."""
    fine = ("ok", "result", "shown")
    refused = (
        getattr(i, "error", "") or next((o.code for o in i.outcomes if o.code not in fine), "")
        for i in trajectory.inferences
        if not i.trained
    )
    return list(dict.fromkeys(filter(None, refused)))


def _of_kind(surface: Surface, kind: str) -> Iterator[Sample]:
    """The first unit of a kind, and one for each label of a mistake that later candidates bring."""
    stream, met, made = Stream("sft", kind), set[str](), 0
    for index in range(TRIES):
        unit = make_unit(surface.config, stream, candidate(surface.config, index), surface.chat)
        if unit is None or not unit.trajectories:
            continue
        place = _telling(unit.trajectories)
        chosen, probe = unit.trajectories[place], unit.played[place] if unit.played else None
        found = mistakes(chosen)
        if not made or not met.issuperset(found):
            labels: Labels = {"part": "data kind", "kind": kind, "recorded as": chosen.kind or "", "mistake": found}
            yield _sample(chosen, labels, probe)
        met.update(found)
        made += 1
        if index >= LABELLED or not met:  # a kind without mistakes has no labels to look for
            return
    if not made:
        raise UserError(f"{surface.family} in {surface.lang}: {kind} gives no unit in {TRIES} candidates: choose another --seed")


def _telling(trajectories: Sequence[Trajectory]) -> int:
    """Which of a unit's trajectories shows what its kind is for: the first, or the damaged sibling where that is the undamaged one."""
    if trajectories[0].variant != "present":
        return 0
    return next((i for i, t in enumerate(trajectories) if t.variant in DAMAGED), 0)


# ---- variants ----------------------------------------------------------------------------------------------------------


def _variants(surface: Surface) -> Iterator[Sample]:
    """The first probe of each variant, signal and hint."""
    wanted, met = set(every_variant()), set[tuple[str, str, str]]()
    for seed in range(TRIES):
        for kind in BASES:
            base = make_base(surface.family, surface.config.seed * 1000 + seed, kind, surface.chat, surface.lang)
            if base is None:
                continue
            for probe in (*variants_of(base, 1, hint=True), *(probes_of(base, 1) if kind.startswith("never") else ())):
                name = (probe.variant, probe.signal, probe.hint)
                if name not in met:
                    met.add(name)
                    yield _played(surface, probe)
        if met >= wanted:
            return
    missing = sorted(" ".join(name) for name in wanted - met)
    raise UserError(
        f"{surface.family} in {surface.lang}: no {'; no '.join(missing)} in {TRIES} bases of a kind: choose another --seed"
    )


def every_variant() -> tuple[tuple[str, str, str], ...]:
    """Variant, signal and hint of every probe that a page must show."""
    plain = [
        ("present", "none"), ("missing", "asked"), ("superseded", "index"), ("contradicted", "conflict"), ("corrupted", "unsourced"),
        ("corrupted", "none"), ("corrupted", "inconsistent"), ("fabricated", "unsourced"), ("windowed", "index"), ("dropped", "index"), ("never_stated", "asked"),
        ("irrelevant_gap", "none"), ("historical", "none"),
    ]  # fmt: skip
    hinted = [(v, s) for v, s in plain if v in ("missing", "dropped", "superseded", "contradicted")]
    return (*((v, s, "none") for v, s in plain), *((v, s, hint) for v, s in hinted for hint in ("vague", "explicit")))


def _played(surface: Surface, probe: Probe) -> Sample:
    """A probe as the expert plays it; where no view can tell the damage it is wrong, and shown so."""
    needs = probe.windows and not get_profile(surface.config.profile).windows
    profile = get_profile(WINDOWS if needs else surface.config.profile)
    episode = Episode.from_probe(probe, profile, surface.chat)
    play([episode], expert_for(profile, surface.chat))
    labels: Labels = {"part": "probe variant", "kind": "", "hint": "" if probe.hint == "none" else probe.hint}
    return _sample(episode.trajectory("expert"), labels, probe)


def _sample(trajectory: Trajectory, labels: Labels, probe: Probe | None = None) -> Sample:
    return Sample(trajectory, labels, score(trajectory), probe.injection if probe else None)
