"""``python -m eval demo``: a small frozen run of the main arms with the weights that ``make demo`` left behind.

The suite is drawn from the validation split: the first bases of the demo's probes, every variant and hint level of one further base
each family, questions whose source is to be checked, and a few whole sessions. ``configs/eval_demo.yaml`` names the arms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import yaml

from envs.chat import ChatML, get_chat
from envs.config import UserError, load_config
from envs.runs import read_jsonl, write_jsonl_atomic
from envs.tasks import get_spec
from envs.tasks.base import Probe, Session, split_of
from envs.tasks.damage import variants_of
from envs.tasks.engine import Builder, Knobs
from envs.tasks.judgement import verify_probes
from envs.tasks.probes import make_base
from eval.config import EvalConfig
from eval.freeze import freeze
from eval.report import report
from eval.run import run
from eval.score import score
from eval.view import view

DEMO = Path("runs/demo")
"""The folder that the config's model paths begin with."""
FAMILIES = ("procurement", "support")
"""Those that the demo trains on."""
FIRST = 5_000_000
"""First seed of what is drawn here: apart from those of the demo's own data."""
KNOBS = Knobs(turns=(3, 5), fillers=(4, 7), close=0.7, keep=0.5, constraint=0.5, ask=0.5)


def demo_config(path: Path, demo: Path, overrides: list[str]) -> EvalConfig:
    """The config with the weights and the start model of ``demo``, a finished run of the pipeline. Raises UserError, ConfigError."""
    settings = demo / "config.yaml"
    how = "make demo" + (" MODEL=tiny" if demo.name.endswith("tiny") else "")
    if not settings.is_file():
        raise UserError(
            f"{settings}: not there: {how} makes the data and weights that are played here, or name its folder with --demo"
        )
    start = yaml.safe_load(settings.read_text(encoding="utf-8"))["model"]
    config = load_config(EvalConfig, path, overrides)
    arms = {}
    for name, arm in config.arms.items():
        model = arm.model
        if model and Path(model).is_relative_to(DEMO):
            model = str(demo / Path(model).relative_to(DEMO))
            if not (Path(model) / "config.json").is_file():
                raise UserError(f"{model}: no weights there, arm {name} needs them: {how} makes them")
        elif model == "smollm2":
            model = start
        arms[name] = arm.model_copy(update={"model": model})
    suite = config.folder / "suite"
    files = {"probes": str(suite / "probes.jsonl"), "sessions": str(suite / "sessions.jsonl")}
    return config.model_copy(update={"arms": arms, "tokenizer": start, **files})


def draw_suite(config: EvalConfig, demo: Path, bases: int, sessions: int) -> None:
    """Write the suite below the run folder; the same arguments give the same files."""
    chat = get_chat(config.tokenizer)
    probes = read_jsonl(demo / "data" / "probes.val.jsonl", model=Probe)
    first = list(dict.fromkeys(p.base for p in probes))[:bases]
    chosen = [p for p in probes if p.base in first]
    chosen += [p for family in FAMILIES for p in _drawn(family, chat) if not p.windows]
    write_jsonl_atomic(str(config.probes), {p.id: p for p in chosen}.values())
    each = [itertools.islice(_sessions(family), (sessions + 1) // 2) for family in FAMILIES]
    write_jsonl_atomic(str(config.sessions), [s for pair in zip(*each, strict=True) for s in pair])


def _drawn(family: str, chat: ChatML) -> Iterator[Probe]:
    """Every variant of one static base, with hints, and the verify probes of another, all of the validation split."""
    for kind, probes_of in (("static", lambda base: variants_of(base, hint=True)), ("verify", verify_probes)):
        made = (make_base(family, seed, kind, chat) for seed in itertools.count(FIRST))
        yield from next(p for base in made if base and split_of(base.session) == "val" and (p := probes_of(base)))


def _sessions(family: str) -> Iterator[Session]:
    made = (Builder(get_spec(family), seed, KNOBS).session() for seed in itertools.count(FIRST))
    return (s for s in made if split_of(s) == "val")


def demo_run(config: EvalConfig, demo: Path, bases: int, sessions: int, command: str) -> Path:
    """Draw, freeze, play, score, report (with its page of episodes); returns the report. After a new ``make demo`` earlier results are set aside."""
    draw_suite(config, demo, bases, sessions)
    freeze(config, new=True)
    owed = sum(played.owed for played in run(config).values())
    if owed:
        raise UserError(f"{owed} episodes are owed after infrastructure errors (errors.jsonl): the same command tries them again")
    score(config)
    view(config)  # the report links to it
    return report(config, command=command)
