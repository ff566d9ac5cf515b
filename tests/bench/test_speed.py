"""What the host costs beside the model. ``make bench`` prints the tables; with ``CTXCTL_WRITE=1`` it writes ``docs/speed.md``.

Ratios are taken inside one run, repeats interleaved, because the machine is shared; absolute figures are of the machine they were made on.
"""

from __future__ import annotations

import cProfile
import os
import platform
import pstats
import statistics
import time
from dataclasses import replace
from pathlib import Path

import pytest
from game import Game, filler, make_session, roomy

from envs.episode import Episode, play
from envs.policies.base import Sampled
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.tasks import FAMILIES
from envs.tasks.probes import make_probes

SIZES = (100, 1_000, 10_000)
TABLES: dict[str, str] = {}
PARTS = {
    "render": ("view.py", "header.py", "index.py"),
    "tokenise": ("chat.py",),
    "parse": ("compact.py", "hermes.py"),
    "tools": ("tools.py", "calls.py", "rewrites.py", "windows.py", "lean.py", "gate.py", "search.py"),
    "state and log": ("state.py", "log.py"),
    "record": ("trajectory.py",),
    "expert": (
        "expert.py",
        "seen.py",
        "reading.py",
        "knowledge.py",
        "paging.py",
        "compressing.py",
        "upkeep.py",
        "rulings.py",
        "stakes.py",
        "surface.py",
    ),
    "episode": ("episode.py",),
}

pytestmark = pytest.mark.bench


def long_game(chat, runs: int) -> Game:
    """A session long enough for ``10,000`` events: every Run fetches, folds and answers, every fifth is compressed."""
    texts = [f"Turn {n}. Get it. Answer: a=?" for n in range(runs)]
    responses = {f"quote item=i{n} qty=1": f"Item {n}: total {4100 + n}. {filler(14, n)}" for n in range(50)}
    return Game(make_session(texts, responses), chat, roomy())


def one_run(game: Game, number: int) -> None:
    """Five events: the user's turn, a call, its result, a fold, an answer; then, every fifth time, a compression."""
    log = game.episode.log
    game.say(f"quote item=i{number % 50} qty=1")
    brief = f"fold e{log.last - 1}-e{log.last} the offer for the item with its total and the terms @e{log.last}"
    assert game.codes(brief) == ["ok"]
    game.say(f"a={4100 + number % 50}")
    if number % 5 == 4:
        upto = log.last - 1
        window = game.episode.state.window
        kept = [*(window.boundary.keep if window.boundary else ()), *(k for f in window.folds for k in f.keep)][-8:]
        refs = ",".join(f"e{k}" for k in kept)
        assert game.codes(f"compress e{upto} offers for the items so far, with totals and terms, as fetched @{refs}") == ["ok"]


def test_the_cost_of_a_step_does_not_grow_with_the_log(chat):
    """Twenty Runs at three lengths of the log, CPU time; medians over repeats."""
    times: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(5):
        game, number = long_game(chat, 2600), 0
        for size in SIZES:
            while game.episode.log.last < size - 60:
                one_run(game, number)
                number += 1
            number += -number % 5
            began, steps = time.process_time(), len(game.episode.inferences)
            for _ in range(20):
                one_run(game, number)
                number += 1
            times[size].append((time.process_time() - began) / (len(game.episode.inferences) - steps))
    medians = {size: statistics.median(values) for size, values in times.items()}
    base = medians[SIZES[0]]
    lines = ["| events in the log | ms a step | against 100 |", "| ---: | ---: | ---: |"]
    lines += [f"| {size:,} | {1000 * t:.3f} | {t / base:.2f} |" for size, t in medians.items()]
    TABLES["Cost of a host step by length of the log"] = "\n".join(lines)


def expert_load(chat, first: int = 0) -> list[Episode]:
    """Twelve sessions of every family (204 in all), from seed ``first`` on."""
    core = get_profile("core@1")
    return [Episode(m.generate(seed), core, chat) for m in FAMILIES.values() for seed in range(first, first + 12)]


