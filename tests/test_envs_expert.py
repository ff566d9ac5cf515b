"""The expert is right everywhere and a function of the view; scripted policies that a sound metric must catch."""

from __future__ import annotations

import re

import pytest

from envs.chat import Message
from envs.episode import Episode, play
from envs.policies.base import Sampled, View
from envs.policies.expert import Expert
from envs.policies.scripted import SCRIPTED, Abstainer, AlwaysRead, ClosedBook, Fabricator, NeverRead
from envs.profiles import get_profile
from envs.scoring import judge, normal_form, read_slots, score
from envs.tasks import ALL_SPECS, FAMILIES
from envs.tasks.engine import Builder
from envs.tasks.surface import PATTERNS
from envs.text import states

CORE = get_profile("core@1")
REFUSED = re.compile(r"^! ")
VALUE = re.compile(
    "|".join(
        rf"(?<!\w)(?:{p})(?!\w)" for p in (r"\d{3,6}", *(PATTERNS[k] for k in ("code", "date", "clock", "hotel", "address")))
    )
)


def pair_success(played, group):
    """Damaged probe recovered and its ``present`` twin right with no read-back."""
    present, damaged = (played[p.id][2] for p in group)
    return bool(damaged.recovered and present.fully_right and not present.reads)


def pairs(probes):
    return [group for kind, group in probes if not kind.startswith("never")]


# ---- the ceiling -----------------------------------------------------------------------------------------------------------------


def test_the_expert_is_fully_right_on_every_session_without_a_refused_call(expert_sessions):
    assert {t.family for t in expert_sessions} == set(FAMILIES)
    managed = 0
    for t in expert_sessions:
        result = score(t)
        assert result.fully_right, f"{t.id}: {[c for c in result.checks if c.verdict != 'right']}"
        assert (result.q, t.reason, result.malformed) == (1.0, "answered", 0)
        assert not [o for i in t.inferences for o in i.outcomes if REFUSED.match(o.text)]
        assert all(o.text != "No offer." for i in t.inferences for o in i.outcomes)
        assert max(i.tokens_in for i in t.inferences) <= CORE.view_budget
        assert all(len(i.ids) <= CORE.reply_tokens for i in t.inferences), "no turn that the reply cap would cut"
        managed += result.rewrites
    assert managed > len(expert_sessions)


def test_long_sessions_with_large_results_end_without_a_refused_call(chat):
    """Eighteen turns with read-backs between compressions: the summary must fit what the host says that it covers."""
    from envs.cost import cost_session

    episodes = [Episode(cost_session("questions", 18, i, (30, 40)), CORE, chat) for i in range(20)]
    play(episodes, Expert(chat))
    for e in episodes:
        t = e.trajectory("expert")
        assert (t.reason, score(t).fully_right) == ("answered", True), t.id
        assert not [o.text for i in t.inferences for o in i.outcomes if REFUSED.match(o.text)], t.id


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_expert_is_fully_right_on_many_more_sessions(chat, family):
    episodes = [Episode(FAMILIES[family].generate(seed), CORE, chat) for seed in range(1000, 1150)]
    play(episodes, Expert(chat))
    for e in episodes:
        t = e.trajectory("expert")
        assert score(t).fully_right, e.session.id
        assert not [o for i in t.inferences for o in i.outcomes if REFUSED.match(o.text)]


def test_the_expert_is_fully_right_on_every_kind_of_probe(chat, probes, play_probes):
    played = play_probes(Expert(chat))
    assert {(p.family, p.variant) for p, _, _ in played.values()} == {
        (f, v) for f in FAMILIES for v in ("present", "missing", "superseded", "never_stated")
    }
    for probe, t, result in played.values():
        assert result.fully_right, f"{probe.id}: {result.checks}"
        assert not [o for i in t.inferences for o in i.outcomes if REFUSED.match(o.text)], probe.id
        if probe.variant == "present":
            assert not result.reads, f"{probe.id}: nothing was missing"
        if probe.variant in ("missing", "superseded"):
            assert result.recovered, f"{probe.id}: {result.funnel}"
            assert all(result.funnel.values())
            assert result.autonomous_read
            assert result.mended is (True if probe.wrong_note else None)
    kinds = {k for k, _ in probes}
    assert len(kinds) == 6
    assert any(p.wrong_note for p, _, _ in played.values())
    assert all(pair_success(played, g) for g in pairs(probes))


def test_the_expert_is_right_under_plain_history_too(chat):
    plain = get_profile("plain@1")
    episodes = [Episode(m.generate(seed), plain, chat) for m in FAMILIES.values() for seed in range(6)]
    play(episodes, Expert(chat))
    for e in episodes:
        assert score(e.trajectory("expert")).fully_right
        assert not any(i.text.split(" ")[0] in CORE.tools for i in e.inferences)


