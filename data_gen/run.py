"""The data stage as functions: make, write, leave ``done.json``; the same config again returns at once, an interrupted one goes on."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from data_gen.build import PLAIN, quota, streams
from data_gen.card import PLOTS, card
from data_gen.config import DataConfig
from data_gen.equal import SESSION, resolve
from data_gen.journal import Journal
from data_gen.plots import write_plots
from data_gen.pool import Work, make_all
from data_gen.write import PARQUET, RL, TRAJECTORIES, UNITS, VAL, write_all
from envs.config import ConfigError, dump_config, load_config
from envs.runs import hash_obj, provenance, read_json, write_json_atomic, write_text_atomic

FILES = (TRAJECTORIES, PARQUET, RL, VAL, UNITS, "card.md", *PLOTS)
JOURNALS = "units"


def code_hash() -> str:
    """Hash of the sources that decide what a unit is: units of different versions are never joined."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for folder in ("data_gen", "envs"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def run(config: DataConfig) -> dict[str, Any]:
    """Make the data set, or this shard of it, in ``config.out``. Returns counts. Raises ConfigError when the folder holds another one."""
    config = resolve(config)
    out = Path(config.out)
    fingerprint = hash_obj(config.identity())
    held = _finished(out, fingerprint)
    if held and held["shard"] in (None, config.shard):
        return held
    if held:
        raise ConfigError(f"{out}: the folder holds shard {held['shard']}: choose another out for shard {config.shard}")
    try:
        config.check_held_out()
    except ValueError as error:
        raise ConfigError(f"data_gen: {error}") from None
    folder = out / JOURNALS
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        _same_run(folder, {"config": fingerprint, "shard": config.shard, "code": code_hash()})
        write_text_atomic(out / "config.yaml", dump_config(config))
        made = _make(config, folder)
        if config.part[1] == 1:
            return _finish(out, config, [folder])
        result = {"config": fingerprint, "shard": config.shard, "code": code_hash(), "units": made, "provenance": provenance()}
        write_json_atomic(out / "done.json", result)
        return result


def merge(out: Path, folders: list[Path]) -> dict[str, Any]:
    """Join finished shards into one set in ``out``. Raises ConfigError unless they are all the parts of one set."""
    if not folders:
        raise ConfigError("merge: no shard is named: give the folders of all shards")
    shards: dict[str, Path] = {}
    first = None
    for folder in folders:
        if not (folder / "done.json").exists() or not (folder / JOURNALS).exists():
            raise ConfigError(f"merge: {folder}: not a finished shard: run its data_gen command to the end first")
        done = read_json(folder / "done.json")
        first = first or done
        for key, what in (("config", "config"), ("code", "version of the code")):
            if done[key] != first[key]:
                raise ConfigError(f"merge: {folder}: made with another {what} than {folders[0]}: make it anew with the same")
        if done["shard"] in shards:
            raise ConfigError(f"merge: {folder} and {shards[done['shard']]} are both shard {done['shard']}")
        shards[done["shard"]] = folder
    assert first is not None
    n = int(first["shard"].split("/")[1])
    if missing := [f"{i}/{n}" for i in range(1, n + 1) if f"{i}/{n}" not in shards]:
        raise ConfigError(f"merge: shard {', '.join(missing)} is missing: make it, then merge again")
    in_order = [shards[f"{i}/{n}"] for i in range(1, n + 1)]
    config = load_config(DataConfig, in_order[0] / "config.yaml").model_copy(update={"out": str(out)})
    if held := _finished(out, first["config"]):
        if held["shard"]:
            raise ConfigError(f"merge: {out}: the folder holds shard {held['shard']}: choose another out")
        return held
    out.mkdir(parents=True, exist_ok=True)
    write_text_atomic(out / "config.yaml", dump_config(config))
    return _finish(out, config, [f / JOURNALS for f in in_order], first["code"])


def _finished(out: Path, fingerprint: str) -> dict[str, Any] | None:
    done = out / "done.json"
    if not done.exists():
        return None
    held = dict(read_json(done))
    if held.get("config") != fingerprint:
        raise ConfigError(f"{done}: the folder holds data of another config: choose another out, or delete {out} to make it anew")
    whole = (out / JOURNALS).exists() if held["shard"] else all((out / f).exists() for f in FILES)
    return held if whole else None


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{folder.parent}: another run is at work there: wait for it, or choose another out") from None
        yield


def _same_run(folder: Path, state: dict[str, Any]) -> None:
    """Refuse to go on with units of another config, shard or version."""
    path = folder / "state.json"
    if not path.exists():
        write_json_atomic(path, state)
        return
    held = read_json(path)
    for key, what in (("config", "config"), ("shard", "shard"), ("code", "version of the code")):
        if held[key] != state[key]:
            raise ConfigError(
                f"{folder}: the units begun there are of another {what}: choose another out, or delete {folder} to start anew"
            )


def _make(config: DataConfig, folder: Path) -> int:
    plain = config.plain
    work = [Work(s, share, Journal.open(folder, s, plain)) for s, n in streams(config).items() if (share := quota(config, n))]
    by_tokens = [work.pop(next(i for i, w in enumerate(work) if w.stream == PLAIN))] if plain else []
    expected = quota(config, plain.tokens) // SESSION if plain else 0
    total = sum(w.count for w in work) + expected
    before = sum(min(w.count, w.journal.made) for w in [*work, *by_tokens])
    with tqdm(total=total, initial=before, desc="data", unit="unit") as bar:

        def on_units(name: str, made: int) -> None:
            bar.set_postfix_str(name, refresh=False)
            bar.update(made)

        make_all(config, work, config.workers(total - before), on_units)
        for last in by_tokens:
            assert plain
            # A shard makes its share of a number told, or as much as its own other part: together that is never too little.
            last.goal = quota(config, plain.tokens) or sum(w.journal.tokens for w in work)
            make_all(config, by_tokens, config.workers(last.goal // SESSION), on_units)
    return sum(min(w.count, w.journal.made) for w in [*work, *by_tokens])


def _finish(out: Path, config: DataConfig, folders: list[Path], code: str = "") -> dict[str, Any]:
    code = code or code_hash()
    tally, separation = write_all(out, config, folders)
    write_plots(out, tally)
    write_text_atomic(out / "card.md", card(config, tally, separation, plots=True, code=code))
    result = {
        "config": hash_obj(config.identity()),
        "shard": None,
        "code": code,
        "trajectories": tally.episodes.total(),
        "inferences": tally.inferences.total(),
        "tokens": {"total": tally.tokens - tally.total["plain"], "trained": tally.trained.total() - tally.trained["plain"]},
        "plain_tokens": {"total": tally.total["plain"], "trained": tally.trained["plain"]},
        "rl_probes": tally.probes["rl"],
        "val_probes": tally.probes["val"],
        "left_out": len(separation.dropped) + tally.repeated - separation.repeated,
        "provenance": provenance(),
    }
    write_json_atomic(out / "done.json", result)
    shutil.rmtree(out / JOURNALS, ignore_errors=True)
    return result
