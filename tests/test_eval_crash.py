"""A run that is killed, torn or out of disk loses nothing, repeats nothing, and ends with the same bytes as an undisturbed one."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from envs.chat import get_chat
from envs.runs import DataError, append_jsonl, read_jsonl, write_jsonl_atomic
from envs.tasks.probes import make_probes
from eval.config import EvalConfig
from eval.freeze import freeze
from eval.player import Played
from eval.replay import replay
from eval.run import run

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def probes(tmp_path_factory):
    path = tmp_path_factory.mktemp("crash") / "probes.jsonl"
    made = (make_probes("procurement", seed, kind, get_chat()) for seed in range(60) for kind in ("static", "changed", "never"))
    write_jsonl_atomic(path, itertools.islice((p for found in made for p in found), 80))
    return path


def build(probes, folder, **more):
    return EvalConfig(name="t", out=str(folder), probes=str(probes), batch_size=3, arms={"expert": {"policy": "expert"}}, **more)


def episodes(config):
    return config.arm_folder("expert") / "episodes.jsonl"


@pytest.fixture(scope="module")
def undisturbed(probes, tmp_path_factory):
    config = build(probes, tmp_path_factory.mktemp("undisturbed"))
    freeze(config)
    run(config)
    return episodes(config).read_bytes()


def test_ten_kills_at_random_moments_leave_the_bytes_of_an_undisturbed_run(probes, undisturbed, tmp_path):
    config = build(probes, tmp_path / "run")
    freeze(config)
    done = subprocess.run(
        [sys.executable, "tests/kill_runs.py", str(config.folder / "eval.yaml"), "10", "7"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    kills = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(kills) == 10
    assert all(k["killed"] for k in kills)
    total = len(undisturbed.splitlines())
    assert sum(0 < k["lines"] < total for k in kills) >= 8  # they hit the playing, not what comes before or after
    assert sum(k["torn"] for k in kills) >= 4
    assert episodes(config).read_bytes() == undisturbed  # inputs included: they stand in the same line
    ids = [line["id"] for line in read_jsonl(episodes(config))]
    assert sorted(ids) == sorted(p["id"] for p in read_jsonl(probes))
    found, changed = replay(config)
    assert (found["expert"].episodes, found["expert"].differences, changed) == (total, [], [])


def test_a_line_torn_at_any_byte_is_owed(probes, undisturbed, tmp_path):
    lines = undisturbed.splitlines(keepends=True)
    config = build(probes, tmp_path / "run")
    freeze(config)
    run(config)
    rng = random.Random(3)
    size = len(lines[-1])
    for cut in (1, size - 2, size - 1, *(rng.randrange(1, size) for _ in range(2))):
        episodes(config).write_bytes(b"".join(lines[:-1]) + lines[-1][:cut])
        played = run(config)["expert"]
        # Without its line feed alone the episode is whole, and gets it.
        assert played == Played(len(lines) - 1, 1, 0) if cut < size - 1 else Played(len(lines), 0, 0)
        assert episodes(config).read_bytes() == undisturbed


FULL_DISK = """
import resource, sys
from envs.config import load_config
from envs.runs import DataError
from eval.config import EvalConfig
from eval.run import run
config = load_config(EvalConfig, sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    run(config)
except DataError as error:
    print(error)
"""
"""Plays an evaluation where files may grow to so many bytes and no further, and prints the error."""


def test_a_full_disk_is_told_in_one_line_and_costs_nothing_that_was_stored(probes, undisturbed, tmp_path):
    lines = undisturbed.splitlines(keepends=True)
    config = build(probes, tmp_path / "run")
    freeze(config)
    room = sum(map(len, lines[:7])) + len(lines[7]) // 2
    # In a process of its own, whose words go into a pipe: the limit would hold for what the tests themselves print, too.
    full = [sys.executable, "-c", FULL_DISK, str(config.folder / "eval.yaml"), str(room)]
    done = subprocess.run(full, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    told = done.stdout.removesuffix("\n")
    assert str(episodes(config)) in told
    assert "free disk space" in told
    assert "\n" not in told
    assert episodes(config).read_bytes() == b"".join(lines[:7])
    assert run(config)["expert"].before == 7
    assert episodes(config).read_bytes() == undisturbed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_without_room_is_told(tmp_path):
    link = tmp_path / "full.jsonl"
    link.symlink_to("/dev/full")
    with pytest.raises(DataError, match="No space left on device.*free disk space"):
        append_jsonl(link, {"a": 1})
