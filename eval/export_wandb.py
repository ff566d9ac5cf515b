"""A scored run in wandb: one wandb run an arm, its tables, and its figures under the names that training logs them by."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from envs.config import UserError
from envs.runs import read_json
from envs.tracking import WARNINGS, Tracker, warnings
from eval.compare import Run
from eval.export import Episode

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = ("episodes", "checks", "inferences", "calls", "results")
EPISODE = ("segments", "inferences", "tokens", "rewrites")


def track(
    run: Run, episodes: Mapping[str, Sequence[Episode]], tables: Mapping[str, pa.Table], folder: Path,
    mode: Literal["online", "offline"], project: str,
) -> list[Path]:  # fmt: skip
    """A wandb run for every arm, in ``<folder>/<arm>``; returns these folders. Raises UserError where wandb fails.

    Done again, it replaces what it wrote, under the same run id.
    """
    found = []
    for arm, played in episodes.items():
        home = folder / arm
        for name in ("wandb", "wandb_step", WARNINGS):
            path = home / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        told = {"lock": run.lock.lock, "split": run.results["split"], "arm": run.config.arms[arm].model_dump(mode="json")}
        with Tracker(mode, home, project=project, name=f"{run.config.name}/{arm}", config=told) as tracker:
            for name in SHOWN:
                table = tables[name]
                rows = [row for row in table.to_pylist() if row["arm"] == arm]
                tracker.table(name, table.column_names, [list(row.values()) for row in rows])
            tracker.summary(figures(run, arm, played))
        if failed := warnings(home):
            raise UserError(f"{home}: {failed[0]}: mend it, or export --to parquet")
        found.append(home)
    return found


def figures(run: Run, arm: str, episodes: Sequence[Episode]) -> dict[str, float]:
    """An arm's closing figures: ``val/<metric>`` and ``val/<metric>/<family>``, and means over episodes of what training logs of them."""
    means = {name: value["mean"] for name, value in run.results["arms"][arm].items()}
    found = {f"val/{name}": value for name, value in means.items()}
    for name, parts in read_json(run.folder / "details.json")["families"][arm].items():
        found |= {f"val/{name}/{family}": value["mean"] for family, value in parts["families"].items()}
    scores = [e.row.score for e in episodes]
    if not scores:
        return found
    found["reward/q"] = fmean(s.q for s in scores)
    credit: dict[str, list[float]] = defaultdict(list)
    for check in (c for s in scores for c in s.checks):
        kind = "never_stated" if check.never else "constraint" if check.constraint else check.source
        credit[kind].append(check.credit)
    found |= {f"reward/{kind}": fmean(values) for kind, values in sorted(credit.items())}
    found |= {f"episode/{name}": fmean(getattr(s, name) for s in scores) for name in EPISODE}
    found["episode/reads"] = fmean(len(s.reads) for s in scores)
    calls: Counter[tuple[str, str]] = Counter()
    for score in scores:
        for tool, outcomes in score.calls.items():
            calls.update({(tool, code): n for code, n in outcomes.items()})
    found |= {f"calls/{tool}/{code}": n / len(scores) for (tool, code), n in sorted(calls.items())}
    for name, metric in (("recall", "detection_recall"), ("false_alarm", "detection_false_alarm")):
        found |= {f"detect/{name}": means[metric]} if metric in means else {}
    return {name: value for name, value in found.items() if value is not None}
