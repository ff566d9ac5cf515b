"""Probes damage what they name and nothing else; sessions are reproducible, distinct and true."""

from __future__ import annotations

import pytest
from game import Game, make_session

from envs.episode import Episode
from envs.ledger import check_ledger
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.scoring import normal_form
from envs.tasks import FAMILIES, HELD_OUT_FAMILIES, SPECS, TRAIN_FAMILIES
from envs.tasks.base import ToolSpec, content_hash, split_of
from envs.tasks.engine import Knobs
from envs.text import holds

CORE = get_profile("core@1")


# ---- probes ------------------------------------------------------------------------------------------------------------------------------------


def test_siblings_differ_by_the_injection_alone(chat, probes):
    for kind, group in probes:
        if kind.startswith("never"):
            assert [p.variant for p in group] == ["never_stated"]
            assert group[0].injection.brief == group[0].injection.note == {}
            continue
        present, damaged = group
        assert present.variant == "present"
        assert damaged.variant == ("superseded" if kind == "changed" else "missing")
        assert present.twin == damaged.twin == present.id
        for name in ("session", "prefix", "start", "base", "family", "hint"):
            assert getattr(present, name) == getattr(damaged, name)
        a, b = (Episode.from_probe(p, CORE, chat) for p in group)
        assert a.log.digest() == b.log.digest()
        one, two = a.view().messages, b.view().messages
        assert [m.role for m in one] == [m.role for m in two]
        changed = 0
        for m, n in zip(one, two, strict=True):
            if m == n:
                continue
            old, new = m.content.split("\n"), n.content.split("\n")
            touched = set(damaged.injection.brief) | set(damaged.injection.note)
            for line in (*old, *new):
                if not (line in old and line in new):
                    changed += 1
                    assert any(line.startswith((f"[{t} ", f"{t}=")) or line in ("notes:", "notes: none") for t in touched), line
        assert changed
        assert a.view().out == b.view().out, "the index is never damaged"


def test_what_a_probe_damages_is_out_of_view_and_the_log_still_states_it(chat, probes):
    for _, group in probes:
        for probe in group:
            episode = Episode.from_probe(probe, CORE, chat)
            view = normal_form("\n".join(m.content for m in episode.view().messages))
            log = normal_form("\n".join(e.text for e in episode.log if e.role in ("user", "tool")))
            slot = probe.session.turns[probe.start].slots[0]
            in_view = any(holds(view, normal_form(a)) for a in slot.accept)
            if probe.variant == "present":
                assert in_view
            elif probe.variant == "never_stated":
                assert slot.never
                assert slot.accept == ("unknown",)
            else:
                assert not in_view, probe.id
                assert normal_form(slot.accept[0]) in log
                assert probe.damaged_key == slot.key
                evidence = episode.ledger.evidence(slot.key)
                hidden = {n for e in episode.view().out for n in events(e)}
                assert set(evidence) <= hidden, "the index lists where it is"
            if probe.variant == "superseded":
                assert any(normal_form(s) in view for s in slot.stale)
                assert probe.signal == "index"
            assert episode.turn == probe.start == len(probe.session.turns) - 1


def events(entry):
    first, _, last = entry.split(" ", 1)[0].partition("-")
    return range(int(first[1:]), int((last or first)[1:]) + 1)


def test_probes_are_reproducible_and_survive_json(chat, probes):
    from envs.tasks.base import Probe
    from envs.tasks.probes import make_probes

    kind, group = probes[0]
    assert group in [make_probes(group[0].family, seed, kind, chat) for seed in range(6)]
    for probe in group:
        assert Probe.model_validate_json(probe.model_dump_json()) == probe
    ids = [p.id for _, g in probes for p in g]
    assert len(ids) == len(set(ids))


def test_an_injection_into_what_does_not_stand_is_refused(chat, probes):
    probe = probes[0][1][0]
    with pytest.raises(ValueError, match="f99, which do not stand"):
        Episode.from_probe(
            probe.model_copy(update={"injection": probe.injection.model_copy(update={"brief": {"f99": "x"}})}), CORE, chat
        )
    with pytest.raises(ValueError, match="its prefix ends in turn"):
        Episode.from_probe(probe.model_copy(update={"prefix": probe.prefix[:1]}), CORE, chat)


# ---- sessions ----------------------------------------------------------------------------------------------------------------------------------------


def test_sessions_are_reproducible_distinct_and_true(chat, expert_episodes):
    for e in expert_episodes:
        assert check_ledger(e.session, e.log, e.ledger) == []
        assert FAMILIES[e.session.family].generate(e.session.seed) == e.session
        assert e.session.id == f"{e.session.family}-{content_hash(e.session.model_copy(update={'id': ''}), 10)}"
        for turn in e.session.turns:
            names = [s.name for s in turn.slots]
            assert turn.text.endswith("Answer: " + " ".join(f"{n}=?" for n in names))
            assert 1 <= len(names) <= 8
            assert len(set(names)) == len(names)
    assert len({e.session.id for e in expert_episodes}) == len(expert_episodes)
    assert set(TRAIN_FAMILIES) | set(HELD_OUT_FAMILIES) == set(FAMILIES) == set(SPECS)
    assert not set(TRAIN_FAMILIES) & set(HELD_OUT_FAMILIES)


def test_the_split_is_by_content_and_about_one_in_five():
    sessions = [FAMILIES[f].generate(seed) for f in TRAIN_FAMILIES for seed in range(200)]
    share = sum(split_of(s) == "val" for s in sessions) / len(sessions)
    assert 0.14 < share < 0.26
    for s in sessions[:20]:
        assert split_of(s) == split_of(s.model_copy(update={"seed": 999_999, "id": "renamed"}))


def test_every_constraint_that_a_session_changes_has_one_value_in_force(expert_episodes):
    asked = 0
    for e in expert_episodes:
        for turn in e.session.turns:
            for slot in turn.slots:
                if slot.constraint and slot.source != "derived":
                    assert not set(slot.accept) & set(slot.stale)
                    asked += bool(slot.stale)
    assert asked > 3


@pytest.mark.parametrize("bad", [{"turns": (0, 3)}, {"turns": (5, 2)}, {"fillers": (-1, 2)}, {"close": 1.5}, {"ask": -0.1}])
def test_knobs_name_what_is_wrong(bad):
    with pytest.raises(ValueError, match=f"knob {next(iter(bad))}"):
        FAMILIES["support"].generate(1, Knobs(**bad))


def test_an_unknown_family_and_tools_that_no_family_has_are_told(chat):
    from envs.tasks import get_family

    with pytest.raises(ValueError, match="procurement, support, scheduling"):
        get_family("gardening")
    game = Game(make_session(["Hello. Answer: a=?"], {}, tools=(ToolSpec(name="dig", args=("where",)),)), chat)
    with pytest.raises(ValueError, match="no family known"):
        Expert(chat).act([game.view])
