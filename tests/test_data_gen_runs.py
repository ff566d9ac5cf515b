"""Processes, shards and interruptions: whatever happens on the way, the files are the same to the byte."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import heeds_ctrl_c
from typer.testing import CliRunner

from data_gen.__main__ import app
from data_gen.build import Stream, candidate, quota
from data_gen.config import Counts, DataConfig
from data_gen.journal import Journal
from data_gen.pool import Work
from data_gen.run import FILES, JOURNALS, merge, run
from envs.config import ConfigError
from envs.runs import DataError, read_json

ROOT = Path(__file__).parents[1]
COUNTS = dict.fromkeys(Counts.model_fields, 0) | {"direct": 40, "managed": 24, "recovery": 8, "static": 9, "changed": 3}


def config(out: Path, **more) -> DataConfig:
    return DataConfig(out=str(out), counts=COUNTS, rl_bases=5, val_bases=7, **{"processes": 1, **more})


def content(out: Path) -> dict[str, bytes]:
    return {f: (out / f).read_bytes() for f in FILES}


def same(one: dict[str, bytes], two: dict[str, bytes]) -> None:
    assert [f for f in FILES if one[f] != two[f]] == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("whole")
    run(config(out))
    return content(out)


def test_two_processes_give_the_same_bytes_as_one(whole, tmp_path):
    run(config(tmp_path, processes=2))
    same(content(tmp_path), whole)
    assert not (tmp_path / JOURNALS).exists()


def command(out: Path, processes: int) -> list[str]:
    counts = [f"counts.{k}={v}" for k, v in COUNTS.items()]
    return [
        sys.executable, "-m", "data_gen", "configs/data_demo.yaml", f"out={out}", "rl_bases=5", "val_bases=7", f"processes={processes}", *counts,
    ]  # fmt: skip


def start_and_wait(out: Path, processes: int, lines: int) -> subprocess.Popen[str]:
    """A run that has written so many chunks."""
    process = subprocess.Popen(
        command(out, processes), cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heeds_ctrl_c
    )
    deadline = time.monotonic() + 200
    while sum(f.read_bytes().count(b"\n") for f in (out / JOURNALS).glob("*.jsonl")) < lines:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def descendants(pid: int) -> list[int]:
    found, todo = [], [pid]
    while todo:
        with contextlib.suppress(OSError):
            own = [int(c) for t in Path(f"/proc/{todo.pop()}/task").iterdir() for c in (t / "children").read_text().split()]
            found += own
            todo += own
    return found


@pytest.mark.parametrize("processes", [1, 2])
def test_killed_and_started_again_gives_the_same_bytes(whole, tmp_path, processes):
    process = start_and_wait(tmp_path, processes, lines=4)
    below = descendants(process.pid)
    process.kill()
    process.wait()
    assert not (tmp_path / "done.json").exists()
    with (tmp_path / JOURNALS / "sft.direct.jsonl").open("ab") as file:
        file.write(b'{"first": 3, "next')  # what a kill in the middle of a line leaves
    before = sum(f.stat().st_size for f in (tmp_path / JOURNALS).glob("*.jsonl"))
    assert before
    run(config(tmp_path, processes=3 - processes))
    same(content(tmp_path), whole)
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() and running(pid) for pid in below):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.1)


def running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def test_ctrl_c_ends_in_one_line_and_the_run_goes_on(whole, tmp_path):
    process = start_and_wait(tmp_path, 2, lines=3)
    os.killpg(process.pid, signal.SIGINT)  # a terminal signals the workers too
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.strip().splitlines()[-1] == "stopped; the same command resumes"
    run(config(tmp_path))
    same(content(tmp_path), whole)


def test_a_kill_while_the_files_are_written_costs_nothing(whole, tmp_path, monkeypatch):
    monkeypatch.setattr("data_gen.run.write_plots", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run(config(tmp_path))
    monkeypatch.undo()
    monkeypatch.setattr("data_gen.pool.make_chunk", lambda *_: pytest.fail("a finished unit was made again"))
    run(config(tmp_path))
    same(content(tmp_path), whole)


def test_shards_in_any_order_of_making_and_naming_join_to_one_set(tmp_path):
    folders = [tmp_path / f"s{i}" for i in (1, 2, 3)]
    for i, folder in zip((3, 1, 2), (folders[2], folders[0], folders[1]), strict=True):
        run(config(folder, shard=f"{i}/3"))
    one = merge(tmp_path / "one", folders)
    merge(tmp_path / "two", folders[::-1])
    same(content(tmp_path / "one"), content(tmp_path / "two"))
    assert merge(tmp_path / "one", folders) == one
    card = (tmp_path / "one/card.md").read_text()
    assert "changed 3, direct 40, managed 24, recovery 8, static 9" in card
    rows = [json.loads(line) for line in (tmp_path / "one/trajectories.jsonl").open()]
    assert one["trajectories"] == len(rows)
    assert {r["family"] for r in rows if r["kind"] == "direct"} == {"procurement", "support"}
    with pytest.raises(ConfigError, match=r"shard 2/3 is missing"):
        merge(tmp_path / "x", [folders[0], folders[2]])
    with pytest.raises(ConfigError, match=r"the folder holds shard 1/3"):
        merge(folders[0], folders)
    with pytest.raises(ConfigError, match=r"are both shard 1/3"):
        merge(tmp_path / "x", [folders[0], folders[0]])
    with pytest.raises(ConfigError, match="choose another out for shard 1/3"):
        run(config(folders[1], shard="1/3"))
    assert run(config(folders[1], shard="2/3"))["shard"] == "2/3"
    run(config(tmp_path / "other", shard="2/3", seed=5))
    with pytest.raises(ConfigError, match="another config"):
        merge(tmp_path / "x", [folders[0], tmp_path / "other", folders[2]])
    result = CliRunner().invoke(app, ["merge", str(tmp_path / "x"), str(tmp_path / "one")])
    assert result.exit_code == 2
    assert "not a finished shard" in result.stderr


def test_shards_part_the_candidates_and_the_counts():
    parts = [DataConfig(shard=f"{i}/3") for i in (1, 2, 3)]
    numbers = [candidate(p, index) for p in parts for index in range(20)]
    assert sorted(numbers) == list(range(60))
    assert all({candidate(p, i) % 2 for i in range(2)} == {0, 1} for p in parts)
    assert [sum(quota(p, n) for p in parts) for n in range(10)] == list(range(10))


def test_units_of_another_config_version_or_run_are_never_joined(tmp_path, monkeypatch):
    monkeypatch.setattr("data_gen.run.write_all", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    tiny = config(tmp_path).model_copy(update={"counts": Counts(**(dict.fromkeys(Counts.model_fields, 0) | {"direct": 2}))})
    with pytest.raises(KeyboardInterrupt):
        run(tiny)
    with pytest.raises(ConfigError, match="of another config"):
        run(tiny.model_copy(update={"seed": 8}))
    monkeypatch.setattr("data_gen.run.code_hash", lambda: "else")
    with pytest.raises(ConfigError, match="of another version of the code"):
        run(tiny)
    with (tmp_path / JOURNALS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another run is at work"):
            run(tiny)


def test_the_journal_cuts_a_torn_line_and_refuses_a_gap(tmp_path):
    stream = Stream("sft", "direct")
    journal = Journal.open(tmp_path, stream)
    journal.append({"first": 0, "next": 4, "units": [{"number": 0}]})
    journal.append({"first": 4, "next": 8, "units": [{"number": 5}, {"number": 6}]})
    good = journal.path.read_bytes()
    for cut in range(1, 12):
        journal.path.write_bytes(good[:-cut])
        again = Journal.open(tmp_path, stream)
        assert (again.made, again.next) == (1, 4)
    journal.path.write_bytes(good + b"x" * 200_000)
    assert Journal.open(tmp_path, stream).made == 3
    assert journal.path.read_bytes() == good
    assert [u["number"] for u in journal.units(2)] == [0, 5]
    journal.path.write_bytes(good.splitlines(keepends=True)[1])
    with pytest.raises(DataError, match="candidates from 0 are missing"):
        Journal.open(tmp_path, stream)


def test_chunks_are_written_in_order_whatever_their_order_of_arrival(tmp_path):
    work = Work(Stream("sft", "direct"), 5, Journal(tmp_path / "j.jsonl"))
    chunks = [{"first": i, "next": i + 1, "units": [{"number": i}] if i != 1 else []} for i in range(8)]
    assert [work.take() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert not work.wants_more
    assert [work.put(chunks[i]) for i in (2, 1, 0, 4, 3)] == [0, 0, 2, 0, 2]
    assert work.wants_more
    assert work.take() == 5
    assert work.put(chunks[5]) == 1
    assert [u["number"] for u in work.journal.units(99)] == [0, 2, 3, 4, 5]
    assert not work.wants_more


def die(*_):
    os._exit(9)


def test_a_dead_worker_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("data_gen.pool.make_chunk", die)
    with pytest.raises(DataError, match="the same command resumes"):
        run(config(tmp_path, processes=2))


def test_done_says_what_was_made(tmp_path):
    out = tmp_path / "d"
    result = CliRunner().invoke(app, [f"{ROOT}/configs/data_demo.yaml", f"out={out}", "rl_bases=0", "val_bases=1", *(f"counts.{k}={int(k == 'direct')}" for k in COUNTS)])  # fmt: skip
    assert result.exit_code == 0
    assert "trajectories 1" in result.stdout
    done = read_json(out / "done.json")
    assert done["trajectories"] == 1
    assert done["left_out"] == 0
