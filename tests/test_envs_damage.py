"""All variants of a base: byte-equal but for the injection, each with a signal that a view can tell by, solved by the expert alone."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest

from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.policies.scripted import AlwaysRead, LastValue, NeverRead
from envs.policies.unified import UnifiedExpert
from envs.profiles import get_profile
from envs.scoring import score
from envs.tasks import FAMILIES
from envs.tasks.base import DAMAGED
from envs.tasks.damage import variants_of
from envs.tasks.engine import RICH, Builder, near
from envs.tasks.probes import make_base
from envs.trajectory import view_hash

CORE = get_profile("core@1")


@pytest.fixture(scope="module")
def variants(chat):
    """Variants of bases of every family: base name -> probes."""
    found = {}
    for family in FAMILIES:
        for kind in ("static", "changed"):
            made = 0
            for seed in range(40):
                base = make_base(family, seed, kind, chat)
                probes = variants_of(base, 1, hint=True) if base else []
                if probes:
                    found[base.name, kind] = probes
                    made += 1
                if made == 2:
                    break
    return found


def played(policy, probes, chat, profile=CORE):
    out = {}
    for probe in probes:
        episode = Episode.from_probe(probe, profile, chat)
        play([episode], policy)
        out[probe.id] = (probe, score(episode.trajectory("x")))
    return out


def everything(variants):
    return [p for probes in variants.values() for p in probes if not p.windows]


def test_every_variant_and_signal_occurs_and_the_family_too(variants):
    seen = Counter((p.variant, p.signal) for probes in variants.values() for p in probes)
    assert set(seen) == {
        ("present", "none"), ("missing", "asked"), ("superseded", "index"), ("contradicted", "conflict"), ("corrupted", "unsourced"),
        ("corrupted", "none"), ("corrupted", "inconsistent"), ("fabricated", "unsourced"), ("windowed", "index"), ("dropped", "index"), ("irrelevant_gap", "none"),
        ("historical", "none"),
    }  # fmt: skip
    assert {p.family for probes in variants.values() for p in probes} == set(FAMILIES)
    assert {p.hint for probes in variants.values() for p in probes} == {"none", "vague", "explicit"}


def test_the_expert_is_right_on_every_variant_that_a_view_can_tell(variants, chat):
    for probe, result in played(Expert(chat), everything(variants), chat).values():
        if probe.variant == "corrupted" and probe.signal == "none":
            continue
        assert result.fully_right, probe.id
        if probe.variant in DAMAGED:
            assert result.recovered, probe.id
            assert result.mended is not False
        if probe.variant in ("present", "irrelevant_gap", "historical"):
            assert not result.reads, f"{probe.id}: a false alarm"


@pytest.mark.parametrize("name", ["unified@4", "unified@4-compact"])
def test_so_is_the_expert_with_windows_in_both_syntaxes(variants, chat, name):
    profile = get_profile(name)
    probes = [p for group in list(variants.values())[::5] for p in group]
    assert any(p.windows for p in probes)
    for probe, result in played(UnifiedExpert(chat, profile), probes, chat, profile).values():
        if probe.signal != "none" or probe.variant != "corrupted":
            assert result.fully_right, probe.id
            assert result.recovered or probe.variant not in DAMAGED, probe.id


def test_a_brief_that_cannot_be_right_is_suspected_read_and_mended_in_every_family(chat):
    """Signal ``inconsistent``: under both main profiles; who never reads fails it, and no keyed entry tells."""
    probes = []
    for family in FAMILIES:
        bases = filter(None, (make_base(family, seed, "static", chat) for seed in range(100, 140)))
        found = (p for base in bases for p in variants_of(base) if p.signal == "inconsistent")
        probes += itertools.islice(found, 3)
    assert {p.family for p in probes} == set(FAMILIES)
    kinds = Counter()
    for name in ("core@1", "unified@4"):
        profile = get_profile(name)
        expert = UnifiedExpert(chat, profile) if profile.windows else Expert(chat)
        for probe, result in played(expert, probes, chat, profile).values():
            assert result.fully_right, (name, probe.id)
            assert result.funnel == dict.fromkeys(("accessible", "suspected", "located", "used", "mended"), True), probe.id
            assert result.recovered
    for probe, result in played(NeverRead(chat), probes, chat).values():
        assert not result.recovered, probe.id
        value = probe.session.turns[-1].slots[0].accept[0]
        kinds[any(value in text for text in probe.injection.brief.values())] += 1
        assert not Episode.from_probe(probe, CORE, chat).state.note(probe.damaged_key)
    assert min(kinds[True], kinds[False]) > 3, "two values, and a value of another kind"


def test_siblings_differ_by_the_injection_alone(variants, chat):
    for probes in variants.values():
        plain = [p for p in probes if p.hint == "none" and p.variant != "fabricated" and not p.id.endswith(".twin")]
        assert len({(p.session.model_dump_json(), p.prefix, p.start) for p in plain}) == 1
        assert len({str(p.injection) for p in plain}) == len(plain)


def test_without_a_signal_the_twins_view_is_byte_equal_and_the_other_answer_right(variants, chat):
    pairs = 0
    for probes in variants.values():
        by_id = {p.id: p for p in probes}
        for probe in probes:
            if probe.variant == "corrupted" and probe.signal == "none" and probe.twin in by_id:
                twin = by_id[probe.twin]
                views = [Episode.from_probe(p, CORE, chat).view() for p in (probe, twin)]
                assert view_hash(views[0].ids) == view_hash(views[1].ids)
                answers = [p.session.turns[-1].slots[0].accept[0] for p in (probe, twin)]
                assert answers[0] != answers[1]
                pairs += 1
    assert pairs > 10


def test_reading_always_and_reading_never_both_fail_as_pairs(variants, chat):
    for policy in (AlwaysRead(chat), NeverRead(chat)):
        for probes in variants.values():
            results = played(policy, [p for p in probes if not p.windows and p.hint == "none"], chat)
            for probe, result in results.values():
                twin = results.get(probe.twin or "")
                if probe.variant in DAMAGED and probe.signal != "none" and twin:
                    assert not (result.recovered and twin[1].fully_right and not twin[1].reads), (policy.name, probe.id)


def test_the_last_matching_value_of_the_view_is_no_strategy(variants, chat):
    results = [r for _, r in played(LastValue(chat), everything(variants), chat).values()]
    assert sum(r.fully_right for r in results) <= 0.4 * len(results)


def test_a_hint_is_never_counted_as_autonomous(variants, chat):
    hinted = [p for p in everything(variants) if p.hint != "none"]
    assert hinted
    for probe in hinted:
        assert probe.twin is None
        text = probe.session.turns[-1].text
        assert ("incomplete" in text) == (probe.hint == "explicit")


# ---- sessions with rules, exceptions, red herrings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_expert_is_right_on_rich_sessions(chat, family):
    tags = Counter()
    for seed in range(500, 512):
        session = FAMILIES[family].generate(seed, RICH)
        tags.update(t.question for t in session.turns)
        episode = Episode(session, CORE, chat)
        play([episode], Expert(chat))
        assert score(episode.trajectory("x")).fully_right, session.id
    assert tags["single"] > 20


def test_all_question_tags_occur():
    tags = Counter(t.question for m in FAMILIES.values() for seed in range(40) for t in m.generate(seed, RICH).turns)
    assert set(tags) >= {"single", "across", "paraphrased", "negation", "aggregate", "derived", "exception", "verify"}


def test_every_move_of_a_rule_occurs_and_its_facts_carry_their_status():
    statuses, once = Counter(), 0
    for seed in range(80):
        session = FAMILIES["permissions"].generate(seed, replace(RICH, turns=(10, 14), rule=1.0))
        statuses.update(f.status for f in session.facts if f.kind == "exception" and not f.key.endswith(".once"))
        once += any(f.key.endswith(".once") for f in session.facts)
    assert statuses["withdrawn"] > 5
    assert statuses["current"] > statuses["withdrawn"]
    assert once > 5


def test_where_the_user_asks_for_the_source_the_expert_reads_it(chat):
    read = asked = 0
    for seed in range(40):
        session = FAMILIES["procurement"].generate(seed, replace(RICH, turns=(6, 8), verify=1.0))
        episode = Episode(session, CORE, chat)
        play([episode], Expert(chat))
        result = score(episode.trajectory("x"))
        assert result.fully_right
        for number, turn in enumerate(session.turns):
            if turn.question == "verify":
                asked += 1
                read += any(r.turn == number for r in result.reads)
    assert asked > 40
    assert read > asked / 3, "the others stand in full in view, or were never stated"


def test_near_twins_are_told_apart(chat):
    assert near("LX4471", "LX4417")
    assert near("BRSK", "BRKS")
    assert not near("desks", "chairs")
    knobs = replace(RICH, twins=1.0, turns=(8, 10))
    met = 0
    for seed in range(30):
        builder = Builder(FAMILIES["logistics"].SPEC, seed, knobs)
        builder.session()
        names = list(builder.records)
        met += any(near(a, b) for a in names for b in names)
    assert met > 20


def test_a_shuffled_log_makes_the_expert_wrong(chat):
    """The control: with results swapped between records the expert reports what stands there, and that is wrong."""
    right = total = 0
    for family in sorted(FAMILIES):
        for seed in range(6):
            session = FAMILIES[family].generate(seed)
            calls = list(session.responses)
            if len(calls) < 2:
                continue
            moved = dict(zip(calls, [session.responses[c] for c in (*calls[1:], calls[0])], strict=True))
            episode = Episode(session.model_copy(update={"responses": moved}), CORE, chat)
            play([episode], Expert(chat))
            right += score(episode.trajectory("x")).fully_right
            total += 1
    assert total > 50
    assert right <= 0.05 * total


def test_the_figures_of_the_analysis_family_are_the_sum_of_its_rows():
    found = 0
    for seed in range(12):
        session = FAMILIES["analysis"].generate(seed)
        values = {f.where: f.value for f in session.facts if f.key.endswith(".revenue") and f.version == 1}
        for call, text in session.responses.items():
            if "Takings day by day" in text:
                rows = text.split("Takings day by day in thousands: ")[1]
                assert sum(int(p.rsplit(" ", 1)[1]) for p in rows.strip(".").split(", ")) == int(values[f"call:{call}"])
                found += 1
    assert found > 10


# ---- thousands of sessions (make test-long) ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_expert_does_not_look_ahead_over_many_sessions(chat, family):
    """Future swap: with another second half the expert does the same up to there. 120 sessions a family, 2,040 in all."""
    same = 0
    for seed in range(1000, 1120):
        sessions = [FAMILIES[family].generate(seed, replace(RICH, turns=(4, 10)), future_seed=f) for f in (1, 2)]
        split = sessions[0].knobs["split_turn"]
        if sessions[0].turns[split:] == sessions[1].turns[split:]:
            continue
        acts = []
        for session in sessions:
            episode = Episode(session, CORE, chat)
            play([episode], Expert(chat))
            acts.append([(i.turn, i.text) for i in episode.inferences if i.turn < split])
        assert acts[0] == acts[1], sessions[0].id
        same += 1
    assert same > 60


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_value_of_an_answer_stands_in_the_view_over_many_sessions(chat, family):
    """Provenance: 120 sessions a family."""
    from envs.policies.seen import read_view
    from envs.scoring import normal_form
    from envs.text import holds

    checked = 0
    for seed in range(2000, 2120):
        session = FAMILIES[family].generate(seed, RICH)
        episode = Episode(session, CORE, chat)
        play([episode], Expert(chat))
        trajectory = episode.trajectory("expert")
        for inference, view in zip(trajectory.inferences, trajectory.views(), strict=True):
            if inference.kind != "answer":
                continue
            # A value may be cut by a page: the pages of a read-back are joined.
            joined = [b.text for b in read_view(view).reads]
            text = normal_form("\n".join([*(m.content for m in view), *joined]))
            slots = {s.name: s for s in session.turns[inference.turn].slots}
            for part in inference.text.split("; "):
                name, value = part.split("=", 1)
                if value not in ("unknown", "none") and slots[name].source != "derived":
                    assert holds(text, normal_form(value)), (session.id, inference.turn, part)
                    checked += 1
    assert checked > 300
