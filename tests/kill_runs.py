"""Plays an evaluation in forked children, kills them with SIGKILL at random moments, and then plays it to its end.

    python tests/kill_runs.py CONFIG.yaml KILLS SEED

Forked, so that ten starts cost ten forks and not ten imports. Prints one JSON line a kill: episodes stored before and after, and
whether a line was left torn.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from envs import runs
from envs.config import load_config
from eval.config import EvalConfig
from eval.freeze import check_play
from eval.run import run


def main(path: str, kills: int, seed: int) -> None:
    config = load_config(EvalConfig, path)
    check_play(config)  # the children inherit what it has loaded
    rng = random.Random(seed)
    file = config.arm_folder("expert") / "episodes.jsonl"
    total = len(Path(config.probes or "").read_bytes().splitlines())
    for number in range(kills):
        before = lines_of(file)
        child = os.fork()
        if not child:
            slow_disk()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # no bars
            run(config)
            os._exit(0)
        if number:  # after some more episodes, never so many that nothing is left for the next kills
            goal = before + 1 + rng.randrange(max(1, 2 * (total - before) // (kills - number + 2)))
            while lines_of(file) < goal and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                time.sleep(0.0005)
            time.sleep(rng.uniform(0, 0.006))
        else:  # on its way to the first
            time.sleep(rng.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        data = file.read_bytes() if file.exists() else b""
        if number % 2 and data.endswith(b"\n"):  # what a kill within the write leaves: the disk has part of the last line
            last = len(data) - data[:-1].rfind(b"\n") - 1
            os.truncate(file, len(data) - rng.randrange(1, last))
            data = file.read_bytes()
        torn = bool(data) and not data.endswith(b"\n")
        print(json.dumps({"killed": os.WIFSIGNALED(status), "lines": data.count(b"\n"), "torn": torn}), flush=True)
    run(config)


def lines_of(file: Path) -> int:
    """Whole lines."""
    return file.read_bytes().count(b"\n") if file.exists() else 0


def slow_disk() -> None:
    """A disk that takes 2 ms for a line, so that a kill finds the run between writing and syncing more often than not."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        time.sleep(0.002)
        real(descriptor)

    runs.os.fsync = fsync


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
