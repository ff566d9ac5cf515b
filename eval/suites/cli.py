"""``python -m eval suites``: play the seed suites and write their tables."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
import yaml
from pydantic import ValidationError

from envs.config import UserError
from envs.policies.smollm2 import NAMES
from envs.profiles import MODEL_WINDOW
from envs.runs import cli_errors
from eval.config import Arm, Decoding
from eval.suites import SUITES, Lang, Row, Suite, SuiteSettings, run_suite
from eval.suites.report import table, write_page


class Langs(StrEnum):
    """Languages to play."""

    en = "en"
    zh = "zh"
    both = "both"


def parse_arms(text: str, suite: Suite) -> list[tuple[str, Arm]]:
    """The arms that ``--arm`` names for a suite, each with its name in tables.

    ``WHO``, ``WHO/PROFILE``, ``WHO/PROFILE/MANAGER`` where WHO is ``smollm2``, ``tiny`` or a script of the suite, or
    ``NAME={policy: hf, model: FOLDER, profile: …}`` with the fields of ``eval.config.Arm``. Raises UserError.
    """
    name, sep, body = text.partition("=")
    if sep and body.lstrip().startswith("{"):
        try:
            return [(name, Arm.model_validate(yaml.safe_load(body)))]
        except yaml.YAMLError as error:
            raise UserError(f"--arm {text!r}: not YAML ({' '.join(str(error).split())}): write NAME={{policy: hf, …}}") from None
        except ValidationError as error:
            raise _refused(text, error) from None
    who, _, rest = text.partition("/")
    made = []
    for spec in [rest] if rest else suite.arms:
        profile, _, manager = spec.partition("/")
        acts = {"policy": "hf", "model": who} if who in NAMES else {"policy": "script", "script": who}
        if who not in NAMES and who not in suite.scripts:
            raise UserError(
                f"--arm {text!r}: {who!r} is neither a model ({', '.join(NAMES)}) nor a script of {suite.name} ({', '.join(suite.scripts)}): "
                "a model folder is given as NAME={policy: hf, model: FOLDER, profile: plain@1}"
            )
        try:
            made.append((f"{who}/{spec}", Arm.model_validate({**acts, "profile": profile, "manager": manager or None})))
        except ValidationError as error:
            raise _refused(text, error) from None
    return made


def _refused(text: str, error: ValidationError) -> UserError:
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    return UserError(f"--arm {text!r}: {f'{field}: ' if field else ''}{first['msg'].removeprefix('Value error, ')}")


def chosen(names: list[str]) -> list[Suite]:
    """The suites of that name; ``all`` means every one. Raises UserError naming the choices."""
    if "all" in names:
        return list(SUITES.values())
    if unknown := [n for n in names if n not in SUITES]:
        raise UserError(f"--suite {unknown[0]!r}: no such suite: choose from {', '.join(SUITES)}, or all")
    return [SUITES[n] for n in dict.fromkeys(names)]


def suites(
    suite: Annotated[list[str] | None, typer.Option("--suite", help="Suite to play, or all (may be repeated).")] = None,
    lang: Annotated[Langs, typer.Option(help="Language of the sessions.")] = Langs.en,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            "--arm",
            help="WHO[/PROFILE[/MANAGER]]; WHO is smollm2, tiny or a script of the suite. Without a profile: the suite's own arms. "
            "Or NAME={policy: hf, model: FOLDER, profile: …}. May be repeated.",
        ),
    ] = None,
    item: Annotated[list[str] | None, typer.Option("--item", help="Play only this item (may be repeated).")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Repeats of each item instead of the suite's own number.")] = None,
    window: Annotated[int, typer.Option(min=512, help="Tokens of the model's window.")] = MODEL_WINDOW,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens of one reply.")] = 96,
    temperature: Annotated[float, typer.Option(min=0, help="0 is greedy.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the sampling.")] = 0,
    dtype: Annotated[str, typer.Option(help="Of a model's weights: auto, float32, bfloat16 or float16.")] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Episodes in lock-step; stored after each batch.")] = 8,
    out: Annotated[str, typer.Option(help="Folder of the episodes; what lies there is not played again.")] = "runs/suites",
    write: Annotated[Path | None, typer.Option(help="Write the tables into this Markdown page.")] = None,
    show: Annotated[bool, typer.Option("--list", help="List suites with their arms, items and scripts, and stop.")] = False,
) -> None:
    r"""Play seed suites: the experiments this project starts from, in English and Chinese.

    Look around:           python -m eval suites --list

    Without a model:       python -m eval suites --suite seed_three_turn --arm pass --arm stale_budget --lang both

    The untrained model:   python -m eval suites --suite seed_bench28 --lang zh --arm smollm2 --write docs/seeds.md

    Your model:            python -m eval suites --suite all --arm 'mine={policy: hf, model: runs/sft/final, profile: core@1}'

    Killed at any moment, the same command goes on. Rows of other arms stay in the page.
    """
    with cli_errors():
        if show:
            for each in SUITES.values():
                told = ", ".join(i.id for i in each.items("en")[:8])
                typer.echo(f"{each.name}\n  arms: {', '.join(each.arms)}\n  items: {told}\n  scripts: {', '.join(each.scripts)}")
            return
        if not suite:
            raise UserError("nothing to play: give --suite NAME (see --list), or --suite all")
        decoding = Decoding.model_validate(
            {"max_new_tokens": max_new_tokens, "temperature": temperature, "seed": seed, "dtype": dtype}
        )
        settings = SuiteSettings(out=out, window=window, decoding=decoding, batch_size=batch_size)
        langs: list[Lang] = ["en", "zh"] if lang is Langs.both else ["zh" if lang is Langs.zh else "en"]
        picked = chosen(suite)
        plan = [
            (s, la, name, a) for s in picked for la in langs for text in arm or ["smollm2"] for name, a in parse_arms(text, s)
        ]
        rows: dict[str, list[Row]] = {}
        command = "python -m eval " + shlex.join(sys.argv[1:])
        if window != MODEL_WINDOW:  # another window is another arm
            plan = [
                (s, la, f"{name.partition('/')[0]}@{window}/{name.partition('/')[2]}".rstrip("/"), a) for s, la, name, a in plan
            ]
        for each, la, name, spec in plan:
            results = run_suite(each, la, name, spec, settings, repeats=repeats, only=item or ())
            if results:
                rows.setdefault(each.name, []).extend(each.rows(results))
            else:
                typer.echo(f"{each.name} {la} {name}: nothing to play: no item means anything under {spec.profile}", err=True)
            if write:  # after every arm, so that a killed run has its page
                write_page(write, rows, command)
        for each in picked:
            if held := rows.get(each.name):
                typer.echo(f"\n{each.name}\n\n{table([*held, *each.theirs])}")
                typer.echo("\n".join(["", *each.notes(held)]))