# ---- a function of the view, not of the future -------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_another_future_changes_no_action_before_it(chat, family):
    module, expert, diverged = FAMILIES[family], Expert(chat), 0
    for seed in range(20):
        one, two = (module.generate(seed, future_seed=f) for f in (1, 2))
        split = one.knobs["split_turn"]
        assert one.turns[:split] == two.turns[:split] == module.generate(seed).turns[:split]
        diverged += one.turns[split:] != two.turns[split:]
        acts = []
        for session in (one, two):
            episode, texts = Episode(session, CORE, chat), []
            while not episode.done and episode.turn < split:
                sampled = expert.act([episode.view()])[0]
                texts.append(sampled.text)
                episode.step(sampled)
            acts.append(texts)
        assert acts[0] == acts[1]
    assert diverged > 10


def test_equal_views_of_different_logs_get_equal_actions(chat, probes):
    """The record out of view is given another value: the same view, the same read, and then each log's own answer."""
    expert, tried = Expert(chat), 0
    for _, group in probes:
        for probe in (p for p in group if p.variant in ("missing", "superseded")):
            twin = with_other_value(probe)
            if twin is None:
                continue
            try:
                a, b = (Episode.from_probe(p, CORE, chat) for p in (probe, twin))
            except ValueError:
                continue
            if a.view().ids != b.view().ids:
                continue
            assert a.log.digest() != b.log.digest()
            first = [expert.act([e.view()])[0].text for e in (a, b)]
            assert first[0] == first[1]
            assert first[0].startswith(("read ", "find "))
            play([a, b], expert)
            results = [score(e.trajectory("expert")) for e in (a, b)]
            assert all(r.fully_right for r in results)
            assert a.replies[probe.start] != b.replies[probe.start]
            tried += 1
    assert tried >= 10


def with_other_value(probe):
    """The probe over a log whose asked value is another one of the same kind and spelling length."""
    slot = probe.session.turns[-1].slots[0]
    value = slot.accept[0]
    if slot.kind not in ("amount", "part", "code", "clock"):
        return None
    last = {"0": "1"}.get(value[-1], "0") if slot.kind != "clock" else {"0": "5", "5": "0"}[value[-1]]
    other = value[:-1] + last
    session = probe.session
    if sum(value in text for text in session.responses.values()) != 1 or any(
        other in text for text in session.responses.values()
    ):
        return None
    responses = {call: text.replace(value, other) for call, text in session.responses.items()}
    facts = tuple(f.model_copy(update={"value": other}) if f.value == value else f for f in session.facts)
    turns = (*session.turns[:-1], session.turns[-1].model_copy(update={"slots": (slot.model_copy(update={"accept": (other,)}),)}))
    prefix = tuple(text.replace(value, other) for text in probe.prefix)
    injection = probe.injection
    return probe.model_copy(
        update={
            "session": session.model_copy(update={"responses": responses, "facts": facts, "turns": turns}),
            "prefix": prefix,
            "injection": injection,
        }
    )


def test_the_expert_takes_no_more_than_the_messages(chat, expert_sessions):
    expert = Expert(chat)
    for t in expert_sessions[::9]:
        for inference, view in zip(t.inferences, t.views(), strict=True):
            ids = chat.render(view)
            assert expert.act([View(view, ids)])[0].text == inference.text, (
                "index entries and event lists beside the view are not needed"
            )


def test_every_value_the_expert_emits_stands_in_the_view_it_saw(expert_sessions, chat, play_probes):
    played = [t for _, t, _ in play_probes(Expert(chat)).values()]
    notes = briefs = answers = 0
    for t in [*expert_sessions, *played]:
        slots = {i: {s.name: s for s in turn.slots} for i, turn in enumerate(t.session.turns)}
        for inference, view in zip(t.inferences, t.views(), strict=True):
            text = normal_form("\n".join(m.content for m in view))
            for line in inference.text.split("\n"):
                word = line.split(" ", 1)[0]
                if word == "note":
                    value = re.match(r"note [a-z0-9_.]+=(.*?)(?: @e[\de,]+)?(?: old| open)?$", line)[1]
                    assert normal_form(value) in text
                    notes += 1
                elif word in ("fold", "compress"):
                    for value in VALUE.findall(line):
                        assert normal_form(value) in text, line
                        briefs += 1
                elif inference.kind == "answer":
                    for part in line.split("; "):
                        name, value = part.split("=", 1)
                        if value != "unknown" and slots[inference.turn][name].source != "derived":
                            assert normal_form(value) in text
                            answers += 1
    assert min(notes, briefs, answers) > 50, (notes, briefs, answers)


