"""What prompted a read, where tokens went, what memory and briefs bear out, what replies claim: on games played by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from game import QUOTE, Game, filler, make_session, roomy

from envs.episode import Episode, play
from envs.fidelity import covered_by, lost
from envs.measures import answers, pairs
from envs.policies.base import Sampled
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.scoring import Check, Score, score
from envs.spending import SPENDERS, spender
from envs.tasks.base import Fact, Slot, ToolSpec
from envs.tasks.damage import variants_of
from envs.tasks.probes import make_base, make_probes
from envs.trajectory import Trajectory, shared_prefix
from envs.truth import Truth

BRIEF = "Norra offer for the desks with the price, a code and the usual terms"
CALL = "quote item=desks qty=2"
FACTS = (
    Fact(key="cap", value="9000", where="turn:0", source="user", kind="constraint"),
    Fact(key="desks.total", value="4100", where=f"call:{CALL}"),
    Fact(key="desks.code", value="AP-7741", where=f"call:{CALL}"),
    Fact(key="desks.total", value="9500", where="call:revise item=desks", version=2),
)


def desks(chat, **more):
    session = make_session(
        [
            "Quote 2 desks. The cap is 9000. Answer: total=?",
            "And now? Answer: total=?",
            "Why? Answer: total=?",
            "So? Answer: total=?",
        ],
        {CALL: f"Norra: total 4100, code AP-7741. {filler(26)}", "revise item=desks": f"Norra: total 9500. {filler(26, 4)}"},
        slots=[(Slot(name="total", accept=("4100",), key="desks.total"),)] * 4,
        facts=FACTS,
    )
    return Game(session, chat, roomy(**more))


def result(game) -> Score:
    return score(game.episode.trajectory("by hand"))


# ---- ground truth along the log ------------------------------------------------------------------------------------------------


def test_the_truth_of_a_record_is_the_ledgers(chat, expert_episodes):
    for episode in expert_episodes[::9]:
        truth = Truth(episode.trajectory("x"))
        last = max(truth.events)
        assert {k: f.value for k, f in truth.in_force(last).items()} == episode.ledger.truth()
        assert [(f, e) for e, facts in truth.stated.items() for f in facts] == [
            (s.fact, s.event) for s in episode.ledger.statements
        ]


def test_a_value_is_in_force_from_the_event_that_states_it(chat):
    game = desks(chat)
    game.say(CALL)
    game.say("total=4100")
    game.say("revise item=desks")
    truth = Truth(game.episode.trajectory("x"))
    value = lambda seq: {k: f.value for k, f in truth.in_force(seq).items()}  # noqa: E731
    assert value(1) == {"cap": "9000"}
    assert value(3) == {"cap": "9000", "desks.total": "4100", "desks.code": "AP-7741"}
    assert value(7)["desks.total"] == "9500"


def test_of_two_statements_of_one_version_the_later_one_holds(chat):
    facts = (
        Fact(key="code", value="1", where="turn:0"), Fact(key="code", value="1", where="turn:1", version=2, status="withdrawn"),
        Fact(key="code", value="2", where="turn:2", version=2),
    )  # fmt: skip
    game = Game(make_session(["1. Answer: a=?", "not 1. Answer: a=?", "2. Answer: a=?"], {}, facts=facts), chat, roomy())
    game.say("a=1")
    assert game.episode.ledger.truth() == {}
    game.say("a=1")
    assert game.episode.ledger.truth() == {"code": "2"}
    assert Truth(game.episode.trajectory("x")).in_force(5)["code"].value == "2"


# ---- what prompted a read ------------------------------------------------------------------------------------------------------


def test_the_gate_prompts_the_read_that_it_asked_for(chat):
    order = ToolSpec(name="order", args=("item", "cap"), evidence=(("cap", "cap"),))
    session = make_session(
        ["Look. Answer: a=?", "Order. Answer: a=?"], {"quote item=a qty=1": f"cap 9000. {filler(30)}"}, tools=(QUOTE, order)
    )
    game = Game(session, chat, replace(roomy(), evidence_gate=True))
    game.say("quote item=a qty=1")
    game.say("note cap=9000 @e3")
    game.say(f"fold e2-e3 {BRIEF} @e3")
    game.say("order item=a cap=9000")
    game.say("read e3")
    game.say("a=1")
    found = result(game)
    assert [r.trigger for r in found.reads] == ["gate"]
    assert not found.autonomous_read
    assert found.spontaneous == found.context_calls - 1 == 2


def test_a_conflict_that_the_host_names_prompts_the_read_of_its_source(chat):
    game = desks(chat, profile="unified@4-compact", syntax="compact")
    game.say(CALL)
    game.say("total=4100")
    game.say("revise item=desks")
    game.say("w1 note total=4100 @e3")
    assert "; conflict total" in game.say("w1 local total=9500 @e7")[0].text
    game.say("read e7")
    game.say("read e1")
    game.say("total=9500")
    assert [r.trigger for r in result(game).reads] == ["conflict", "self"]


def test_a_hint_prompts_the_read_so_recovery_is_not_the_policys_own(chat):
    base = next(b for seed in range(700, 760) if (b := make_base("procurement", seed, "static", chat)) and variants_of(b))
    probes = [p for p in variants_of(base, hint=True) if p.variant in ("missing", "present") and not p.id.endswith(".twin")]
    episodes = [Episode.from_probe(p, get_profile("core@1"), chat) for p in probes]
    play(episodes, Expert(chat))
    found = {}
    for probe, episode in zip(probes, episodes, strict=True):
        t = episode.trajectory("expert")
        assert Trajectory.model_validate_json(t.model_dump_json()).hint == probe.hint == t.hint
        found[probe.variant, probe.hint] = score(t)
    for hint, trigger in (("none", "index"), ("vague", "tester"), ("explicit", "tester")):
        s = found["missing", hint]
        assert [r.trigger for r in s.reads] == [trigger]
        assert s.recovered
        assert s.prompted == (hint != "none")
        assert s.spontaneous == (hint == "none")


class Case:
    def __init__(self, variant, score, sample, twin=None):
        self.variant, self.score, self.sample, self.twin = variant, score, sample, twin
        self.signal, self.hinted = "asked", False


def test_what_others_prompted_never_counts_as_pair_success(chat):
    blank = {"id": "x", "family": "f", "base": "b", "variant": None, "signal": None, "checks": [], "q": 1, "quality_step": 1, "task_correct": True,
             "fully_right": True, "constraint_right": 0, "constraint_total": 0, "reads": [], "autonomous_read": False}  # fmt: skip
    twin = Case("present", Score(**blank), "p")
    for prompted in (False, True):
        damaged = Case("missing", Score(**blank, recovered=True, prompted=prompted), "m", "p")
        assert [won for _, won in pairs([damaged, twin])] == [not prompted]


# ---- answers --------------------------------------------------------------------------------------------------------------------


def check(slot, how, **more):
    right = how == "right"
    fields = {
        "turn": 0,
        "slot": slot,
        "verdict": "right" if right else "abstained" if how == "abstained" else "wrong",
        "weight": 1,
    }
    return Check(**{**fields, "credit": 1 if right else 0, "how": how, "inputs": right, "informed": right, **more})


@pytest.mark.parametrize(
    ("checks", "answer"),
    [
        ([check("a", "right")], "right"),
        ([check("a", "right", informed=False, inputs=False)], "prior_guess"),
        ([check("a", "abstained")], "abstained"),
        ([check("a", "off_target")], "off_target"),
        ([check("over", "right", choice=True), check("gap", "fabricated")], "prior_guess"),
        ([check("over", "fabricated", choice=True), check("gap", "abstained")], "prior_guess"),
        ([check("over", "abstained", choice=True), check("gap", "right")], "half"),
        ([check("a", "right"), check("b", "stale")], "half"),
        ([check("a", "abstained"), check("b", "stale")], "stale"),
        ([check("a", "right", never=True, informed=False)], "right"),
    ],
)
def test_what_an_answer_was(checks, answer):
    blank = Score.model_construct(checks=checks)
    assert [found for _, _, found in answers(blank)] == [answer]


def test_the_slots_of_a_bundle_are_questions_of_their_own_with_their_wording():
    checks = [
        check("q1", "right", question="bundle"),
        check("q2", "abstained", question="bundle"),
        check("x", "right", turn=1, question="paraphrased"),
    ]
    assert list(answers(Score.model_construct(checks=checks))) == [
        ("in view", "matched", "right"), ("not in view", "matched", "abstained"), ("in view", "paraphrased", "right"),
    ]  # fmt: skip


# ---- memories, briefs, rewrites ----------------------------------------------------------------------------------------------------


def test_notes_are_held_against_the_ledger_and_briefs_against_what_they_cover(chat):
    game = desks(chat)
    game.say(CALL)
    game.say("note desks.total=4100 @e3", "note desks.code=AP-7742 @e3", "note vendor=Norra @e3", "note mood=sunny")
    game.say(f"fold e2-e3 {BRIEF}: total 4100, code AP-7741, deposit 777 @e3")
    game.say("total=4100")
    game.say("revise item=desks")
    game.say("note desks.total=4100 @e3 old", "note cap=8000 @e1")
    game.say("total=9500")
    found = result(game)
    # True: 4100 as it is in force, and later marked as old. False: AP-7742, 8000. Seen: Norra, and 4100 and AP-7741 of the brief.
    # Unseen: sunny, and 777 of the brief.
    assert found.writes == {"true": 2, "false": 2, "seen": 3, "unseen": 2}
    assert found.conflicts == 2, "desks.code and cap stand against the ledger; an old value that is marked does not"
    assert found.entries == 5
    assert found.entries_active == 0


def test_an_old_value_noted_as_current_is_stale(chat):
    game = desks(chat)
    game.say(CALL)
    game.say("total=4100")
    game.say("revise item=desks")
    game.say("note desks.total=4100 @e3")
    assert result(game).writes == {"stale": 1}


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        (f"{BRIEF} @e3", []),  # a reference says where it is
        (f"{BRIEF}, see e3", []),
        (f"{BRIEF}: total 4100, code AP-7741", []),  # or the values stand there
        (f"{BRIEF}: total 4100", ["desks.code"]),
        (BRIEF, ["desks.total", "desks.code"]),  # the index lists the range, and does not say what was in it
    ],
)
def test_a_fact_in_force_without_value_or_reference_is_a_silent_failure(chat, text, gone):
    game = desks(chat)
    game.say(CALL)
    game.say(f"fold e2-e3 {text}")
    trajectory = game.episode.trajectory("x")
    view = game.view.messages
    outcome = trajectory.inferences[-1].outcomes[0]
    assert covered_by(outcome, trajectory) == [2, 3]
    text = " ".join("\n".join(m.content for m in view).casefold().split())
    assert lost(Truth(trajectory), 4, [2, 3], view, text) == gone
    game.say("total=4100")
    found = result(game)
    assert (found.rewrites_checked, found.silent_failures) == (1, int(bool(gone)))


def test_a_note_or_a_summary_that_can_be_read_again_is_a_mark(chat):
    game = desks(chat)
    game.say(CALL)
    game.say("note desks.total=4100 @e3")
    game.say(f"fold e2-e3 {BRIEF}")
    assert result(game).silent_failures == 0, "the note's source is the event that states the code too"
    game.say("total=4100")
    game.say("total=4100")
    game.say("total=4100")
    game.say("compress e7 all about the desks of Norra so far, as listed in e4 and agreed with everybody")
    assert result(game).silent_failures == 0


# ---- tokens, refusals ----------------------------------------------------------------------------------------------------------------


def test_every_inference_has_one_spender_and_they_add_up(chat):
    game = desks(chat)
    for text in (
        CALL,
        "read e3",
        "read e99",
        "{",
        f"note total=4100 @e3\nfold e2-e3 {BRIEF} @e3",
        "note a=1\nread e99",
        "total=4100",
    ):
        game.say(text)
    assert [spender(i) for i in game.episode.inferences] == [
        "working",
        "reading",
        "refused",
        "refused",
        "managing",
        "managing",
        "answering",
    ]
    found = result(game)
    assert set(found.spent) == set(SPENDERS)
    assert sum(found.spent.values()) == found.tokens
    assert (found.refusals, found.refusals_mended) == (3, 2)  # read e99 was followed by half a call


def test_what_a_prefix_cache_holds_is_stored_with_each_inference(chat):
    game = desks(chat)
    for text in (CALL, "read e3", f"fold e2-e3 {BRIEF} @e3", "total=4100"):
        game.say(text)
    one, two, three, four = game.episode.inferences
    assert one.shared == 0
    assert two.shared == one.tokens_in + len(one.ids), "nothing but a suffix was added"
    assert three.shared == two.tokens_in + len(two.ids)
    assert 0 < four.shared < three.tokens_in, "a rewrite leaves the beginning of the system message alone"
    assert result(game).prefill == sum(i.tokens_in - i.shared for i in game.episode.inferences)
    old = game.episode.trajectory("x").model_dump(mode="json")
    for inference in old["inferences"]:
        del inference["shared"]
    assert score(Trajectory.model_validate(old)).prefill is None


@pytest.mark.parametrize(
    ("a", "b", "n"),
    [([], [1], 0), ([1], [1, 2], 1), ([1, 2, 3], [1, 2, 4], 2), ([5], [6], 0), ([*range(99)], [*range(70), 0, 1], 70)],
)
def test_shared_prefix(a, b, n):
    assert shared_prefix(a, b) == shared_prefix(b, a) == n


# ---- what replies claim ------------------------------------------------------------------------------------------------------------


def claimed(chat, *turns):
    session = make_session(
        ["Quote 2 desks. Answer: total=?"], {CALL: "total 4100"}, slots=[(Slot(name="total", accept=("4100",), key="desks.total"),)],
        facts=[Fact(key="desks.total", value="4100", where=f"call:{CALL}")],
    )  # fmt: skip
    turn = session.turns[0].model_copy(update={"calls": (CALL,)})
    game = Game(session.model_copy(update={"turns": (turn,)}), chat, roomy())
    for text in turns:
        game.say(text)
    return result(game)


def test_a_result_without_its_call_is_a_claim_against_the_log(chat):
    assert claimed(chat, "total=4100").scope_errors == 1
    assert claimed(chat, "total=5").scope_errors == 1
    assert claimed(chat, CALL, "total=4100").scope_errors == 0
    assert claimed(chat, CALL, "total=5").scope_errors == 0, "wrong, and not a claim of a deed"
    assert claimed(chat, "total=unknown").scope_errors == 0
    assert claimed(chat, CALL, "total=4100\nas e17 says").scope_errors == 1
    assert claimed(chat, CALL, "total=4100\nas e3 says").scope_errors == 0


def test_empty_and_protocol_replies_are_meta_replies(chat):
    for reply in ("ok", "[host] no call and no answer", "e3", "done", "notes: none"):
        assert claimed(chat, CALL, reply).meta_replies == 1, reply
    for reply in ("total=1", "4100", "I do not know", "total=ok", "okay, it is 4100"):
        assert claimed(chat, CALL, reply).meta_replies == 0, reply
    found = claimed(chat, CALL, "", "{", "total=4100")
    assert (found.meta_replies, found.replies) == (2, 3)


def test_a_call_of_the_frozen_prefix_made_again_is_replayed(chat):
    probe = next(p for seed in range(60) for p in make_probes("procurement", seed, "static", chat) if p.variant == "present")
    episode = Episode.from_probe(probe, get_profile("core@1"), chat)
    again = next(line for text in probe.prefix for line in text.split("\n") if line.startswith("quote "))
    for text in (again, "total=1"):
        episode.step(Sampled(chat.turn_ids(text), text))
    assert score(episode.trajectory("x")).repeated_calls == 1


def test_turns_after_the_first_failed_one_are_diagnostic(chat):
    game = desks(chat)
    for text in (CALL, "total=4100", "total=7", "total=4100", "total=4100"):
        game.say(text)
    found = result(game)
    assert found.diagnostic_turns == 2
    assert found.verdict_tokens == sum(i.tokens_in + len(i.ids) for i in game.episode.inferences[:3])
    assert not found.task_correct
    assert found.tokens > found.verdict_tokens
