"""What the command lines of the stages share: a default command, and how a plan is shown."""

from __future__ import annotations

import json
from typing import Any

import typer
from typer.core import TyperGroup

from envs.planning import Plan


class TrainByDefault(TyperGroup):
    """``python -m rl CONFIG`` trains: what isn't a command is the first argument of ``train``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["train", *args]
        return super().parse_args(ctx, args)


def show_plan(plan: Plan, refusal: str, as_json: bool) -> None:
    """Print a plan; where it doesn't fit, the remedies on stderr and exit code 1."""
    typer.echo(json.dumps(plan.as_dict(), indent=2, ensure_ascii=False) if as_json else plan.text())
    if refusal:
        typer.echo(f"error: {refusal}", err=True)
        raise typer.Exit(1)
