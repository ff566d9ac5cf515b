"""Errors that the host accepts: needless repeats and false memories, each labelled, masked, proved, and repaired by trained steps."""

from __future__ import annotations

from collections import Counter

import pytest

from data_gen.build import build
from data_gen.card import card
from data_gen.config import Counts, DataConfig, Sizes
from data_gen.errors import FINE, LAPSES, META, REPEATS, refused, unexplained
from data_gen.tally import Tally
from envs.scoring import score
from envs.tasks import TRAIN_FAMILIES
from envs.trajectory import Trajectory

NONE = dict.fromkeys(Counts.model_fields, 0)


def config(profile, **counts):
    return DataConfig(
        profile=profile, families=TRAIN_FAMILIES, counts=Counts(**(NONE | counts)), sizes=Sizes(turns=(2, 7), fillers=(4, 12)),
        val_bases=0, rl_bases=0,
    )  # fmt: skip


@pytest.fixture(scope="module", params=["core@1", "unified@4", "unified@4-compact"])
def made(request):
    return build(config(request.param, recovery=60, repeats=40, lapses=60))


def test_a_source_of_several_pages_is_read_to_the_value():
    """Long results, so that a value may stand on the second page or be cut by the first one's end."""
    long = config("unified@4", lapses=40).model_copy(update={"sizes": Sizes(turns=(2, 4), fillers=(18, 30))})
    paged = [
        t for t in build(long).trajectories if any(" p2" in o.text for i in t.inferences for o in i.outcomes if o.code == "shown")
    ]
    assert len(paged) >= 2


def errors(trajectory):
    """The erroneous step; a search made twice may follow another error and is looked at alone."""
    return [i for i in trajectory.inferences if i.error and i.error != "search_again"]


def test_every_error_has_a_label_and_is_masked_and_the_rest_is_trained(made):
    labels = Counter()
    for t in made.trajectories:
        assert t.kind == "recovery"
        assert len(errors(t)) == 1, t.id
        assert all(i.trained != bool(i.error) for i in t.inferences)
        assert score(t).fully_right
        labels.update(i.error for i in t.inferences if i.error)
    assert set(labels) >= {"malformed", "empty", "meta", *REPEATS, *LAPSES}, labels


def test_after_an_error_comes_its_repair_and_never_the_error_again(made):
    for t in made.trajectories:
        for number, step in enumerate(t.inferences):
            if step.error:
                assert t.inferences[number + 1].trained
                assert t.inferences[number + 1].text != step.text
            if step.error == "search_again":
                assert step.text == t.inferences[number - 1].text


def test_a_repeat_is_of_something_done_before(made):
    for t in made.trajectories:
        (step,) = errors(t)
        earlier = [o for i in t.inferences[: t.inferences.index(step)] for o in i.outcomes]
        if step.error == "replayed":
            (again,) = step.outcomes
            (once,) = [o for o in earlier if (o.tool, o.args, o.code) == (again.tool, again.args, "result")]
            assert once.text == again.text
            assert once.event < again.event
            assert score(t).repeated_calls == 1
        elif step.error == "read_again":
            assert set(step.outcomes[0].shows) <= {*step.visible, *(s for o in earlier for s in o.shows)}
        elif step.error == "note_again":
            assert step.outcomes[0].code == "no_gain"
        elif step.error == "meta":
            assert step.text in META
            assert step.outcomes[0].code == "notice"


def test_a_false_memory_is_accepted_noticed_read_and_set_right(made):
    for t in made.trajectories:
        (step,) = errors(t)
        if step.error not in LAPSES:
            continue
        assert all(o.code in FINE for o in step.outcomes), "a silent failure: the host says nothing"
        last = [i for i in t.inferences if i.turn == len(t.session.turns) - 1]
        reads = [o for i in last for o in i.outcomes if o.code == "shown"]
        (note,) = [o for i in last for o in i.outcomes if o.tool == "note"]
        slot = t.session.turns[-1].slots[0]
        assert note.args["key"] == slot.key
        assert note.args["value"] == slot.accept[0]
        assert set(t.stated[slot.key]) & {s for o in reads for s in o.shows}
        if step.error in ("false_brief", "lost_exception"):
            assert "source" in t.session.turns[-1].text or "summary" in t.session.turns[-1].text, "the user's rule made it look"


def test_a_step_that_is_not_what_its_label_says_is_found(made):
    for t in made.trajectories:
        (step,) = errors(t)
        if refused(step):
            continue
        bad = t.model_copy(deep=True)
        for i in bad.inferences:
            i.error = i.error and "unheard_of"
        assert step.text in unexplained(bad)
        if step.error == "replayed":
            bad = t.model_copy(deep=True)
            bad.inferences = bad.inferences[bad.inferences.index(next(i for i in bad.inferences if i.error)) :]
            assert unexplained(bad) == [step.text], "its first time is no repeat"
        if step.error in LAPSES:
            bad = t.model_copy(deep=True)
            bad.inferences = [i for i in bad.inferences if not any(o.tool == "note" for o in i.outcomes) or i.error]
            assert step.text in unexplained(bad), "nothing mends it"


def test_the_card_counts_errors_and_files_without_errors_are_as_before(made):
    tally = Tally.of(made)
    text = card(config("core@1", recovery=1), tally)
    labels = Counter(i.error for t in made.trajectories for i in t.inferences if i.error)
    for label, n in labels.items():
        assert f"| {label} | {n} |" in text
    bare = made.trajectories[0].model_copy(deep=True)
    for i in bare.inferences:
        i.error = ""
    assert '"error"' not in bare.model_dump_json()
    assert '"error"' in made.trajectories[0].model_dump_json()
    assert Trajectory.model_validate_json(made.trajectories[0].model_dump_json()) == made.trajectories[0]
