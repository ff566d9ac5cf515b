"""Tune the prompt of one arm on validation probes: every candidate is played and logged, the best becomes a prompt file.

    python -m eval tune-prompt configs/eval_main.yaml --candidates prompts/ --arm prompt

    <out>/tuning/tuning.jsonl     one line a candidate, appended, never rewritten: order, hash, text, metrics with intervals, time
    <out>/tuning/prompt.txt       the winner, for the arm's prompt field
    <out>/tuning/candidates/      every text that was played, by hash
    <out>/tuning/played/          an evaluation of its own for each: lock, episodes, scores

Candidates that were played under the same rules are taken from the log, so the same command resumes. Held-out families are refused.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from envs.config import ConfigError, UserError
from envs.runs import append_jsonl, read_jsonl, sha256_text, write_text_atomic
from envs.tasks.base import Probe
from eval.config import HELD_OUT, MODEL_POLICIES, EvalConfig
from eval.freeze import build_lock, freeze
from eval.run import run
from eval.score import score

LOGGED = (
    "pair_success", "task_correct", "recovered", "detection_recall", "detection_false_alarm", "tool_success", "information", "malformed_rate", "tokens",
)  # fmt: skip
"""Metrics in the log, each with its interval and number of units."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A prompt text with the name that it was given."""

    name: str
    text: str

    @property
    def hash(self) -> str:
        """Of the text alone."""
        return sha256_text(self.text)[:16]


def read_candidates(path: Path) -> list[Candidate]:
    """The texts of a folder of ``*.txt`` files, of one such file, or of a YAML list or mapping of names to texts, in that order.

    A text that occurs twice counts once. Raises UserError naming file and remedy.
    """
    if path.is_dir():
        files = sorted(path.glob("*.txt"))
        if not files:
            raise UserError(f"{path}: holds no *.txt file: write one prompt a file, or give a YAML list of texts")
        made = [Candidate(p.stem, p.read_text(encoding="utf-8").strip()) for p in files]
    elif not path.is_file():
        raise UserError(f"{path}: no such file or folder: give a folder of *.txt files, or a YAML list of texts")
    elif path.suffix == ".txt":
        made = [Candidate(path.stem, path.read_text(encoding="utf-8").strip())]
    else:
        try:
            held = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise UserError(f"{path}: not YAML ({' '.join(str(error).split())}): write a list of texts") from None
        named = held if isinstance(held, dict) else dict(enumerate(held, 1)) if isinstance(held, list) else {}
        made = [Candidate(str(name), text.strip()) for name, text in named.items() if isinstance(text, str)]
        if not made or len(made) < len(named):
            raise UserError(f"{path}: not a list of texts, nor a mapping of names to texts: write one text an entry")
    if empty := [c.name for c in made if not c.text]:
        raise UserError(f"{path}: candidate {empty[0]!r} is empty: write a text, or take it out")
    return [c for place, c in enumerate(made) if c.hash not in {other.hash for other in made[:place]}]


def tune(config: EvalConfig, candidates: Sequence[Candidate], arm: str) -> list[dict[str, Any]]:
    """Play what the log does not have yet; returns the lines of these candidates, best first, and writes the best as ``prompt.txt``.

    Best: the primary metric, then fewer tokens, then the earlier candidate. Raises ConfigError for anything but validation probes of
    families for training, UserError for an arm that takes no prompt, LockError as :func:`eval.run.run` does.
    """
    check(config, arm)
    folder = config.folder / "tuning"
    log = folder / "tuning.jsonl"
    held = read_jsonl(log, torn="drop_last") if log.is_file() else []
    lines = []
    for candidate in candidates:
        path = folder / "candidates" / f"{candidate.hash}.txt"
        write_text_atomic(path, candidate.text + "\n")
        played = _config(config, arm, path)
        lock = build_lock(played)
        line = next((entry for entry in held if (entry["hash"], entry["lock"]) == (candidate.hash, lock.lock)), None)
        if line is None:
            line = _play(played.model_copy(update={"out": str(folder / "played" / lock.short)}), candidate, arm, len(held) + 1)
            append_jsonl(log, line)
            held.append(line)
        lines.append(line)
    lines.sort(key=lambda entry: _rank(entry, config.primary_metric), reverse=True)
    best = lines[0]
    write_text_atomic(folder / "prompt.txt", best["text"] + "\n")
    return lines


def check(config: EvalConfig, arm: str) -> None:
    """Refuse what a prompt may not be tuned on, and arms that have none. Raises ConfigError and UserError."""
    if arm not in config.arms:
        raise UserError(f"--arm {arm!r}: not in the config: use one of {', '.join(config.arms)}")
    if config.arms[arm].policy not in MODEL_POLICIES:
        raise UserError(f"--arm {arm!r}: policy {config.arms[arm].policy!r} reads no prompt: name an arm with a model")
    if config.split != "val":
        raise ConfigError(
            f"evaluation {config.name}: split: {config.split!r}: prompts are tuned on validation probes only, set split: val"
        )
    if not config.probes:
        raise ConfigError(f"evaluation {config.name}: probes: not given: prompts are tuned on validation probes, name their file")
    families = {p.family for p in read_jsonl(config.probes, model=Probe)}
    if found := sorted(HELD_OUT & families):
        raise ConfigError(
            f"{config.probes}: family {', '.join(found)} is held out: no prompt is tuned on it, take its probes out"
        )


def _config(config: EvalConfig, arm: str, prompt: Path) -> EvalConfig:
    """The evaluation of one candidate: this arm alone, on the probes alone."""
    data = config.model_dump(mode="json", exclude={"sessions", "arms", "references", "plain", "inference", "out"})
    only = {arm: config.arms[arm].model_dump(mode="json") | {"prompt": str(prompt)}}
    return EvalConfig.model_validate({**data, "arms": only, "out": str(prompt)})


def _play(config: EvalConfig, candidate: Candidate, arm: str, order: int) -> dict[str, Any]:
    begun = time.monotonic()
    lock = freeze(config)
    if owed := run(config)[arm].owed:
        raise UserError(
            f"candidate {candidate.name!r}: {owed} episodes are owed after infrastructure errors: the same command tries again"
        )
    metrics = score(config)["arms"][arm]
    if config.primary_metric not in metrics:
        raise ConfigError(f"{config.probes}: no probe tells {config.primary_metric}: add damaged probes with their present twins")
    return {
        "order": order,
        "name": candidate.name,
        "hash": candidate.hash,
        "text": candidate.text,
        "arm": arm,
        "primary_metric": config.primary_metric,
        "lock": lock.lock,
        "metrics": {name: metrics[name] for name in LOGGED if name in metrics},
        "seconds": round(time.monotonic() - begun, 1),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _rank(line: dict[str, Any], primary: str) -> tuple[float, float, int]:
    return line["metrics"][primary]["mean"], -line["metrics"]["tokens"]["mean"], -line["order"]
