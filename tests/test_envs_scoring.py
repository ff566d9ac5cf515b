"""Answer slots, quality, reads and their triggers, contract counts."""

from __future__ import annotations

import itertools

import pytest
from game import Game, make_session, roomy, shop

from envs.managers import get_manager
from envs.scoring import judge, normal_form, read_slots, score
from envs.tasks.base import Slot
from envs.tasks.surface import accepted


def slot(name="by", accept=("500",), **more):
    return Slot(name=name, accept=accept, **more)


RIGHT = [
    "by=500", "by=500.", "by = 500", "BY=500", " by=  500  ", 'by="500"', "by='500'", "by=“500”", "by=`500`", 'by="500."', 'by="500".', "by=５００", "by=500 ;",
    "over=yes; by=500", "over=yes;by=500;", "over=yes\nby=500", "The answer is\nby=500", "by=500; note=x", "by=\u00a0500", "by=500\r",
]  # fmt: skip
WRONG = [
    "", "500", "by 500", "by=", "by=501", "by=500 or 600", "by=500; by=500", "by=500\nby=600", "by=500; BY=500", "by=500, code=1", "by=about 500", "by==500", "bye=500",
    "by=5 00", "by=500%", "by=unknown; by=500", "by:500", "by=none", "by=?", "by=...", "by=-500",
]  # fmt: skip


@pytest.mark.parametrize("reply", RIGHT)
def test_forms_that_are_right(reply):
    assert judge(slot(), reply)[0] == "right"


@pytest.mark.parametrize("reply", WRONG)
def test_forms_that_are_wrong(reply):
    assert judge(slot(), reply)[0] == "wrong"


@pytest.mark.parametrize("reply", ["by=unknown", "by=Unknown.", 'by="UNKNOWN"', "by=ｕｎｋｎｏｗｎ"])
def test_unknown_abstains_and_is_right_where_nothing_was_stated(reply):
    assert judge(slot(), reply)[0] == "abstained"
    never = slot(accept=("unknown",), never=True)
    assert judge(never, reply)[0] == "right"
    assert judge(never, "by=500")[0] == "wrong"


def test_a_value_that_was_in_force_once_is_stale():
    held = slot(stale=("400", "Old Street"))
    assert judge(held, "by=400")[0] == "stale"
    assert judge(held, "by=OLD   street.")[0] == "stale"
    assert judge(held, "by=401")[0] == "wrong"


@pytest.mark.parametrize("form", ["3 May", "May 3", "3 may.", "03 May", '"3 May"', "3  May"])
def test_forms_of_a_date(form):
    assert judge(slot("day", accepted("date", "3 May")), f"day={form}")[0] == "right"


@pytest.mark.parametrize("form", ["3 Sep", "September 3", "03 September", "3 September"])
def test_forms_of_a_long_month(form):
    assert judge(slot("day", accepted("date", "3 September")), f"day={form}")[0] == "right"


@pytest.mark.parametrize("form", ["13 May", "3 June", "May", "3", "2026-05-03x", "3 May 2026"])
def test_other_dates_are_wrong(form):
    assert judge(slot("day", accepted("date", "3 May")), f"day={form}")[0] == "wrong"


def test_a_hotel_may_lose_its_prefix():
    forms = accepted("hotel", "Hotel Gloria Bay")
    assert judge(slot("hotel", forms), "hotel=gloria bay")[0] == "right"
    assert judge(slot("hotel", forms), "hotel=Gloria")[0] == "wrong"


def test_normal_form_and_slots():
    assert normal_form("  “Ａ ﬁle.”  ") == "a file"
    assert normal_form('"') == '"'
    assert normal_form("") == ""
    assert normal_form(".") == ""
    assert read_slots("a=1; b = 2=3\nA=4\nremark") == {"a": ["1", "4"], "b": [" 2=3"]}


# ---- episodes ----------------------------------------------------------------------------------------------------------------


