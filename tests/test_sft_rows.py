"""SFT rows: exact inputs, labels on trained sampled tokens only, refusals, the held-out split."""

import pytest

from envs.chat import Message, get_chat
from envs.runs import DataError
from envs.tasks.base import Session, Turn
from envs.trajectory import Inference, StoredMessage, Trajectory, view_hash
from sft.rows import IGNORE, build_rows, padding_share, segment_rows, split_rows

CHAT = get_chat("tiny")


def make_trajectory(name="t0", steps=(("Where?", "read e3", True),), rewrite_at=None, system="Answer briefly.", base="b0"):
    """A trajectory of (user text, sampled text, trained) steps; at ``rewrite_at`` the view starts again."""
    inferences, view = [], []
    for number, (asked, said, trained) in enumerate(steps):
        new = [Message("user", asked)]
        keep = len(view)
        if number == 0:
            new = [Message("system", system), *new]
        if number == rewrite_at:
            keep, new = 1, [Message("user", "Notes: none."), *new]
        view = view[:keep] + new
        ids = CHAT.turn_ids(said)
        stored = [StoredMessage(role=m.role, content=m.content, ids=m.ids and list(m.ids)) for m in new]
        if number and number != rewrite_at:  # the turn sampled before stands in the view with its ids
            previous = Message("assistant", steps[number - 1][1], CHAT.turn_ids(steps[number - 1][1]))
            view = [*view[:keep], previous, *new]
            stored = [StoredMessage(role="assistant", content=previous.content, ids=list(previous.ids)), *stored]
        rendered = CHAT.render(view)
        inferences.append(
            Inference(
                turn=number, event=number + 1, keep=keep, new=stored, hash=view_hash(rendered), tokens_in=len(rendered),
                ids=list(ids), text=said, kind="answer", trained=trained, rewrite=number == rewrite_at,
            )
        )  # fmt: skip
    session = Session(id=base, family="test", seed=0, tools=(), responses={}, turns=(Turn(text="x"),))
    return Trajectory(
        id=name, session=session, base=base, family="test", profile="core@1", prompt="neutral", policy="expert",
        variant="present", events=[], inferences=inferences, reason="answered",
    )  # fmt: skip


def test_labels_are_the_sampled_tokens_and_nothing_else():
    trajectory = make_trajectory(steps=(("Where?", "read e3", True), ("And when?", "at noon", True)))
    rows, dropped = segment_rows(trajectory, CHAT)
    assert (len(rows), dropped) == (1, 0)
    row = rows[0]
    assert [row.input_ids[a:b] for a, b in row.turns()] == [list(CHAT.turn_ids("read e3")), list(CHAT.turn_ids("at noon"))]
    assert all(label in (IGNORE, token) for label, token in zip(row.labels, row.input_ids, strict=True))
    assert row.trained == sum(len(i.ids) for i in trajectory.inferences)
    last = list(trajectory.views())[-1]
    assert row.input_ids == CHAT.render(last) + trajectory.inferences[-1].ids


def test_erroneous_step_is_context_only():
    rows, _ = segment_rows(make_trajectory(steps=(("Where?", "raed e3", False), ("Again.", "read e3", True))), CHAT)
    (row,) = rows
    assert [row.input_ids[a:b] for a, b in row.turns()] == [list(CHAT.turn_ids("read e3"))]
    wrong = list(CHAT.turn_ids("raed e3"))
    assert any(row.input_ids[i : i + len(wrong)] == wrong for i in range(len(row.input_ids)))


def test_rewrite_starts_a_row_and_untrained_segments_are_dropped_and_counted():
    steps = (("Where?", "raed e3", False), ("Again.", "read e3", True))
    rows, counts = build_rows([make_trajectory(steps=steps, rewrite_at=1)], CHAT, 512)
    assert [r.segment for r in rows] == [1]
    assert (counts.segments, counts.dropped_segments, counts.rows, counts.untrained_inferences) == (2, 1, 1, 1)
    assert counts.tokens == len(rows[0].input_ids)
    assert counts.trained_tokens == rows[0].trained


def test_hash_mismatch_is_refused_with_a_remedy():
    trajectory = make_trajectory()
    trajectory.inferences[0].new[1].content = "Where now?"
    with pytest.raises(DataError, match=r"data\.jsonl: trajectory 't0', inference 0: .*generate the data again"):
        build_rows([trajectory], CHAT, 512, "data.jsonl")


def test_overlong_row_is_refused_never_cut():
    (row,), _ = build_rows([make_trajectory()], CHAT, 512)
    with pytest.raises(DataError) as caught:
        build_rows([make_trajectory()], CHAT, 20, "runs/data/trajectories.jsonl")
    told = str(caught.value)
    assert told.startswith(f"runs/data/trajectories.jsonl: trajectory 't0', segment 0: a row of {len(row.input_ids)} tokens")
    assert "more than max_row_tokens=20 (1 of 1 rows are): rows are never cut" in told
    assert f"set max_row_tokens={len(row.input_ids)}" in told
    assert "\n" not in told


def test_nothing_to_train_is_refused():
    with pytest.raises(DataError, match="no trained token"):
        build_rows([make_trajectory(steps=(("Where?", "x", False),))], CHAT, 512)


def test_held_out_sessions_keep_their_twins():
    rows, _ = build_rows([make_trajectory(f"t{i}", base=f"b{i // 2}") for i in range(40)], CHAT, 512)
    train, held = split_rows(rows, 0.1, seed=0)
    assert len(held) == 4
    assert len(train) == 36
    assert not {r.group for r in train} & {r.group for r in held}
    assert split_rows(rows, 0.0, seed=0)[1] == []


def test_padding_share_counts_the_rounding():
    (row,), _ = build_rows([make_trajectory()], CHAT, 512)
    n = len(row.input_ids)
    assert padding_share([[row, row]], 1) == 0
    assert padding_share([[row]], 32) == pytest.approx(1 - n / (-(-n // 32) * 32))
