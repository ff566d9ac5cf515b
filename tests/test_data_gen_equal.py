"""Plain history of equal token count: within half a session, the same bytes whoever makes it, one clear line where nothing can be equalled."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from data_gen.build import build
from data_gen.config import Counts, DataConfig, Sizes
from data_gen.equal import cut, trained
from data_gen.run import FILES, merge, run
from envs.config import ConfigError, load_config
from envs.runs import read_json, read_jsonl
from envs.trajectory import Trajectory

NONE = dict.fromkeys(Counts.model_fields, 0)
MANAGED = NONE | {"direct": 8, "managed": 20, "recovery": 8, "static": 6}


def config(out, counts=NONE, **more):
    settings = {"processes": 1, "sizes": Sizes(turns=(2, 4), fillers=(4, 8)), **more}
    return DataConfig(out=str(out), counts=Counts(**counts), rl_bases=2, val_bases=2, **settings)


def content(out):
    return {f: (out / f).read_bytes() for f in FILES}


def tokens(out, measure, plain):
    held = [t for t in read_jsonl(out / "trajectories.jsonl", model=Trajectory) if (t.kind == "plain") == plain]
    sizes = [t.tokens if measure == "total" else trained(t) for t in held]
    return sum(sizes), max(sizes)


@pytest.fixture(scope="module")
def managed(tmp_path_factory):
    out = tmp_path_factory.mktemp("managed")
    run(config(out, MANAGED))
    return out


@pytest.mark.parametrize("measure", ["total", "trained"])
def test_plain_history_equals_a_finished_set_within_half_a_session(managed, tmp_path, measure):
    done = run(config(tmp_path, plain={"like": str(managed), "measure": measure}))
    goal, _ = tokens(managed, measure, plain=False)
    made, largest = tokens(tmp_path, measure, plain=True)
    assert read_json(managed / "done.json")["tokens"][measure] == goal
    assert done["plain_tokens"][measure] == made
    assert abs(made - goal) <= largest / 2
    assert abs(made / goal - 1) < 0.01 or measure == "trained"
    assert f"the goal was {goal} (those of {managed})" in (tmp_path / "card.md").read_text()
    assert load_config(DataConfig, tmp_path / "config.yaml").plain.tokens == goal


def test_plain_history_equals_several_sets_together(managed, tmp_path):
    run(config(tmp_path / "more", MANAGED, seed=1))
    both = [str(managed), str(tmp_path / "more")]
    run(config(tmp_path / "plain", plain={"like": both}))
    goal = sum(read_json(Path(folder) / "done.json")["tokens"]["total"] for folder in both)
    made, largest = tokens(tmp_path / "plain", "total", plain=True)
    assert abs(made - goal) <= largest / 2
    assert f"the goal was {goal} (those of {both[0]} and {both[1]})" in (tmp_path / "plain" / "card.md").read_text()
    kept = load_config(DataConfig, tmp_path / "plain" / "config.yaml").plain
    assert kept.tokens == goal
    assert kept.folders == tuple(both)


def test_a_set_may_equal_its_own_other_part(tmp_path):
    run(config(tmp_path, MANAGED, plain={"like": "here"}))
    (made, largest), (goal, _) = (tokens(tmp_path, "total", plain) for plain in (True, False))
    assert abs(made - goal) <= largest / 2
    assert f"the goal was {goal} (the rest of this set)" in (tmp_path / "card.md").read_text()


def test_processes_and_interruptions_change_no_byte(managed, tmp_path, monkeypatch):
    for plain in ({"like": str(managed)}, {"like": "here"}):
        counts = MANAGED if plain["like"] == "here" else NONE
        wholes = [tmp_path / f"{plain['like'] == 'here'}{n}" for n in (1, 2, 3)]
        run(config(wholes[0], counts, plain=plain))
        run(config(wholes[1], counts, plain=plain, processes=2))
        from data_gen import pool

        calls = []

        def stop(*args, calls=calls, make=pool.make_chunk):
            calls.append(args)
            if len(calls) % 5 == 0:
                raise KeyboardInterrupt
            return make(*args)

        with monkeypatch.context() as patch:
            patch.setattr("data_gen.pool.make_chunk", stop)
            for _ in range(60):
                with contextlib.suppress(KeyboardInterrupt):
                    run(config(wholes[2], counts, plain=plain))
                    break
        assert len(calls) > 5
        assert content(wholes[0]) == content(wholes[1]) == content(wholes[2])


@pytest.mark.parametrize("own", [True, False])
def test_shards_together_come_to_the_same_count(managed, tmp_path, own):
    plain, counts = ({"like": "here"}, MANAGED) if own else ({"like": str(managed)}, NONE)
    folders = [tmp_path / f"s{i}" for i in (1, 2, 3)]
    for i, folder in enumerate(folders, 1):
        run(config(folder, counts, plain=plain, shard=f"{i}/3"))
    merge(tmp_path / "one", folders)
    merge(tmp_path / "two", folders[::-1])
    assert content(tmp_path / "one") == content(tmp_path / "two")
    goal, _ = tokens(tmp_path / "one" if own else managed, "total", plain=False)
    made, largest = tokens(tmp_path / "one", "total", plain=True)
    assert abs(made - goal) <= largest / 2
    shutil.rmtree(tmp_path / "one")


def test_in_memory_it_is_the_same(managed):
    goal = read_json(managed / "done.json")["tokens"]["total"]
    made = build(config("x", plain={"like": str(managed)}))
    assert abs(sum(t.tokens for t in made.trajectories) - goal) <= max(t.tokens for t in made.trajectories) / 2


def test_the_cut_is_at_the_item_that_ends_nearest():
    def sizes(goal):
        return list(cut([4, 4, 4, 4], lambda x: x, goal))

    assert [len(sizes(g)) for g in (0, 1, 2, 5, 6, 8, 9, 16, 99)] == [0, 0, 1, 1, 2, 2, 2, 4, 4]


def test_what_cannot_be_equalled_is_one_line(managed, tmp_path):
    with pytest.raises(ConfigError, match="name the folder of a finished set"):
        run(config(tmp_path / "a", plain={"like": "nowhere"}))
    with pytest.raises(ConfigError, match="this set itself"):
        run(config(managed, plain={"like": str(managed)}))
    with pytest.raises(ConfigError, match="has .* tokens by now, not 7"):
        run(config(tmp_path / "a", plain={"like": str(managed), "tokens": 7}))
    with pytest.raises(ValueError, match="leave one out"):
        config(tmp_path, NONE | {"plain": 3}, plain={"tokens": 9})
    with pytest.raises(ValueError, match="neither like nor tokens"):
        config(tmp_path, plain={})
    with pytest.raises(ConfigError, match="nowhere.* no such file"):
        run(config(tmp_path / "a", plain={"like": [str(managed), "nowhere"]}))
    with pytest.raises(ValueError, match="names here among folders"):
        config(tmp_path, plain={"like": [str(managed), "here"]})
    with pytest.raises(ValueError, match="names a folder twice"):
        config(tmp_path, plain={"like": [str(managed), str(managed)]})
    run(config(tmp_path / "b", plain={"tokens": 5000}))
    with pytest.raises(ConfigError, match="tells no tokens"):
        run(config(tmp_path / "c", plain={"like": str(tmp_path / "b")}))
