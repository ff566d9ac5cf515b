"""Sessions with trajectories per second on two processes, and whether memory stays flat. ``make bench`` prints the figures.

Target: 300 short sessions a second on two cores. On a shared machine the wall clock says how busy it is; the processor seconds say
what a session costs. ``CTXCTL_SESSIONS=100000`` adds the long run.
"""

from __future__ import annotations

import os

import pytest

from data_gen.bench import measure, profile

pytestmark = pytest.mark.bench
SIZES = (2_000, 10_000, 20_000)


@pytest.mark.timeout(7200)
def test_speed_and_memory_over_the_number_of_sessions():
    extra = int(os.environ.get("CTXCTL_SESSIONS", "0"))
    runs = [measure(n, processes=2) for n in (*SIZES, *([extra] if extra else []))]
    print()
    for run in runs:
        print(run)
    steady = (runs[1].sessions - runs[0].sessions) / (runs[1].seconds - runs[0].seconds)
    of_cpu = (runs[1].sessions - runs[0].sessions) / (runs[1].cpu - runs[0].cpu)
    print(f"without the start of the processes: {steady:.0f} sessions/s; {of_cpu:.0f} a processor second")
    print(profile())
    first, last = runs[1], runs[-1]
    assert last.largest < 1.15 * first.largest, "memory grows with the number of sessions"
