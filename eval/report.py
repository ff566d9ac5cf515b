"""``report.html`` (one self-contained file) and its twin ``report.md``, from results, details and stored episodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from envs.measures import ANSWERS
from envs.profiles import get_profile
from envs.runs import read_json, read_jsonl, write_text_atomic
from envs.scoring import TRIGGERS
from envs.spending import SPENDERS
from eval.config import EvalConfig
from eval.counts import FUNNEL
from eval.crossover import crossover_section
from eval.excerpts import worst_episodes
from eval.freeze import TEXTS, Lock, LockError, read_lock
from eval.metrics import VARIANTS
from eval.plots import correctness_against_tokens, pareto_front
from eval.standing import code_lines, code_warnings
from eval.store import read_meta
from eval.strata import COLUMNS
from eval.tables import HEADINGS, Cell, Table
from eval.tables import cell as _cell
from eval.tables import section as _section
from eval.tables import table as _table
from eval.tables import text as _text
from eval.verdict import verdict_sections

TEMPLATES = Path(__file__).parent / "templates"
MAIN = (
    ("tool success", ("tool_success", "malformed_rate")),
    ("information fidelity", ("information", "write_fidelity", "silent_failure")),
    ("task correctness", ("pair_success", "task_correct", "constraint_retention")),
    ("cost", ("tokens", "tokens_ratio_to_plain", "peak_ratio_to_plain", "within_budget")),
    ("detection", ("detection_recall", "detection_false_alarm", "detection_f1")),
)
FURTHER = (
    ("answers", ("quality", "turn_accuracy", "recovered", "view_retention", "scope_error", "meta_reply", "termination")),
    ("what is asked", ("asked_changed", "asked_conditional", "asked_undeclared")),
    ("memory", ("conflicts", "active_share", "refusal_recovery", "spontaneous", "replayed")),
    ("verification", ("verification_right", "verification_read", "verification_tokens")),
    (
        "cost",
        (
            "peak", "prefill", "protocol_share", "inferences", "reads", "verdict_tokens", "verdict_tokens_ratio_to_plain",
            "finished_tokens_ratio_to_plain",
        ),
    ),
)  # fmt: skip
STRATA = ("language", "hint", "signal", "length", "variant")
PAIRED = (
    "tool_success",
    "information",
    "pair_success",
    "task_correct",
    "constraint_retention",
    "recovered",
    "conflicts",
    "detection_f1",
    "detection_false_alarm",
    "tokens",
    "peak",
    "session_task_correct",
    "session_constraint_retention",
    "session_tokens",
)


def report(config: EvalConfig, command: str | None = None) -> Path:
    """Write both reports and return the path of the HTML one. ``command`` is the command line it says it was made by.

    Raises LockError when the scores are those of another lock, DataError when there are none.
    """
    lock = read_lock(config)
    results, details = (read_json(config.folder / f"{name}.json") for name in ("results", "details"))
    for name, content in (("results", results), ("details", details)):
        if content["lock"] != lock.lock:
            raise LockError(
                f"{config.folder / name}.json: made under lock {content['lock'][:12]}, not {lock.short}: different locks are "
                "never compared, run the score command again"
            )
    context = _context(config, lock, results, details, command or f"python -m eval report {config.folder / 'eval.yaml'}")
    engine = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=select_autoescape(["html.j2"]), undefined=StrictUndefined)
    page = config.folder / "report.html"
    write_text_atomic(page, engine.get_template("report.html.j2").render(context))
    write_text_atomic(config.folder / "report.md", engine.get_template("report.md.j2").render(context))
    return page


def _context(
    config: EvalConfig, lock: Lock, results: Mapping[str, Any], details: Mapping[str, Any], command: str
) -> dict[str, Any]:
    scores = read_jsonl(config.folder / "scores.jsonl")
    starts = {arm: [s for _, meta in read_meta(config.arm_folder(arm)) for s in meta["starts"]] for arm in config.arms}
    last = [start for found in starts.values() for start in found] or [lock.provenance]
    decoding = config.decoding
    return {
        "title": f"Evaluation {config.name}",
        "split": results["split"],
        "families": sorted({row["family"] for row in scores}),
        "lock": lock.lock,
        "code": code_lines(lock.provenance, starts),
        "versions": ", ".join(f"{k} {v}" for k, v in last[-1].get("versions", {}).items()),
        "decoding": f"temperature {decoding.temperature:g}, at most {decoding.max_new_tokens} new tokens, seed {decoding.seed}, "
        f"{decoding.dtype}; {config.bootstrap.resamples} resamples, seed {config.bootstrap.seed}",
        "command": command,
        "stated": [*((name.replace("_", " "), lock.stated[name]) for name in TEXTS), ("power", lock.stated["power"])],
        "warnings": [*_incomplete(details), *code_warnings(lock.provenance, starts)],
        "sections": list(sections(config, results, details).values()),
        "episodes": worst_episodes(config, scores),
    }


def sections(config: EvalConfig, results: Mapping[str, Any], details: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The report's sections by name, in their order; one that has nothing to say is left out."""
    verdicts = {f"verdict_{number}": found for number, found in enumerate(verdict_sections(details["inference"]))}
    made = {
        **verdicts,
        "main": _main(config, results),
        "paired": _paired(results),
        "variants": _by_variant(results),
        "sessions": _sessions(results),
        "families": _families(config, details),
        "crossover": crossover_section(details),
        "strata": _strata(details),
        "detection": _detection(details),
        "answers": _answers(details),
        "failures": _failures(details),
        "calls": _calls(config, details),
        "reading": _reading(details),
    }
    return {name: found for name, found in made.items() if found}


