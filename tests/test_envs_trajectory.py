"""The stored record: JSON round trip, views rebuilt to the id, replay to the same log."""

from __future__ import annotations

import json

import pytest
from game import Game, roomy, shop
from pydantic import ValidationError

from envs.episode import Episode
from envs.policies.base import Sampled
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.segments import Recorder, Segment, record
from envs.trajectory import Trajectory, view_hash

CORE = get_profile("core@1")


def again(trajectory):
    return Trajectory.model_validate_json(trajectory.model_dump_json())


def test_json_gives_back_an_equal_record_and_views_of_the_same_ids(chat, expert_sessions):
    for t in expert_sessions:
        stored = again(t)
        assert stored == t
        assert stored.model_dump_json() == t.model_dump_json()
    for t in map(again, expert_sessions[::5]):
        for inference, view in zip(t.inferences, t.views(), strict=True):
            ids = chat.render(view)
            assert view_hash(ids) == inference.hash
            assert len(ids) == inference.tokens_in
        assert t.tokens == sum(i.tokens_in + len(i.ids) for i in t.inferences)
        assert t.inferences[0].keep == 0


def test_replaying_the_texts_of_a_stored_session_gives_the_same_log(chat, expert_episodes):
    for played in expert_episodes[::7]:
        stored = again(played.trajectory("expert"))
        replay = Episode(stored.session, get_profile(stored.profile), chat, prompt=stored.prompt)
        for inference in stored.inferences:
            assert view_hash(replay.view().ids) == inference.hash
            assert chat.turn_ids(inference.text) == tuple(inference.ids)
            replay.step(Sampled(chat.turn_ids(inference.text), inference.text, inference.cut))
        assert replay.log.digest() == played.log.digest()
        assert [e.as_dict() for e in replay.log] == stored.events
        assert replay.trajectory("expert") == stored


def test_replaying_a_stored_probe_gives_the_same_log(chat, probes, play_probes):
    for probe, played, _ in list(play_probes(Expert(chat)).values())[::6]:
        stored = again(played)
        assert (stored.probe, stored.variant, stored.signal, stored.base) == (probe.id, probe.variant, probe.signal, probe.base)
        assert stored.start == probe.start
        replay = Episode.from_probe(probe, get_profile(stored.profile), chat, prompt=stored.prompt)
        assert len(replay.log) == stored.prefix_events
        for inference, view in zip(stored.inferences, stored.views(), strict=True):
            assert view_hash(replay.view().ids) == inference.hash == view_hash(chat.render(view))
            replay.step(Sampled(tuple(inference.ids), inference.text, inference.cut))
        assert replay.trajectory("expert") == stored


def test_sampled_ids_that_no_text_would_encode_to_are_kept(chat):
    game = Game(shop(), chat)
    odd = (*chat.encode("find"), *chat.encode(" to"), *chat.encode("tal"))
    assert odd != chat.encode("find total")
    game.episode.step(Sampled((*odd, chat.end_id), "find total"))
    game.say("cut", cut=True)
    game.say("")
    trajectory = again(game.episode.trajectory("x"))
    views = list(trajectory.views())
    assert [view_hash(chat.render(v)) for v in views] == [i.hash for i in trajectory.inferences]
    assert [i.cut for i in trajectory.inferences] == [False, True, False]
    assert [i.kind for i in trajectory.inferences] == ["calls", "notice", "notice"]
    assert tuple(views[1][2].ids) == (*odd, chat.end_id)
    assert trajectory.reason == "unfinished"


def test_a_policy_that_changes_its_view_does_not_change_the_record(chat):
    honest, vandal = Game(shop(), chat), Game(shop(), chat)
    for _ in range(3):
        view = vandal.view
        view.messages.append("rubbish")
        view.messages[0] = None
        view.ids.clear()
        view.out.append("e1 gone")
        for game in (honest, vandal):
            game.say("quote item=desks qty=2")
    assert vandal.episode.trajectory("x") == honest.episode.trajectory("x")


