"""Nothing but the view reaches the policy: canaries outside the view, and sessions without their ground truth."""

from __future__ import annotations

import re

import pytest
from game import Game, filler, make_session, roomy, text_of

from envs.episode import Episode
from envs.hermes import spell
from envs.policies.base import Sampled
from envs.profiles import get_profile
from envs.tasks import FAMILIES
from envs.tasks.base import Fact, Slot
from envs.trajectory import view_hash

BRIEF = "Norra offer for this item with the price, a code and the usual terms"
CANARY = re.compile(r"zq[a-z]+\d+")


def planted(n_items=5):
    """Canaries in user texts, results, records never asked for, and everywhere in the ground truth."""
    items = [f"i{n}" for n in range(n_items)]
    responses = {
        f"quote item={i} qty=1": f"Item {i}: total {4100 + n}, zqresult{n}. {filler(34, n)}" for n, i in enumerate(items)
    }
    responses["quote item=other qty=1"] = "zqnever1"
    texts = [f"Quote {i}. Note zquser{n}. Answer: total=?" for n, i in enumerate(items)] + ["zqfuture1 Answer: total=?"] * 3
    slots = [(Slot(name="total", accept=("zqaccept1", "4100"), key="zqkey1", stale=("zqstale1",)),) for _ in texts]
    facts = [
        Fact(key="zqfact1", value="zqvalue1", where="turn:0"),
        Fact(key="k", value="zqvalue2", where=f"call:quote item={items[0]} qty=1"),
    ]
    return make_session(texts, responses, slots=slots, facts=facts, tags=("zqtag1",), knobs={"zqknob1": "zqknob2"})


def seen_by_policy(game):
    """All that a policy gets, as text: messages, and the ids decoded."""
    view = game.view
    return "\n".join(m.content for m in view.messages) + text_of(game.chat, view.ids) + " ".join(view.out)


def in_ids(chat, ids, word):
    """Whether some tokenisation-aligned spelling of the word stands in the ids."""
    for spelled in (word, f" {word}"):
        want = list(chat.encode(spelled))
        if any(list(ids[i : i + len(want)]) == want for i in range(len(ids) - len(want) + 1)):
            return True
    return False


def absent(game, *words):
    text = seen_by_policy(game)
    for word in words:
        assert word.encode() not in text.encode(), f"{word} reached the policy"
        assert not in_ids(game.chat, game.view.ids, word)


def test_ground_truth_and_what_was_never_asked_never_reach_the_policy(chat):
    game = Game(planted(), chat, roomy())
    for turn in range(5):
        game.say(f"quote item=i{turn} qty=1")
        assert f"zqresult{turn}" in seen_by_policy(game)
        words = set(CANARY.findall(seen_by_policy(game)))
        assert words <= {f"zq{kind}{n}" for kind in ("user", "result") for n in range(turn + 1)}
        game.say("total=4100")


def test_folded_text_is_out_of_view_to_the_byte(chat):
    game = Game(planted(), chat, roomy())
    game.say("quote item=i0 qty=1")
    assert in_ids(chat, game.view.ids, "zqresult0")
    game.say(f"fold e2-e3 {BRIEF} @e3")
    absent(game, "zqresult0")
    game.say("total=4100")
    absent(game, "zqresult0")
    game.say("read e3")
    assert "zqresult0" in seen_by_policy(game), "only a read-back brings it back"
    game.say("total=4100")
    game.say("note cap=1")
    game.say("note cap=2")
    absent(game, "zqresult0")


def test_compressed_text_and_user_messages_are_out_of_view(chat):
    game = Game(planted(), chat, roomy())
    for n in range(2):
        game.say(f"quote item=i{n} qty=1")
        game.say("total=4100")
    summary = f"{BRIEF}, and the second item likewise with its total, packaging and return terms"
    assert game.codes(f"compress e8 {summary}") == ["ok"]
    absent(game, "zquser0", "zqresult0", "zquser1", "zqresult1")
    assert "zquser2" in seen_by_policy(game)


def test_cleared_results_are_out_of_view(chat):
    game = Game(planted(), chat, roomy())
    n = 0
    while "cleared" not in game.body:
        game.say(f"quote item=i{n} qty=1")
        if "cleared" not in game.body:
            game.say("total=4100")
        n += 1
    gone = {int(e.text.removeprefix("[host] cleared e")) for e in game.episode.log if e.name == "clear"}
    assert gone
    for event in [e for e in game.episode.log if e.role == "tool"]:
        canary = CANARY.findall(event.text)[0]
        if event.seq in gone:
            absent(game, canary)
        else:
            assert canary in seen_by_policy(game)


def test_superseded_and_dropped_notes_are_out_of_view(chat):
    game = Game(planted(), chat, roomy())
    game.say("note a=zqnote1", "note a=zqnote2")
    absent(game, "zqnote1")
    assert "zqnote2" in seen_by_policy(game)
    game.say("note a=zqnote2 @e1 old", *(f"note k{i}=1" for i in range(7)))
    game.say("note k7=1")
    assert "a" not in {n.key for n in game.episode.state.notes}
    game.say("note k7=2")
    absent(game, "zqnote2")


