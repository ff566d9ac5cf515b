"""A scored run of scripted arms on validation probes and whole sessions, for the tests of its page."""

from __future__ import annotations

from pathlib import Path

from data_gen.build import build
from data_gen.config import Counts, DataConfig
from envs.runs import write_jsonl_atomic
from envs.tasks import FAMILIES, HELD_OUT_FAMILIES
from eval.config import EvalConfig
from eval.freeze import freeze
from eval.run import run
from eval.score import score

MIX = ("static", "changed", "other", "never", "never_open", "keep")
ARMS = ("expert", "fabricator", "abstainer", "always_read")
TRAINED = tuple(name for name in FAMILIES if name not in HELD_OUT_FAMILIES)

PAINTED = """
window.painted = (act, done) => new Promise((resolve) => {
  const start = performance.now();
  const after = () => {
    const port = new MessageChannel();
    port.port1.onmessage = () => resolve(performance.now() - start);
    port.port2.postMessage(0);
  };
  const look = () => (done() ? requestAnimationFrame(after) : setTimeout(look, 0));
  act();
  look();
});
window.choose = (select, value) => { select.value = value; select.dispatchEvent(new Event("change")); };
window.press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
window.field = (name) => document.querySelector(`select[data-field="${name}"]`);
window.drawn = () => document.querySelector(".step[aria-current]")?.textContent === String(current.step + 1)
  && document.querySelector(".id")?.textContent === ROWS[current.sample].id;
"""
"""``painted(act, done)``: milliseconds from an event until its outcome is on the screen."""


def make_run(folder: Path, probes: int, sessions: int, *, families: tuple[str, ...] = TRAINED, bases: int, **more) -> EvalConfig:
    """Freeze, play and score; the episodes are ``4 * (probes + sessions)``."""
    none = Counts(**dict.fromkeys(Counts.model_fields, 0))
    data = build(DataConfig(families=families, languages=("en", "zh"), counts=none, rl_bases=0, val_bases=bases, val_mix=MIX))
    assert len(data.val_probes) >= probes
    write_jsonl_atomic(folder / "probes.jsonl", data.val_probes[:probes])
    made = (FAMILIES[families[i % len(families)]].generate(100 + i) for i in range(sessions))
    write_jsonl_atomic(folder / "sessions.jsonl", made)
    config = EvalConfig(
        name="viewer", out=str(folder / "run"), probes=str(folder / "probes.jsonl"), sessions=str(folder / "sessions.jsonl"),
        arms={name: {"policy": name} for name in ARMS}, bootstrap={"resamples": 100}, references=("expert",), **more,
    )  # fmt: skip
    freeze(config)
    run(config)
    score(config)
    return config


def meter_of(tab):
    """What ``spent`` reads the processor time of a page's main thread from."""
    meter = tab.context.new_cdp_session(tab)
    meter.send("Performance.enable", {"timeDomain": "threadTicks"})
    return meter


def spent(meter) -> float:
    """Processor time of the page's main thread so far, in milliseconds."""
    found = {m["name"]: m["value"] for m in meter.send("Performance.getMetrics")["metrics"]}
    return 1000 * found["TaskDuration"]
