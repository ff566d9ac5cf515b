"""The data card: what the set holds, counted from what was written, with plots beside it and the proof that the sets are apart."""

from __future__ import annotations

import importlib.metadata
import platform
from collections import Counter
from pathlib import Path

import yaml

from data_gen.config import HERE, DataConfig
from data_gen.near import HASHES, SHINGLE, Separation
from data_gen.tally import Tally, spread

PLOTS = ("plots/actions.png", "plots/inputs.png", "plots/episodes.png")
LICENCE = "Apache-2.0"
NAMES = {"en": "English", "zh": "Chinese"}
SETS = {"sft": "training", "rl": "RL", "val": "validation"}
_HEAD = """---
license: apache-2.0
language: [{languages}]
pretty_name: ctxctl trajectories
tags: [synthetic, agents, context-management]
configs:
- config_name: default
  data_files: trajectories.parquet
---
"""


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{k} {v}" for k, v in sorted(counter.items())) or "none"


def card(config: DataConfig, tally: Tally, separation: Separation | None = None, plots: bool = False, code: str = "") -> str:
    """Markdown, headed by what a dataset hub reads: counts, lengths, actions, the proof of disjointness, how it was made."""
    lines = [
        _HEAD.format(languages=", ".join(config.languages)),
        "# Data card",
        "",
        f"Trajectories of a scripted expert in the ctxctl simulator; synthetic, in {' and '.join(NAMES[x] for x in config.languages)}, {LICENCE}. An erroneous step stays in context",
        "and is masked (`trained: false`); only right turns carry loss. Splits are made by content hash of the session.",
        "",
        *_episodes(tally),
        "",
        *_equal(config, tally),
        *_errors(tally),
        *_sets(tally),
        "",
        *_actions(tally),
        "",
    ]
    if plots:
        lines += [f"![{Path(p).stem}]({p})" for p in PLOTS] + [""]
    if separation is not None:
        lines += [*_proof(config, tally, separation), ""]
    return "\n".join([*lines, *_making(config, code)])


def _episodes(tally: Tally) -> list[str]:
    total = tally.episodes.total()
    lines = [
        f"## Episodes: {total}, {tally.tokens} tokens",
        "",
        "Lengths are minimum / median / p90 / maximum; an episode's tokens are input and output over all its inferences (to tens).",
        "",
        "| kind | episodes | share | inferences | masked steps | trained tokens | turns played | input tokens | output tokens | tokens of an episode |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- | --- | --- |",
    ]
    for kind, n in sorted(tally.episodes.items()):
        lengths = " | ".join(spread(h[kind]) for h in (tally.turns, tally.inputs, tally.outputs, tally.totals))
        lines.append(
            f"| {kind} | {n} | {n / total:.1%} | {tally.inferences[kind]} | {tally.masked[kind]} | {tally.trained[kind]} | {lengths} |"
        )
    return lines


def _equal(config: DataConfig, tally: Tally) -> list[str]:
    """What plain history came to beside what it was to equal."""
    if config.plain is None:
        return []
    plain = config.plain
    made = tally.trained["plain"] if plain.measure == "trained" else tally.total["plain"]
    goal = tally.plain_goal or made
    what = {"total": "input and output", "trained": "sampled, with loss"}[plain.measure]
    folders = " and ".join(plain.folders)
    of = {"": "as told", HERE: "the rest of this set"}.get(folders, f"those of {folders}")
    return [
        f"Plain history: {tally.episodes['plain']} episodes, {made} tokens ({what}); the goal was {goal} ({of}): {made / goal - 1:+.2%}."
        if goal
        else "Plain history: none, as there is nothing to equal.",
        "",
    ]


def _errors(tally: Tally) -> list[str]:
    if not tally.errors:
        return []
    lines = [
        "## Erroneous steps, masked",
        "",
        "What each label means stands in docs/data.md.",
        "",
        "| error | steps |",
        "| --- | ---: |",
    ]
    return [*lines, *(f"| {label} | {n} |" for label, n in sorted(tally.errors.items(), key=lambda x: (-x[1], x[0]))), ""]


