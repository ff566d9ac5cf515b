"""Reward: quality before cost, in every group and in expectation."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.episode import Episode, play
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.rewards import COST_SHARE, advantages, reference_cost, saving
from envs.tasks import FAMILIES

CREDITS = (1.0, 0.0, -0.25)


def outcomes(weights):
    """Every quality that checks of these weights can have, with whether all are right."""
    total = sum(weights)
    found = {}
    for marks in itertools.product(CREDITS, repeat=len(weights)):
        q = sum(c * w for c, w in zip(marks, weights, strict=True)) / total
        found[round(q, 12)] = all(c == 1.0 for c in marks)
    return sorted(found.items())


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0), (2.0, 1.0), (2.0, 2.0, 1.0)])
@pytest.mark.parametrize("size", [2, 3])
def test_cost_never_overrides_quality_whatever_the_group(weights, size):
    step = 0.25 * min(weights) / sum(weights)
    savings = (0.0, 0.5, 1.0)
    cells = [(q, right, s) for q, right in outcomes(weights) for s in savings]
    if len(cells) ** size > 40_000:
        cells = [c for c in cells if c[2] != 0.5]
    for group in itertools.product(cells, repeat=size):
        q, right, s = zip(*group, strict=True)
        a = advantages(q, s, right, step)
        for i, j in itertools.combinations(range(size), 2):
            if q[i] - q[j] > 1e-9:
                assert a[i] > a[j]
            elif q[j] - q[i] > 1e-9:
                assert a[j] > a[i]
            elif all(right) and s[i] != s[j]:
                assert (a[i] > a[j]) == (s[i] > s[j])
            else:
                assert a[i] == pytest.approx(a[j])


def test_cost_counts_only_where_every_episode_is_fully_right():
    step = 0.25
    mixed = advantages([1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [True, True, False], step)
    assert mixed[0] == mixed[1], "a cheap right answer is worth no more while another is not right"
    alone = advantages([1.0, 1.0], [0.0, 1.0], [True, True], step)
    assert alone[1] - alone[0] == pytest.approx(COST_SHARE * step)
    assert COST_SHARE * step < step / 2


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.floats(-0.25, 1), st.floats(0, 1), st.booleans()), min_size=1, max_size=9), st.floats(0.01, 0.25))
def test_advantages_sum_to_zero_and_are_not_divided_by_their_spread(group, step):
    q, s, right = zip(*group, strict=True)
    a = advantages(q, s, right, step)
    assert sum(a) == pytest.approx(0, abs=1e-9)
    assert max(a) - min(a) <= max(q) - min(q) + COST_SHARE * step + 1e-9
    shifted = advantages([x + 1 for x in q], s, right, step)
    assert shifted == pytest.approx(a, abs=1e-9)


def test_equal_episodes_have_no_advantage():
    assert advantages([1.0] * 4, [0.7] * 4, [True] * 4, 0.25) == [0.0] * 4


def test_groups_must_fit():
    for q, s, right in (([], [], []), ([1.0], [], [True]), ([1.0], [1.0], [])):
        with pytest.raises(ValueError, match="group"):
            advantages(q, s, right, 0.25)


@pytest.mark.parametrize("share", [0.0, 0.05, 1.0, 4.0, 20.0])
def test_no_cost_share_lets_cost_decide_a_group_that_is_not_all_right(share):
    q, s, right = [1.0, 1.0, -0.25], [0.0, 1.0, 1.0], [True, True, False]
    assert advantages(q, s, right, 0.25, share) == advantages(q, s, right, 0.25, 0.0)
    alone = advantages([1.0, 1.0], [0.0, 1.0], [True, True], 0.25, share)
    assert alone[1] - alone[0] == pytest.approx(share * 0.25)


@pytest.mark.parametrize(
    ("share", "p", "dear_wins"),
    [
        (0.05, 0.92, True),
        (0.05, 0.94, True),
        (1.0, 0.91, True),
        (1.0, 0.94, False),
        (4.0, 0.84, True),
        (4.0, 0.88, False),
        (10.0, 0.76, True),
        (10.0, 0.81, False),
    ],
)
def test_the_cost_share_is_the_price_of_a_needless_read_in_correctness(share, p, dear_wins):
    """A read costs a saving of about .25. It is dropped where it buys less than some 3 points of correctness at a share of 1, 9 at 4, 16 at 10."""
    rng, size, gain = random.Random(f"price/{p}"), 8, 0.0
    for _ in range(4000):
        dear = [rng.random() < 0.5 for _ in range(size)]
        right = [rng.random() < (0.95 if d else p) for d in dear]
        a = advantages([1.0 if r else -0.25 for r in right], [0.0 if d else 0.25 for d in dear], right, 0.25, share)
        gain += sum(x if d else -x for x, d in zip(a, dear, strict=True))
    assert (gain > 0) == dear_wins


@pytest.mark.parametrize("p", [0.68, 0.80, 0.90])
def test_in_expectation_being_right_dear_beats_being_wrong_cheap(p):
    """A policy mixes two habits: dear and right 95 % of the time, cheap and right less often. The dear one must be reinforced."""
    rng, size, gain = random.Random(f"mix/{p}"), 8, 0.0
    groups = 4000
    for _ in range(groups):
        dear = [rng.random() < 0.5 for _ in range(size)]
        right = [rng.random() < (0.95 if d else p) for d in dear]
        a = advantages([1.0 if r else -0.25 for r in right], [0.0 if d else 1.0 for d in dear], right, 0.25)
        gain += sum(x if d else -x for x, d in zip(a, dear, strict=True))
    assert gain / groups > 0


def test_a_plain_sum_of_quality_and_half_a_step_of_cost_would_not_do():
    """The reason for the rule: with cost at half a step in every group, cheap at 90 % beats dear at 95 %."""
    assert 1.25 * (0.95 - 0.90) < 0.5 * 0.25
    assert COST_SHARE * 0.25 < 1.25 * (0.95 - 0.90)


def test_among_equally_right_habits_the_cheap_one_wins():
    rng, gain = random.Random("cheap"), 0.0
    for _ in range(2000):
        dear = [rng.random() < 0.5 for _ in range(8)]
        right = [rng.random() < 0.98 for _ in dear]
        a = advantages([1.0 if r else -0.25 for r in right], [0.2 if d else 0.8 for d in dear], right, 0.25)
        gain += sum(-x if d else x for x, d in zip(a, dear, strict=True))
    assert gain > 0


# ---- saving and the reference ---------------------------------------------------------------------------------------------------------


def test_saving_is_half_at_the_reference_and_a_quarter_more_for_every_halving():
    assert saving(1000, 1000) == 0.5
    assert saving(1000, 500) == pytest.approx(0.75)
    assert saving(1000, 250) == saving(1000, 1) == 1.0
    assert saving(1000, 2000) == pytest.approx(0.25)
    assert saving(1000, 4000) == saving(1000, 10**9) == 0.0


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(1, 10**7), st.integers(1, 10**7), st.integers(1, 10**7))
def test_saving_is_bounded_and_falls_with_cost(reference, a, b):
    assert 0 <= saving(reference, a) <= 1
    if a < b:
        assert saving(reference, a) >= saving(reference, b)


@pytest.mark.parametrize(("reference", "cost"), [(0, 1), (1, 0), (-5, 3)])
def test_costs_must_be_positive(reference, cost):
    with pytest.raises(ValueError, match="positive"):
        saving(reference, cost)


def test_the_reference_is_plain_history_and_what_the_variant_must_read(chat, probes):
    for _, group in probes[:8]:
        costs = {p.variant: reference_cost(p, chat) for p in group}
        assert all(c > 0 for c in costs.values())
        if "missing" in costs:
            probe = next(p for p in group if p.variant == "missing")
            episode = Episode.from_probe(probe, get_profile("plain@1"), chat)
            (evidence,) = episode.ledger.evidence(probe.damaged_key)[:1]
            read = chat.count(f"read e{evidence}") + chat.count(episode.log.main(evidence).text)
            assert costs["missing"] == costs["present"] + read
    for family in FAMILIES.values():
        session = family.generate(3)
        episode = Episode(session, get_profile("plain@1"), chat)
        play([episode], Expert(chat))
        plain = sum(i.tokens_in + len(i.ids) for i in episode.inferences)
        contract = chat.count(get_profile("core@1").system("neutral", session.tools)) - chat.count(episode.system)
        assert contract > 0
        assert reference_cost(session, chat) == plain + contract * len(episode.inferences)
        assert reference_cost(session, chat) == reference_cost(session, chat)
