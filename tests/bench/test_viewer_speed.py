"""The page of 2,000 real episodes: its size, and how long a browser takes to open, filter, sort, search and step. ``make bench`` prints them.

A time runs from the event that a user's choice or key sends until the browser has painted what follows. Bounds are those of docs/viewer.md;
the machine is shared, so that the best of a few tries counts, and the median stands beside it. Beside both stands the processor time of
the page's main thread, which other work on the machine does not stretch.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
from pathlib import Path

import pytest
from viewer_run import ARMS, PAINTED, make_run, meter_of, spent

from eval.view import view

PROBES, SESSIONS, BASES = 460, 40, 300
LARGEST = 50e6
WITHIN = {"filter": 200, "clear": 200, "sort": 200, "turn": 200, "search": 200, "step": 100, "next": 200, "sibling": 200}
"""Milliseconds."""
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""
pytestmark = [pytest.mark.bench, pytest.mark.real]

ACTS = {
    "filter": "(i) => painted(() => choose(field('arm'), String(i % 4)), () => shown.length < 2000 && drawn())",
    "clear": "() => painted(() => document.getElementById('clear').click(), () => shown.length === ROWS.length && drawn())",
    "sort": "(i) => painted(() => choose(document.getElementById('sort'), String(i % NUMBERS.length)), drawn)",
    "turn": "() => painted(() => press('r'), drawn)",
    "next": "() => painted(() => press('j'), drawn)",
    "sibling": "() => painted(() => press('o'), drawn)",
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page, made anew; with ``VIEWER_RUN=<folder>`` of a run that lies there (made there when it does not)."""
    kept = os.environ.get("VIEWER_RUN")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("viewer")
    if (folder / "run" / "scores.jsonl").is_file():
        from eval.view import config_of

        config = config_of(str(folder / "run"))
    else:
        folder.mkdir(parents=True, exist_ok=True)
        config = make_run(folder, PROBES, SESSIONS, bases=BASES)
    return view(config)


@pytest.fixture(scope="module")
def tab(page):
    driver = pytest.importorskip("playwright.sync_api", reason="the dev extra's playwright is not installed")
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine: install the system's package, or set CHROMIUM")
    with driver.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_context(viewport={"width": 1280, "height": 860}, offline=True).new_page()
        tab.goto(f"file://{page.path}", timeout=120_000)
        tab.wait_for_selector(".turn", timeout=120_000)
        yield tab
        browser.close()


def test_size_and_times(page, tab):
    assert page.shown == len(ARMS) * (PROBES + SESSIONS) == 2000
    opened = json.loads(
        tab.evaluate(
            "JSON.stringify({first: performance.getEntriesByName('first-contentful-paint')[0].startTime, list: marks.list, "
            "episode: marks.episode, whole: performance.getEntriesByType('navigation')[0].loadEventEnd})"
        )
    )
    tab.wait_for_function("gathered === ROWS.length", timeout=300_000)
    tab.evaluate(PAINTED)
    meter = meter_of(tab)
    times: dict[str, list[float]] = {name: [] for name in WITHIN}
    busy: dict[str, list[float]] = {name: [] for name in WITHIN}

    def measure(name, act, given):
        before = spent(meter)
        times[name].append(tab.evaluate(act, given))
        busy[name].append(spent(meter) - before)

    by_length = "() => choose(document.getElementById('sort'), String(NUMBERS.findIndex((n) => n.name === 'inferences')))"
    for i in range(8):
        for name, act in ACTS.items():
            measure(name, act, i)
        tab.evaluate(by_length)
        tab.evaluate("(i) => void go(shown[i], 0)", i)  # the longest episodes
        tab.wait_for_function("drawn() && current.step === 0")
        for step in range(1, 6):
            measure("step", "(n) => painted(() => press('ArrowRight'), () => current.step === n && drawn())", step)
        # The field waits 80 ms for the next letter; the time is that of the search itself.
        measure("search", "(w) => painted(() => { words = [w]; filter(); }, () => true)", f"e1{i}")
        tab.evaluate("document.getElementById('clear').click()")
    each = page.size / page.shown
    print(f"\n{page.shown} episodes, {page.size / 1e6:.1f} MB ({each / 1e3:.1f} kB each), load {os.getloadavg()[0]:.1f}")
    print("opening, ms: " + ", ".join(f"{name} {value:.0f}" for name, value in opened.items()))
    print("ms        median   best  worst  processor (median)  tries")
    for name, held in times.items():
        told = (statistics.median(held), min(held), max(held))
        print(f"{name:8} {told[0]:7.1f}{told[1]:7.1f}{told[2]:7.1f} {statistics.median(busy[name]):19.1f} {len(held):6}")
    assert page.size < LARGEST
    for name, held in times.items():
        assert min(held) < WITHIN[name], name
        assert statistics.median(busy[name]) < WITHIN[name], name
