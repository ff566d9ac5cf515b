"""Host-only managers: always within the budget, a valid chat, the question always there; what each must win and must lose."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from game import Game, filler, make_session, roomy
from manager_talks import NOISE, conversation, shown

from envs.chat import Message
from envs.managers import MANAGERS, Layered, get_manager, layered
from envs.managers.base import messages_of, records_of, sentences
from envs.scoring import score
from envs.segments import record
from envs.trajectory import view_hash

PURE = [n for n in sorted(MANAGERS) if n not in ("layered", "llm_summary")]


@pytest.fixture(scope="module")
def logs(chat):
    """Logs of plain sessions at every inference: short and long results, the last message of any size."""
    responses = {
        f"quote item=i{n} qty=1": f"Item i{n} by Norra Office. Code AP-{7741 + n}. Total {4100 + n}. {filler(size, n)}"
        for n, size in enumerate((1, 30, 5, 90, 12, 2, 60))
    }
    game = Game(
        make_session([f"Quote i{n}, the cap is {9000 + n}. {filler(3 * (n % 3))} Answer: a=?" for n in range(7)], responses),
        chat,
        roomy("plain@1", view_budget=10**6),
    )
    found = []
    for n in range(7):
        found.append((list(game.episode.log), game.episode.system))
        game.say(f"quote item=i{n} qty=1")
        found.append((list(game.episode.log), game.episode.system))
        game.say("" if n == 4 else "a=1")
        if n == 4:
            game.say("a=1")
    return found


@pytest.mark.parametrize("name", sorted(MANAGERS))
@pytest.mark.parametrize("budget", [150, 260, 400, 700, 900, 1536, 4000])
def test_the_budget_is_kept_wherever_the_last_message_fits_it(chat, logs, name, budget):
    manager, fitted = get_manager(name), 0
    for log, system in logs:
        messages = manager.view(log, budget, chat, system)
        history = messages_of(system, records_of(log))[1:]
        least = len(chat.render([Message("system", system), history[-1]]))
        size = len(chat.render(messages))
        assert size <= max(budget, least), f"{name} takes {size} of {budget}"
        assert messages[0].role == "system"
        assert messages[0].content.startswith(system)
        assert messages[1].role == "user", "never starts with the policy's own turn"
        roles = [m.role for m in messages[1:]]
        assert all(a != b for a, b in itertools.pairwise(roles))
        fitted += least <= budget
        if name != "layered":
            assert messages[-1] == history[-1] or name == "clear_tool_results", "the newest message stays"
            if len(chat.render([Message("system", system), *history])) <= budget:
                assert messages == [Message("system", system), *history], "nothing is cut that fits"
    assert fitted


@pytest.mark.parametrize("name", PURE)
def test_managers_without_a_memory_are_pure(chat, logs, name):
    for log, system in logs[::5]:
        before = list(log)
        assert get_manager(name).view(log, 500, chat, system) == get_manager(name).view(log, 500, chat, system)
        assert log == before


def test_an_unknown_manager_names_the_choices():
    with pytest.raises(ValueError, match="truncate, recent, summary"):
        get_manager("magic")


def test_the_question_stays_beside_the_newest_exchange_of_a_long_tool_loop(chat):
    session = make_session(
        ["Find the code. Answer: a=?"], {f"quote item=i{n} qty=1": f"Item {n}. {filler(8)}" for n in range(12)}
    )
    for name in PURE:
        game = Game(session, chat, replace(roomy("plain@1"), view_budget=400), manager=get_manager(name))
        for n in range(12):
            game.say(f"quote item=i{n} qty=1")
        assert "Find the code." in game.body, name
        assert "Item 11." in game.body


def test_a_dot_within_a_word_ends_no_sentence():
    assert sentences("We run 8.4.19 since May. Is v2.0 out? Yes.") == ("We run 8.4.19 since May.", "Is v2.0 out?", "Yes.")


# ---- on a plain list of messages ---------------------------------------------------------------------------------------------------


def test_a_plain_list_comes_back_as_a_plain_list(chat):
    messages = conversation("user: hello there", "assistant: hello", question="And?")
    assert layered(messages, budget=500) == messages
    long = conversation(*[f"{r}: {filler(6, i)}" for i in range(8) for r in ("user", "assistant")])
    for name in MANAGERS:
        out = get_manager(name)(long, 300)
        assert out[0]["role"] == "system"
        assert out[-1] == long[-1]
        assert len(chat.render([Message(m["role"], m["content"]) for m in out])) <= 320, name


def test_other_keys_of_kept_messages_stay_and_results_never_stand_without_their_call():
    messages = conversation(*[f"user: {filler(9)}"] * 3)
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1"}]}
    result = {"role": "tool", "content": filler(3), "tool_call_id": "c1"}
    out = get_manager("truncate")([*messages[:-1], {"role": "user", "content": "go"}, call, result, messages[-1]], 190)
    assert call in out
    assert result in out
    for budget in range(40, 400, 15):
        out = get_manager("truncate")([*messages[:-1], call, result, messages[-1]], budget)
        assert (result in out) <= (call in out)


@pytest.mark.parametrize("bad", [{"role": "robot", "content": "x"}, {"role": "user"}, {"role": "user", "content": ["x"]}])
def test_a_bad_message_is_named(bad):
    with pytest.raises(ValueError, match="message 1: role"):
        layered([{"role": "system", "content": "s"}, bad], 100)


# ---- what each must win and must lose -------------------------------------------------------------------------------------------------

EARLY = "tool: The root cause is in the gateway. The variable is tenant_id. Four hundred orders were touched."
LATE = "tool: The fix went live at 16:40 with build 7731."
BUDGET = 330


@pytest.mark.parametrize(
    ("name", "wins", "loses"),
    [
        # newest first; old is gone
        ("truncate", (LATE, "build 7731"), (EARLY, "tenant_id")),
        ("recent", (LATE, "build 7731"), (EARLY, "tenant_id")),
        # retrieval by the words of the question; a paraphrase shares none
        ("retrieval", ("question", "Which variable is it?", "tenant_id"), ("question", "Wo liegt es?", "tenant_id")),
        ("bm25", ("question", "Which variable is it?", "tenant_id"), ("question", "Wo liegt das?", "tenant_id")),
        # a field by a pattern; a bare word is none
        ("pinned", ("early", "tool: The approval code is AP-7741.", "AP-7741"), ("early", "tool: The colour is teal.", "teal")),
    ],
)
def test_each_simple_manager_wins_and_loses_where_it_must(name, wins, loses):
    def answer_in_view(case) -> bool:
        if case[0] == "question":
            return case[2] in shown(name, conversation(EARLY, *NOISE, question=case[1]), BUDGET)
        if case[0] == "early":
            return case[2] in shown(name, conversation("user: Look it up.", "assistant: looked", case[1], *NOISE), BUDGET)
        place = [case[0], *NOISE] if case[0] == EARLY else [*NOISE, "user: status?", "assistant: asked", case[0]]
        return case[1] in shown(name, conversation(*place), BUDGET)

    assert answer_in_view(wins), f"{name} must win this"
    assert not answer_in_view(loses), f"{name} must lose this"


def test_summary_keeps_what_recurs_and_loses_what_occurs_once():
    """The gist wins; the code that stands there once loses."""
    recurring = [f"tool: The gateway timed out again. {filler(4, i)}" for i in range(8)]
    once = "tool: Only customer Quillfeather saw pink."
    text = shown("summary", conversation(*recurring[:4], once, *recurring[4:], question="What happened?"), BUDGET)
    assert "The gateway timed out again." in text
    assert "Quillfeather" not in text


def test_retrieval_loses_what_lies_across_records_and_the_global_layer_says_that_it_exists():
    parts = [
        "tool: First suspicion of the incident was the network.",
        *[f"tool: Culprit talk {n}. Culprit of the incident? {filler(4, n)}" for n in range(7)],
    ]
    final = "tool: Verdict, in the end a cache key."
    question = "What was the first suspicion of the incident, and who was the culprit of the incident?"
    messages = conversation(*parts, final, *NOISE, question=question)
    assert "First suspicion of the incident was the network" in shown("retrieval", messages, BUDGET)
    assert "cache key" not in shown("retrieval", messages, BUDGET)
    short = conversation(*parts[:2], final, *NOISE[:8], question=question)
    assert "cache key" in shown("retrieval_global", short, BUDGET)


def test_retrieval_global_wins_a_paraphrase_and_loses_the_detail_inside_a_record():
    record_ = "tool: Verdict on the outage, a stale cache key. It was found by Quillfeather at night."
    messages = conversation(record_, *NOISE[:10], question="Worin bestand es?")
    assert "stale cache key" in shown("retrieval_global", messages, BUDGET)
    assert "stale cache key" not in shown("retrieval", messages, BUDGET)
    assert "Quillfeather" not in shown("retrieval_global", messages, BUDGET)


def test_combo_covers_recent_and_asked_for_and_loses_what_is_neither():
    messages = conversation(
        EARLY,
        "tool: Quillfeather likes pink.",
        *NOISE,
        "user: status?",
        "assistant: asked",
        LATE,
        question="Which variable is it?",
    )
    text = shown("combo", messages, 420)
    assert "tenant_id" in text
    assert "build 7731" in text
    assert "Quillfeather" not in text


def test_pinned_shows_a_changed_value_beside_the_new_one_where_layered_does_not():
    """Its weakness by design: a pin says nothing of what replaced it."""
    messages = conversation(
        "user: My address code is BJ-1001.",
        "assistant: ok",
        *NOISE[:12],
        "user: My address code is SH-2002.",
        "assistant: ok",
        *NOISE[12:],
        question="Where to?",
    )
    assert "BJ-1001" in shown("pinned", messages, 420)
    assert "SH-2002" in shown("pinned", messages, 420)
    text = shown("layered", messages, 420)
    assert "SH-2002" in text
    assert "BJ-1001" not in text


def test_clear_tool_results_keeps_the_course_and_loses_old_results():
    turns = [
        t
        for n in range(6)
        for t in (
            f"user: Get {n}.",
            f"assistant: fetch {n}",
            f"tool: Result {n} says {7000 + n}. {filler(6, n)}",
            f"assistant: done {n}",
        )
    ]
    text = shown("clear_tool_results", conversation(*turns), 420)
    assert all(f"fetch {n}" in text for n in range(6))
    assert "cleared" in text
    assert "7005" in text
    assert "7000" not in text


def test_layered_keeps_identifiers_through_compressions_and_loses_plain_words_said_once():
    """Order number of turn 2 after thirty turns; a colour named in passing is gone."""
    turns = [
        "user: I need help.",
        "assistant: gladly",
        "user: My order is SO-2026-0815-0042. The parcel looked teal.",
        "assistant: noted",
    ]
    turns += [f"{'user' if i % 2 == 0 else 'assistant'}: {filler(4, i)}" for i in range(60)]
    manager = Layered()
    for end in range(4, len(turns), 6):
        manager(conversation(*turns[:end]), 500)
    text = "\n".join(m["content"] for m in manager(conversation(*turns), 500)[:-1])
    assert "SO-2026-0815-0042" in text
    assert "teal" not in text
    assert manager.compressions >= 2, "a summary is compressed again"


def test_llm_summary_asks_the_policy_model_and_its_tokens_count(chat):
    session = make_session(
        [f"Get {n}. Answer: a=?" for n in range(4)],
        {f"quote item=i{n} qty=1": f"Code AP-{7741 + n}. {filler(20, n)}" for n in range(4)},
    )
    game = Game(session, chat, replace(roomy("plain@1"), view_budget=600), manager=get_manager("llm_summary"))
    for n in range(3):
        game.say(f"quote item=i{n} qty=1")
        while game.view.messages[0].content.startswith("Summarise"):
            assert "AP-7741" in game.view.messages[1].content
            game.say("the first offer has code AP-7741 and its usual terms")
        game.say("a=1")
    kinds = [i.kind for i in game.episode.inferences]
    while game.view.messages[0].content.startswith("Summarise"):
        game.say("the first offer has code AP-7741 and its usual terms, the rest too")
    assert "maintenance" in kinds
    assert "summary: the first offer has code AP-7741" in game.system
    trajectory = game.episode.trajectory("by hand")
    assert score(trajectory).tokens == sum(i.tokens_in + len(i.ids) for i in game.episode.inferences)
    assert [view_hash(chat.render(v)) for v in trajectory.views()] == [i.hash for i in trajectory.inferences]
    assert record([(chat.render(v), i.ids, True) for v, i in zip(trajectory.views(), trajectory.inferences, strict=True)])


def test_a_failed_summary_is_not_taken_for_one(chat):
    """The error text of a failed call must not replace the history (case K1)."""
    session = make_session(
        [f"Get {n}. Answer: a=?" for n in range(5)],
        {f"quote item=i{n} qty=1": f"Code AP-{7741 + n}. {filler(20, n)}" for n in range(5)},
    )
    game = Game(session, chat, replace(roomy("plain@1"), view_budget=600), manager=get_manager("llm_summary"))
    for n in range(3):
        for text in (f"quote item=i{n} qty=1", "a=1"):
            while game.view.messages[0].content.startswith("Summarise"):
                game.say("error 529")
            game.say(text)
    while game.view.messages[0].content.startswith("Summarise"):
        game.say("")
    assert "summary:" not in game.system
    assert "error 529" not in game.system
    assert "AP-7743" in game.body
