"""A scored run for other tools: tables that add up to results.json, wandb, and Inspect logs that Inspect's own reader opens."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

from envs.chat import get_chat
from envs.config import UserError
from envs.runs import append_jsonl, read_json, read_jsonl, write_jsonl_atomic
from envs.stats import Unit, estimate
from envs.tasks import get_family
from envs.tasks.probes import make_probes
from envs.trajectory import Trajectory
from eval.__main__ import app
from eval.config import EvalConfig
from eval.export import make_tables, open_run
from eval.export_wandb import figures
from eval.freeze import freeze
from eval.metrics import METRICS
from eval.run import run
from eval.score import score
from tests.wandb_files import records

NUMBERS = ("tokens", "tokens_in", "tokens_out", "inferences", "reads", "rewrites", "peak")


@pytest.fixture(scope="module")
def scored(tmp_path_factory) -> Path:
    """A run folder: three arms, probes and a session, one sample of ``never_read`` owed after an infrastructure error."""
    folder, chat = tmp_path_factory.mktemp("data"), get_chat()
    probes = []
    for family, kind in (("procurement", "changed"), ("support", "static")):
        probes += next(filter(None, (make_probes(family, seed, kind, chat) for seed in range(40))))
    write_jsonl_atomic(folder / "probes.jsonl", probes)
    write_jsonl_atomic(folder / "sessions.jsonl", [get_family("support").generate(5)])
    config = EvalConfig(
        name="x", out=str(folder / "run"), probes=str(folder / "probes.jsonl"), sessions=str(folder / "sessions.jsonl"),
        arms={"expert": {"policy": "expert"}, "never": {"policy": "never_read"}, "plain": {"policy": "expert", "profile": "plain@1"}},
        bootstrap={"resamples": 200}, references=("plain",),
    )  # fmt: skip
    freeze(config)
    run(config)
    log = config.arm_folder("never") / "episodes.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    owed = next(i for i, line in enumerate(lines) if json.loads(line)["probe"])
    key = ["probe", json.loads(lines.pop(owed))["probe"], 0]
    log.write_text("".join(lines))
    for error in ("EndpointError: no answer within 600 s", "EndpointError: the server answers 500"):
        append_jsonl(
            config.arm_folder("never") / "errors.jsonl", {"samples": [key], "error": error, "at": "2026-01-01T00:00:00+00:00"}
        )
    score(config)
    return config.folder


@pytest.fixture(scope="module")
def tables(scored):
    return make_tables(*open_run(scored))


def test_the_rows_are_those_of_the_scores(scored, tables):
    lines = read_jsonl(scored / "scores.jsonl")
    episodes = tables["episodes"].to_pylist()
    assert [(e["arm"], e["sample"]) for e in episodes] == [(line["arm"], line["sample"]) for line in lines]
    for episode, line in zip(episodes, lines, strict=True):
        said = line["score"]
        assert (episode["cause"], episode["needed_in_input"]) == (line["cause"], line["needed_in_input"])
        for name in ("tokens", "q", "task_correct", "reason", "mended", "prefill"):
            assert episode[name] == said[name]
        assert episode["reads"] == len(said["reads"])
        assert episode["funnel_suspected"] == said["funnel"].get("suspected")
        assert sum(v for k, v in episode.items() if k.startswith("spent_")) == episode["tokens"]
    assert tables["checks"].num_rows == sum(len(line["score"]["checks"]) for line in lines)
    for table, columns in (("inferences", {"tokens_in": "tokens_in", "tokens_out": "tokens_out"}), ("calls", {})):
        for episode in episodes:
            mine = [r for r in tables[table].to_pylist() if (r["arm"], r["sample"]) == (episode["arm"], episode["sample"])]
            for mine_name, name in columns.items():
                assert sum(r[mine_name] for r in mine) == episode[name]
    calls = [r for r in tables["calls"].to_pylist() if r["arm"] == "expert"]
    assert sum(r["count"] for r in calls) == sum(
        n for line in lines if line["arm"] == "expert" for o in line["score"]["calls"].values() for n in o.values()
    )


def test_units_make_every_mean_of_the_results(scored, tables):
    results, units = read_json(scored / "results.json"), tables["units"].to_pylist()
    for arm, metrics in results["arms"].items():
        for name, value in metrics.items():
            mine = [u for u in units if (u["arm"], u["metric"]) == (arm, name)]
            made = estimate(
                [Unit(u["family"], u["base"], u["num"], u["den"], u["key"], u["repeat"]) for u in mine],
                bounds=None, resamples=10, seed=0,
            )  # fmt: skip
            assert (made.mean, made.n) == (pytest.approx(value["mean"]), value["n"]), (arm, name)
    stated = {
        (r["arm"], r["reference"], r["metric"]): (r["mean"], r["lo"], r["hi"], r["n"]) for r in tables["results"].to_pylist()
    }
    for arm, metrics in results["arms"].items():
        for name, value in metrics.items():
            assert stated.pop((arm, None, name)) == tuple(value[k] for k in ("mean", "lo", "hi", "n"))
    for pair in results["paired"]:
        assert stated.pop((pair["a"], pair["b"], pair["metric"])) == tuple(pair[k] for k in ("mean", "lo", "hi", "n"))
    assert not stated


def test_columns_and_their_types_hang_on_no_data(scored, tables):
    """A run without a single episode of an arm has the same columns, types included."""
    opened, episodes = open_run(scored)
    empty = make_tables(opened, {arm: [] for arm in episodes})
    for name, table in tables.items():
        assert empty[name].schema.equals(table.schema)
        assert not [field for field in table.schema if pa.types.is_null(field.type)]
    assert {f"metric_{name}" for name in METRICS} - set(tables["episodes"].column_names) == {"metric_detection_f1"}
    values = {n: tables["episodes"].column(n).to_pylist() for n in tables["episodes"].column_names}
    assert values["metric_task_correct"] == [float(right) for right in values["task_correct"]]
    assert values["metric_tokens"] == values["tokens"]
    page = Path("docs/exports.md").read_text()
    columns = {c for n, t in tables.items() if n != "episodes" for c in t.column_names} - set(tables["checks"].column_names)
    assert [c for c in sorted(columns) if f"`{c}`" not in page] == []


def test_files_read_back_as_they_were_written(scored, tables, tmp_path):
    cli = CliRunner()
    done = cli.invoke(app, ["export", str(scored), "--to", "csv", "--to", "parquet", "--out", str(tmp_path / "x")])
    assert done.exit_code == 0, done.output
    said = read_json(tmp_path / "x" / "export.json")
    results = read_json(scored / "results.json")
    assert said["lock"] == results["lock"]
    for name, table in tables.items():
        back = parquet.read_table(tmp_path / "x" / "parquet" / f"{name}.parquet")
        assert back.schema.metadata[b"lock"].decode() == results["lock"]
        assert back.to_pylist() == table.to_pylist()
        options = csv.ConvertOptions(column_types=table.schema, strings_can_be_null=True, quoted_strings_can_be_null=False)
        read = csv.read_csv(
            tmp_path / "x" / "csv" / f"{name}.csv",
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=options,
        )
        assert read.to_pylist() == table.to_pylist()
        assert said["rows"][name] == table.num_rows
    assert not list((tmp_path / "x").rglob(".*"))
    by_config = cli.invoke(app, ["export", str(scored / "eval.yaml"), f"out={scored}"])
    assert by_config.exit_code == 0, by_config.output
    assert csv.read_csv(scored / "export" / "csv" / "results.csv").num_rows == tables["results"].num_rows
    shutil.rmtree(scored / "export")


def test_what_cannot_be_exported_is_told(scored, tmp_path, monkeypatch):
    copy = tmp_path / "run"
    shutil.copytree(scored, copy)
    log = copy / "arms" / "expert" / "episodes.jsonl"
    whole = log.read_text()
    log.write_text("".join(whole.splitlines(keepends=True)[1:]))
    with pytest.raises(UserError, match="is scored but not stored: run the score command again"):
        open_run(copy)
    log.write_text(whole)
    scores = (copy / "scores.jsonl").read_text().splitlines(keepends=True)
    (copy / "scores.jsonl").write_text("".join(scores[1:]))
    with pytest.raises(UserError, match="arm expert: probe .* has no score: run the score command again"):
        open_run(copy)
    (copy / "scores.jsonl").unlink()
    with pytest.raises(UserError, match="nothing is scored"):
        open_run(copy)
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    refused = CliRunner().invoke(app, ["export", str(scored), "--to", "inspect", "--out", str(tmp_path / "x")])
    assert refused.exit_code == 2
    assert r".[inspect]" in refused.output
    busy = tmp_path / "file"
    busy.write_text("")
    refused = CliRunner().invoke(app, ["export", str(scored), "--out", str(busy)])
    assert refused.exit_code == 2
    assert "choose another --out" in refused.output


# -- wandb -----------------------------------------------------------------------------------------------------------


def test_wandb_holds_the_tables_and_figures_of_an_arm(scored, tables, tmp_path):
    out = tmp_path / "x"
    for _ in range(2):  # done again, it replaces what it wrote
        done = CliRunner().invoke(app, ["export", str(scored), "--to", "wandb", "--out", str(out)])
        assert done.exit_code == 0, done.output
    home = out / "wandb" / "expert"
    [file] = home.glob("wandb/offline-run-*/run-*.wandb")
    summary, tracked = {}, {}
    for record in records(file):
        if record.WhichOneof("record_type") == "summary":
            summary |= {u.key or "/".join(u.nested_key): json.loads(u.value_json) for u in record.summary.update}
        if record.WhichOneof("record_type") == "history":
            tracked |= {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item}
    results = read_json(scored / "results.json")["arms"]["expert"]
    opened, episodes = open_run(scored)
    wanted = figures(opened, "expert", episodes["expert"])
    assert {name: summary[name] for name in wanted} == pytest.approx(wanted)
    assert summary["val/pair_success"] == results["pair_success"]["mean"]
    assert summary["detect/recall"] == results["detection_recall"]["mean"]
    assert {"val/task_correct/support", "val/tokens/procurement", "reward/q", "episode/segments", "detect/false_alarm"} <= set(
        wanted
    )
    assert sum(v for k, v in wanted.items() if k.startswith("calls/")) > 1
    mine = [row for row in tables["episodes"].to_pylist() if row["arm"] == "expert"]
    assert wanted["episode/tokens"] == pytest.approx(sum(r["tokens"] for r in mine) / len(mine))
    assert tracked["episodes/nrows"] == len(mine)
    [table] = home.glob("wandb/offline-run-*/files/media/table/episodes*.json")
    content = json.loads(table.read_text())
    assert content["columns"] == tables["episodes"].column_names
    assert [dict(zip(content["columns"], row, strict=True)) for row in content["data"]] == mine


# -- Inspect ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logs(scored, tmp_path_factory) -> Path:
    pytest.importorskip("inspect_ai", reason="Inspect isn't installed: pip install -c constraints.txt -e '.[inspect]'")
    out = tmp_path_factory.mktemp("inspect")
    done = CliRunner().invoke(app, ["export", str(scored), "--to", "inspect", "--out", str(out)])
    assert done.exit_code == 0, done.output
    return out / "inspect"


def test_inspects_reader_opens_the_log_and_finds_the_scores(scored, tables, logs):
    from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

    assert {Path(info.name).name for info in list_eval_logs(str(logs))} == {"expert.eval", "never.eval", "plain.eval"}
    results = read_json(scored / "results.json")
    log = read_eval_log(str(logs / "expert.eval"))
    assert log.status == "success"
    assert log.eval.metadata["lock"] == results["lock"]
    found = {s.name: {k: m.value for k, m in s.metrics.items()} for s in log.results.scores}
    assert found == {
        name: {k: v[k] for k in ("mean", "lo", "hi") if v[k] is not None} for name, v in results["arms"]["expert"].items()
    }  # fmt: skip
    assert log.results.headline.score == "pair_success"
    mine = {row["sample"]: row for row in tables["episodes"].to_pylist() if row["arm"] == "expert"}
    assert len(log.samples) == log.results.total_samples == log.results.completed_samples == len(mine)
    for sample in log.samples:
        row = mine[sample.id]
        assert {n: s.value for n, s in sample.scores.items()} == {
            n.removeprefix("metric_"): v for n, v in row.items() if n.startswith("metric_") and v is not None
        }
        assert (sample.metadata["family"], sample.metadata["variant"]) == (row["family"], row["variant"])
        usage = sample.model_usage[log.eval.model]
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (
            row["tokens_in"],
            row["tokens_out"],
            row["tokens"],
        )
        assert sum(u.total_tokens for u in sample.role_usage.values()) == row["tokens"]
    assert log.stats.model_usage[log.eval.model].total_tokens == sum(row["tokens"] for row in mine.values())
    summaries = read_eval_log_sample_summaries(str(logs / "expert.eval"))
    assert {s.id: s.scores["task_correct"].value for s in summaries} == {k: float(v["task_correct"]) for k, v in mine.items()}
    one = next(iter(mine))
    assert read_eval_log_sample(str(logs / "expert.eval"), one, epoch=1).id == one


def test_a_sample_holds_the_whole_log_and_every_input(scored, logs):
    from inspect_ai.log import read_eval_log

    stored = {t.probe or t.session.id: t for t in read_jsonl(scored / "arms/expert/episodes.jsonl", model=Trajectory)}
    for sample in read_eval_log(str(logs / "expert.eval"), resolve_attachments=True).samples:
        record = stored[sample.id]
        texts = [m.text for m in sample.messages]
        assert [t for t in texts[1:] if not t.startswith("[host ")] == [
            e["text"] for e in record.events if e["role"] in ("user", "assistant", "tool")
        ]
        events = [e for e in sample.events if e.event == "model"]
        views = [[(m.role, m.content) for m in view] for view in record.views()]
        assert [[(m.role, m.text) for m in e.input] for e in events] == views
        assert [e.output.completion for e in events] == [i.text for i in record.inferences]
        assert sample.output.completion == record.replies[max(record.replies)]


def test_what_is_owed_is_an_error_and_no_score(logs):
    from inspect_ai.log import read_eval_log

    log = read_eval_log(str(logs / "never.eval"))
    [owed] = [s for s in log.samples if s.error]
    assert log.status == "error"
    assert log.results.total_samples == log.results.completed_samples + 1 == len(log.samples)
    assert owed.scores is None
    assert "answers 500" in owed.error.message
    assert ["no answer" in e.message for e in owed.error_retries] == [True]


def test_inspects_own_commands_open_it(logs):
    program = [sys.executable, "-m", "inspect_ai._cli.main", "log"]
    listed = subprocess.run([*program, "list", "--json", "--log-dir", str(logs)], capture_output=True, text=True, check=True)
    assert len(json.loads(listed.stdout)) == 3
    dumped = subprocess.run([*program, "dump", str(logs / "plain.eval")], capture_output=True, text=True, check=True)
    content = json.loads(dumped.stdout)
    assert content["eval"]["task"] == "x"
    assert all(not math.isnan(s["scores"]["task_correct"]["value"]) for s in itertools.islice(content["samples"], 5))
