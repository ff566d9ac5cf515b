"""Games of ``python -m envs play`` with typed lines: what its tests share."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from envs.__main__ import app
from envs.play import Game
from envs.play_setup import starter
from envs.profiles import get_profile
from envs.runs import read_jsonl
from envs.trajectory import Trajectory

BRIEF = "Norra offer for the desks with the price, a code and the usual terms"
QUOTE = "quote item=desks qty=2"


@pytest.fixture(name="save")
def save_fixture(tmp_path):
    return tmp_path / "games" / "play.jsonl"


@pytest.fixture(name="run")
def run_fixture(save):
    """The command with typed lines; returns its result. ``save`` is where the game goes."""

    def command(*args, text=""):
        result = CliRunner().invoke(app, ["play", "--save", str(save), *map(str, args)], input=text)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return command


def typed(*turns):
    return "".join(f"{turn or '.'}\n\n" if turn else ".\n" for turn in turns)


def games(path):
    return read_jsonl(path, model=Trajectory)


def hand(chat, session, *lines, profile="core@1", manager=None, **more):
    """A game without a terminal: these lines are typed, then the input ends. Returns the game and what it wrote."""
    rules = get_profile(profile) if isinstance(profile, str) else profile
    left, told = iter(lines), []

    def ask(prompt):
        line = next(left, EOFError)
        if isinstance(line, type):
            raise line
        return line

    game = Game(starter(session, rules, chat, "", manager), ask=ask, tell=told.append, **more)
    game.run()
    return game, "\n".join(told)
