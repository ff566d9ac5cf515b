"""Compare arms of one run, or runs with each other: only what was frozen under the same rules.

One run: the differences of every arm to the references (or of ``a`` to ``b``), and the verdicts. Several runs: their locks must
agree on every rule. Where the backbone differs they stand side by side, each with its own verdicts, and nothing is pooled or paired
across them; runs of one and the same lock are paired arm by arm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from envs.config import UserError, load_config
from envs.runs import read_json, read_jsonl, write_json_atomic, write_text_atomic
from envs.scoring import Score
from eval.config import EvalConfig
from eval.freeze import Lock, LockError, check_score, read_lock, tell_change
from eval.inference import compare_arms, infer
from eval.metrics import Row
from eval.sources import score_sources
from eval.tables import HEADINGS, cell, section, table, text
from eval.verdict import family_table, verdict_sections

TEMPLATES = Path(__file__).parent / "templates"
SHOWN = ("pair_success", "task_correct", "constraint_retention", "recovered", "detection_f1", "detection_false_alarm", "conflicts",
         "tokens", "session_task_correct", "session_constraint_retention", "session_tokens")  # fmt: skip
"""Metrics of the side-by-side table, and those that are shown by family."""
DIFFERENT = "different locks are never compared"


@dataclass(frozen=True, slots=True)
class Run:
    """A scored run folder: its config and lock, results, and scored rows by arm."""

    folder: Path
    config: EvalConfig
    lock: Lock
    results: dict[str, Any]
    rows: dict[str, list[Row]]

    @property
    def backbone(self) -> str:
        """The model below the untrained reference: its weights, or its tokenizer where no model acts."""
        arm = self.config.protocol or self.config.plain
        parts = {key.removeprefix(f"backbone.{arm}."): value for key, value in self.lock.backbone.items()}
        return parts.get("weights") or parts.get("tokenizer") or self.lock.lock


def load_run(target: str | Path, overrides: Sequence[str] = ()) -> Run:
    """The run of a config file, or of a run folder.

    Raises LockError where nothing is frozen, the scores are of another lock, or scores and statistics would not be made by the
    frozen sources; UserError where nothing is scored.
    """
    path = Path(target)
    if path.is_dir():
        if not (path / "lock.json").is_file() or not (path / "eval.yaml").is_file():
            raise LockError(f"{path}: no lock.json with its eval.yaml: name a run folder of the evaluation, or its config file")
        config = load_config(EvalConfig, path / "eval.yaml", []).model_copy(update={"out": str(path)})
        lock = read_lock(config)
        frozen = {name: value for name, value in lock.rules.items() if name.startswith("source.score.")}
        if changed := tell_change(frozen, score_sources()):
            raise LockError(
                f"{path / 'lock.json'}: {changed}: compare with the code it was frozen with, or freeze and score again"
            )
    else:
        config = load_config(EvalConfig, path, list(overrides))
        lock = check_score(config)
    results, scores = config.folder / "results.json", config.folder / "scores.jsonl"
    if not results.is_file() or not scores.is_file():
        raise UserError(f"{config.folder}: nothing is scored: run the score command first")
    content = read_json(results)
    if content["lock"] != lock.lock:
        raise LockError(
            f"{results}: made under lock {content['lock'][:12]}, not {lock.short}: {DIFFERENT}, run the score command again"
        )
    rows: dict[str, list[Row]] = {arm: [] for arm in config.arms}
    names = [field.name for field in fields(Row)]
    for line in read_jsonl(scores):
        known = {name: line[name] for name in names if name in line}
        rows[line["arm"]].append(Row(**{**known, "score": Score.model_validate(line["score"])}))
    return Run(config.folder, config, lock, content, rows)


def compare(runs: Sequence[Run], a: str | None = None, b: str | None = None) -> dict[str, Any]:
    """What ``--json`` shows: ``pairs`` and ``inference`` of one run, or every run's beside the others'.

    Raises LockError where the runs' rules differ, naming the first entry; UserError for arms that are not there.
    """
    if (a is None) != (b is None):
        raise UserError("--a and --b name the two arms of one comparison: give both, or neither for the config's references")
    first = runs[0]
    for other in runs[1:]:
        if changed := tell_change(first.lock.rules, other.lock.rules, "between the two"):
            raise LockError(f"{first.folder / 'lock.json'} and {other.folder / 'lock.json'}: {changed}: {DIFFERENT}, freeze one set of "
                            "rules and play both under it")  # fmt: skip
    content: dict[str, Any] = {"runs": [_one(run, a, b) for run in runs]}
    if len(runs) > 1:
        content |= {
            "repeated": list(_repeated(runs)),
            "backbones": len({r.backbone for r in runs}),
            "words": _words(runs, content),
        }
    return content


def render(content: dict[str, Any], command: str) -> str:
    """The comparison as Markdown."""
    engine = Environment(loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, autoescape=False)  # noqa: S701 - Markdown
    sections = [section("What may be said across runs", content["words"], [])] if "words" in content else []
    sections += [_side_by_side(content["runs"])] if len(content["runs"]) > 1 else []
    if content.get("repeated"):
        sections.append(_pairs("The same lock, played twice", content["repeated"]))
    for run in content["runs"]:
        mark = f" ({run['folder']})" if len(content["runs"]) > 1 else ""
        found = [*verdict_sections(run["inference"]), _pairs("Paired differences", run["pairs"])]
        sections += [{**s, "title": s["title"] + mark} for s in found]
    runs = [{key: run[key] for key in ("folder", "lock", "split", "backbone")} for run in content["runs"]]
    return engine.get_template("compare.md.j2").render(runs=runs, command=command, sections=sections)


def write(content: dict[str, Any], path: Path, command: str) -> None:
    """Write ``path`` by its suffix: ``.md`` or ``.json``. Raises UserError for any other."""
    if path.suffix == ".json":
        write_json_atomic(path, content)
    elif path.suffix == ".md":
        write_text_atomic(path, render(content, command))
    else:
        raise UserError(f"--out {path}: the suffix says what is written: end it in .md or .json")


def _one(run: Run, a: str | None, b: str | None) -> dict[str, Any]:
    return {
        "folder": str(run.folder),
        "lock": run.lock.lock,
        "backbone": run.backbone,
        "split": run.results["split"],
        "power": run.lock.stated["power"],
        "arms": run.results["arms"],
        "pairs": [
            {"a": one, "b": two, **entry} for one, two in _pairs_of(run, a, b) for entry in compare_arms(run.config, run.rows[one], run.rows[two])
        ],
        "inference": infer(run.config, run.rows),
    }  # fmt: skip


def _pairs_of(run: Run, a: str | None, b: str | None) -> list[tuple[str, str]]:
    """The pair asked for, or every arm against every reference."""
    if a is None or b is None:
        pairs: list[tuple[str, str]] = []
        for ref in run.config.references:
            pairs += [(arm, ref) for arm in run.rows if arm != ref and (ref, arm) not in pairs]
        return [pair for pair in pairs if all(run.rows.get(arm) for arm in pair)]
    for name in (a, b):
        if not run.rows.get(name):
            played = ", ".join(arm for arm, rows in run.rows.items() if rows)
            raise UserError(f"{run.folder}: arm {name!r} has no scored episode: use two of {played}")
    return [(a, b)]


def _repeated(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Runs of one and the same lock, paired arm by arm with the first of them."""
    first = runs[0]
    for other in runs[1:]:
        if other.lock.lock != first.lock.lock:
            continue
        for arm in first.rows:
            if first.rows[arm] and other.rows[arm]:
                for entry in compare_arms(first.config, first.rows[arm], other.rows[arm]):
                    yield {"a": f"{arm} ({first.folder})", "b": f"{arm} ({other.folder})", **entry}


