"""The stages of a long experiment: what is run, what is left as it is, and what a stop leaves behind."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from data_gen.config import DataConfig
from data_gen.sessions import SuiteConfig
from envs.config import ConfigError, UserError, load_config
from envs.runs import DataError, read_json, write_json_atomic
from eval.config import EvalConfig
from eval.suites.cli import chosen as suites_named
from eval.suites.cli import parse_arms
from rl.config import RLConfig
from scripts import results
from scripts.results import Plan, app, check, chosen, perform, read_records, run_all
from sft.config import SFTStageConfig

ROOT = Path(__file__).parent.parent
GOOD, BAD, LONG = "envs contracts --help", "envs nonsense", "data_gen bench --sessions 1000000"


def plan(folder: Path, **stages) -> Path:
    path = folder / "stages.yaml"
    made = {name: {"about": name, **({"commands": s} if isinstance(s, list) else s)} for name, s in stages.items()}
    path.write_text(yaml.safe_dump({"out": str(folder / "out"), "stages": made}, sort_keys=False))
    return path


def test_stages_run_once_in_order_and_their_wall_time_is_written(tmp_path):
    path = plan(tmp_path, first=[GOOD, GOOD], second=[GOOD])
    done = CliRunner().invoke(app, [str(path)])
    assert done.exit_code == 0, done.output
    records = read_json(tmp_path / "out/stages.json")
    assert {name: r["status"] for name, r in records.items()} == {"first": "done", "second": "done"}
    assert all(r["seconds"] > 0 and len(r["starts"]) == 1 for r in records.values())
    assert (tmp_path / "out/logs/first.log").read_text().count("$ python -m") == 2
    again = CliRunner().invoke(app, [str(path)])
    assert again.exit_code == 0
    assert read_json(tmp_path / "out/stages.json") == records, "nothing was run again"
    assert "| first | first | done |" in again.output


def test_a_failure_stops_names_its_command_and_log_and_the_same_call_goes_on(tmp_path):
    path = plan(tmp_path, first=[GOOD], second=[BAD], third=[GOOD])
    failed = CliRunner().invoke(app, [str(path)])
    assert failed.exit_code == 2
    assert f"stage second: python -m {BAD}: failed (exit code 2)" in failed.output.replace("\n", " ")
    records = read_json(tmp_path / "out/stages.json")
    assert {name: r["status"] for name, r in records.items()} == {"first": "done", "second": "failed"}
    path = plan(tmp_path, first=[GOOD], second=[GOOD], third=[GOOD])
    assert CliRunner().invoke(app, [str(path)]).exit_code == 0
    after = read_json(tmp_path / "out/stages.json")
    assert after["first"] == records["first"]
    assert [after[name]["status"] for name in ("second", "third")] == ["done", "done"]


def test_a_changed_command_makes_its_stage_owed_again(tmp_path):
    CliRunner().invoke(app, [str(plan(tmp_path, first=[GOOD]))])
    before = read_json(tmp_path / "out/stages.json")
    changed = plan(tmp_path, first=[GOOD, GOOD])
    assert "done, by other commands" in CliRunner().invoke(app, [str(changed), "--list"]).output
    CliRunner().invoke(app, [str(changed)])
    assert read_json(tmp_path / "out/stages.json")["first"]["starts"] != before["first"]["starts"]


def test_a_changed_config_makes_its_stage_owed_again_a_comment_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # stages run from the checkout, this one elsewhere
    config = Path("configs/small.yaml")
    config.parent.mkdir()
    config.write_text("{out: a, counts: {direct: 1}, val_bases: 0, rl_bases: 0, processes: 1}")
    path = plan(tmp_path, first=[f"data_gen {config}"])

    def starts() -> int:
        done = CliRunner().invoke(app, [str(path)])
        assert done.exit_code == 0, done.output
        return len(read_json(tmp_path / "out/stages.json")["first"]["starts"])

    assert starts() == 1
    config.write_text("# said otherwise\n" + config.read_text())
    before = read_json(tmp_path / "out/stages.json")
    assert "| done |" in CliRunner().invoke(app, [str(path), "--list"]).output
    assert starts() == 1
    assert read_json(tmp_path / "out/stages.json") == before
    config.write_text(config.read_text().replace("out: a", "out: b"))
    assert f"done, by another {config}" in CliRunner().invoke(app, [str(path), "--list"]).output
    assert starts() == 1, "a start with another config is another stage's time"
    assert Path("b/done.json").is_file()
    assert read_json(tmp_path / "out/stages.json")["first"]["configs"] != before["first"]["configs"]


def test_what_lies_in_the_repository_is_taken_with_the_time_it_took_unless_it_is_retrained(tmp_path):
    (tmp_path / "adapter").write_text("weights")
    path = plan(tmp_path, train={"commands": [GOOD], "shipped": [str(tmp_path / "adapter")]})
    record = {"train": {"status": "done", "commands": [GOOD], "seconds": 1234.5, "starts": []}}
    write_json_atomic(tmp_path / "record.json", record)
    given = yaml.safe_load(path.read_text()) | {"record": str(tmp_path / "record.json")}
    path.write_text(yaml.safe_dump(given))
    assert CliRunner().invoke(app, [str(path)]).exit_code == 0
    taken = read_json(tmp_path / "out/stages.json")["train"]
    assert (taken["status"], taken["seconds"]) == ("shipped", 1234.5)
    assert not (tmp_path / "out/logs/train.log").exists()
    assert CliRunner().invoke(app, [str(path), "--retrain"]).exit_code == 0
    assert read_json(tmp_path / "out/stages.json")["train"]["status"] == "done"
    (tmp_path / "adapter").unlink()
    (tmp_path / "out/stages.json").unlink()
    assert CliRunner().invoke(app, [str(path)]).exit_code == 0
    assert read_json(tmp_path / "out/stages.json")["train"]["status"] == "done", "nothing shipped: it is made"


def started(path: Path, record: Path, beat: float = 0.5) -> subprocess.Popen[bytes]:
    """A call of its own, whose command has been at work for two seconds."""
    # Whoever starts the tests in the background may have SIGINT ignored.
    handled = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{handled}; import scripts.results as r; r.BEAT = {beat}; r.app([{str(path)!r}])"
    runner = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, start_new_session=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if record.is_file() and read_json(record)["long"]["seconds"] > 2:
            return runner
        time.sleep(0.2)
    runner.kill()
    raise AssertionError("the command never began")


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def test_kill_9_loses_no_more_than_a_beat_the_command_keeps_others_out_and_the_time_adds_up(tmp_path, monkeypatch):
    path = plan(tmp_path, long=[LONG])
    runner = started(path, tmp_path / "out/stages.json")
    left = children(runner.pid)
    assert left
    try:
        runner.kill()
        runner.wait()
        killed = read_json(tmp_path / "out/stages.json")["long"]
        assert killed["status"] == "running"
        assert killed["seconds"] > 2
        refused = CliRunner().invoke(app, [str(path)])
        assert refused.exit_code == 2
        assert "another call, or a command that it left behind, is at work there" in " ".join(refused.output.split())
    finally:
        for pid in left:
            os.killpg(pid, signal.SIGKILL)
    given = load_config(Plan, path)
    monkeypatch.setattr(results, "_run", lambda *_: 0)
    perform(given, "long", read_records(given), retrain=False)
    done = read_json(tmp_path / "out/stages.json")["long"]
    assert done["status"] == "done"
    assert done["starts"][0]["seconds"] == killed["seconds"]
    assert done["seconds"] >= killed["seconds"]


def test_ctrl_c_reaches_the_command_once_and_is_told_from_a_failure(tmp_path):
    runner = started(plan(tmp_path, long=[LONG], next=[GOOD]), tmp_path / "out/stages.json")
    left = children(runner.pid)
    runner.send_signal(signal.SIGINT)
    assert runner.wait(timeout=60) == 2
    records = read_json(tmp_path / "out/stages.json")
    assert {name: r["status"] for name, r in records.items()} == {"long": "interrupted"}
    assert not any(Path(f"/proc/{pid}").exists() for pid in left)


def test_stages_that_need_nothing_of_each_other_run_side_by_side_with_their_share_of_the_cores(tmp_path, monkeypatch):
    stages = {
        "first": {"commands": [GOOD]},
        "left": {"commands": ["envs left"], "needs": ["first"]},
        "right": {"commands": ["envs right"], "needs": ["first"]},
        "last": {"commands": [GOOD]},
    }
    both, began = threading.Barrier(2, timeout=30), []

    def run(command, log, beat, threads):
        began.append(log.stem)
        if log.stem in ("left", "right"):
            both.wait()  # breaks unless both are under way at once
        assert threads == str(max(1, len(os.sched_getaffinity(0)) // 2))
        return 0

    monkeypatch.setattr(results, "_run", run)
    assert CliRunner().invoke(app, [str(plan(tmp_path, **stages)), "--jobs", "2"]).exit_code == 0
    assert began[0] == "first"
    assert set(began[1:3]) == {"left", "right"}
    assert began[3] == "last"
    with pytest.raises(ConfigError, match=r"stage right needs 'frist', which is no stage before it: did you mean 'first'\?"):
        load_config(Plan, plan(tmp_path, **{**stages, "right": {"commands": [GOOD], "needs": ["frist"]}}))


def test_after_a_failure_nothing_new_is_begun_and_what_runs_is_waited_for(tmp_path, monkeypatch):
    stages = {name: {"commands": [f"envs {name}"], "needs": []} for name in ("bad", "slow", "never")}
    failed, ended = threading.Event(), []

    def run(command, log, beat, threads):
        log.write_text("x\n")
        if log.stem == "bad":
            failed.set()
            return 1
        failed.wait(30)
        time.sleep(0.5)
        ended.append(log.stem)
        return 0

    monkeypatch.setattr(results, "_run", run)
    given = load_config(Plan, plan(tmp_path, **stages))
    with pytest.raises(UserError, match="stage bad"):
        run_all(given, list(stages), {}, retrain=False, jobs=2)
    assert ended == ["slow"]
    assert {n: r["status"] for n, r in read_json(tmp_path / "out/stages.json").items()} == {"bad": "failed", "slow": "done"}


def test_stages_by_name_and_mistakes(tmp_path):
    given = load_config(Plan, plan(tmp_path, one=[GOOD], two=[GOOD], three=[GOOD]))
    assert chosen(given, None, "two") == ["one", "two"]
    assert chosen(given, ["three", "one"], None) == ["one", "three"]
    with pytest.raises(UserError, match=r"--only tow: did you mean 'two'\?"):
        chosen(given, ["tow"], None)
    with pytest.raises(ConfigError, match=r"command 'sftt x': did you mean 'sft'\?"):
        load_config(Plan, plan(tmp_path, one=["sftt x"]))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/stages.json").write_text('{"one": {"status": "odd"}}')
    with pytest.raises(DataError, match=r"stages.json: .*: restore or delete it"):
        read_records(given)
    with pytest.raises(ConfigError, match=r"stages.one: configs/nowhere.yaml: not there"):
        check(plan(tmp_path, one=["sft configs/nowhere.yaml"]))
    done = CliRunner().invoke(app, [str(plan(tmp_path, one=[GOOD], two=["sft configs/nowhere.yaml"]))])
    assert done.exit_code == 2, "told before anything is run"


def test_the_plan_of_the_result_names_commands_and_configs_that_are_there(monkeypatch):
    """Every config is read by its stage's own schema; a model that a stage plays is made by a stage before it."""
    monkeypatch.chdir(ROOT)
    found = check(ROOT / "configs/results/stages.yaml")
    made: list[str] = []
    for stage in found.stages.values():
        for command in stage.commands:
            module, *words = shlex.split(command)
            overrides = [w for w in words if "=" in w]
            configs = [w for w in words if w.startswith("configs/")]
            if module == "data_gen":
                schema = SuiteConfig if words[0] == "sessions" else DataConfig
                made.append(load_config(schema, configs[0], overrides).out)
            elif module == "sft":
                loaded = load_config(SFTStageConfig, configs[0], overrides)
                assert loaded.data in made
                made.append(loaded.out)
            elif module == "rl" and words[0] == "ship":
                assert words[1] in made
                made.append(words[2])
            elif module == "rl" and words[0] == "merge":
                assert set(words[1:-2]) <= set(made)
                made.append(words[-1])
            elif module == "rl":
                loaded = load_config(RLConfig, configs[0], overrides)
                assert loaded.model in made
                made.append(loaded.out)
            elif module == "eval" and words[0] == "suites":
                suites = suites_named([words[n + 1] for n, w in enumerate(words) if w == "--suite"])
                given = [words[n + 1] for n, w in enumerate(words) if w == "--arm"]
                arms = [arm for each in suites for text in given for _, arm in parse_arms(text, each)]
                assert {a.model for a in arms if a.model} <= set(made)
            elif module == "eval":
                loaded = load_config(EvalConfig, configs[0], overrides)
                files = [f for f in (loaded.probes, loaded.sessions) if f]
                assert all(f in made or str(Path(f).parent) in made for f in files), files
                assert {a.model for a in loaded.arms.values() if a.model} - {"smollm2"} <= set(made)
    assert {s for stage in found.stages.values() for s in stage.shipped} <= set(made)