def _incomplete(details: Mapping[str, Any]) -> list[str]:
    lines = []
    for arm, h in details["health"].items():
        if h["scored"] < h["expected"]:
            lines.append(
                f"Arm {arm} is incomplete: {h['scored']} of {h['expected']} episodes scored, {h['excluded_infrastructure']} "
                f"excluded for infrastructure errors, {h['not_played']} not played. Its figures are over the rest."
            )
    return lines


def _main(config: EvalConfig, results: Mapping[str, Any]) -> dict[str, Any] | None:
    arms = results["arms"]
    if not any("task_correct" in metrics for metrics in arms.values()):
        return None
    text = [f"Mean, 95 % interval and number of units; families weigh equally. Primary: {config.primary_metric}."]
    if any(arm.profile == "plain@1" for arm in config.arms.values()):
        text.append(
            "Under plain@1 there is no read-back and nothing to damage: its pair_success says that both twins were answered "
            "right with the evidence in view, and it has no detection figures."
        )
    text.append(_front(arms, "task_correct", "tokens"))
    groups = [(title, [n for n in names if any(n in m for m in arms.values())]) for title, names in MAIN]
    shown = [(title, names) for title, names in groups if names]
    table = _by_arm(arms, [name for _, names in shown for name in names])
    tables = [_table({**table, "over": [(title, len(names)) for title, names in shown]})]
    for title, names in FURTHER:
        if more := [name for name in names if any(name in m for m in arms.values())]:
            tables.append(_table({**_by_arm(arms, more), "title": f"further metrics: {title}"}))
    return _section("Main table: probes", text, tables, correctness_against_tokens(arms, "task_correct", "tokens"))


def _front(arms: Mapping[str, Any], correct: str, tokens: str) -> str:
    names = ", ".join(pareto_front(arms, correct, tokens))
    return f"On the Pareto front, by means (no arm has fewer tokens and more right): {names or 'none'}."


def _by_arm(arms: Mapping[str, Any], names: Sequence[str]) -> Table:
    rows = [[arm, *(_cell(name, metrics.get(name)) for name in names)] for arm, metrics in arms.items()]
    plain = [name.removeprefix("session_") for name in names]
    return {"head": ["arm", *(HEADINGS.get(name, name.replace("_", " ")) for name in plain)], "rows": rows}


def _by_variant(results: Mapping[str, Any]) -> dict[str, Any] | None:
    shown = [v for v in VARIANTS if any(f"right_{v}" in m for m in results["arms"].values())]
    if not shown:
        return None
    names = [f"{what}_{v}" for v in shown for what in ("right", "read")]
    rows = [[arm, *(_cell(n, m.get(n)) for n in names)] for arm, m in results["arms"].items()]
    head = ["arm", *(what for _ in shown for what in ("right", "read"))]
    table = _table({"head": head, "over": [(v, 2) for v in shown], "rows": rows})
    text = ["Right: every check holds. Read: at least one read-back. For never_stated, answering unknown is right."]
    return _section("By variant", text, [table])


def _sessions(results: Mapping[str, Any]) -> dict[str, Any] | None:
    names = list(dict.fromkeys(n for m in results["arms"].values() for n in m if n.startswith("session_")))
    if not names:
        return None
    table = _table(_by_arm(results["arms"], names))
    text = [
        "Whole sessions played from their first turn. Kept apart from probes, whose prefix the expert played.",
        _front(results["arms"], "session_task_correct", "session_tokens"),
    ]
    figure = correctness_against_tokens(results["arms"], "session_task_correct", "session_tokens")
    return _section("On-policy sessions", text, [table], figure)