def test_sampled_ids_of_the_expert_spell_its_text(chat, expert_sessions):
    for t in expert_sessions[::10]:
        for i in t.inferences:
            assert chat.decode(i.ids[:-1]) == i.text
            assert Sampled(tuple(i.ids), i.text).ids[-1] == chat.end_id


# ---- policies that must fail -------------------------------------------------------------------------------------------------------------


def test_closed_book_is_right_at_most_once_in_a_hundred(chat):
    """Closed book: the last user message and the contract, nothing else."""
    policy = ClosedBook(chat)
    for family, spec in ALL_SPECS.items():
        asked = hit = 0
        for seed in range(100):
            session = Builder(spec, seed).session()
            system = CORE.system("neutral", session.tools) + "\nnotes: none\nout: none"
            for turn in session.turns:
                view = View([Message("system", system), Message("user", f"[e1 user] {turn.text}")], [])
                reply = policy.text(view)
                assert set(read_slots(reply)) == {s.name for s in turn.slots}, "it does answer"
                hit += all(judge(s, reply)[0] == "right" for s in turn.slots)
                asked += 1
        assert asked > 500
        assert hit <= 0.01 * asked, f"{family}: {hit} of {asked}"


def test_closed_book_plays_whole_episodes_and_fails(chat):
    """Abstaining is right where nothing was stated, and a yes or no can be guessed; of the rest at most one in a hundred."""
    episodes = [Episode(module.generate(seed), CORE, chat) for module in FAMILIES.values() for seed in range(3)]
    play(episodes, ClosedBook(chat))
    results = [score(e.trajectory("closed_book")) for e in episodes]
    assert not any(r.fully_right for r in results)
    asked = [c for r in results for c in r.checks if not c.never and c.slot != "over"]
    assert len(asked) > 200
    assert sum(c.verdict == "right" for c in asked) <= 0.01 * len(asked)


def test_no_question_contains_its_own_answer():
    for spec in ALL_SPECS.values():
        for seed in range(80):
            for turn in Builder(spec, seed).session().turns:
                for slot in turn.slots:
                    if not slot.never and slot.name != "over":
                        assert not any(states(turn.text, a) for a in slot.accept), turn.text


@pytest.mark.parametrize("policy", [AlwaysRead, NeverRead, Abstainer, Fabricator])
def test_pair_success_of_policies_without_judgement_is_zero(chat, probes, play_probes, policy):
    played = play_probes(policy(chat))
    assert sum(pair_success(played, g) for g in pairs(probes)) == 0


def test_always_read_is_right_and_still_scores_no_pair(chat, play_probes):
    played = play_probes(AlwaysRead(chat))
    present = [r for p, _, r in played.values() if p.variant == "present"]
    assert all(r.reads for r in present)
    assert sum(r.fully_right for r in present) > 0.9 * len(present), "the metric, not a clumsy policy, is what catches it"
    damaged = [r for p, _, r in played.values() if p.variant in ("missing", "superseded")]
    assert sum(r.recovered for r in damaged) > 0.5 * len(damaged)


def test_never_read_is_right_on_present_and_recovers_nothing(chat, play_probes):
    played = play_probes(NeverRead(chat))
    assert all(r.fully_right and not r.reads for p, _, r in played.values() if p.variant == "present")
    for probe, _, r in played.values():
        if probe.variant in ("missing", "superseded"):
            assert not r.recovered
            assert not r.fully_right
            assert r.checks[0].verdict == ("abstained" if probe.variant == "missing" else "stale") or r.checks[0].verdict in (
                "abstained",
                "stale",
            )


def test_the_abstainer_is_caught_everywhere_but_where_nothing_was_stated(chat, play_probes):
    played = play_probes(Abstainer(chat))
    for probe, _, r in played.values():
        assert r.fully_right == (probe.variant == "never_stated")
        if probe.variant != "never_stated":
            assert {c.verdict for c in r.checks} == {"abstained"}
            assert r.q == 0


def test_the_fabricator_is_wrong_where_nothing_was_stated(chat, play_probes):
    played = play_probes(Fabricator(chat))
    never = [r for p, _, r in played.values() if p.variant == "never_stated"]
    assert never
    for r in never:
        assert (r.checks[0].verdict, r.checks[0].how, r.q) == ("wrong", "fabricated", -0.25)
    missing = [r for p, _, r in played.values() if p.variant == "missing"]
    # A date or a clock time has some three hundred values: over hundreds of probes one may be hit.
    assert sum(r.fully_right for r in missing) <= max(1, 0.01 * len(missing))


def test_scripted_policies_by_name():
    assert set(SCRIPTED) == {"expert", "never_read", "always_read", "abstainer", "fabricator", "last_value", "closed_book"}