def scored(chat, slots, replies, limits=None):
    game = Game(make_session(["Ask. Answer: x=?"] * len(slots), {}, slots=slots), chat, roomy(**(limits or {})))
    for reply in replies:
        game.say(reply)
    return score(game.episode.trajectory("x"))


PLAIN, RULE = slot("a", ("1",)), slot("b", ("2",), constraint=True)


@pytest.mark.parametrize(
    ("reply", "q", "right"),
    [
        ("a=1; b=2", 1.0, True),
        ("a=1; b=unknown", 1 / 3, False),
        ("a=unknown; b=2", 2 / 3, False),
        ("a=1; b=9", (1 - 0.5) / 3, False),
        ("a=9; b=2", (2 - 0.25) / 3, False),
        ("a=1", (1 - 0.5) / 3, False),
        ("", None, None),
        ("none of it", -0.25, False),
        ("a=unknown; b=unknown", 0.0, False),
    ],
)
def test_quality_is_the_weighted_mean_with_constraints_counting_twice(chat, reply, q, right):
    if q is None:
        return
    result = scored(chat, [(PLAIN, RULE)], [reply])
    assert result.q == pytest.approx(q)
    assert result.fully_right == result.task_correct == right
    assert result.quality_step == pytest.approx(0.25 / 3)
    assert (result.constraint_total, result.constraint_right) == (1, int("b=2" in reply))


def test_the_smallest_step_of_quality_is_really_the_smallest(chat):
    values = ("1", "unknown", "9")
    got = sorted(
        {round(scored(chat, [(PLAIN, RULE)], [f"a={x}; b={y if y != '1' else '2'}"]).q, 9) for x in values for y in values}
    )
    step = scored(chat, [(PLAIN, RULE)], ["a=1; b=2"]).quality_step
    assert min(b - a for a, b in itertools.pairwise(got)) >= step - 1e-9


def test_turns_that_were_never_answered_are_wrong(chat):
    result = scored(chat, [(PLAIN,), (RULE,), (PLAIN,)], ["a=1", "find x", "find x"], {"inferences_per_run": 2})
    assert result.reason == "limit_run"
    assert [c.verdict for c in result.checks] == ["right", "wrong", "wrong"]
    assert [c.how for c in result.checks][1:] == ["absent", "absent"]
    assert result.q == pytest.approx((1 - 0.5 - 0.25) / 4)
    assert not result.within_budget
    assert not result.infrastructure
    assert not result.fully_right


def test_a_failed_backend_is_infrastructure_and_no_slots_are_never_right(chat):
    game = Game(shop(1), chat)
    game.episode.abort()
    result = score(game.episode.trajectory("x"))
    assert result.infrastructure
    assert result.within_budget
    assert not result.fully_right, "a session without checks proves nothing"


def test_how_a_wrong_answer_came_about(chat):
    session = make_session(["The cap is 9000, the sum 4100. Answer: a=?"], {}, slots=[(slot("a", ("1",), stale=("7",)),)])
    for reply, how in (
        ("a=9000", "off_target"),
        ("a=7", "stale"),
        ("a=31337", "fabricated"),
        ("b=1", "absent"),
        ("a=unknown", "abstained"),
        ("a=1", "right"),
    ):
        game = Game(session, chat)
        game.say(reply)
        (check,) = score(game.episode.trajectory("x")).checks
        assert check.how == how
        assert check.changed, "7 was in force before"


def test_in_view_tells_whether_the_value_stood_in_the_first_view_of_the_turn(chat):
    session = make_session(
        ["Ask. Answer: a=?", "Ask. Answer: b=?"],
        {"quote item=x qty=1": "value 7777"},
        slots=[(slot("a", ("7777",)),), (slot("b", ("7777",)),)],
    )
    game = Game(session, chat)
    game.say("quote item=x qty=1")
    game.say("a=7777")
    game.say("b=7777")
    assert [c.in_view for c in score(game.episode.trajectory("x")).checks] == [False, True]


