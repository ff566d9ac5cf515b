"""Duplicates across the sets: masked texts, MinHash against exact Jaccard, who gives way, the proof in the card; the way to the Hub."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from data_gen import near
from data_gen.__main__ import app
from data_gen.config import Counts, DataConfig
from data_gen.near import HASHES, Separation, Watched, body_hash, masked, sketch
from data_gen.push import push
from data_gen.run import FILES, run
from envs.config import ConfigError
from envs.tasks import SPECS
from envs.tasks.engine import Builder, Knobs

NONE = dict.fromkeys(Counts.model_fields, 0)


def session(family="procurement", seed=0):
    return Builder(SPECS[family], seed, Knobs(turns=(2, 3), fillers=(4, 7))).session()


def shingles(s):
    words = masked(s).split()
    return {tuple(words[i : i + 3]) for i in range(len(words) - 2)}


def estimate(one, two):
    a, b = (np.frombuffer(sketch(s), dtype="<u4") for s in (one, two))
    return float((a == b).mean())


def redrawn(s, values):
    """The same session with other values."""
    text = s.model_dump_json()
    for old, new in values.items():
        text = text.replace(old, new)
    return type(s).model_validate_json(text)


def test_values_are_masked_and_entities_stay():
    for family, spec in SPECS.items():
        s = session(family, 3)
        text = masked(s)
        assert any(e in text for e in spec.entities)
        for entity in spec.entities:  # some have digits of their own
            text = text.replace(entity, "")
        assert not any(c.isdigit() for c in text), text
        for fact in s.facts:
            assert fact.value not in text or not any(c.isdigit() for c in fact.value)


def test_other_values_are_the_same_text_and_other_sessions_are_not():
    s = session()
    numbers = {f.value: f.value.translate(str.maketrans("123456789", "234567891")) for f in s.facts if f.value.isdigit()}
    assert numbers
    twin = redrawn(s, numbers)
    assert body_hash(twin) != body_hash(s)
    assert masked(twin) == masked(s)
    assert estimate(s, twin) == 1.0
    assert body_hash(s.model_copy(update={"id": "x", "seed": 99, "tags": ("y",)})) == body_hash(s)


def test_the_estimate_is_near_the_exact_jaccard():
    s = session(seed=1)
    turns = s.turns
    for other in (session(seed=2), session("support", 4), s.model_copy(update={"turns": turns[:-1]}), s):
        a, b = shingles(s), shingles(other)
        assert estimate(s, other) == pytest.approx(len(a & b) / len(a | b), abs=0.15)


def row(*, same=HASHES, start=0):
    """A sketch that agrees with ``row()`` in ``same`` places."""
    values = np.arange(start, start + HASHES, dtype="<u4")
    values[same:] += 1_000_000
    return values.tobytes()


def judged(rows, training, drop=True):
    watched = Watched()
    for i, (purpose, body, r) in enumerate(rows):
        watched.add(f"b{i}", purpose, body, r)
    separation = Separation(watched, 0.8, drop)
    for body, r in training:
        separation.hold_against("sft", body, r)
    return separation, separation.close()


def test_rl_gives_way_to_training_and_validation_to_both():
    at, below = row(same=103), row(same=102)  # 0.805 and 0.797
    far = [row(start=10_000 * (i + 1)) for i in range(3)]
    rows = [
        ("rl", "a", at),
        ("rl", "b", below),
        ("rl", "c", far[0]),
        ("val", "d", at),
        ("val", "e", far[0]),
        ("val", "f", far[1]),
    ]
    separation, dropped = judged(rows, [("t", row()), ("u", far[2])])
    assert dropped == {0, 3, 4}
    pairs = separation.pairs
    assert (pairs["sft", "rl"].compared, pairs["sft", "rl"].near) == (6, 1)
    assert pairs["sft", "rl"].highest == 103 / 128
    assert pairs["sft", "rl"].kept == 102 / 128
    assert (pairs["rl", "val"].near, pairs["rl", "val"].highest) == (2, 1.0)  # d is like b, e like c
    separation, dropped = judged(rows, [("t", row())], drop=False)
    assert dropped == set()
    assert separation.pairs["sft", "rl"].near == 1


def test_exact_duplicates_always_go():
    rows = [("rl", "t", row(start=5_000)), ("val", "v", row(start=9_000)), ("val", "v", row(start=20_000)), ("rl", "w", row())]
    separation, dropped = judged(rows, [("t", row(start=70_000))], drop=False)
    assert dropped == {0, 2}
    assert separation.pairs["sft", "rl"].exact == 1
    assert separation.repeated == 1


def test_no_bases_or_no_training_is_fine():
    assert judged([], [("t", row())])[1] == set()
    assert judged([("rl", "a", row()), ("val", "b", row(start=900))], [])[1] == set()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("near")
    run(DataConfig(out=str(out), counts=NONE | {"direct": 6, "static": 4}, rl_bases=4, val_bases=4, processes=1))
    return out


def test_the_card_carries_the_proof_and_the_file_lets_anyone_repeat_it(made):
    text = (made / "card.md").read_text()
    assert "| training and RL | 40 | 0 | 0 |" in text
    assert "| RL and validation | 16 | 0 | 0 |" in text
    rows = pq.read_table(made / "units.parquet").to_pylist()
    sets = {p: [r for r in rows if r["set"] == p] for p in ("sft", "rl", "val")}
    assert [len(s) for s in sets.values()] == [10, 4, 4]
    matrix = {p: np.array([np.frombuffer(r["sketch"], dtype="<u4") for r in s]) for p, s in sets.items()}
    highest = max(float((a == b).mean()) for a in matrix["sft"] for b in matrix["rl"])
    assert f"| {highest:.2f} | {highest:.2f} |" in text
    assert highest < 0.8


def test_a_near_duplicate_is_left_out_and_counted(made, tmp_path, monkeypatch):
    config = DataConfig(out=str(tmp_path), counts=NONE | {"static": 4}, rl_bases=4, val_bases=4, processes=1)
    monkeypatch.setattr(near, "masked", lambda s: "the same words everywhere")
    result = run(config)
    assert (result["rl_probes"], result["val_probes"], result["left_out"]) == (0, 0, 8)
    assert "Left out: 4 RL and 4 validation bases" in (tmp_path / "card.md").read_text()


def test_a_test_set_is_held_against_the_training_folder(made, tmp_path):
    settings = {"counts": NONE, "rl_bases": 0, "val_bases": 4, "processes": 1, "near_duplicates": {"against": (str(made),)}}
    result = run(DataConfig(out=str(tmp_path / "same"), **settings))
    assert result["left_out"] == 4  # the same seed gives the validation bases of that folder
    result = run(DataConfig(out=str(tmp_path / "new"), seed=1, **settings))
    assert result["left_out"] == 0
    assert f"| {made} and validation | 72 | 0 | 0 |" in (tmp_path / "new/card.md").read_text()
    with pytest.raises(ConfigError, match="name a finished data folder"):
        run(DataConfig(out=str(tmp_path / "x"), **{**settings, "near_duplicates": {"against": ("nowhere",)}}))


# -- the way to the Hub ----------------------------------------------------------------------------------------------


class Api:
    """Stands in for the Hub."""

    fault: Exception | None = None
    calls: list[tuple] = []

    def create_repo(self, repo, **more):
        if self.fault:
            raise self.fault
        self.calls.append((repo, more))
        return f"https://huggingface.co/datasets/{repo}"

    def create_commit(self, repo, operations, **more):
        self.calls.append((repo, [o.path_in_repo for o in operations], more))


def test_push_offline_and_unfinished_are_one_line(made, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = CliRunner().invoke(app, ["push", str(made), "me/data"])
    assert result.exit_code == 2
    assert "HF_HUB_OFFLINE is set" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    with pytest.raises(ConfigError, match=r"done\.json is not there"):
        push(tmp_path, "me/data")


def test_push_sends_every_file_and_the_card_as_readme(made, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    monkeypatch.setattr(Api, "calls", [])
    result = CliRunner().invoke(app, ["push", str(made), "me/data", "--private"])
    assert result.stdout.strip() == "https://huggingface.co/datasets/me/data"
    (_, how), (_, files, _) = Api.calls
    assert how == {"repo_type": "dataset", "private": True, "exist_ok": True}
    assert set(files) == {*FILES, "config.yaml", "README.md"} - {"card.md"}


def test_a_refusal_of_the_hub_is_one_line(made, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    monkeypatch.setattr(Api, "fault", OSError("no route\nto host"))
    result = CliRunner().invoke(app, ["push", str(made), "me/data"])
    assert result.exit_code == 2
    assert "no route to host" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
