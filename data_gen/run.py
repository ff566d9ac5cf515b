"""The data stage as a function: build, write, leave ``done.json``; the same config again returns at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tqdm import tqdm

from data_gen.build import DataSet, build
from data_gen.card import card
from data_gen.config import DataConfig
from envs.config import ConfigError, dump_config
from envs.runs import hash_obj, provenance, read_json, write_json_atomic, write_jsonl_atomic, write_text_atomic
from envs.trajectory import Trajectory

FILES = ("trajectories.jsonl", "trajectories.parquet", "probes.rl.jsonl", "probes.val.jsonl", "card.md")


def run(config: DataConfig) -> dict[str, Any]:
    """Make the data set in ``config.out``. Returns counts. Raises ConfigError when the folder holds another data set."""
    out = Path(config.out)
    fingerprint = hash_obj(config.model_dump(mode="json"))
    done = out / "done.json"
    if done.exists():
        held = read_json(done)
        if held["config"] != fingerprint:
            raise ConfigError(
                f"{done}: the folder holds data of another config: choose another out, or delete {out} to make it anew"
            )
        if all((out / f).exists() for f in FILES):
            return held
    try:
        config.check_held_out()
    except ValueError as error:
        raise ConfigError(f"data_gen: {error}") from None
    units = sum(config.counts.model_dump().values()) + config.rl_bases + config.val_bases
    with tqdm(total=units, desc="data", unit="unit") as bar:

        def on_unit(kind: str) -> None:
            bar.set_postfix_str(kind, refresh=False)
            bar.update()

        data = build(config, on_unit)
    write(out, config, data)
    result = {
        "config": fingerprint,
        "trajectories": len(data.trajectories),
        "inferences": sum(len(t.inferences) for t in data.trajectories),
        "rl_probes": len(data.rl_probes),
        "val_probes": len(data.val_probes),
        "provenance": provenance(),
    }
    write_json_atomic(done, result)
    return result


def write(out: Path, config: DataConfig, data: DataSet) -> None:
    """Write all files of the set, each atomically."""
    write_jsonl_atomic(out / "trajectories.jsonl", data.trajectories)
    write_parquet(out / "trajectories.parquet", data.trajectories)
    write_jsonl_atomic(out / "probes.rl.jsonl", data.rl_probes)
    write_jsonl_atomic(out / "probes.val.jsonl", data.val_probes)
    write_text_atomic(out / "card.md", card(config, data))
    write_text_atomic(out / "config.yaml", dump_config(config))


def write_parquet(path: Path, trajectories: list[Trajectory]) -> None:
    """One row an episode: labels, sizes, the last view with the reply as chat messages, and the whole record as JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for t in trajectories:
        last = list(t.views())[-1]
        messages = [m.as_dict() for m in last] + [{"role": "assistant", "content": t.inferences[-1].text}]
        rows.append(
            {
                "id": t.id, "kind": t.kind or "", "family": t.family, "variant": t.variant or "", "profile": t.profile,
                "inferences": len(t.inferences), "tokens": t.tokens, "messages": messages, "trajectory": t.model_dump_json(),
            }
        )  # fmt: skip
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    schema = pa.schema(
        [
            ("id", pa.string()), ("kind", pa.string()), ("family", pa.string()), ("variant", pa.string()), ("profile", pa.string()),
            ("inferences", pa.int64()), ("tokens", pa.int64()), ("messages", pa.list_(message)), ("trajectory", pa.string()),
        ]
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary)
    temporary.replace(path)