def test_expert_steps_per_second(chat):
    """Host and scripted expert together, on sessions never seen before; CPU time, since the machine is shared."""
    play(expert_load(chat), Expert(chat))  # imports, word caches
    rates, shares = [], []
    for repeat in range(5):
        episodes, expert = expert_load(chat, 100 + 12 * repeat), Expert(chat)
        timed = Timed(expert, time.process_time)
        began = time.process_time()
        for episode in episodes:  # one after the other, as data are made
            play([episode], timed)
        total = time.process_time() - began
        rates.append(sum(len(e.inferences) for e in episodes) / total)
        shares.append(1 - timed.inside / total)
    TABLES["Expert steps per second and core"] = (
        f"{statistics.median(rates):,.0f} steps/s of host and expert together (five runs: {min(rates):,.0f} to {max(rates):,.0f}; target "
        f"2,000), on sessions never seen before; of that time the host takes {statistics.median(shares):.0%}. Every run brings new sessions of all {len(FAMILIES)} families, "
        "whose words must be tokenised and read for the first time; with three families the same loop made about 2,300."
    )


class Timed:
    """A policy whose own time is taken."""

    def __init__(self, policy, clock) -> None:
        self.policy, self.clock, self.inside = policy, clock, 0.0

    def act(self, views) -> list[Sampled]:
        began = self.clock()
        turns = self.policy.act(views)
        self.inside += self.clock() - began
        return turns


def test_profile_by_part(chat):
    """Where the time of an expert run goes, by cProfile's own time of each function (which inflates many small calls)."""
    episodes = expert_load(chat, 200)
    profiler = cProfile.Profile()
    profiler.runcall(play, episodes, Expert(chat))
    stats = pstats.Stats(profiler)
    spent = dict.fromkeys([*PARTS, "other (libraries)"], 0.0)
    for (file, _, _), (_, _, own, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        part = next((p for p, files in PARTS.items() if Path(file).name in files and "envs" in file), "other (libraries)")
        spent[part] += own
    total = sum(spent.values())
    lines = ["| part | share |", "| --- | ---: |"]
    lines += [f"| {p} | {t / total:.0%} |" for p, t in sorted(spent.items(), key=lambda x: -x[1])]
    TABLES["Profile of an expert run by part"] = "\n".join(lines)


def test_host_time_beside_smollm2(chat):
    """Probes played by the real model: time outside the policy over all time."""
    from envs.policies.hf import HFPolicy
    from eval.policies import ModelPolicy

    policy = ModelPolicy(HFPolicy("smollm2", max_new_tokens=40, batch_size=16), chat, 0)
    probes = [p for seed in range(8) for p in make_probes("procurement", seed, "static", chat)][:12]
    episodes = [Episode.from_probe(p, replace(get_profile("core@1"), inferences_per_run=4), chat) for p in probes]
    timed = Timed(policy, time.perf_counter)
    began = time.perf_counter()
    play(episodes, timed)
    total = time.perf_counter() - began
    steps = sum(len(e.inferences) for e in episodes)
    TABLES["Host time beside SmolLM2-135M on the CPU"] = (
        f"{(total - timed.inside) / total:.2%} of {total:.1f} s for {steps} inferences in batches of up to 16 (target: under 1 %)."
    )


def test_print_and_write():
    """Last: the tables of the tests before."""
    text = "# Speed of the host\n\nMade with `CTXCTL_WRITE=1 make bench`"
    text += f" on {platform.machine()}, {os.cpu_count()} cores, shared with other work; one thread.\n"
    for title, table in TABLES.items():
        text += f"\n## {title}\n\n{table}\n"
    print("\n" + text)
    if os.environ.get("CTXCTL_WRITE"):
        Path("docs/speed.md").write_text(text, encoding="utf-8")
    assert TABLES