def _sets(tally: Tally) -> list[str]:
    lines = [
        "## Sets",
        "",
        "| set | records | languages | units by kind | families | variants |",
        "| --- | ---: | --- | --- | --- | --- |",
    ]
    records = {"sft": tally.episodes.total(), "rl": tally.probes["rl"], "val": tally.probes["val"]}
    for purpose, name in SETS.items():
        cells = " | ".join(_counts(x[purpose]) for x in (tally.languages, tally.units, tally.families, tally.variants))
        lines.append(f"| {name} | {records[purpose]} | {cells} |")
    return lines


def _actions(tally: Tally) -> list[str]:
    tools: dict[str, Counter[str]] = {}
    outcomes = Counter[str]()
    for action, n in tally.actions.items():
        tool, _, outcome = action.partition(" ")
        tools.setdefault(tool, Counter[str]())[outcome or "-"] += n
        outcomes[outcome or "-"] += n
    columns = [o for o, _ in sorted(outcomes.items(), key=lambda x: (-x[1], x[0]))]
    lines = ["## Actions, by outcome", "", f"| tool | {' | '.join(columns)} |", "| --- |" + " ---: |" * len(columns)]
    for tool, found in sorted(tools.items(), key=lambda x: (-x[1].total(), x[0])):
        lines.append(f"| {tool} | " + " | ".join(str(found[c]) for c in columns) + " |")
    return lines


def _proof(config: DataConfig, tally: Tally, separation: Separation) -> list[str]:
    near = config.near_duplicates
    lines = [
        "## The sets are apart",
        "",
        "Compared is the whole text of a unit (a session; of a base, its prefix without the question): user turns and tool results.",
        "Exact: SHA-256 of the session's content without id and seed. Near: values masked (numbers, codes, dates, times, names, addresses;",
        f"entities stay), word {SHINGLE}-shingles, MinHash of {HASHES} (`units.parquet` holds both for every unit), Jaccard of at least",
        f"{near.threshold:g}; the standard error of an estimate there is {(near.threshold * (1 - near.threshold) / HASHES) ** 0.5:.3f}."
        f" Every pair is compared. RL bases give way to training units, validation bases to both; offenders are "
        f"{'left out' if near.drop else 'kept (near_duplicates.drop is false)'}.",
        "",
        "| sets | pairs compared | exact duplicates | near-duplicates | highest Jaccard found | among what stayed |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (one, two), pair in separation.pairs.items():
        lines.append(
            f"| {SETS.get(one, one)} and {SETS[two]} | {pair.compared} | {pair.exact} | {pair.near} | {pair.highest:.2f} | {pair.kept:.2f} |"
        )
    left_out = Counter(separation.watched.sets[i] for i in separation.dropped)
    return [
        *lines,
        "",
        f"Left out: {left_out['rl']} RL and {left_out['val']} validation bases. Units that their own set held twice, left out: {tally.repeated}.",
    ]


def _making(config: DataConfig, code: str) -> list[str]:
    settings = yaml.safe_dump(config.identity(), sort_keys=False, allow_unicode=True, width=1000)
    versions = {name: importlib.metadata.version(name) for name in ("pydantic", "numpy", "datasketch", "pyarrow")}
    return [
        f"Licence: {LICENCE}. Seed: {config.seed}. Code: {code[:16] or 'not recorded'}. Python {platform.python_version()}, "
        + ", ".join(f"{k} {v}" for k, v in versions.items())
        + ".",
        "",
        "Made by `python -m data_gen config.yaml` with this config (the file `config.yaml` beside this card; where it lies and how many",
        "processes made it does not change the data):",
        "",
        "```yaml",
        settings.rstrip(),
        "```",
        "",
    ]
