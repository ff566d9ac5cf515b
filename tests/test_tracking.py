"""The tracker: with the real wandb offline, its files read back and its faults forced; with a fake one where a call is what counts."""

import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from envs import tracking
from envs.tracking import Tracker, offline_runs, warnings
from tests.wandb_files import figures, history

CHECKOUT = Path(__file__).parents[1]


def own_environment():
    """Of a child process that is to start its own wandb process, not to share that of the tests."""
    return {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_X_SAVE_REQUIREMENTS", "false")
    for name in ("WANDB_MODE", "WANDB_DIR", "WANDB_RUN_ID", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)


class FakeRun:
    def __init__(self, fails: bool = False) -> None:
        self.logged: list[tuple[dict, int | None]] = []
        self.summary: dict = {}
        self.finished, self.fails = 0, fails

    def log(self, metrics, step=None):
        if self.fails:
            raise ConnectionError("no\nroute")
        self.logged.append((metrics, step))

    def finish(self):
        self.finished += 1


@pytest.fixture
def fake_wandb(monkeypatch):
    calls: list[dict] = []
    module = types.SimpleNamespace(run=FakeRun(), calls=calls)

    def init(**settings):
        calls.append(settings)
        return module.run

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_tracker_keeps_its_run_id(tmp_path, fake_wandb):
    for step in range(2):
        with Tracker("offline", tmp_path, name="n", config={"a": 1}) as tracker:
            tracker.log({"loss": 1.0}, step=step)
            tracker.summary({"best": 2})
    first, second = fake_wandb.calls
    assert first["id"] == second["id"] == (tmp_path / "wandb_id").read_text().strip()
    assert first["resume"] == "allow"
    assert first["mode"] == "offline"
    assert fake_wandb.run.logged == [({"loss": 1.0}, 0), ({"loss": 1.0}, 1)]
    assert fake_wandb.run.finished == 2


def test_tracking_failure_warns_once_and_goes_on(tmp_path, fake_wandb, capsys):
    fake_wandb.run = FakeRun(fails=True)
    tracker = Tracker("online", tmp_path)
    for _ in range(3):
        tracker.log({"x": 1})
    tracker.summary({})
    tracker.finish()
    assert capsys.readouterr().err == "tracking off: log failed (ConnectionError: no route); the run goes on\n"
    assert warnings(tmp_path) == ["tracking off: log failed (ConnectionError: no route); the run goes on"]


def test_tracking_that_cannot_start_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "wandb", None)  # import raises
    with Tracker("online", tmp_path) as tracker:
        tracker.log({"x": 1})
    assert "tracking off: start failed" in capsys.readouterr().err


def test_disabled_tracking_touches_nothing(tmp_path):
    with Tracker("disabled", tmp_path) as tracker:
        tracker.log({"x": 1})
    assert list(tmp_path.iterdir()) == []


# -- the real wandb, offline ---------------------------------------------------------------------------------------------


def test_offline_run_holds_every_figure_and_is_found_by_the_sync_command(tmp_path):
    with Tracker("offline", tmp_path, name="n", config={"lr": 1}) as tracker:
        for step in (1, 2, 3):
            tracker.log({"loss": 1.0 / step}, step=step)
        tracker.log({"val/loss": 0.5})
        tracker.table("samples", ["id", "q"], [["a", 1.0], ["b", 0.0]], step=3)
        tracker.summary({"best": 2})
    (folder,) = offline_runs(tmp_path)
    run_id = (tmp_path / "wandb_id").read_text().strip()
    assert folder.name.endswith(run_id)
    assert figures(tmp_path) == [(1, "loss"), (2, "loss"), (3, "loss"), (3, "samples"), (3, "val/loss")]
    (table,) = (folder / "files" / "media" / "table").glob("samples*.json")
    assert json.loads(table.read_text()) == {"columns": ["id", "q"], "data": [["a", 1.0], ["b", 0.0]]}
    assert warnings(tmp_path) == []
    # Uploading needs a server; finding what is to be uploaded doesn't.
    command = [sys.executable, "-m", "wandb", "sync", "--dry-run", str(folder)]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "1 run" in listed.stdout + listed.stderr
    assert f"run-{run_id}.wandb" in listed.stdout + listed.stderr


def test_resumed_run_goes_on_under_its_id_and_logs_no_step_twice(tmp_path):
    with Tracker("offline", tmp_path) as tracker:
        for step in (1, 2, 3, 4, 5):
            tracker.log({"loss": float(step)}, step=step)
    with Tracker("offline", tmp_path) as tracker:  # the run goes on from its checkpoint of step 3
        for step in (4, 5, 6):
            tracker.log({"loss": float(step)}, step=step)
            if step == 5:
                tracker.log({"val/loss": 0.1}, step=step)  # the first process was stopped before it validated step 5
        tracker.log({"loss": -1.0}, step=2)  # never backwards
    files = [file.name for folder in offline_runs(tmp_path) for file in folder.glob("run-*.wandb")]
    assert files == [f"run-{(tmp_path / 'wandb_id').read_text().strip()}.wandb"] * 2
    assert figures(tmp_path) == [*((s, "loss") for s in (1, 2, 3, 4, 5)), (5, "val/loss"), (6, "loss")]
    assert [row["loss"] for row in history(tmp_path) if "loss" in row] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_killed_run_keeps_what_it_logged_a_second_before(tmp_path):
    script = (
        "import os, sys, time; from envs.tracking import Tracker\n"
        "t = Tracker('offline', sys.argv[1])\n"
        "[t.log({'loss': 0.5}, step=s) for s in (1, 2, 3)]\n"
        "time.sleep(2.5); os.kill(os.getpid(), 9)\n"
    )
    dead = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, timeout=120, cwd=CHECKOUT, env=own_environment()
    )
    assert dead.returncode == -9
    with Tracker("offline", tmp_path) as tracker:
        for step in (2, 3, 4):
            tracker.log({"loss": 0.5}, step=step)
    assert figures(tmp_path) == [(s, "loss") for s in (1, 2, 3, 4)]


