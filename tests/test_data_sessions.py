"""Whole sessions by length, for an evaluation."""

from __future__ import annotations

from collections import Counter

import pytest
from typer.testing import CliRunner

from data_gen.__main__ import app
from data_gen.sessions import SuiteConfig, draw
from envs.chat import get_chat
from envs.config import ConfigError, load_config
from envs.lengths import length_of, log_tokens
from envs.runs import read_jsonl
from envs.tasks.base import Session, split_of


def config(**more) -> SuiteConfig:
    return SuiteConfig.model_validate(
        {"out": "x.jsonl", "families": ["procurement", "support"], "each": {"short": 2, "medium": 1, "long": 1}, **more}
    )


def test_every_family_gives_the_asked_number_of_each_length_from_its_split():
    chat, sessions = get_chat("smollm2"), list(draw(config()))
    assert Counter((s.family, length_of(s, chat)) for s in sessions) == {
        (family, length): n for family in ("procurement", "support") for length, n in (("short", 2), ("medium", 1), ("long", 1))
    }
    assert {split_of(s) for s in sessions} == {"val"}
    assert len({s.id for s in sessions}) == len(sessions)
    assert sessions == list(draw(config()))
    assert sessions != list(draw(config(seed=1)))


def test_very_long_sessions_and_a_longest_one():
    chat = get_chat("smollm2")
    (found,) = draw(config(families=["procurement"], each={"very long": 1}))
    assert log_tokens(found, chat) >= 5 * 1536
    (held,) = draw(config(families=["procurement"], each={"long": 1}, max_tokens=2600))
    assert 1.5 * 1536 <= log_tokens(held, chat) <= 2600
    with pytest.raises(ConfigError, match=r"procurement: no more long sessions in 1000 tries: raise max_tokens"):
        list(draw(config(families=["procurement"], each={"long": 1}, max_tokens=1000)))


def test_held_out_families_only_when_asked_for(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("out: x.jsonl\nfamilies: [travel]\n")
    with pytest.raises(ConfigError, match=r"travel is held out .*: leave it out, or set held_out=true"):
        load_config(SuiteConfig, path)
    (session,) = draw(config(families=["travel"], each={"short": 1}, held_out=True))
    assert session.family == "travel"
    with pytest.raises(ConfigError, match=r"unknown length 'longish'"):
        load_config(SuiteConfig, path, ["held_out=true", "each={longish: 1}"])


def test_command_line(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(f"out: {tmp_path / 's.jsonl'}\nfamilies: [support]\neach: {{short: 2}}\n")
    done = CliRunner().invoke(app, ["sessions", str(path)])
    assert done.exit_code == 0, done.output
    assert "sessions 2" in done.output
    assert len(read_jsonl(tmp_path / "s.jsonl", model=Session)) == 2
