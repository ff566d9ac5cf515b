"""CORE1's worked example, byte for byte."""

from __future__ import annotations

from pathlib import Path

from game import QUOTE, Game, make_session, text_of

from envs.segments import Recorder

GOLDEN = Path(__file__).parent / "golden" / "core1_example.txt"
TURNS = (
    "quote item=CH-2 qty=40",
    "note total=9500 @e3\nfold e2-e3 Norra quote for 40 CH-2, terms, approval code @e3",
    "read e3",
    "over=yes; by=500; code=AP-7741",
)
SPEC_FIRST = """<|im_start|>system
Do the task. Each line is one call, or your whole turn is the answer.
note key=value @e3 | fold e2-e5 brief @e3 | compress e9 summary | read e3 | find words
quote item qty
notes: none
out: none<|im_end|>
<|im_start|>user
[e1 user] Quote 40 CH-2. Cap 9000. Answer: over=? by=? code=?<|im_end|>
<|im_start|>assistant
quote item=CH-2 qty=40<|im_end|>
<|im_start|>user
[e3 quote] Norra Office AB: …<|im_end|>
<|im_start|>assistant
note total=9500 @e3
fold e2-e3 Norra quote for 40 CH-2, terms, approval code @e3<|im_end|>"""
SPEC_SECOND = """<|im_start|>system
Do the task. Each line is one call, or your whole turn is the answer.
note key=value @e3 | fold e2-e5 brief @e3 | compress e9 summary | read e3 | find words
quote item qty
notes:
total=9500 @e3
out: e2-e3 f1 1 own 1 tool; e4 control<|im_end|>
<|im_start|>user
[e1 user] Quote 40 CH-2. Cap 9000. Answer: over=? by=? code=?
[f1 e2-e3] Norra quote for 40 CH-2, terms, approval code @e3<|im_end|>
<|im_start|>assistant
read e3<|im_end|>
<|im_start|>user
[e3 quote] p1/1
Norra Office AB: …<|im_end|>
<|im_start|>assistant
over=yes; by=500; code=AP-7741<|im_end|>"""


def played(chat):
    golden = GOLDEN.read_bytes().decode()
    offer = golden.split("[e3 quote] ", 1)[1].split("<|im_end|>", 1)[0]
    session = make_session(
        ["Quote 40 CH-2. Cap 9000. Answer: over=? by=? code=?"], {"quote item=CH-2 qty=40": offer}, tools=(QUOTE,)
    )
    game, recorder = Game(session, chat), Recorder()
    for text in TURNS:
        recorder.begin(game.view.ids)
        game.say(text)
        recorder.end(game.episode.inferences[-1].ids)
    assert game.episode.reason == "answered"
    return game, recorder.segments, offer


def test_the_worked_example_is_the_golden_file_byte_for_byte(chat):
    game, segments, _ = played(chat)
    assert len(segments) == 2
    first, second = (text_of(chat, s.ids) for s in segments)
    assert f"{first}\n=== second segment\n{second}".encode() == GOLDEN.read_bytes()
    assert game.episode.replies == {0: "over=yes; by=500; code=AP-7741"}


def test_the_golden_file_is_the_specification_with_the_long_text_written_out(chat):
    _, _, offer = played(chat)
    short = GOLDEN.read_bytes().decode().replace(offer, "Norra Office AB: …")
    assert short == f"{SPEC_FIRST}\n=== second segment\n{SPEC_SECOND}"
    assert offer.startswith("Norra Office AB: ")
    assert "total 9500" in offer
    assert "code AP-7741" in offer


def test_events_of_the_example_are_numbered_as_specified(chat):
    game, _, _ = played(chat)
    log = [(e.ref, e.role, e.name) for e in game.episode.log]
    assert log == [
        ("e1", "user", ""),
        ("e2", "assistant", ""),
        ("e3", "tool", "quote"),
        ("e4", "assistant", ""),
        ("e4.1", "host", "ok"),
        ("e4.2", "host", "ok"),
        ("e5", "assistant", ""),
        ("e5.1", "host", "read"),
        ("e6", "assistant", ""),
    ]
    assert game.episode.inferences[1].rewrite
    assert [i.rewrite for i in game.episode.inferences] == [False, True, False, False]


def test_the_masks_of_the_two_rows_cover_the_sampled_tokens_once_each(chat):
    _, segments, _ = played(chat)
    trained = [t for s in segments for t, m in zip(s.completion_ids, s.mask, strict=True) if m]
    assert text_of(chat, trained) == "".join(f"{t}<|im_end|>" for t in TURNS)
