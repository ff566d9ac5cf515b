"""The data stage: kinds, masks, splits, files, and one clear line for every mistake."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from data_gen.__main__ import app
from data_gen.build import build
from data_gen.card import card
from data_gen.config import DataConfig
from data_gen.run import run
from data_gen.tally import Tally
from envs.config import ConfigError
from envs.runs import DataError, read_jsonl
from envs.tasks.base import Probe, split_of
from envs.trajectory import Trajectory

SMALL = {
    "counts": {
        "direct": 3, "managed": 3, "recovery": 6, "static": 2, "keep": 2, "other": 1, "changed": 3, "never": 1, "never_open": 1, "present": 1,
    },
    "val_bases": 7,
    "rl_bases": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return build(DataConfig(**SMALL))


def test_every_kind_is_there_with_its_twins(data):
    kinds = Counter(t.kind for t in data.trajectories)
    assert set(kinds) == {"direct", "managed", "recovery", "detect"}
    damaged = [t for t in data.trajectories if t.variant in ("missing", "superseded") and ".q" not in t.id]
    ids = {t.id for t in data.trajectories}
    assert damaged
    assert all(t.id.rsplit("/", 1)[0] + "/present" in ids for t in damaged)


def test_direct_episodes_touch_no_context_tool_and_managed_ones_do(data):
    def tools(kind):
        return {o.tool for t in data.trajectories if t.kind == kind for i in t.inferences for o in i.outcomes}

    assert not tools("direct") & {"note", "fold", "compress", "read", "find"}
    assert {"note", "fold"} <= tools("managed")


def test_erroneous_steps_are_refused_by_the_host_and_masked(data):
    errors = 0
    for t in data.trajectories:
        for number, i in enumerate(t.inferences):
            refused = any(o.code not in ("ok", "result", "shown") for o in i.outcomes)
            assert not (refused and i.trained)
            errors += refused
            # Right steps are left out of the loss only where a row teaches the first decision alone.
            assert i.trained or refused or (t.kind == "detect" and number > 0)
    assert errors == SMALL["counts"]["recovery"]


def test_first_turn_only_leaves_the_decision_to_read_trained():
    config = DataConfig(**SMALL, first_turn_only=1.0)
    reading = [t for t in build(config).trajectories if t.kind == "detect" and len(t.inferences) > 1]
    assert reading
    assert all([i.trained for i in t.inferences] == [True] + [False] * (len(t.inferences) - 1) for t in reading)


def test_a_lossy_brief_is_mended_by_a_note_that_cites_the_evidence(data):
    mended = [t for t in data.trajectories if t.kind == "recovery" and t.variant == "missing"]
    assert mended
    for t in mended:
        lines = [i.text for i in t.inferences]
        assert lines[0].startswith("read e")
        event = lines[0].split()[1]
        assert any(line.startswith("note ") and line.endswith(f"@{event}") for line in lines[1:-1])


def test_splits_are_by_content_and_disjoint(data):
    trained = {t.base or t.session.id for t in data.trajectories}
    rl, val = {p.base for p in data.rl_probes}, {p.base for p in data.val_probes}
    assert trained
    assert rl
    assert val
    assert not trained & rl
    assert not trained & val
    assert not rl & val
    free = [t.session for t in data.trajectories if t.base is None]
    assert all(split_of(s) == "train" for s in free)


def test_same_seed_same_bytes_other_seed_other_sessions():
    tiny = DataConfig(counts=dict.fromkeys(SMALL["counts"], 0) | {"static": 1}, val_bases=1, rl_bases=0)
    one, two = build(tiny), build(tiny)
    assert [t.model_dump_json() for t in one.trajectories] == [t.model_dump_json() for t in two.trajectories]
    other = build(tiny.model_copy(update={"seed": 1}))
    assert {t.base for t in one.trajectories}.isdisjoint({t.base for t in other.trajectories})


def test_hints_are_asked_for_and_change_nothing_where_they_are_not():
    bare = DataConfig(counts=dict.fromkeys(SMALL["counts"], 0), val_bases=2, val_mix=("variants",), rl_bases=0)
    hinted = bare.model_copy(update={"hints": True})
    plain, more = (build(config).val_probes for config in (bare, hinted))
    assert {p.hint for p in plain} == {"none"}
    assert {p.hint for p in more} == {"none", "vague", "explicit"}
    assert [p for p in more if p.hint == "none"] == plain
    assert "hints" not in bare.identity(), "sets made before there was a choice are the same sets"
    assert bare.identity() != hinted.identity()


def test_held_out_families_are_refused_unless_asked_for():
    with pytest.raises(ValueError, match="travel is held out"):
        build(DataConfig(families=("travel",), **SMALL))


def test_files_load_and_a_second_run_returns_at_once(tmp_path):
    from datasets import load_dataset

    config = DataConfig(out=str(tmp_path / "d"), **SMALL)
    first = run(config)
    stamp = (tmp_path / "d/trajectories.jsonl").stat().st_mtime_ns
    assert run(config) == first
    assert (tmp_path / "d/trajectories.jsonl").stat().st_mtime_ns == stamp
    stored = read_jsonl(tmp_path / "d/trajectories.jsonl", model=Trajectory)
    assert len(stored) == first["trajectories"]
    read_jsonl(tmp_path / "d/probes.val.jsonl", model=Probe)
    rows = load_dataset(
        "parquet", data_files=str(tmp_path / "d/trajectories.parquet"), split="train", cache_dir=str(tmp_path / "c")
    )
    assert rows.num_rows == first["trajectories"]
    assert json.loads(rows[0]["trajectory"])["id"] == rows[0]["id"]
    assert rows[0]["messages"][0]["role"] == "system"
    with pytest.raises(ConfigError, match="another config"):
        run(config.model_copy(update={"seed": 9}))


def test_a_torn_line_names_file_and_line(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"v": 1}\n{"v": ', encoding="utf-8")
    with pytest.raises(DataError, match=r"t\.jsonl"):
        read_jsonl(path, model=Trajectory)


def test_the_card_counts_what_was_made(data):
    text = card(DataConfig(**SMALL), Tally.of(data))
    n = sum(t.kind == "detect" for t in data.trajectories)
    assert f"| detect | {n} |" in text
    assert "seed: 0" in text
    assert "Licence: Apache-2.0" in text
    answers = sum(i.kind == "answer" for t in data.trajectories for i in t.inferences)
    assert f"| answer | {answers} |" in text
    for family in ("procurement", "support"):
        assert f"{family} {sum(t.family == family for t in data.trajectories)}" in text
    inputs = [i.tokens_in for t in data.trajectories if t.kind == "managed" for i in t.inferences]
    managed = next(line for line in text.splitlines() if line.startswith("| managed |"))
    assert f"| {min(inputs)} / " in managed
    assert f" / {max(inputs)} |" in managed


def test_shares_give_whole_counts_that_add_up():
    config = DataConfig(shares={"total": 100, "kinds": {"direct": 1 / 3, "managed": 1 / 3, "static": 1 / 3}})
    counts = config.units.model_dump()
    assert sum(counts.values()) == 100
    assert sorted(counts[k] for k in ("direct", "managed", "static")) == [33, 33, 34]
    assert DataConfig().units == DataConfig().counts


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["shares.total=9", "shares.kinds.direct=0.5"], "add up to 0.5"),
        (["shares.total=9", "shares.kinds.manged=1"], "did you mean 'managed'"),
        (["shares.total=9", "shares.kinds.direct=1", "counts.direct=3"], "leave one out"),
        (["shard=3/2"], "shard '3/2' must be i/n"),
        (["near_duplicates.threshold=0"], "near_duplicates.threshold"),
    ],
)
def test_a_wrong_setting_is_one_line(tmp_path, overrides, words):
    result = CliRunner().invoke(app, ["configs/data_demo.yaml", f"out={tmp_path}", *overrides])
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_stream_that_never_fills_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("data_gen.build.make_base", lambda *_: None)
    config = DataConfig(out=str(tmp_path), counts=dict.fromkeys(SMALL["counts"], 0) | {"static": 1}, val_bases=0, rl_bases=0)
    with pytest.raises(ConfigError, match=r"sft\.static: only 0 of 1 units"):
        run(config)


def test_an_unknown_key_is_one_line_with_the_nearest_name(tmp_path):
    result = CliRunner().invoke(app, ["configs/data_demo.yaml", f"out={tmp_path}", "counts.chnged=3"])
    assert result.exit_code == 2
    assert "did you mean 'changed'" in result.stderr
    assert "Traceback" not in result.stderr
