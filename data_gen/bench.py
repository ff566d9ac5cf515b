"""How fast sessions are made, how much memory that takes, and where the time goes."""

from __future__ import annotations

import cProfile
import os
import pstats
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from data_gen.build import Stream
from data_gen.config import Counts, DataConfig
from data_gen.records import make_chunk
from data_gen.run import run


class Speed(NamedTuple):
    """One measured run."""

    sessions: int
    processes: int
    seconds: float
    """From the first import of a worker to the last file."""
    largest: float
    """Peak resident memory of the largest process, MB."""
    total: float
    """Peak of the sum over all processes, MB; shared pages count in each."""
    cpu: float
    """Processor seconds of all processes: on a shared machine a better measure than the wall clock."""
    size: float
    """Size of ``trajectories.jsonl``, MB."""

    def __str__(self) -> str:
        return (
            f"{self.sessions} sessions, {self.processes} processes: {self.sessions / self.seconds:.0f} sessions/s, "
            f"{self.sessions / self.cpu:.0f} a processor second ({self.seconds:.1f} s, processor {self.cpu:.1f} s), "
            f"peak RSS {self.largest:.0f} MB (largest process), {self.total:.0f} MB (all), {self.size:.0f} MB of trajectories"
        )


class Watch:
    """Samples the resident memory of this process and its descendants; ``/proc`` only."""

    def __init__(self, every: float = 0.25) -> None:
        self.every, self.largest, self.total = every, 0.0, 0.0
        self.cpu: dict[int, float] = {}
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(self.every):
            found = processes_now()
            sizes = [size for size, _ in found.values()]
            self.largest, self.total = max(self.largest, *sizes), max(self.total, sum(sizes))
            self.cpu.update({pid: cpu for pid, (_, cpu) in found.items()})


def processes_now() -> dict[int, tuple[float, float]]:
    """Resident MB and processor seconds of this process and each of its descendants, by process id."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    state: dict[int, tuple[float, float]] = {}
    page, tick = os.sysconf("SC_PAGE_SIZE") / 2**20, os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
                size = int((folder / "statm").read_text().split()[1]) * page
            except (OSError, IndexError, ValueError):
                continue  # it has just ended
            state[int(folder.name)] = size, (int(fields[11]) + int(fields[12])) / tick
            children[int(fields[1])].append(int(folder.name))
    own, found = [os.getpid()], {}
    while own:
        pid = own.pop()
        found[pid] = state.get(pid, (0.0, 0.0))
        own += children[pid]
    return found


def sessions_config(sessions: int, out: str, processes: int, seed: int = 0) -> DataConfig:
    """Short free-play sessions, a third of each kind, and no bases."""
    third = sessions // 3
    counts = dict.fromkeys(Counts.model_fields, 0) | {"direct": sessions - 2 * third, "managed": third, "recovery": third}
    return DataConfig(out=out, seed=seed, counts=Counts(**counts), rl_bases=0, val_bases=0, processes=processes)


def measure(sessions: int, processes: int, seed: int = 0) -> Speed:
    """Make ``sessions`` sessions in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder, Watch() as watch:
        start, before = time.perf_counter(), time.process_time()
        run(sessions_config(sessions, folder, processes, seed))
        seconds = time.perf_counter() - start
        size = (Path(folder) / "trajectories.jsonl").stat().st_size / 2**20
    cpu = sum(watch.cpu.values()) - before
    return Speed(sessions, processes, seconds, watch.largest, watch.total, cpu, size)


def profile(sessions: int = 480) -> str:
    """Where one process's time goes: share of it by source file."""
    config = sessions_config(sessions, "", 1)
    make_chunk(config, Stream("sft", "managed"), 10_000, 16)
    profiler = cProfile.Profile()
    profiler.enable()
    for kind in ("direct", "managed", "recovery"):
        make_chunk(config, Stream("sft", kind), 0, sessions // 3)
    profiler.disable()
    spent: defaultdict[str, float] = defaultdict(float)
    entries: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    for (file, _, function), (_, _, own, _, _) in entries.items():
        spent["/".join(Path(file).parts[-2:]) if file != "~" else f"built-in {function[:48]}"] += own
    total = sum(spent.values())
    return "\n".join(f"{own / total:6.1%}  {name}" for name, own in sorted(spent.items(), key=lambda x: -x[1])[:16])
