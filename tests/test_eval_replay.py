"""Stored inputs, replay, what a failure needed, shards and repeats."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from typer.testing import CliRunner

import eval.player as player
from envs.chat import get_chat
from envs.config import UserError
from envs.policies.base import Sampled
from envs.runs import read_json, read_jsonl, write_jsonl_atomic
from envs.scoring import score as score_trajectory
from envs.tasks import get_family
from envs.tasks.probes import make_probes
from envs.trajectory import Trajectory, pack_inputs, unpack_inputs, view_hash
from eval.__main__ import app
from eval.config import EvalConfig
from eval.freeze import LockError, freeze
from eval.needed import needed_in_input, needed_of
from eval.policies import REPEAT_STEP, for_repeat
from eval.replay import replay
from eval.report import report
from eval.run import run
from eval.score import score
from eval.store import Shard, read_arm, stored_key

ARMS = {
    "expert": {"policy": "expert"}, "never_read": {"policy": "never_read"},
    "cut": {"policy": "expert", "profile": "plain@1", "manager": "truncate", "view_budget": 200},
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    made = (make_probes("procurement", seed, kind, get_chat()) for seed in range(60) for kind in ("static", "never"))
    write_jsonl_atomic(folder / "probes.jsonl", itertools.islice((p for found in made for p in found), 12))
    write_jsonl_atomic(folder / "sessions.jsonl", [get_family("support").generate(5)])
    return folder


@pytest.fixture
def make(data, tmp_path):
    def build(**more):
        fields = {
            "name": "t", "out": str(tmp_path / "run"), "probes": str(data / "probes.jsonl"), "arms": ARMS, "batch_size": 4,
            "sessions": str(data / "sessions.jsonl"), "bootstrap": {"resamples": 200},
        }  # fmt: skip
        return EvalConfig(**{**fields, **more})

    return build


def lines(config, arm, shard=""):
    path = config.arm_folder(arm) / shard / "episodes.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def change(config, arm, edit, number=0):
    """Edit one stored episode of an arm."""
    path = config.arm_folder(arm) / "episodes.jsonl"
    held = [json.loads(line) for line in path.read_text().splitlines()]
    edit(held[number])
    write_jsonl_atomic(path, held)


# ---- stored inputs ------------------------------------------------------------------------------------------------------------


def test_packed_inputs_come_back_to_the_id():
    inputs = [[1, 2, 3], [1, 2, 3, 4, 5], [1, 9], [], [7] * 3000, [7] * 3000]
    packed = pack_inputs(inputs)
    assert unpack_inputs(packed) == inputs
    assert len(packed) < 200
    assert unpack_inputs("") == []
    with pytest.raises(ValueError, match="can't be unpacked"):
        unpack_inputs(packed[:-5])


def test_what_is_stored_is_what_the_policy_was_given(make, monkeypatch):
    given = {}

    class Watched(player.Guarded):
        def act(self, views):
            given.update({view_hash(v.ids): list(v.ids) for v in views})
            return super().act(views)

    monkeypatch.setattr(player, "Guarded", Watched)
    config = make()
    freeze(config)
    run(config)
    seen = 0
    for arm in ARMS:
        for t in read_arm(config.arm_folder(arm), Trajectory, stored_key).values():
            inputs = unpack_inputs(t.inputs)
            assert [given[i.hash] for i in t.inferences] == inputs
            assert [len(ids) for ids in inputs] == [i.tokens_in for i in t.inferences]
            seen += len(inputs)
    assert seen > 60


def test_training_data_keeps_no_inputs():
    from envs.episode import Episode, play
    from envs.policies.expert import Expert
    from envs.profiles import get_profile

    chat = get_chat()
    episode = Episode(get_family("support").generate(5), get_profile("core@1"), chat)
    play([episode], Expert(chat))
    stored = episode.trajectory("expert").model_dump(mode="json")
    assert "inputs" not in stored
    assert "repeat" not in stored


# ---- replay -------------------------------------------------------------------------------------------------------------------


def test_replay_finds_every_view_again(make):
    config = make()
    freeze(config)
    run(config)
    found, changed = replay(config)
    assert changed == []
    assert {arm: (r.episodes, r.differences) for arm, r in found.items()} == dict.fromkeys(ARMS, (13, []))
    assert found["expert"].inputs == sum(len(json.loads(line)["inferences"]) for line in lines(config, "expert"))
    assert not found["expert"].failures
    assert found["never_read"].failures
    only, _ = replay(config, ["cut"])
    assert list(only) == ["cut"]


def test_a_changed_input_hash_turn_or_log_is_found_and_named(make):
    config = make()
    freeze(config)
    run(config)
    path = config.arm_folder("expert") / "episodes.jsonl"
    kept = path.read_bytes()

    def first(edit):
        path.write_bytes(kept)
        change(config, "expert", edit, 2)
        return str(replay(config, ["expert"])[0]["expert"].differences[0])

    def one_id(line):
        inputs = unpack_inputs(line["inputs"])
        inputs[0][5] += 1
        line["inputs"] = pack_inputs(inputs)

    name = json.loads(kept.splitlines()[2])["id"]
    assert f"arm expert, probe {name!r}, inference 1: the stored input is not the one of the stored hash" in first(one_id)

    def both(line):
        one_id(line)
        line["inferences"][0]["hash"] = view_hash(unpack_inputs(line["inputs"])[0])

    told = first(both)
    assert "inference 1, token 5: the view comes out differently" in told
    assert re.search(r"stored:  '.+'\n  rebuilt: '.+'", told)

    def turn(line):
        line["inferences"][0]["text"] = "find something else"
        line["inferences"][0]["ids"] = list(get_chat().turn_ids("find something else"))

    if len(json.loads(kept.splitlines()[2])["inferences"]) > 1:
        assert "inference 2, token" in first(turn)
    assert "the log differs at user event e1.0" in first(lambda line: line["events"][0].update(text="another order"))
    assert "ended with limit_run, the replayed one with answered" in first(lambda line: line.update(reason="limit_run"))
    assert "0 inputs are stored for" in first(lambda line: line.pop("inputs"))


def test_replay_on_the_command_line_exits_1_on_a_difference(make, tmp_path):
    config = make(arms={"never_read": ARMS["never_read"]})
    freeze(config)
    run(config)
    command = ["replay", str(config.folder / "eval.yaml")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "never_read: 13 of 13 episodes come out the same" in done.output
    assert re.search(
        r"arm never_read, probe '\S+' failed in turn \d+, \w+: needed message \(e\d+\) in the input: no", done.output
    )

    def spoil(line):
        line["inferences"][0]["hash"] = "0" * 16

    change(config, "never_read", spoil)
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    assert "DIFFERS: arm never_read, probe" in done.output
    assert CliRunner().invoke(app, [*command, "--arm", "none"]).exit_code == 2


def test_replay_tells_a_source_that_changed_and_refuses_other_samples(make, data, tmp_path, monkeypatch):
    from eval import sources

    config = make(arms={"expert": ARMS["expert"]})
    freeze(config)
    run(config)
    real = sources.sha256_file
    monkeypatch.setattr(sources, "sha256_file", lambda path: "0" * 64 if path.name == "header.py" else real(path))
    found, changed = replay(config)
    assert changed == ["source.play.envs/header.py"]
    assert found["expert"].differences == []
    other = tmp_path / "other.jsonl"
    write_jsonl_atomic(other, read_jsonl(data / "probes.jsonl")[:-1])
    with pytest.raises(LockError, match="probes changed since the freeze: replay needs what was played"):
        replay(make(arms={"expert": ARMS["expert"]}, probes=str(other)))


def test_a_changed_renderer_shows_as_another_view(make, monkeypatch):
    from envs import view

    config = make(arms={"expert": ARMS["expert"]})
    freeze(config)
    run(config)
    monkeypatch.setattr(view, "fold_block", lambda *args: "[folded]")
    differences = replay(config)[0]["expert"].differences
    assert differences
    assert all(d.token >= 0 and "[folded]"[:5] in d.rebuilt for d in differences)


# ---- what a failure needed ----------------------------------------------------------------------------------------------------


def test_a_failure_says_whether_the_needed_message_was_in_its_input(make):
    config = make(
        sessions=None,
        arms={**ARMS, "fabricator": {"policy": "fabricator"}, "whole": {"policy": "closed_book", "profile": "plain@1"}},
    )
    freeze(config)
    run(config)
    score(config)
    rows = [r for r in read_jsonl(config.folder / "scores.jsonl") if r["source"] == "probe"]
    wrong = {(r["arm"], r["variant"]): r["needed_in_input"] for r in rows if not r["score"]["task_correct"]}
    assert wrong["never_read", "missing"] is False
    assert wrong["whole", "missing"] is True  # plain history shows everything: what it needed was there
    assert wrong["whole", "never_stated"] is None
    assert all(r["needed_in_input"] is None for r in rows if r["score"]["task_correct"])
    details = read_json(config.folder / "details.json")["needed_in_input"]
    assert details["whole"]["not_in_input"] == 0 < details["whole"]["in_input"]
    assert details["never_read"]["in_input"] == 0 < details["never_read"]["not_in_input"]
    assert "the needed message" in report(config).read_text()


def test_evidence_that_was_read_back_counts_as_in_the_input(make):
    config = make(arms={"expert": ARMS["expert"]})
    freeze(config)
    run(config)
    trajectories = read_arm(config.arm_folder("expert"), Trajectory, stored_key).values()
    trajectory = next(t for t in trajectories if t.variant == "missing")
    turn = trajectory.inferences[-1].turn
    spoiled = trajectory.model_copy(update={"replies": {**trajectory.replies, turn: "nothing"}})
    needed = needed_in_input(spoiled, score_trajectory(spoiled))[0]
    assert (needed.turn, needed.missing, needed.value, needed.in_input) == (turn, (), True, True)
    unread = spoiled.model_copy(update={"inferences": spoiled.inferences[:1]})
    assert needed_of(unread, score_trajectory(unread)) is False
    assert needed_of(trajectory, score_trajectory(trajectory)) is None


# ---- shards -------------------------------------------------------------------------------------------------------------------


def test_shards_part_the_samples_and_score_reads_them_all(make):
    whole = make(name="whole", out=str(make().folder.parent / "whole"), arms={"expert": ARMS["expert"]})
    freeze(whole)
    run(whole)
    expected = score(whole)

    config = make(arms={"expert": ARMS["expert"]})
    freeze(config)
    for number in (1, 2):
        run(config, shard=f"{number}/3")
    ids = [sorted(json.loads(line)["id"] for line in lines(config, "expert", f"shards/{n}-of-3")) for n in (1, 2)]
    assert all(ids)
    assert not set(ids[0]) & set(ids[1])
    score(config)
    health = read_json(config.folder / "details.json")["health"]["expert"]
    assert health["not_played"] == 13 - len(ids[0]) - len(ids[1]) > 0
    run(config, shard="3/3")
    assert run(config)["expert"].now == 0  # nothing is owed any more, by whatever command
    assert score(config)["arms"] == expected["arms"]
    assert lines(config, "expert") == []
    assert sorted(line for n in (1, 2, 3) for line in lines(config, "expert", f"shards/{n}-of-3")) == sorted(
        lines(whole, "expert")
    )
    assert replay(config)[0]["expert"].episodes == 13
    assert "shards/2-of-3" in str(next(config.arm_folder("expert").rglob("2-of-3/meta.json")))
    assert report(config).is_file()


def test_a_sample_in_two_shards_is_an_error_that_names_both(make):
    config = make(arms={"expert": ARMS["expert"]})
    freeze(config)
    run(config, shard="1/2")
    folder = config.arm_folder("expert") / "shards"
    (folder / "2-of-2").mkdir()
    (folder / "2-of-2" / "meta.json").write_bytes((folder / "1-of-2" / "meta.json").read_bytes())
    (folder / "2-of-2" / "episodes.jsonl").write_text(lines(config, "expert", "shards/1-of-2")[0] + "\n")
    with pytest.raises(UserError, match=r"2-of-2/episodes\.jsonl: \w+ '\S+' is stored in \S+1-of-2/episodes\.jsonl too"):
        score(config)


def test_a_shard_is_not_played_again_elsewhere_nor_hindered_by_a_line_half_written(make):
    config = make(arms={"expert": ARMS["expert"]})
    freeze(config)
    run(config, shard="1/2")
    path = config.arm_folder("expert") / "shards" / "1-of-2" / "episodes.jsonl"
    kept = path.read_bytes()
    path.write_bytes(kept + b'{"id": "half wri')  # another machine is at it
    rest = run(config)["expert"]
    assert rest.now == 13 - len(kept.splitlines())
    assert path.read_bytes() == kept + b'{"id": "half wri'


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2"])
def test_a_shard_that_is_none(text):
    with pytest.raises(UserError, match=r"--shard .*: give part and parts, 1/8 to 8/8"):
        Shard.parse(text)


def test_every_sample_is_in_one_shard():
    shards = [Shard(n, 5) for n in range(1, 6)]
    counts = [sum(s.holds(f"content{n}", repeat) for n in range(200) for repeat in range(2)) for s in shards]
    assert sum(counts) == 400
    assert min(counts) > 50


# ---- repeats ------------------------------------------------------------------------------------------------------------------


def test_repeats_are_played_apart_with_other_seeds(make, data, tmp_path):
    path = tmp_path / "few.jsonl"
    write_jsonl_atomic(path, read_jsonl(data / "probes.jsonl")[:2])
    config = make(
        probes=str(path), sessions=None, repeats=3, arms={"base": {"policy": "hf", "model": "tiny"}, "expert": ARMS["expert"]},
        decoding={"temperature": 1.0, "max_new_tokens": 6, "dtype": "float32"},
    )  # fmt: skip
    freeze(config)
    run(config)
    held = [json.loads(line) for line in lines(config, "base")]
    assert [(t["id"], t.get("repeat", 0)) for t in held] == [(p["id"], n) for n in range(3) for p in read_jsonl(path)]
    said = {t.get("repeat", 0): t["inferences"][0]["text"] for t in held if t["id"] == held[0]["id"]}
    assert len(set(said.values())) == 3
    assert len({t["inferences"][0]["hash"] for t in held if t["id"] == held[0]["id"]}) == 1  # the same question, of course
    score(config)
    rows = read_jsonl(config.folder / "scores.jsonl")
    assert sorted(r["repeat"] for r in rows if r["arm"] == "base") == [0, 0, 1, 1, 2, 2]
    kept = lines(config, "base")
    (config.arm_folder("base") / "episodes.jsonl").write_text("\n".join(kept[:3]) + "\n")
    run(config)
    assert lines(config, "base") == kept  # one is drawn the same again, whatever was drawn before
    assert replay(config)[0]["base"].differences == []


def test_repeats_without_a_temperature_are_refused_for_a_model(make):
    arms = {"base": {"policy": "hf", "model": "tiny"}}
    with pytest.raises(ValueError, match="repeats: 2 at temperature 0: arm 'base' would say the same every time"):
        make(repeats=2, arms=arms)
    served = {"there": {"policy": "openai", "base_url": "http://localhost:1/v1", "served_model": "m"}}
    with pytest.raises(ValueError, match="arm 'there' would say the same every time"):
        make(repeats=2, arms=served)
    assert make(repeats=2, arms=arms, decoding={"temperature": 0.5}).repeats == 2
    assert make(repeats=2, arms={"expert": ARMS["expert"]}).repeats == 2  # a script's are equal, and counted as such


def test_a_repeat_changes_the_seed_and_nothing_else():
    class Seeded:
        seed = 3

        def act(self, views):
            return [Sampled((self.seed,), str(self.seed)) for _ in views]

    policy = Seeded()
    assert for_repeat(policy, 0) is policy
    assert for_repeat(policy, 2).seed == 3 + 2 * REPEAT_STEP
    assert policy.seed == 3