def _families(config: EvalConfig, details: Mapping[str, Any]) -> dict[str, Any] | None:
    tables = []
    for metric in dict.fromkeys((config.primary_metric, "task_correct", "session_task_correct")):
        arms = {arm: found[metric] for arm, found in details["families"].items() if metric in found}
        names = sorted({f for found in arms.values() for f in found["families"]})
        if not names:
            continue
        rows = []
        for arm, found in arms.items():
            left = found["leave_one_out"]
            span = _text("single family" if left is None else f"{left[0]:.2f} to {left[1]:.2f}")
            rows.append([arm, *(_cell(metric, found["families"].get(n)) for n in names), span])
        tables.append(_table({"title": metric, "head": ["arm", *names, "one family left out"], "rows": rows}))
    text = ["Inference is conditional on these families; it says nothing yet of families in general."]
    return _section("By family", text, tables) if tables else None


def _strata(details: Mapping[str, Any]) -> dict[str, Any] | None:
    """One table a dimension, one row an arm and level: the level stands beside every figure."""
    tables = []
    for dimension in STRATA:
        arms = {arm: found[dimension] for arm, found in details["strata"].items() if dimension in found}
        names = [n for n in COLUMNS if any(n in values for found in arms.values() for values in found.values())]
        rows = [
            [f"{arm}: {level}", *(_cell(n, values.get(n)) for n in names)]
            for arm, found in arms.items()
            for level, values in found.items()
        ]
        if rows:
            head = [f"arm: {dimension}", *(HEADINGS.get(n, n.replace("_", " ")) for n in names)]
            tables.append(_table({"title": f"by {dimension}", "head": head, "rows": rows}))
    text = [
        "Length: tokens that the script puts into the log, over the main profile's view budget: short below 0.5, medium to 1.5, long "
        "to 5. A tokenizer may need two to three times the tokens for another language. A fact found after a hint was not found "
        "alone: hinted probes enter recovery in this table only. Families stand in the table before."
    ]
    return _section("By stratum", text, tables) if tables else None


def _detection(details: Mapping[str, Any]) -> dict[str, Any] | None:
    funnels = {arm: found["probe"]["funnel"] for arm, found in details["counts"].items()}
    if not any(f["damaged"] for f in funnels.values()):
        return None
    steps = ["damaged", *FUNNEL, "to_mend", "mended"]
    rows = [[arm, *(_text(f[s]) for s in steps)] for arm, f in funnels.items() if f["damaged"]]
    tables = [_table({"head": ["arm", *(s.replace("_", " ") for s in steps)], "rows": rows})]
    prompts = {arm: found["probe"]["triggers"] for arm, found in details["counts"].items() if found["probe"]["triggers"]}
    rows = [[arm, *(_text(found.get(t, 0)) for t in TRIGGERS)] for arm, found in prompts.items()]
    if rows:
        note = "Gate, rejection and tester are not of the policy's own accord: they never count for pair_success."
        tables.append(_table({"title": "what prompted the reads", "head": ["arm", *TRIGGERS], "rows": rows, "note": note}))
    text = ["Damaged probes whose view shows a signal, and how far each arm came; mending applies where a memory was wrong."]
    return _section("Detection funnel", text, tables)


def _answers(details: Mapping[str, Any]) -> dict[str, Any] | None:
    tables = []
    for source in ("probe", "session"):
        arms = {arm: found[source]["answer_split"] for arm, found in details["counts"].items() if found[source]["episodes"]}
        places = sorted({place for split in arms.values() for place in split})
        given = {v for split in arms.values() for inner in split.values() for v in inner}
        verdicts = [v for v in ANSWERS if v in given]
        rows = [
            [f"{arm}: {place}", *(_text(split[place].get(v, 0)) for v in verdicts)]
            for arm, split in arms.items()
            for place in places
            if place in split
        ]
        if rows:
            tables.append(_table({"title": f"{source}s", "head": ["arm: needed inputs, wording", *verdicts], "rows": rows}))
    text = [
        "Answers by whether the needed inputs stood in the first view of their turn, before any reading back, and by the wording of the "
        "question: paraphrased has no word in common with the record."
    ]
    return _section("Answer split", text, tables) if tables else None


