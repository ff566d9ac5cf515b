"""``python -m envs``: look at what the simulator does. ``show FILE`` prints stored episodes inference by inference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envs.chat import get_chat
from envs.config import UserError
from envs.contracts import contract_table
from envs.cost import cost_markdown, cost_table
from envs.hashes import protocol_hash
from envs.manager_bench import bench, bench_markdown, model_summariser
from envs.play_cli import register as register_play
from envs.profiles import PROFILES
from envs.runs import cli_errors, read_jsonl, write_text_atomic
from envs.seeds import seed_table
from envs.sessions_cli import register as register_sessions
from envs.show import show_trajectory
from envs.tasks.words import WORDS, Lang
from envs.trajectory import Trajectory

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


@app.callback()
def main() -> None:
    """Look at what the simulator does."""


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="JSONL file of trajectories (data_gen, rl or eval write them)")],
    number: Annotated[int, typer.Option("--number", "-n", help="which line of the file, from 1")] = 1,
    find: Annotated[str, typer.Option(help="first episode whose id contains this text, instead of a line number")] = "",
    whole: Annotated[bool, typer.Option(help="print every view whole instead of what is new in it")] = False,
) -> None:
    """Print an episode inference by inference: view, call, outcome, what the view leaves out.

    Example: python -m envs show runs/demo/data/trajectories.jsonl -n 3
    """
    with cli_errors():
        records = read_jsonl(file, model=Trajectory)
        chosen = next((r for r in records if find in r.id), None) if find else None
        if not records:
            raise UserError(f"{file}: it holds no episode: run the stage that writes it, or name another file")
        if not find:
            if not 1 <= number <= len(records):
                raise UserError(
                    f"{file}: there is no line {number}, it has {len(records)}: choose 1 to {len(records)} with --number"
                )
            chosen = records[number - 1]
        if chosen is None:
            raise UserError(f"{file}: no episode id contains {find!r}: run without --find to see the first, or use --number")
        typer.echo(show_trajectory(chosen, whole=whole))


@app.command()
def cost(
    turns: Annotated[str, typer.Option(help="session lengths in user turns")] = "2,3,5,8,12,18",
    sessions: Annotated[int, typer.Option(min=1, help="sessions for each length")] = 20,
    lang: Annotated[str, typer.Option(help="language of the sessions: en, zh or both")] = "en",
    write: Annotated[Path | None, typer.Option(help="write the table to this Markdown file")] = None,
) -> None:
    """What managing costs: the expert's tokens under core@1 against plain history, by number of turns.

    Example: python -m envs cost --write docs/cost.md
    """
    with cli_errors():
        try:
            lengths = [int(t) for t in turns.split(",")]
        except ValueError:
            raise UserError(f"--turns {turns!r}: give whole numbers with commas between, e.g. 3,5,8") from None
        command = f"python -m envs cost --turns {turns} --sessions {sessions} --lang {lang}"
        text = cost_markdown(cost_table(lengths, sessions, _languages(lang)), command)
        typer.echo(text)
        if write:
            write_text_atomic(write, text)


@app.command()
def seeds() -> None:
    """The post-mortem's failures replayed by scripts: what each version of the protocol lets happen.

    Example: python -m envs seeds
    """
    with cli_errors():
        typer.echo(seed_table(get_chat()))


@app.command()
def contracts() -> None:
    """What prompt and tool contract of each profile cost in tokens, in every input.

    Example: python -m envs contracts
    """
    with cli_errors():
        chat = get_chat()
        typer.echo(contract_table(chat))
        typer.echo("\nprotocol hashes (flags, limits, sources, chat template, SmolLM2's tokenizer):")
        for profile in PROFILES.values():
            typer.echo(f"  {profile.name}: {protocol_hash(profile, chat)}")


@app.command()
def managers(
    sessions: Annotated[int, typer.Option(min=1, help="sessions of the bench")] = 500,
    budget: Annotated[int, typer.Option(min=128, help="largest view in tokens")] = 768,
    summarise: Annotated[
        int, typer.Option(min=0, help="sessions of llm_summary, which asks a model (slow); 0 leaves it out")
    ] = 0,
    model: Annotated[str, typer.Option(help="the model that llm_summary asks")] = "smollm2",
    lang: Annotated[str, typer.Option(help="language of the sessions: en, zh or both; llm_summary plays English alone")] = "en",
    write: Annotated[Path | None, typer.Option(help="write the table to this Markdown file")] = None,
) -> None:
    """What every host-only manager costs and keeps, on one bench of sessions.

    Example: python -m envs managers --sessions 500 --summarise 24 --write docs/managers.md
    """
    with cli_errors():
        chat = get_chat(model)
        asked = model_summariser(model, chat) if summarise else None
        command = f"python -m envs managers --sessions {sessions} --budget {budget} --summarise {summarise} --lang {lang}"
        rows = [r for name in _languages(lang) for r in bench(sessions, budget, name, asked if name == "en" else None, summarise)]
        text = bench_markdown(rows, budget, command)
        typer.echo(text)
        if write:
            write_text_atomic(write, text)


def _languages(given: str) -> tuple[Lang, ...]:
    """The languages that an option names. Raises UserError."""
    if given == "both":
        return ("en", "zh")
    if given not in WORDS:
        raise UserError(f"--lang {given!r}: choose one of {', '.join(WORDS)}, both")
    return (WORDS[given].lang,)


register_play(app)
register_sessions(app)

if __name__ == "__main__":
    app()
