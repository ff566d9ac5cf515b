"""Kinds ``scope`` and ``verify``: what is partial or at stake is read first, what suffices is not; the evidence gate is on."""

from __future__ import annotations

from collections import Counter

import pytest

from data_gen.build import build
from data_gen.config import Counts, DataConfig
from data_gen.errors import refused
from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.policies.scripted import NeverRead
from envs.policies.unified import UnifiedExpert
from envs.profiles import get_profile, variant
from envs.scoring import score
from envs.tasks import FAMILIES, TRAIN_FAMILIES
from envs.tasks.judgement import scope_probes, verify_probes
from envs.tasks.probes import make_base

MUST_READ = ("verify", "dropped", "windowed", "never_stated")


@pytest.fixture(scope="module")
def probes(chat):
    """Probes of two bases of each kind and family."""
    found = []
    for family in FAMILIES:
        for kind, judge in (("scope", scope_probes), ("verify", verify_probes), ("verify_open", verify_probes)):
            bases = [b for seed in range(12) if (b := make_base(family, seed, kind, chat))]
            made = [p for p in map(judge, bases) if p][:2]
            assert made, (family, kind)
            found += [p for group in made for p in group]
    return found


@pytest.mark.parametrize("name", ["core@1", "core@1[evidence_gate=True]", "unified@4", "unified@4-compact"])
def test_the_expert_reads_where_it_must_and_nowhere_else(probes, chat, name):
    profile = get_profile(name)
    expert = UnifiedExpert(chat, profile) if profile.windows else Expert(chat)
    for probe in probes:
        if probe.windows and not profile.windows:
            continue
        episode = Episode.from_probe(probe, profile, chat)
        play([episode], expert)
        trajectory = episode.trajectory("expert")
        result = score(trajectory)
        assert result.fully_right, probe.id
        assert bool(result.reads) == (probe.variant in MUST_READ), probe.id
        assert not any(refused(i) for i in trajectory.inferences), probe.id
        if probe.variant in ("dropped", "windowed"):
            assert result.recovered, probe.id
        if probe.wrong_note:
            assert trajectory.notes[probe.damaged_key] == trajectory.truth[probe.damaged_key], probe.id


def test_a_value_that_a_page_cuts_counts_as_shown(chat):
    base = make_base("casework", 46, "scope", chat)
    (probe,) = [p for p in scope_probes(base) if p.variant == "windowed"]
    episode = Episode.from_probe(probe, get_profile("unified@4"), chat)
    play([episode], UnifiedExpert(chat, get_profile("unified@4")))
    trajectory = episode.trajectory("expert")
    value = probe.session.turns[-1].slots[0].accept[0]
    assert not any(value in o.text for i in trajectory.inferences for o in i.outcomes if o.tool == "read")
    assert score(trajectory).recovered


def test_who_never_reads_fails_what_must_be_read(probes, chat):
    wrong = Counter()
    for probe in probes:
        if probe.windows:
            continue
        episode = Episode.from_probe(probe, get_profile("core@1"), chat)
        play([episode], NeverRead(chat))
        wrong[probe.id.split(".", 1)[1].rsplit("/", 1)[0], score(episode.trajectory("x")).fully_right] += 1
    for name in ("subset", "gap", "sum", "across", "rule.wrong", "enter.wrong"):
        assert not wrong[name, True], name
    for name in ("enough", "noted", "plain"):
        assert not wrong[name, False], name


def test_the_gate_refuses_what_rests_on_a_memory(probes, chat):
    """The hasty call is refused with the gate and passes without it; with a wrong note it gets no receipt."""
    from data_gen.errors import Hasty

    for probe in [p for p in probes if p.id.endswith("enter/verify")][:9]:
        for gate in (True, False):
            episode = Episode.from_probe(probe, variant("core@1", evidence_gate=gate), chat)
            play([episode], Hasty(Expert(chat)))
            first = episode.inferences[0]
            assert first.text.startswith("enter record=")
            assert first.outcomes[0].code == ("evidence_required" if gate else "result")


@pytest.fixture(scope="module", params=["core@1", "unified@4"])
def made(request):
    counts = dict.fromkeys(Counts.model_fields, 0) | {"scope": 12, "verify": 18}
    config = DataConfig(
        profile=request.param,
        families=TRAIN_FAMILIES,
        counts=Counts(**counts),
        val_bases=4,
        val_mix=("scope", "verify"),
        rl_bases=0,
    )
    return request.param, build(config)


def test_kinds_and_labels(made):
    profile, data = made
    kinds = Counter(t.kind for t in data.trajectories)
    assert set(kinds) == {"scope", "verify", "recovery"}
    variants = {(t.kind, t.variant) for t in data.trajectories}
    wanted = {("scope", v) for v in ("dropped", "irrelevant_gap", "never_stated")} | {("verify", "verify"), ("verify", "present")}
    assert variants >= wanted | ({("scope", "windowed")} if profile == "unified@4" else set())
    for t in data.trajectories:
        reads = bool(score(t).reads)
        assert reads == (t.variant in MUST_READ), t.id
        errors = [i.error for i in t.inferences if i.error]
        assert errors == (["evidence_required"] if t.kind == "recovery" else [])
        assert all(i.trained != bool(i.error) for i in t.inferences)
    assert data.val_probes


def test_an_entry_is_played_with_the_gate_on(made):
    profile, data = made
    entries = [t for t in data.trajectories if len(t.session.tools) > 2]
    assert entries
    assert {t.profile for t in entries} == {"core@1[evidence_gate=True]" if profile == "core@1" else profile}
    assert all(get_profile(t.profile).evidence_gate for t in entries)
    for t in entries:
        (call,) = [o for i in t.inferences for o in i.outcomes if o.tool == "enter" and o.code == "result"]
        assert call.text.startswith("Entered under receipt")
        assert [i.text for i in t.inferences if i.kind == "answer"] == [f"receipt={call.text.split()[-1].rstrip('.')}"]


def test_a_name_with_flags_is_a_profile_and_a_wrong_one_is_none():
    assert get_profile("core@1[evidence_gate=True]") == variant("core@1", evidence_gate=True)
    assert get_profile("core@1[index=False,page_tokens=128]").page_tokens == 128
    for wrong in ("core@1[evidence_gate=maybe]", "core@1[]", "core@9[index=False]", "core@1[indx=False]"):
        with pytest.raises(ValueError, match="unknown"):
            get_profile(wrong)