def test_reads_and_what_prompted_them(chat):
    game = Game(shop(), chat, roomy())
    game.say("quote item=desks qty=2")
    game.say("read e3")
    game.say("total=1")
    game.say("fold e2-e3 Norra offer for the desks with the price, a code and the usual terms")
    game.say("read e3")
    game.say("total=1")
    game.say("find no_such_thing_at_all")
    game.say("read e1 p9")
    game.say("read e1")
    result = score(game.episode.trajectory("x"))
    assert [(r.tool, r.trigger, r.shows) for r in result.reads] == [
        ("read", "self", [3]),
        ("read", "index", [3]),
        ("read", "rejection", [1]),
    ]
    assert result.autonomous_read


def test_contract_counts(chat):
    game = Game(shop(), chat, roomy())
    for text in ("quote item=desks qty=2", "", "{", "note x", "frob a=1", "read e99", "note a=1\nnote a=2\nnote b", "total=1"):
        game.say(text)
    result = score(game.episode.trajectory("x"))
    assert result.malformed == 5
    assert result.calls == {
        "quote": {"result": 1}, "none": {"notice": 2}, "note": {"bad_arguments": 2, "ok": 2}, "frob": {"unknown_tool": 1}, "read": {"unknown_ref": 1},
    }  # fmt: skip
    assert (result.rewrites, result.segments, result.inferences) == (1, 2, 8)
    assert result.tokens == result.tokens_in + result.tokens_out
    assert result.peak == max(i.tokens_in for i in game.episode.inferences)


def test_segments_counted_from_the_record_equal_those_cut_by_ids(chat, expert_sessions):
    from envs.segments import record

    for t in expert_sessions[::4]:
        cut = record((chat.render(v), i.ids, True) for i, v in zip(t.inferences, t.views(), strict=True))
        assert score(t).segments == len(cut)


def test_scoring_is_pure_and_needs_no_model(expert_sessions):
    t = expert_sessions[0]
    before = t.model_dump_json()
    assert score(t) == score(t)
    assert t.model_dump_json() == before


def test_a_damaged_note_must_be_mended(chat, probes, play_probes):
    from envs.policies.expert import Expert, Mind

    class Forgets(Expert):
        """Reads and answers right, and leaves the wrong note as it is."""

        name = "forgets_to_mend"

        def text(self, view):
            mind = Mind(view, self.chat, self.budget)
            mind.mend = lambda *_: ""
            return mind.act()

    wrong = [(p, r) for p, _, r in play_probes(Forgets(chat)).values() if p.wrong_note]
    assert wrong
    for _, r in wrong:
        assert r.fully_right
        assert r.mended is False
        assert not r.recovered
        assert r.funnel["used"]
        assert not r.funnel["mended"]


def test_under_a_manager_what_is_shown_counts_as_located(chat, probes):
    from envs.episode import Episode, play
    from envs.policies.expert import Expert
    from envs.profiles import get_profile

    probe = next(p for _, g in probes for p in g if p.variant == "missing")
    episode = Episode.from_probe(probe, get_profile("plain@1"), chat, manager=get_manager("pinned"))
    play([episode], Expert(chat))
    result = score(episode.trajectory("expert"))
    assert episode.trajectory("expert").manager == "pinned"
    assert result.reads == []
    assert result.funnel["located"] == any(c.in_view for c in result.checks)


def test_without_an_index_no_read_is_prompted_by_it(chat):
    from dataclasses import replace

    from game import Game, roomy, shop

    for index, trigger in ((True, "index"), (False, "self")):
        game = Game(shop(1), chat, replace(roomy(), index=index))
        game.say("quote item=desks qty=2")
        game.say("fold e2-e3 Norra offer for the desks with the price, a code and the usual terms")
        game.say("read e3")
        game.say("total=4100")
        assert [r.trigger for r in score(game.episode.trajectory("by hand")).reads] == [trigger]