def _failures(details: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("expected", "scored", "excluded_infrastructure", "not_played", "infrastructure_errors")
    rows = [[arm, *(_text(h[f]) for f in fields)] for arm, h in details["health"].items()]
    note = "Excluded: the backend failed on every try. Errors count every failed try, also those that a later one made good."
    head = ["arm", *(f.replace("_", " ") for f in fields)]
    tables = [_table({"title": "episodes", "head": head, "rows": rows, "note": note})]
    needed = details["needed_in_input"]
    rows = [[arm, _text(found["in_input"]), _text(found["not_in_input"])] for arm, found in needed.items()]
    note = "Of failed episodes: was what the first wrong answer needed in the exact input that it was written from?"
    tables.append(
        _table({"title": "the needed message", "head": ["arm", "in the input", "not in it"], "rows": rows, "note": note})
    )
    for title, field in (("failures by cause", "causes"), ("how episodes ended", "reasons")):
        arms = {arm: _added(found[s][field] for s in ("probe", "session")) for arm, found in details["counts"].items()}
        kinds = sorted({k for found in arms.values() for k in found}, key=lambda k: (-sum(a.get(k, 0) for a in arms.values()), k))
        rows = [[kind, *(_text(found.get(kind, 0)) for found in arms.values())] for kind in kinds]
        if rows:
            tables.append(_table({"title": title, "head": [field[:-1], *arms], "rows": rows}))
    return _section("Failures", ["Probes and sessions together; limits and overflows are failures of the policy."], tables)


def _calls(config: EvalConfig, details: Mapping[str, Any]) -> dict[str, Any]:
    calls: dict[str, dict[str, dict[str, int]]] = {}
    own = {arm: get_profile(config.arms[arm].profile).tools for arm in details["counts"]}
    for tool in dict.fromkeys(tool for tools in own.values() for tool in tools):
        calls[tool] = {}
    for arm, found in details["counts"].items():
        for source in ("probe", "session"):
            for tool, outcomes in found[source]["calls"].items():
                held = calls.setdefault(tool, {})
                held[arm] = _added([held.get(arm, {}), outcomes])
    rows = []
    for tool, by_arm in calls.items():
        cells = [_outcomes(by_arm.get(arm, {}), tool in own[arm]) for arm in own]
        rows.append(["neither call nor answer" if tool == "none" else tool, *cells])
    rewrites = [_text(sum(found[s]["rewrites"] for s in ("probe", "session"))) for found in details["counts"].values()]
    rows.append(["rewrites of the view", *rewrites])
    text = ["Calls by outcome, probes and sessions together. Where a context tool says never, nothing is claimed about it."]
    spent = {arm: _added(found[s]["spent"] for s in ("probe", "session")) for arm, found in details["counts"].items()}
    shares = [[arm, *(_text(f"{found.get(n, 0):,}") for n in SPENDERS)] for arm, found in spent.items()]
    tables = [_table({"head": ["call", *own], "rows": rows})]
    tables.append(_table({"title": "tokens by spender", "head": ["arm", *SPENDERS], "rows": shares}))
    return _section("Mechanisms", text, tables)


def _outcomes(outcomes: Mapping[str, int], offered: bool) -> Cell:
    if not outcomes:
        return _text("never" if offered else "–")
    return _text(sum(outcomes.values()), ", ".join(f"{code} {number}" for code, number in sorted(outcomes.items())))


def _paired(results: Mapping[str, Any]) -> dict[str, Any] | None:
    pairs: dict[str, dict[str, Any]] = {}
    for entry in results["paired"]:
        pairs.setdefault(f"{entry['a']} - {entry['b']}", {})[entry["metric"]] = entry
    names = [n for n in PAIRED if any(n in found for found in pairs.values())]
    if not names:
        return None
    rows = [[pair, *(_cell(n, found.get(n), signed=True) for n in names)] for pair, found in pairs.items()]
    text = [
        "Differences on the samples that both arms played, bases resampled together. Coloured: the 95 % interval leaves out 0; "
        "intervals are not adjusted for their number. Every metric stands in results.json."
    ]
    return _section(
        "Paired differences",
        text,
        [_table({"head": ["arms", *(HEADINGS.get(n, n.replace("_", " ")) for n in names)], "rows": rows})],
    )


def _reading(details: Mapping[str, Any]) -> dict[str, Any]:
    text = [
        "Bases are resampled within their family with all their variants, 95 % percentile bootstrap. Where a metric has bounds "
        "the interval is the union with Clopper-Pearson at the effective number of bases (differences: MOVER on the discordant "
        "shares), for amounts with a stratified t interval and the studentised bootstrap, because a percentile bootstrap of few or equal "
        "outcomes is too narrow.",
        "A dash instead of an interval: a single base tells none. An amount without width did not vary among these bases, which "
        "is no proof that it can't.",
    ]
    primary = details["primary_metric"]
    used = [
        f"{arm} {found[primary]['method']} ({found[primary]['bases']} bases)"
        for arm, found in details["intervals"].items()
        if primary in found
    ]
    if used:
        text.append(f"Bounds of {primary} come from: {'; '.join(used)}.")
    rows = [[name, _text(about)] for name, about in details["about"].items() if not name.startswith("session_")]
    return _section("How to read this", text, [_table({"head": ["metric", "definition"], "rows": rows, "words": True})])


def _added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for key, number in part.items():
            total[key] = total.get(key, 0) + number
    return total
