"""Thousands of malformed turns: never an exception, and what is refused changes nothing."""

from __future__ import annotations

import random
import string
from dataclasses import replace

import pytest
from game import Game, roomy, shop

from envs.compact import parse
from envs.trajectory import Trajectory

VALID = (
    "note cap=9000 @e1", "note total=4100 @e3 open", "note a.b=x y z @e1,e3 old", "fold e2-e3 Norra offer with its price, the code and terms @e3",
    "fold e6-e7 an offer for chairs with price, code and all terms", "compress e4 the desks cost 4100, their code is AP-7741, see e3 @e3",
    "read e3", "read e2-e7 p2", "read f1", "read c1 p1", "find approval code", "quote item=chairs qty=3", 'revise item="the desks"', "total=4100",
    "over=yes; by=500", "note cap=9000 @e1\nfold e2-e3 Norra offer with its price, the code and terms\nread e3",
)  # fmt: skip
NASTY = (
    "\x00", "\x1b[31m", "\r", "\t", "\x0b\x0c", "\u2028", "\u202e", "\ufeff", "\ufffd", "é", "漢", "👩‍👩‍👧", "٣", "Ⅷ", "ﬀ", "\xa0", "<|im_end|>", "<|im_start|>user\n",
    "9" * 400, "9" * 5000, "-1", "0", "1e9", "0x10", "e0", "e-1", "e" + "9" * 30, "f0", "c999999", "@", " @e", "@e1,", "@e1,,e2", " @e1 @e2", "@e1;e2", '"', '""',
    '\\"', "\\", '"\\u0000"', '"\\ud800"', "'", "=", "==", "=" * 50, "{", "}", "[e3 user]", "[host]", "! no_gain: x; try y", ";", "\n", "\n\n\n", " ", "   ", "-", "--",
    "%s", "{0}", "$(x)", "old", "open", "p0", " p999999", "a" * 3000, "note", "fold", "compress", "read", "find", "quote ", "x=1", "\nnotes:", "\nout: none",
)  # fmt: skip
ALPHABET = string.printable + "éß漢字かな👍\u200b\u2029"


def mutate(rng: random.Random) -> str:
    text = rng.choice(VALID)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(9):
            case 0:
                text = text[:at] + text[at + 1 :]
            case 1:
                text = text[:at] + rng.choice(ALPHABET) + text[at:]
            case 2:
                text = text[:at] + rng.choice(NASTY) + text[at:]
            case 3:
                end = min(len(text), at + rng.randrange(1, 12))
                text = text[:at] + text[end:]
            case 4:
                text = text[:at] + text[at:].swapcase()
            case 5:
                words = text.split(" ")
                rng.shuffle(words)
                text = " ".join(words)
            case 6:
                text = "".join(
                    rng.choice(("0", "1", "3", "99", "7" * 20)) if c.isdigit() and rng.random() < 0.5 else c for c in text
                )
            case 7:
                text = text.replace(rng.choice(' =@-,"e'), rng.choice(NASTY), 1)
            case _:
                text += rng.choice((" ", "\n", "")) + rng.choice(VALID)
    return text


def noise(rng: random.Random) -> str:
    kind = rng.randrange(4)
    if kind == 0:
        return "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(80)))
    if kind == 1:
        points = (rng.randrange(0x110000) for _ in range(rng.randrange(60)))
        return "".join(chr(p) for p in points if not 0xD800 <= p < 0xE000)
    if kind == 2:
        return rng.choice(NASTY) * rng.randrange(1, 6)
    return rng.choice(("note k=", "fold e2-e3 ", "compress e4 ", "find ", "read ", "quote item=", 'quote item="')) + rng.choice(
        NASTY
    ) * rng.randrange(1, 4)


def started(chat) -> Game:
    game = Game(shop(400, 12), chat, roomy(view_budget=20_000))
    game.say("quote item=desks qty=2")
    game.say("total=4100")
    game.say("quote item=chairs qty=3")
    return game


def what_a_refusal_may_not_touch(state):
    return replace(state, deltas=(), fill_mark=0)


@pytest.mark.parametrize("seed", range(5))
def test_malformed_turns_never_raise_and_refusals_change_nothing(chat, seed):
    rng = random.Random(f"fuzz/{seed}")
    game, kinds = started(chat), {"calls": 0, "answer": 0, "notice": 0}
    for turn in range(400):
        if turn % 12 == 0 or game.episode.done:
            check_record(game)
            game = started(chat)
        episode = game.episode
        state, log, last = episode.state, list(episode.log), episode.log.last
        text = mutate(rng) if rng.random() < 0.7 else noise(rng)
        outcomes = game.say(text, cut=rng.random() < 0.03)
        inference = episode.inferences[-1]
        kinds[inference.kind] += 1
        assert list(episode.log)[: len(log)] == log
        assert episode.log.main(last + 1).text == text
        for o in outcomes:
            assert o.code in ("ok", "shown", "result", "notice") or o.text.startswith(f"! {o.code}: ")
            assert "\n" not in o.text or o.code in ("shown", "result")
            if o.text.startswith("! "):
                assert len(o.text) < 400, "a refusal is one short line whatever the call was"
        if inference.kind != "answer" and not any(o.code in ("ok", "result") for o in outcomes):
            assert what_a_refusal_may_not_touch(episode.state) == what_a_refusal_may_not_touch(state)
            assert episode.log.last == last + 1
        assert episode.done or episode.view().messages[-1].role == "user"
    assert min(kinds.values()) > 10, kinds
    check_record(game)


def check_record(game: Game) -> None:
    """Whatever was said, the episode can be stored, read again and hashed."""
    trajectory = game.episode.trajectory("fuzz")
    assert Trajectory.model_validate_json(trajectory.model_dump_json()) == trajectory
    assert game.episode.log.digest()


def test_parsing_alone_never_raises_and_is_linear(chat):
    rng = random.Random("parse")
    profile, tools = roomy(), shop().tools
    for _ in range(3000):
        text = mutate(rng) if rng.random() < 0.6 else noise(rng)
        parsed = parse(text, False, profile, tools)
        assert (parsed.kind == "calls") == bool(parsed.calls)
    # Each of these takes a backtracking parser minutes.
    for text in (
        "note k=" + " @e1" * 50_000,
        "fold e2-e3 " + "@e1," * 50_000,
        'quote item="' + "\\" * 100_001,
        "quote " + "a=1 " * 50_000,
        "read " + "e" * 200_000,
    ):
        parse(text, False, profile, tools)
