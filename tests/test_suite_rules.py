"""The acceptance rules of the seed suites: replies that must pass, and near misses that must not."""

from __future__ import annotations

import pytest

from envs.trajectory import StoredOutcome
from eval.suites import rules
from eval.suites.base import Heard


@pytest.mark.parametrize(
    ("text", "label", "value", "said"),
    [
        ("The total is 9,500.", rules.TOTAL, 9500, True),
        ("Total: ¥9500, 300 left.", rules.TOTAL, 9500, True),
        ("总价为 9,500 元。", rules.TOTAL, 9500, True),
        ("合计９５００元", rules.TOTAL, 9500, True),
        ("4,200 + 5,300 = 9,500, within the total budget of 9,800", rules.TOTAL, 9500, True),
        ("总价 4200 元 + 5300 元 = 9500 元", rules.TOTAL, 9500, True),
        ("**9500.00**", rules.TOTAL, 9500, True),
        ("The total is 9,400; not 9,500.", rules.TOTAL, 9500, False),
        ("The total is 9500 or 9800.", rules.TOTAL, 9500, False),
        ("总价 9500 或 9800 元", rules.TOTAL, 9500, False),
        ("The total is 19,500.", rules.TOTAL, 9500, False),
        ("The total is 95,00.", rules.TOTAL, 9500, False),
        ("See SCHEDULE-9500.", rules.TOTAL, 9500, False),
        ("9500.5", rules.TOTAL, 9500, False),
        ("4,200 + 5,300", rules.TOTAL, 9500, False),
        ("9,800 - 9,500 = 300 left", rules.LEFT, 300, True),
        ("余额为300元", rules.LEFT, 300, True),
        ("预算余额：9800-9500=300", rules.LEFT, 300, True),
        ("Balance: 3,000", rules.LEFT, 300, False),
        ("余额 200 元，另有 300 元待定", rules.LEFT, 300, False),
        ("balance -300", rules.LEFT, 300, False),
    ],
)
def test_amounts(text, label, value, said):
    assert rules.states_amount(text, value, label) is said


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("The budget is not exceeded.", {"within"}),
        ("It doesn't go over the budget", {"within"}),
        ("Everything stays within the budget.", {"within"}),
        ("Over budget: no", {"within"}),
        ("未超预算", {"within"}),
        ("没有超出预算", {"within"}),
        ("在预算之内", {"within"}),
        ("是否超预算：否", {"within"}),
        ("That is over budget by 500.", {"over"}),
        ("It exceeds the new budget.", {"over"}),
        ("500 over", {"over"}),
        ("超出预算 500 元", {"over"}),
        ("超支500元", {"over"}),
        ("The work goes on over the next days.", set()),
        ("Whether it is over the budget was asked.", set()),
        ("请说明是否超预算", set()),
        ("Not over the budget, but 500 over the limit.", {"within", "over"}),
        ("未超预算，超出 500 元", {"within", "over"}),
    ],
)
def test_what_is_claimed_of_the_budget(text, claims):
    assert rules.budget_claims(text) == claims


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("The old budget of 9,800 is no longer valid.", True),
        ("The budget was changed to 9,000; the previous budget is void.", True),
        ("9,000 replaces 9,800.", True),
        ("原预算 9,800 元作废。", True),
        ("旧预算已失效，新预算为 9,000 元。", True),
        ("The budget is 9,800.", False),
        ("The old budget of 9,800 still applies.", False),
        ("原预算9800元仍然有效", False),
        ("The budget is 9,000. The old sofa goes.", False),
        ("预算为 9,800 元，长期有效。", False),
    ],
)
def test_an_old_budget_declared_void(text, holds):
    assert rules.voids(text, 9800) is holds


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("2026-10-12", True),
        ("on 12 October 2026", True),
        ("October 12th, 2026", True),
        ("2026年10月12日", True),
        ("2026/10/12", True),
        ("2026-10-21", False),
        ("12 October", False),
        ("2026-10-12 or 2026-10-21", False),
        ("2026-10-120", False),
    ],
)
def test_dates(text, right):
    assert rules.date("date", "2026-10-12").holds(Heard(text)) is right


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Evidence: SCHEDULE-2086.", True),
        ("凭据为SCHEDULE-2086，已登记", True),
        ("schedule-2086", True),
        ("SCHEDULE-2068", False),
        ("SCHEDULE-20861", False),
        ("SCHEDULE-2086 or SCHEDULE-2068", False),
        ("SCHEDULE", False),
    ],
)
def test_identifiers(text, right):
    assert rules.identifier("id", "SCHEDULE-2086", r"schedule-\d+").holds(Heard(text)) is right


@pytest.mark.parametrize(
    ("text", "right"),
    [("Owner: Lin Zhou", True), ("负责人是林舟。", True), ("Lin Zhouzhou", False), ("林周", False), ("Zhou Lin", False)],
)
def test_the_owner(text, right):
    assert rules.word("owner", "Lin Zhou", "林舟").holds(Heard(text)) is right


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("Unknown.", True),
        ("I don't know.", True),
        ("The records do not mention it.", True),
        ("不知道", True),
        ("记录里没有提到这一点。", True),
        ("无法确定", True),
        ("It is known to be 02:47.", False),
        ("RF-7730", False),
        ("没有丢单", False),
    ],
)
def test_abstaining(text, yes):
    assert rules.abstains(text) is yes


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("There is no current task.", True),
        ("No task has been given.", True),
        ("How can I help you today?", True),
        ("I haven't been given a specific question.", True),
        ("当前没有任务。", True),
        ("没有收到新的任务", True),
        ("请问需要我帮您做什么？", True),
        ("The task is done: 2026-10-12.", False),
        ("No order was placed.", False),
        ("任务已完成，没有遗漏。", False),
        ("没有超出预算", False),
    ],
)
def test_claiming_that_there_is_no_task(text, yes):
    assert rules.claims_no_task(text) is yes


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("Could you tell me your order number?", True),
        ("请您提供一下订单号", True),
        ("请问您的订单号是多少？", True),
        ("Your order SO-2026-0815-0042 is on its way.", False),
        ("您的订单正在路上", False),
    ],
)
def test_asking_for_the_order_number_again(text, yes):
    assert rules.asks_again(text) is yes


def outcome(tool, code="result", **args):
    return StoredOutcome(tool=tool, code=code, text="", args=args)


def test_saving_counts_the_tool_and_memories_but_not_what_was_refused():
    rule = rules.saves("saved", "9500")
    assert rule.holds(Heard("", (outcome("save", text="total 9,500"),)))
    assert rule.holds(Heard("", (outcome("note", "ok", key="total", value="9500"),)))
    assert not rule.holds(Heard("", (outcome("note", "wrong_window", key="total", value="9500"),)))
    assert not rule.holds(Heard("", (outcome("save", text="total 9400"),)))
    assert not rule.holds(Heard("I saved 9500."))


def test_calls_that_must_not_or_must_be_made():
    banned = rules.never_calls("none", ("order", "pay"))
    assert banned.holds(Heard("", (outcome("save", text="x"),)))
    assert not banned.holds(Heard("", (outcome("order", "bad_arguments"),)))
    one = rules.calls_exactly("one list", ("window_list",))
    assert one.holds(Heard("", (outcome("window_list", "shown"),)))
    assert not one.holds(Heard(""))
    assert not one.holds(Heard("", (outcome("window_list", "shown"), outcome("window_list", "shown"))))
    assert not one.holds(Heard("", (outcome("window_list", "bad_arguments"),)))
    assert not one.holds(Heard("", (outcome("window_list", "shown"), outcome("note", "ok"))))
