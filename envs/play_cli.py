"""The command ``play`` of ``python -m envs``: its options, the terminal, and the file that games are saved in."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from envs.config import UserError
from envs.play import Game, unpainted
from envs.play_setup import Drawn, check_options, load_chat, read_profile, starter, stored_task
from envs.play_text import Style
from envs.runs import DataError, append_jsonl, cli_errors
from envs.tasks.base import Probe
from envs.tasks.probes import KINDS

COLOURS: dict[Style, dict[str, Any]] = {
    "head": {"bold": True},
    "system": {"fg": "blue"},
    "user": {"fg": "cyan"},
    "own": {"fg": "green"},
    "good": {"fg": "bright_green"},
    "bad": {"fg": "bright_red"},
    "dim": {"fg": "bright_black"},
    "hidden": {"fg": "yellow"},
}
ASCII = str.maketrans("│─…←▶✓✗", "|-.<>+x")
"""Our own signs where the terminal's encoding lacks them."""


def play(
    file: Annotated[Path | None, typer.Argument(help="JSONL file: play the session of a stored episode, a probe or a session")] = None,
    number: Annotated[int | None, typer.Option("--number", "-n", help="which line of FILE, from 1 (default 1)")] = None,
    family: Annotated[str | None, typer.Option(help="family of a session that is drawn (default procurement)")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of a session or probe that is drawn (default 0)")] = None,
    turns: Annotated[str | None, typer.Option(help="its user turns: a number or a range such as 3-8")] = None,
    knob: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="another setting of the generator, e.g. fillers=20")] = None,
    probe: Annotated[str | None, typer.Option(metavar="KIND", help=f"play a probe instead: {', '.join(KINDS)}")] = None,
    undamaged: Annotated[bool, typer.Option(help="of the probe, the undamaged sibling")] = False,
    profile: Annotated[str, typer.Option(help="rules of the protocol, see python -m envs contracts")] = "core@1",
    flag: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="a flag of the profile changed, e.g. index=false")] = None,
    manager: Annotated[str | None, typer.Option(help="host-only manager of the view; with plain@1 only")] = None,
    prompt: Annotated[str, typer.Option(help="prompt text (default: the profile's)")] = "",
    model: Annotated[str, typer.Option(help="whose tokenizer counts: smollm2, tiny, a model folder or hub id")] = "smollm2",
    reveal: Annotated[bool, typer.Option(help="show what the log holds and the view does not")] = False,
    whole: Annotated[bool, typer.Option(help="print every view whole instead of only what is new")] = False,
    save: Annotated[Path, typer.Option(help="JSONL file that the game is appended to")] = Path("runs/play.jsonl"),
) -> None:  # fmt: skip
    """Play a session yourself: see the view, type calls and answers, see what becomes of them. /help lists the commands.

    Example: python -m envs play --seed 3 --turns 5 --reveal
    """
    with cli_errors():
        rules = read_profile(profile, flag or [])
        check_options(rules, manager, prompt)
        _check_save(save)
        drawn = Drawn(family, seed, turns, knob or [], probe, undamaged)
        if file:
            drawn.refuse_with(file)
            task = stored_task(file, 1 if number is None else number)
        elif number is not None:
            raise UserError(f"--number {number}: there is no file to take a line of: name one, or use --seed")
        chat = load_chat(model)
        if not file:
            task = drawn.task(chat)
        terminal = _Terminal()
        game = Game(
            starter(task, rules, chat, prompt, manager), ask=terminal.ask, tell=terminal.tell, paint=terminal.paint,
            reveal=reveal, whole=whole, echo=not terminal.interactive, width=terminal.width,
        )  # fmt: skip
        # A probe's own id would say whether it is damaged.
        what = f"a probe of {task.base}" if isinstance(task, Probe) else f"session {task.id}"
        terminal.tell(
            f"{what}, profile {rules.name}" + (f", manager {manager}" if manager else "") + "; /help lists the commands"
        )
        raise typer.Exit(_run(game, save, terminal))


