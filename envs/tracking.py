"""Tracking with Weights & Biases, where a failure costs one line and never the run.

wandb lives in another process and in other threads, and can fail in many ways: it isn't installed, can't start, raises while a
figure is logged, never returns, or loses what it was given because its disk is full (which it tells nobody but its own log).
Every call to it therefore runs in a helper thread with a time limit; the first failure is written to stderr and to the
run's ``warnings.jsonl``, and switches tracking off for this process.

What a run folder keeps for it:

    wandb_id         the run id: a resumed run goes on under it
    wandb_step       the newest step that wandb has, and the names logged at it: no figure of a step is logged twice
    wandb/           wandb's own folder; one offline-run-<time>-<id> for each start of an offline run
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from envs.runs import append_jsonl, read_json, write_json_atomic, write_text_atomic

WARNINGS = "warnings.jsonl"
PATIENCE_S = {"start": 120.0, "log": 30.0, "summary": 30.0, "finish": 90.0}
"""Seconds that a call to wandb may take before tracking is given up."""
FREE_BYTES = 256 * 1024
"""With less free disk than this, wandb loses records without a word."""
_LOST = '"msg":"writer: failed to'


class Tracker:
    """One run's figures and tables, sent to wandb.

    ``mode`` is ``"online"``, ``"offline"`` or ``"disabled"`` (nothing is imported, nothing is written). Steps go up: a figure of a
    step that was logged before, in this process or in one that this run resumes, is dropped. Use as a context manager, or
    call :meth:`finish`. No method raises.
    """

    def __init__(
        self,
        mode: Literal["online", "offline", "disabled"],
        run_dir: str | Path,
        *,
        project: str = "ctxctl",
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._run: Any = None
        self._folder = Path(run_dir)
        self._step, self._names = 0, set[str]()
        self._before = -1
        """The newest step of the process that this one resumes."""
        self._read = 0
        """Bytes of wandb's own log that were looked through."""
        if mode != "disabled":
            self._run = self._call("start", lambda: self._start(mode, project, name, dict(config or {})))

    @property
    def active(self) -> bool:
        """Whether what is logged reaches wandb."""
        return self._run is not None

    def _start(self, mode: Literal["online", "offline"], project: str, name: str | None, config: dict[str, Any]) -> Any:
        import wandb

        folder = self._folder
        folder.mkdir(parents=True, exist_ok=True)
        id_file, step_file = folder / "wandb_id", folder / "wandb_step"
        run_id = id_file.read_text(encoding="utf-8").strip() if id_file.is_file() else ""
        if not run_id:
            run_id = uuid.uuid4().hex[:12]
            write_text_atomic(id_file, run_id + "\n")
        if step_file.is_file():
            kept = read_json(step_file)
            self._step = self._before = int(kept["step"])
            self._names = set(kept["names"])
        settings: dict[str, Any] = {"finish_timeout": PATIENCE_S["finish"] * 2 / 3, "finish_timeout_raises": True}
        if "x_transaction_log_flush_interval" in getattr(getattr(wandb, "Settings", None), "model_fields", {}):
            settings["x_transaction_log_flush_interval"] = 1.0  # seconds of figures that a kill may cost; wandb's own is 15
        return wandb.init(
            project=project,
            name=name or folder.absolute().name,
            id=run_id,
            resume="allow",
            mode=mode,
            dir=str(folder),
            config=config,
            settings=settings,
            reinit="create_new",  # a run that was given up stays open in this process: it must not be handed out again
        )

    def log(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record figures at ``step``, the newest step so far if None; those that were logged before are dropped."""
        if self._run is None:
            return
        step = self._step if step is None else step
        fresh = {k: v for k, v in metrics.items() if step > self._step or (step == self._step and self._may(k, step))}
        if fresh:
            self._call("log", lambda: self._log(fresh, step))

    def _may(self, name: str, step: int) -> bool:
        """Within one process wandb itself merges what is logged at one step."""
        return step > self._before or name not in self._names

    def _log(self, metrics: dict[str, Any], step: int) -> None:
        if step > self._step:
            # wandb holds a step back until the next one, so only now is the one before it in wandb's file. Noted first: a kill
            # between the two loses figures here (metrics.jsonl has them) and doubles none.
            self._note()
            self._step, self._names = step, set()
        self._names |= metrics.keys()
        self._run.log(metrics, step=step)
        self._look_for_losses()

    @contextlib.contextmanager
    def guard(self, action: str) -> Iterator[None]:
        """Around what is made for tracking alone: a failure in it is tracking's, not the run's."""
        try:
            yield
        except Exception as error:
            self._give_up(action, error)

    def table(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], step: int | None = None) -> None:
        """Record a table of plain values at ``step``, the newest step so far if None."""
        held = [list(row) for row in rows]
        if self._run is None or not held:
            return

        def make() -> Any:
            import wandb

            return wandb.Table(columns=list(columns), data=held)

        made = self._call("log", make)
        if made is not None:
            self.log({name: made}, step)

    def summary(self, values: Mapping[str, Any]) -> None:
        """Set the run's closing figures."""
        held = dict(values)
        if self._run is not None:
            self._call("summary", lambda: self._run.summary.update(held))

    def finish(self) -> None:
        """Close the wandb run and wait, with a limit, until it is on disk or sent; later calls do nothing."""
        if self._run is not None:
            self._call("finish", self._finish)
            self._run = None

    def _note(self) -> None:
        write_json_atomic(self._folder / "wandb_step", {"step": self._step, "names": sorted(self._names)})

    def _finish(self) -> None:
        self._note()
        self._run.finish()
        self._look_for_losses()

    def _look_for_losses(self) -> None:
        """Raise OSError where wandb says, in its own log only, that it can't write what it was given."""
        free = os.statvfs(self._folder)
        if free.f_bavail * free.f_frsize < FREE_BYTES:
            raise OSError(f"the disk of {self._folder} is full: free space, then resume")
        said = Path(str(getattr(self._run, "dir", self._folder))).parent / "logs" / "debug-internal.log"
        if not said.is_file():
            return
        with said.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        self._read += len(new)
        lines = [line for line in new.decode(errors="replace").splitlines() if _LOST in line]
        if lines:
            raise OSError(f"wandb can't write to {self._folder / 'wandb'} ({lines[0][-120:]}): see its log {said}")

    def _call(self, action: str, function: Callable[[], Any]) -> Any:
        """``function()`` in a thread, within its time limit; None, one report and no more tracking if it fails."""
        results: list[Any] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(function())
            except BaseException as error:  # a library that calls sys.exit must not end the run either
                errors.append(error)

        limit = PATIENCE_S[action]
        # A daemon: one that hangs must not keep the finished process alive.
        thread = threading.Thread(target=work, name=f"tracking-{action}", daemon=True)
        thread.start()
        thread.join(limit)
        if results:
            return results[0]
        self._give_up(action, errors[0] if errors else TimeoutError(f"no answer within {limit:g} s"))
        if not errors:
            _end_service()
        return None

    def _give_up(self, action: str, error: BaseException) -> None:
        self._run = None
        text = f"tracking off: {action} failed ({type(error).__name__}: {' '.join(str(error).split())}); the run goes on"
        tqdm.write(text, file=sys.stderr)  # clears a progress bar first
        with contextlib.suppress(Exception):  # the disk may be what failed
            append_jsonl(self._folder / WARNINGS, {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "warning": text})

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


def _end_service() -> None:
    """End the wandb process that no longer answers, if this process started one: its exit hook would wait for it for ever."""
    with contextlib.suppress(Exception):  # reaches into wandb: where that has changed, only the exit may hang
        from wandb.sdk import wandb_setup
        from wandb.sdk.lib.service import service_token

        setup = wandb_setup.singleton()
        connection, setup._connection = setup._connection, None  # a later run of this process starts its own
        if connection is not None and connection._proc is not None:
            connection._cleanup()
            service_token.clear_service_in_env()
            connection._proc._process.kill()


def offline_runs(run_dir: str | Path) -> list[Path]:
    """Folders of a run's offline data, oldest first: what ``wandb sync`` takes. Each start of the run made one."""
    return sorted(p for p in (Path(run_dir) / "wandb").glob("offline-run-*") if p.is_dir() and any(p.glob("run-*.wandb")))


def warnings(run_dir: str | Path) -> list[str]:
    """What went wrong beside a run without stopping it."""
    file = Path(run_dir) / WARNINGS
    return [json.loads(line)["warning"] for line in file.read_text().splitlines()] if file.is_file() else []
