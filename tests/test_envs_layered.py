"""The layered manager: its store, triggers and health, and the tables that it aggregates."""

from __future__ import annotations

import json
from dataclasses import replace

from game import filler
from manager_talks import NOISE, conversation, shown

from envs.log import Log
from envs.managers import Layered, get_manager
from envs.managers.base import Record, records_of, trimmed
from envs.managers.tables import trim_result


def test_each_trigger_sets_off_a_compression(chat):
    count = chat.count
    many = records_of(_log([("user", "hello")] * 22))
    assert Layered().triggers(many, 10, 10_000, count) == ["turns"]
    assert Layered().triggers(many[:3], 7000, 10_000, count) == ["fill"]
    big = records_of(_log([("tool", filler(60)), ("user", "a"), ("assistant", "b"), ("user", "c")]))
    assert Layered().triggers(big, 10, 1000, count) == ["result"]
    assert not Layered().triggers(big, 10, 100_000, count), "scaled to the budget"


def _log(entries) -> Log:
    log = Log()
    for role, text in entries:
        log.append(role, text, window="w1", run=0)
    return log


def test_user_over_tool_over_inference():
    manager = Layered()
    manager.take(
        records_of(_log([("user", "The budget is 9800."), ("tool", "The budget is 9000."), ("assistant", "The budget is 8000.")]))
    )
    assert [(f.value, f.source, f.status) for f in manager.store.facts] == [
        ("9800", "user", "active"), ("9000", "tool", "pending"), ("8000", "inference", "candidate"),
    ]  # fmt: skip
    manager.take(
        records_of(
            _log(
                [
                    ("user", "The budget is 9800."),
                    ("tool", "The budget is 9000."),
                    ("assistant", "The budget is 8000."),
                    ("user", "The budget is now 9100."),
                ]
            )
        )
    )
    assert [f.value for f in manager.store.active()] == ["9100"]
    assert manager.store.count("expired") == 1


def test_a_tools_newer_value_replaces_a_tools_older_one():
    manager = Layered()
    manager.take(records_of(_log([("tool", "The delivery date is 4 March."), ("tool", "The delivery date is now 9 March.")])))
    assert [f.value for f in manager.store.active()] == ["9 March"]


def test_the_working_layer_is_emptied_when_the_task_ends():
    manager = Layered()
    manager.take(records_of(_log([("user", "The budget is 9800."), ("user", "That is all, new task please.")])))
    assert not manager.store.facts


def test_instructions_stay_in_every_request():
    turns = ["user: Never name the customer Fennel in a note.", "assistant: ok", *NOISE, *NOISE]
    text = shown("layered", conversation(*turns), 500)
    assert "Never name the customer Fennel" in text


def big_history() -> list[dict[str, str]]:
    return conversation(*[f"{r}: {filler(6, 3 * i)}" for i in range(12) for r in ("user", "assistant")])


def test_bloat_is_repaired_by_compression():
    tight = Layered()
    out = tight([{"role": "system", "content": filler(32)}, *big_history()[1:]], 420)
    assert "compressed" in tight.requests[-1].repairs
    assert tight.requests[-1].health.bloat > 0.7
    assert out[-1]["content"] == "What was it?"


def test_redundancy_is_repaired_by_dropping_repeats():
    policy = f"tool: Policy: {filler(12)}"
    turns = [t for n in range(4) for t in (f"user: Question {n}?", f"assistant: lookup {n}", policy)]
    manager = Layered()
    text = "\n".join(m["content"] for m in manager(conversation(*turns), 4000))
    assert manager.requests[-1].health.redundancy > 0.15
    assert "removed repeats" in manager.requests[-1].repairs
    assert text.count("Policy:") == 1


def test_stale_facts_are_purged():
    turns = [f"user: The budget is {9000 + n}." for n in range(4)]
    manager = Layered()
    manager(conversation(*turns), 4000)
    assert manager.requests[-1].health.stale > 0.1
    assert "purged expired facts" in manager.requests[-1].repairs
    assert [f.value for f in manager.store.facts] == ["9003"]


def test_conflicts_are_settled_by_the_rules():
    source = Layered()
    source.take(records_of(_log([("user", "The gate is 7 today."), ("tool", "The gate is 9 today.")])))
    both = [replace(f, status="active") for f in source.store.facts]
    manager = Layered(facts=both)
    manager(conversation("user: hello"), 500)
    assert manager.requests[-1].health.conflicts == 1
    assert "settled conflicts" in manager.requests[-1].repairs
    assert [(f.value, f.source) for f in manager.store.active()] == [("7", "user")]


def test_every_request_is_recorded():
    manager = Layered()
    for n in range(1, 4):
        manager(conversation(*[f"user: The budget is {9000 + i}." for i in range(n)]), 400)
    kept = [r.as_dict() for r in manager.requests]
    assert [r["request_id"] for r in kept] == ["req_1", "req_2", "req_3"]
    assert set(kept[0]) == {
        "request_id", "total_tokens", "window_limit", "message_count", "fact_count", "expired_count", "compression_count", "health", "repairs",
    }  # fmt: skip
    assert all(r["window_limit"] == 400 and 0 < r["total_tokens"] <= 400 for r in kept)


def test_layered_shows_a_fact_whose_record_stands_in_a_cut_exchange(chat):
    """A tail that begins in mid-exchange is not shown to the end, so what it says must stand among the facts."""
    manager = get_manager("layered")
    records = [
        Record("user", "Start. " + filler(20, 1), 1),
        Record("assistant", "ok", 2),
        Record("user", "What are the sales?", 3),
        Record("assistant", "query sales", 4),
        Record("tool", "Sales of Q1 are 231775. " + filler(30, 2), 5),
        Record("assistant", "The sales are 231775.", 6),
        Record("user", "And now? " + filler(4, 3), 7),
    ]
    for budget in range(140, 420, 20):
        picked, _ = manager._decide(records, budget, chat, "s")
        if manager.compressions:
            head, kept = trimmed("s", picked, records[-1:], budget, chat)
            assert "231775" in head + "".join(r.text for r in kept), budget
    assert manager.compressions


def test_rows_are_aggregated_before_they_are_cut():
    rows = [{"id": n, "category": "AB"[n % 2], "amount": n} for n in range(5000)]
    text = trim_result(json.dumps(rows))
    assert "5000 rows: id, category, amount" in text
    assert f"amount by category: A {sum(range(0, 5000, 2))}, B {sum(range(1, 5000, 2))}" in text
    assert len(text) < 600
    table = "\n".join(["id,category,amount", *(f"{r['id']},{r['category']},{r['amount']}" for r in rows[:200])])
    assert "200 rows" in trim_result(table)
    assert trim_result("plain words, nothing else") == "plain words, nothing else"
    wide = json.dumps({f"k{n}": n for n in range(40)})
    assert json.loads(trim_result(wide))["…"] == "20 more fields"
    assert trim_result("[broken") == "[broken"
    assert trim_result("{broken") == "{broken"


def test_totals_of_large_tables_are_exact():
    rows = [{"shop": f"s{n % 3}", "sales": 1_000_003 + n} for n in range(400)]
    text = trim_result(json.dumps(rows))
    assert str(sum(r["sales"] for r in rows)) in text