def register(app: typer.Typer) -> None:
    """Add the command to an app."""
    app.command()(play)


# ---- terminal ----------------------------------------------------------------------------------------------------------------


class _Terminal:
    """Standard input and output: a keyboard and a screen, or pipes, in whatever encoding."""

    def __init__(self) -> None:
        for stream in (sys.stdin, sys.stdout):
            with contextlib.suppress(AttributeError, ValueError):  # a closed stream, or a stand-in
                stream.reconfigure(errors="replace")  # type: ignore[union-attr]
        screen = sys.stdout.isatty()
        self.interactive = screen and sys.stdin is not None and sys.stdin.isatty()
        self.width = min(100, shutil.get_terminal_size().columns)
        self._colour = screen and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._ascii = False
        try:
            "│─…←▶✓✗".encode(sys.stdout.encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            self._ascii = True
        if self.interactive:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  (input() then has a line editor and a history)

    def ask(self, prompt: str) -> str:
        if sys.stdin is None:
            raise EOFError
        return input(prompt if self.interactive else "")

    def tell(self, text: str) -> None:
        # Not typer.echo: it takes an ASCII terminal for a mistake and sends UTF-8.
        print(text.translate(ASCII) if self._ascii else text, flush=True)

    def paint(self, style: Style, text: str) -> str:
        return typer.style(text, **COLOURS[style]) if self._colour and style in COLOURS else unpainted(style, text)


@contextlib.contextmanager
def _on_signals(handler: Any, *names: str) -> Iterator[None]:
    """Handle these signals so inside the block; outside the main thread nothing can be set."""
    held = {}
    if threading.current_thread() is threading.main_thread():
        held = {number: signal.signal(number, handler) for name in names if (number := getattr(signal, name, None))}
    try:
        yield
    finally:
        for number, before in held.items():
            signal.signal(number, before)


# ---- saving ------------------------------------------------------------------------------------------------------------------


def _check_save(path: Path) -> None:
    """Refuse before the game a file that the game could not be appended to."""
    try:
        if path.is_dir():
            raise UserError(f"--save {path}: it is a folder: name a file in it")
        if path.exists():
            with path.open("r+b") as file:
                first = file.readline()
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 1))
                if size and file.read(1) != b"\n":
                    raise UserError(f"--save {path}: its last line is torn: name another file, or delete that line")
            if first.strip() and b'"inferences"' not in first:
                raise UserError(f"--save {path}: it holds other records than games: name another file")
            return
        folder = next(p for p in path.absolute().parents if p.exists())
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"--save {path}: can't be written ({error.strerror or error}): name another place") from None


def _run(game: Game, save: Path, terminal: _Terminal) -> int:
    """Play, and save whatever was played however the game ends. Returns the exit code."""
    code, told = 0, ""
    with _on_signals(signal.default_int_handler, "SIGTERM", "SIGHUP"):
        try:
            game.run()
        except KeyboardInterrupt:
            code = 130
        finally:
            with _on_signals(signal.SIG_IGN, "SIGINT", "SIGTERM", "SIGHUP"):
                told = _save(game, save)
    terminal.tell(("\n" if terminal.interactive else "") + told)
    return code


def _save(game: Game, path: Path) -> str:
    """Append the game; returns what to tell of it."""
    if not game.episode.inferences:
        return "nothing was played, nothing is saved"
    record = game.trajectory()
    try:
        append_jsonl(path, record)
    except DataError as error:
        spare = Path(tempfile.mkdtemp(prefix="ctxctl-play-")) / "play.jsonl"
        append_jsonl(spare, record)
        raise UserError(f"--save {error}; the game is in {spare}") from None
    line = path.read_bytes().count(b"\n")
    return f"saved ({record.reason}): python -m envs show {shlex.quote(str(path))} -n {line}"