def _words(runs: Sequence[Run], content: dict[str, Any]) -> list[str]:
    backbones = len({r.backbone for r in runs})
    if backbones < 2:
        return ["All runs have one backbone. Words on models in general need two: nothing here is said of any other model."]
    verdicts = {r.backbone: {a for a, v in c["inference"]["verdicts"].items() if v["verdict"] == "shown"}
                for r, c in zip(runs, content["runs"], strict=True)}  # fmt: skip
    everywhere, somewhere = sorted(set.intersection(*verdicts.values())), sorted(set.union(*verdicts.values()))
    words = [
        f"The rules are the same and the backbones are {backbones}: runs stand side by side, and nothing is pooled or paired across "
        "them. Words on models in general need two backbones and a verdict that is shown on each.",
        f"Shown on every backbone: {', '.join(everywhere) or 'no arm'}.",
    ]
    if rest := [arm for arm in somewhere if arm not in everywhere]:
        words.append(f"Shown on some backbones only, so said of those alone: {', '.join(rest)}.")
    return words


def _side_by_side(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    tables = []
    for metric in SHOWN:
        arms = list(dict.fromkeys(arm for run in runs for arm, found in run["arms"].items() if metric in found))
        rows = [[arm, *(cell(metric, run["arms"].get(arm, {}).get(metric), digits=3) for run in runs)] for arm in arms]
        if rows:
            tables.append(table({"title": metric, "head": ["arm", *(run["folder"] for run in runs)], "rows": rows}))
    return section("Side by side", ["Mean, 95 % interval and number of units of every run apart."], tables)


def _pairs(title: str, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    rows = [
        [
            f"{e['a']} - {e['b']}",
            text(HEADINGS.get(e["metric"], e["metric"].replace("_", " "))),
            cell(e["metric"], e["difference"], signed=True, digits=3),
            text("–" if e["p"] is None else f"{e['p']:.3f}"),
        ]
        for e in entries
    ]
    shown = [(f"{e['a']} - {e['b']}: {e['metric'].replace('_', ' ')}", e) for e in entries if e["metric"] in SHOWN]
    words = [
        "On the episodes that both arms played, bases resampled together. Intervals and p-values are not adjusted for their number: "
        "a description, the verdicts are what is concluded."
    ]
    tables = [table({"head": ["arms", "metric", "difference", "p"], "rows": rows})]
    return section(title, words, [*tables, family_table("by family", shown)] if shown else tables)
