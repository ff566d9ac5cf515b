"""``python -m data_gen [CONFIG] [key=value …]``: trajectories for SFT, probes for RL and validation.

Example: python -m data_gen configs/data_demo.yaml seed=3 out=runs/data3
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from data_gen.config import DataConfig
from data_gen.run import run
from envs.config import load_config
from envs.runs import cli_errors

app = typer.Typer(add_completion=False)


@app.command()
def main(
    config: Annotated[Path | None, typer.Argument(help="YAML file; without one, the defaults of data_gen/config.py")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="settings as dotted.key=value, e.g. counts.changed=80")] = None,
) -> None:
    """Make trajectories (JSONL and parquet), RL and validation probes, and a data card.

    Look at the result with: python -m envs show OUT/trajectories.jsonl -n 1
    """
    with cli_errors():
        result = run(load_config(DataConfig, config, overrides or []))
        typer.echo(", ".join(f"{k} {v}" for k, v in result.items() if isinstance(v, int)))


if __name__ == "__main__":
    app()
