"""``python -m data_gen [CONFIG] [key=value …]``: trajectories for SFT, probes for RL and validation.

Example: python -m data_gen configs/data_demo.yaml seed=3 out=runs/data3
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from data_gen.config import DataConfig
from data_gen.run import merge as merge_shards
from data_gen.run import run
from envs.config import UserError, load_config
from envs.runs import cli_errors


class _MakeUnlessNamed(TyperGroup):
    """``python -m data_gen CONFIG`` is ``python -m data_gen make CONFIG``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["make", *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(
    add_completion=False,
    cls=_MakeUnlessNamed,
    help="Make data sets. `python -m data_gen CONFIG [key=value …]` is short for `make`.",
)


def _say(result: dict[str, Any]) -> None:
    typer.echo(", ".join(f"{k} {v}" for k, v in result.items() if isinstance(v, int)))


@app.command()
def make(
    config: Annotated[Path | None, typer.Argument(help="YAML file; without one, the defaults of data_gen/config.py")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="settings as dotted.key=value, e.g. counts.changed=80")] = None,
) -> None:
    """Make trajectories (JSONL and parquet), RL and validation probes, and a data card; the same command goes on after an interruption.

    Look at the result with: python -m envs show OUT/trajectories.jsonl -n 1
    """
    with cli_errors():
        _say(run(load_config(DataConfig, config, overrides or [])))


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(help="folder of the joined set")],
    shards: Annotated[list[Path], typer.Argument(help="folders of all shards, in any order")],
) -> None:
    """Join the shards that were made with shard=1/n … n/n; near-duplicates are looked for here, over all of them."""
    with cli_errors():
        _say(merge_shards(out, shards))


@app.command()
def push(
    out: Annotated[Path, typer.Argument(help="folder of a finished set")],
    repo: Annotated[str, typer.Argument(help="dataset repository on the Hugging Face Hub: NAME or ORGANISATION/NAME")],
    private: Annotated[bool, typer.Option("--private", help="make a new repository private")] = False,
) -> None:
    """Upload a finished set to the Hugging Face Hub, the data card as its README."""
    from data_gen.push import push as upload

    with cli_errors():
        typer.echo(upload(out, repo, private))


@app.command()
def sessions(
    config: Annotated[Path, typer.Argument(help="YAML file, e.g. configs/results/sessions_val.yaml")],
    overrides: Annotated[list[str] | None, typer.Argument(help="settings as dotted.key=value, e.g. each.long=4")] = None,
) -> None:
    """Draw whole sessions by length, for an evaluation to play from their first turn.

    Example: python -m data_gen sessions configs/results/sessions_val.yaml
    """
    from data_gen import sessions as drawing

    with cli_errors():
        _say(drawing.run(load_config(drawing.SuiteConfig, config, overrides or [])))


@app.command()
def samples(
    out: Annotated[Path, typer.Argument(help="HTML file to write; it opens offline, in any browser")],
    families: Annotated[str, typer.Option(help="families with commas between, or all")] = "all",
    languages: Annotated[str, typer.Option(help="en, zh or both")] = "en,zh",
    profile: Annotated[
        str, typer.Option(help="protocol that they are played under; windowed variants take unified@4")
    ] = "core@1",
    seed: Annotated[int, typer.Option(min=0, help="other samples of the same kinds")] = 0,
) -> None:
    """Show a sample of every data kind and probe variant, each family and language, in one page to read.

    Left the log, right the view, inference by inference; all families take two to three minutes. docs/samples.md says how to read it.

    Example: python -m data_gen samples runs/samples.html --families procurement,travel --languages zh
    """
    from tqdm import tqdm

    from data_gen import samples as showing
    from envs.tasks import FAMILIES
    from envs.viewer import write_page

    with cli_errors():
        named = tuple(FAMILIES) if families == "all" else _names(families)
        if out.is_dir():
            raise UserError(f"{out}: is a folder: name the file, e.g. {out / 'samples.html'}")
        found = showing.surfaces(named, _names(languages), profile, seed)
        with tqdm(total=showing.steps(found), unit="kind", desc="samples") as bar:
            made = list(showing.samples(found, lambda: bar.update() and None))
        size = write_page(
            made, out, title="ctxctl samples", intro=f"Expert episodes, one of each kind and variant. {profile}, seed {seed}."
        )
        typer.echo(f"{out}: {len(made)} samples, {size / 2**20:.1f} MB")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@app.command()
def bench(
    sessions: Annotated[int, typer.Option(help="short sessions to make")] = 2000,
    processes: Annotated[int, typer.Option(help="worker processes")] = 2,
    profile: Annotated[bool, typer.Option("--profile", help="also show where one process's time goes")] = False,
) -> None:
    """Measure sessions with trajectories per second and peak memory; nothing is kept."""
    from data_gen import bench as measuring

    with cli_errors():
        typer.echo(str(measuring.measure(sessions, processes)))
        if profile:
            typer.echo(measuring.profile())


if __name__ == "__main__":
    app()