def _raise(*_, **__):
    raise RuntimeError("out of order")


def _hang(*_, **__):
    time.sleep(30)


FAULTS = {
    "init raises": ("wandb.init", _raise, "start failed (RuntimeError: out of order)"),
    "init hangs": ("wandb.init", _hang, "start failed (TimeoutError: no answer within 0.5 s)"),
    "log raises": ("wandb.sdk.wandb_run.Run.log", _raise, "log failed (RuntimeError: out of order)"),
    "log hangs": ("wandb.sdk.wandb_run.Run.log", _hang, "log failed (TimeoutError: no answer within 0.5 s)"),
    "table raises": ("wandb.Table", _raise, "log failed (RuntimeError: out of order)"),
    "finish raises": ("wandb.sdk.wandb_run.Run.finish", _raise, "finish failed (RuntimeError: out of order)"),
    "finish hangs": ("wandb.sdk.wandb_run.Run.finish", _hang, "finish failed (TimeoutError: no answer within 0.5 s)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_the_real_library_is_told_once_and_stops_nothing(tmp_path, monkeypatch, capfd, fault):
    import wandb

    target, broken, message = FAULTS[fault]
    action = message.split()[0]
    if broken is _hang:
        monkeypatch.setitem(tracking.PATIENCE_S, action, 0.5)
    with monkeypatch.context() as patched:
        if action == "start":
            patched.setattr(target, broken)
        tracker = Tracker("offline", tmp_path)
        tracker.log({"loss": 1.0}, step=1)
        patched.setattr(target, broken)
        started = time.monotonic()
        for step in (2, 3, 4):
            tracker.log({"loss": 1.0}, step=step)
            tracker.table("samples", ["id"], [["a"]], step=step)
        tracker.summary({"x": 1})
        tracker.finish()
        assert time.monotonic() - started < 5
        assert not tracker.active
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("tracking off")]
    assert told == [f"tracking off: {message}; the run goes on"] == warnings(tmp_path)
    wandb.teardown()  # nothing of it is left hanging either
    with Tracker("offline", tmp_path) as again:  # and a later run of this process can be tracked
        again.log({"loss": 1.0}, step=9)
        assert again.active
    assert (9, "loss") in figures(tmp_path)


STUCK = """
import os, signal, subprocess, sys
from envs import tracking
tracking.PATIENCE_S["finish"] = 3.0
t = tracking.Tracker("offline", sys.argv[1])
t.log({"loss": 1.0}, step=1)
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
threads = [c for task in os.listdir("/proc/self/task") for c in open(f"/proc/self/task/{task}/children").read().split()]
core = [int(c) for c in {*children, *threads} if "wandb-core" in open(f"/proc/{c}/cmdline").read()]
assert core, "no wandb-core"
os.kill(core[0], signal.SIGSTOP)
t.finish()
print("the run went on")
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds wandb's process under /proc")
def test_wandb_process_that_stands_still_holds_up_neither_the_run_nor_its_exit(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", STUCK, str(tmp_path)],
        capture_output=True, text=True, timeout=90, cwd=CHECKOUT, env=own_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the run went on" in done.stdout
    assert done.stderr.count("tracking off: finish failed") == 1


def test_full_disk_is_noticed_though_wandb_says_nothing(tmp_path, capfd):
    """On a real small disk where the tests may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("can't mount a small disk here")
    try:
        tracker = Tracker("offline", disk)
        for step in range(400):
            tracker.log({f"{n}-{'x' * 100}": os.urandom(100).hex() for n in range(10)}, step=step)
            if not tracker.active:
                break
        tracker.finish()
        assert 0 < step < 399
    finally:
        import wandb

        wandb.teardown()
        subprocess.run(["umount", "-l", str(disk)], check=True)
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("tracking off")]
    assert len(told) == 1
    assert "full" in told[0] or "can't write" in told[0] or "No space" in told[0]


def test_records_that_wandb_lost_are_told(tmp_path, capfd):
    """The same without a disk: wandb's own log says that a record couldn't be saved."""
    with Tracker("offline", tmp_path) as tracker:
        tracker.log({"loss": 1.0}, step=1)
        log = next((tmp_path / "wandb").glob("offline-run-*/logs")) / "debug-internal.log"
        with log.open("a") as file:
            file.write('{"level":"ERROR","msg":"writer: failed to save record: disk quota exceeded"}\n')
        tracker.log({"loss": 1.0}, step=2)
        assert not tracker.active
    assert "disk quota exceeded" in capfd.readouterr().err
    assert len(warnings(tmp_path)) == 1


def test_a_run_that_was_given_up_is_not_handed_out_again(tmp_path):
    """wandb keeps the run of a tracker that failed; the next tracker of this process has one of its own."""
    given_up, new = tmp_path / "a", tmp_path / "b"
    with Tracker("offline", given_up) as tracker:
        tracker.log({"loss": 1.0}, step=1)
        log = next((given_up / "wandb").glob("offline-run-*/logs")) / "debug-internal.log"
        with log.open("a") as file:
            file.write('{"level":"ERROR","msg":"writer: failed to save record: disk quota exceeded"}\n')
        tracker.log({"loss": 1.0}, step=2)
        assert not tracker.active
    with Tracker("offline", new) as tracker:
        tracker.log({"loss": 1.0}, step=1)
        assert tracker.active
    assert len(offline_runs(new)) == 1
