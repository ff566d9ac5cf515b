"""Several questions in one turn, and values that the user rules out."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.policies.scripted import SCRIPTED
from envs.policies.unified import UnifiedExpert
from envs.profiles import get_profile
from envs.scoring import score
from envs.tasks import SPECS
from envs.tasks.engine import RICH, Builder, Knobs

KNOBS = Knobs(turns=(6, 16), bundle=0.25, rule_out=0.25)


def played(spec, seeds, policy, profile="core@1", chat=None, knobs=KNOBS):
    episodes = [Episode(Builder(spec, seed, knobs).session(), get_profile(profile), chat) for seed in seeds]
    play(episodes, policy)
    return [e.trajectory("x") for e in episodes]


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda s: s.id)
def test_the_expert_is_right_on_bundles_and_ruled_out_values(spec, chat):
    tags = Counter()
    for t in played(spec, range(5), Expert(chat), chat=chat):
        assert score(t).fully_right, f"{t.id}: {[c for c in score(t).checks if c.verdict != 'right']}"
        tags.update(turn.question for turn in t.session.turns)
    assert tags["ruled_out"]


@pytest.mark.parametrize("profile", ["unified@4", "unified@4-compact"])
def test_so_is_the_expert_of_profiles_with_windows(profile, chat):
    for name in ("incident", "multi_objective", "travel"):
        for t in played(SPECS[name], range(4), UnifiedExpert(chat, get_profile(profile)), profile, chat):
            assert score(t).fully_right, t.id


def test_a_bundle_asks_independent_questions_in_numbered_slots():
    found = [t for s in range(30) for t in Builder(SPECS["multi_objective"], s, KNOBS).session().turns if t.question == "bundle"]
    assert len(found) > 10
    for turn in found:
        assert [s.name for s in turn.slots] == [f"q{n}" for n in range(1, len(turn.slots) + 1)]
        assert 2 <= len(turn.slots) <= 4
        records = [s.key.rpartition(".")[0] for s in turn.slots]
        assert len(set(records)) == len(records), "each about a record of its own"


def test_multi_objective_has_bundles_without_being_asked():
    tags = Counter(t.question for s in range(40) for t in Builder(SPECS["multi_objective"], s).session().turns)
    assert tags["bundle"] > 5
    others = Counter(t.question for s in range(40) for t in Builder(SPECS["procurement"], s).session().turns)
    assert not others["bundle"]


def test_what_is_ruled_out_is_in_force_no_more():
    strikes = 0
    for seed in range(30):
        session = Builder(SPECS["travel"], seed, KNOBS).session()
        out: dict[str, str] = {}
        for number, turn in enumerate(session.turns):
            for slot in turn.slots:
                if turn.question == "ruled_out" and slot.never:
                    assert slot.accept == ("unknown",)
                    assert out[slot.key] in slot.stale, "obeying the value that was struck is a stale answer"
                    strikes += 1
                elif turn.question == "ruled_out":
                    assert slot.accept[0] == out[slot.key], "asked is the value that was struck"
            for fact in (f for f in session.facts if f.where == f"turn:{number}" and f.status == "withdrawn"):
                if not fact.key.startswith("rule"):
                    assert fact.value in turn.text
                    out[fact.key] = fact.value
    assert strikes > 10


def test_a_strike_outlives_the_compression_of_the_message_that_made_it(chat):
    """The message is gone from the view, a note marked old stands for it."""
    survived = 0
    for name in ("procurement", "incident", "lending"):
        for t in played(SPECS[name], range(8), Expert(chat), chat=chat, knobs=replace(KNOBS, turns=(12, 20))):
            views = list(t.views())
            for inference, view in zip(t.inferences, views, strict=True):
                turn = t.session.turns[inference.turn]
                if turn.question == "ruled_out" and inference.kind == "answer":
                    text = "\n".join(m.content for m in view)
                    told = re.search(
                        r"(Strike|Rule out) "
                        + re.escape(turn.slots[0].stale[0] if turn.slots[0].never else turn.slots[0].accept[0]),
                        text,
                    )
                    survived += told is None
    assert survived >= 3


def test_a_pattern_alone_does_not_answer_what_was_ruled_out(chat):
    """The last value of the right kind is the one that was struck, or that of another record."""
    right = asked = 0
    for t in played(SPECS["procurement"], range(20), SCRIPTED["last_value"](chat), chat=chat):
        for check in score(t).checks:
            if t.session.turns[check.turn].question == "ruled_out" and check.never:
                asked += 1
                right += check.verdict == "right"
    assert asked > 10
    assert right <= 0.4 * asked


def test_the_full_sets_have_both(chat):
    tags = Counter(t.question for n in SPECS for s in range(20) for t in Builder(SPECS[n], s, RICH).session().turns)
    assert tags["bundle"] > 20
    assert tags["ruled_out"] > 20