def test_rows_of_an_episode_train_each_sampled_token_once(chat, expert_sessions):
    for t in expert_sessions[::6]:
        segments = record((chat.render(v), i.ids, i.trained) for i, v in zip(t.inferences, t.views(), strict=True))
        starts = [s.prompt_ids for s in segments]
        assert len(segments) == sum(1 for i, v in enumerate(t.inferences) if i == 0 or not extends(t, i))
        assert sum(sum(s.mask) for s in segments) == sum(len(i.ids) for i in t.inferences)
        assert all(len(s.completion_ids) == len(s.mask) == len(s.logps) for s in segments)
        assert all(s.ids[: len(p)] == p for s, p in zip(segments, starts, strict=True))
        for s in segments:
            assert [x for x in s.labels() if x != -100] == [x for x, m in zip(s.completion_ids, s.mask, strict=True) if m]


def extends(trajectory, index):
    views = list(trajectory.views())
    before, now = views[index - 1], views[index]
    return now[: len(before)] == before


def test_an_erroneous_step_stays_in_context_and_out_of_the_loss(chat):
    game, recorder = Game(shop(), chat), Recorder()
    for text, trained in (("read e99", False), ("read e1", True)):
        recorder.begin(game.view.ids)
        game.episode.step(Sampled(chat.turn_ids(text), text, trained=trained))
        recorder.end(chat.turn_ids(text), trained=trained)
    (segment,) = recorder.segments
    kept = [x for x in segment.labels() if x != -100]
    assert kept == list(chat.turn_ids("read e1"))
    assert [i.trained for i in game.episode.trajectory("x").inferences] == [False, True]


def test_log_probabilities_must_match_their_tokens():
    segment = Segment([1, 2])
    segment.append([3, 4], trained=True, logps=[-0.1, -0.2])
    segment.append([5], trained=False)
    assert segment.logps == [-0.1, -0.2, 0.0]
    with pytest.raises(ValueError, match="1 log-probabilities for 2 tokens"):
        segment.append([6, 7], trained=True, logps=[-0.1])


def test_a_context_that_is_shorter_or_differs_in_one_id_starts_a_segment():
    recorder = Recorder()
    recorder.begin([1, 2, 3])
    recorder.end([4, 5])
    recorder.begin([1, 2, 3, 4, 5, 6])
    recorder.end([7])
    assert len(recorder.segments) == 1
    recorder.begin([1, 2, 3, 4, 5, 6])
    recorder.end([7])
    recorder.begin([1, 2, 3, 4, 5, 9, 7, 1])
    recorder.end([8])
    assert [s.prompt_ids for s in recorder.segments] == [[1, 2, 3], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 9, 7, 1]]


def test_a_record_with_an_unknown_or_wrong_field_is_refused(expert_sessions):
    data = json.loads(expert_sessions[0].model_dump_json())
    for change in ({"extra": 1}, {"inferences": [{}]}, {"reason": None}):
        with pytest.raises(ValidationError):
            Trajectory.model_validate({**data, **change})


def test_what_the_record_says_of_each_inference_is_what_happened(chat):
    game = Game(shop(), chat, roomy())
    game.say("quote item=desks qty=2")
    game.say("note total=4100 @e3", "read e99", "find AP-7741")
    game.say("total=4100")
    game.say("fold e2-e3 Norra offer for the desks with the price, a code and the usual terms @e3")
    trajectory = game.episode.trajectory("x", kind="managed")
    quote, mixed, answer, fold = trajectory.inferences
    assert (quote.kind, quote.outcomes[0].code, quote.outcomes[0].event) == ("calls", "result", 3)
    assert [(o.tool, o.code, o.event, o.shows) for o in mixed.outcomes] == [
        ("note", "ok", 0, []), ("read", "unknown_ref", 0, []), ("find", "shown", 0, [3])
    ]  # fmt: skip
    assert (answer.kind, answer.outcomes, trajectory.replies) == ("answer", [], {0: "total=4100"})
    assert [i.rewrite for i in trajectory.inferences] == [False, False, False, True]
    assert [i.event for i in trajectory.inferences] == [2, 4, 5, 7]
    assert fold.visible == [1, 2, 3, 4, 5, 6]
    assert fold.fill == round(fold.tokens_in / 1536, 4)
    assert trajectory.notes == {"total": "4100"}
    assert trajectory.kind == "managed"