def with_canaries(session):
    """A generated session with a canary in every user text and every result, and in all of its ground truth."""
    turns = tuple(
        t.model_copy(
            update={
                "text": t.text.replace(" Answer:", f" Ref zquser{n}. Answer:"),
                "slots": tuple(s.model_copy(update={"key": f"zqkey{n}"}) for s in t.slots),
                "calls": ("zqcall1",),
                "question": "zqquestion1",
            }
        )
        for n, t in enumerate(session.turns)
    )
    responses = {call: f"{text} Ref zqresult{n}." for n, (call, text) in enumerate(session.responses.items())}
    facts = tuple(f.model_copy(update={"key": "zqfact1"}) for f in session.facts)
    return session.model_copy(
        update={"turns": turns, "responses": responses, "facts": facts, "tags": ("zqtag1",), "knobs": {"a": "zqknob1"}}
    )


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_over_whole_expert_sessions_every_canary_in_a_view_belongs_to_an_event_shown_in_it(chat, family):
    from envs.episode import play
    from envs.policies.expert import Expert

    episodes = [Episode(with_canaries(FAMILIES[family].generate(seed)), get_profile("core@1"), chat) for seed in range(100, 106)]
    play(episodes, Expert(chat))
    hidden_somewhere = 0
    for episode in episodes:
        assert episode.reason == "answered"
        canary = {e.seq: CANARY.findall(e.text) for e in episode.log if not e.sub}
        read: set[int] = set()
        for inference, view in zip(episode.inferences, episode.trajectory("expert").views(), strict=True):
            text = "\n".join([*(m.content for m in view), *inference.out])
            allowed = {c for seq in [*inference.visible, *read] for c in canary[seq]}
            assert set(CANARY.findall(text)) <= allowed
            hidden_somewhere += bool(inference.out)
            read |= {s for o in inference.outcomes for s in o.shows}
    assert hidden_somewhere


def test_views_and_logs_are_byte_equal_without_ground_truth(chat, expert_episodes):
    for played in expert_episodes[::4]:
        bare = played.session.stripped()
        assert not bare.facts
        assert not bare.tags
        assert not bare.knobs
        assert not any(t.slots or t.calls for t in bare.turns)
        again = Episode(bare, played.profile, chat)
        for inference in played.inferences:
            view = again.view()
            assert view_hash(view.ids) == inference.hash
            again.step(Sampled(tuple(inference.ids), inference.text, inference.cut))
        assert again.reason == played.reason == "answered"
        assert again.log.digest() == played.log.digest()
        assert again.state == played.state
        assert [(i.hash, i.outcomes, i.out) for i in again.inferences] == [(i.hash, i.outcomes, i.out) for i in played.inferences]


def test_probes_are_byte_equal_without_ground_truth(chat, probes):
    core = get_profile("core@1")
    for _, group in probes[::3]:
        for probe in group:
            bare = probe.model_copy(
                update={
                    "session": probe.session.stripped(),
                    "damaged_key": "",
                    "variant": "present",
                    "signal": "none",
                    "wrong_note": False,
                }
            )
            a, b = Episode.from_probe(probe, core, chat), Episode.from_probe(bare, core, chat)
            assert a.view().ids == b.view().ids
            assert a.view().messages == b.view().messages
            assert a.log.digest() == b.log.digest()


@pytest.mark.parametrize("profile", ["unified@4-compact", "unified@1"])
def test_what_another_window_holds_never_reaches_the_policy(chat, profile):
    """Result, own turns and window memory of the window left; only the Run's user message comes along."""
    game = Game(planted(), chat, roomy(profile))
    json = profile == "unified@1"
    call = spell("quote", {"item": "i0", "qty": "1"}) if json else "quote item=i0 qty=1"
    note = {"key": "k", "value": "zqmine1", "refs": (), "scope": "window"}
    opened = {"title": "b", "handoff": "", "checkpoint": "zqchecked1"}
    game.say(call)
    assert "zqresult0" in seen_by_policy(game)
    game.say(spell("note", note) if json else "w1 local k=zqmine1")
    game.say(spell("window_open", opened) if json else 'w1 window_open title="b" checkpoint="zqchecked1"')
    absent(game, "zqresult0", "zqmine1", "zqchecked1")
    assert "zquser0" in seen_by_policy(game)


@pytest.mark.parametrize("profile", ["unified@1", "unified@3-C", "unified@4", "unified@4-compact", "lean@1"])
def test_a_probe_is_replayed_under_every_profile(chat, profile):
    """The same prefix, spelled for the profile; what is asked comes last."""
    from envs.tasks.probes import make_probes

    probes = next(filter(None, (make_probes("procurement", seed, "static", chat) for seed in range(9))))
    for probe in probes:
        episode = Episode.from_probe(probe, get_profile(profile), chat)
        reference = Episode.from_probe(probe, get_profile("core@1"), chat)
        assert not [e for e in episode.log if e.text.startswith("! ")]
        assert [e.text for e in episode.log if e.role in ("user", "tool")] == [
            e.text for e in reference.log if e.role in ("user", "tool")
        ]
        if profile != "lean@1":
            assert [f.brief for f in episode.state.window.folds] == [f.brief for f in reference.state.window.folds]
