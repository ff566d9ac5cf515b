"""What profiles vary: the mapping of the state block, each flag alone, and the two syntaxes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from game import BRIEF, Game, roomy, shop

from envs import compact, hermes
from envs.hermes import spell
from envs.profiles import get_profile, variant

# ---- mappings ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapping", ["A", "B", "C", "D"])
def test_mappings_differ_in_place_and_role_of_the_state_block_alone(chat, mapping):
    game = Game(shop(), chat, roomy(f"unified@3-{mapping}"))
    game.say(spell("window_open", {"title": "Dates", "handoff": "", "checkpoint": "", "expected": "w1"}))
    block = "[state] window w2 Dates, version 1, opened from w1"
    messages = game.view.messages
    where = {
        "A": messages[0].content.endswith("\n" + block),
        "B": messages[-1].role == "user" and messages[-1].content.endswith("\n" + block),
        "C": (messages[-1].role, messages[-1].content) == ("assistant", block),
        "D": messages[0].content.endswith("\n" + block),
    }
    assert where[mapping]
    assert sum(block in m.content for m in messages) == 1
    stripped = [m.content.replace("\n" + block, "").replace(block, "") for m in messages]
    reference = Game(shop(), chat, roomy("unified@3-A"))
    reference.say(spell("window_open", {"title": "Dates", "handoff": "", "checkpoint": "", "expected": "w1"}))
    assert [t for t in stripped if t] == [m.content.replace("\n" + block, "") for m in reference.view.messages]


def test_in_mapping_a_the_header_is_live_and_in_d_frozen(chat):
    for mapping, live in (("A", True), ("B", True), ("C", True), ("D", False)):
        game = Game(shop(), chat, roomy(f"unified@3-{mapping}"))
        game.say(spell("note", {"key": "cap", "value": "9000", "refs": ("e1",), "expected": "w1"}))
        assert ("cap=9000" in game.system) is live, mapping


# ---- flags ----------------------------------------------------------------------------------------------------------------------------


def test_each_safeguard_can_be_taken_out_alone_and_changes_the_protocol_hash():
    flags = ("index", "source_rules", "refuse_empty", "refuse_lossy", "refuse_gainless")
    more = {"conflict_flags": False, "evidence_gate": False, "position_check": False}
    hashes = {get_profile("unified@4").hash}
    for flag, value in {**dict.fromkeys(flags, False), **more}.items():
        changed = variant("unified@4", **{flag: value})
        assert changed.name == f"unified@4[{flag}={value}]"
        hashes.add(changed.hash)
    assert len(hashes) == 9
    with pytest.raises(ValueError, match="unknown flag indx"):
        variant("core@1", indx=False)


def test_without_the_index_the_header_has_none(chat):
    game = Game(shop(), chat, replace(roomy("core@1"), index=False))
    game.say("quote item=desks qty=2")
    game.say(f"fold e2-e3 {BRIEF}")
    assert "out:" not in game.system


def test_without_source_rules_an_unsourced_value_stands(chat):
    game = Game(shop(), chat, replace(roomy("core@1"), source_rules=False))
    assert game.say("note cap=1")[0].text == "ok"


def test_without_text_rules_a_gainless_or_empty_fold_is_accepted(chat):
    game = Game(shop(), chat, replace(roomy("core@1"), refuse_empty=False, refuse_gainless=False))
    game.say("quote item=desks qty=2")
    assert game.codes("fold e2-e3 x") == ["ok"]


def test_without_the_loss_rule_an_open_source_may_go(chat):
    game = Game(shop(), chat, replace(roomy("core@1"), refuse_lossy=False))
    game.say("quote item=desks qty=2")
    game.say("note code=AP-7741 @e3 open")
    assert game.codes(f"fold e2-e3 {BRIEF}") == ["ok"]


# ---- both syntaxes ---------------------------------------------------------------------------------------------------------------------


def test_the_same_calls_in_json_and_compact_lead_to_the_same_state_and_outcomes(chat):
    """Every tool once, legal and refused; only the policy's own words differ."""
    call = {"expected": "w1"}
    script = [
        ("quote", {"item": "desks", "qty": "2"}),
        ("note", {"scope": "public", "key": "code", "value": "AP-7741", "status": "open", "refs": ("e3",), **call}),
        ("note", {"scope": "window", "key": "plan", "value": "desks first", "status": "", "refs": (), **call}),
        ("fold", {"first": 2, "last": 3, "text": BRIEF, "refs": (), **call}),
        ("fold", {"first": 2, "last": 3, "text": BRIEF, "refs": ("e3",), **call}),
        ("read", {"ref": "e3", "last": None, "page": 1}),
        ("find", {"query": "approval code"}),
        ("window_list", {}),
        ("window_open", {"title": "Dates", "handoff": "plan it", "checkpoint": "quoted", **call}),
        ("window_switch", {"id": "w1", "checkpoint": "", "expected": "w2"}),
        ("window_switch", {"id": "w2", "checkpoint": "again", **call}),
        ("window_close", {"outcome": "nothing to plan", "next": "w1", "expected": "w2"}),
        "total=4100",
        (
            "compress",
            {"upto": 15, "text": f"{BRIEF}; {BRIEF}, read again, and nothing was planned for it", "refs": ("e3",), **call},
        ),
        ("compress", {"upto": 99, "text": BRIEF, "refs": (), **call}),
    ]
    games = [Game(shop(), chat, roomy(name)) for name in ("unified@4", "unified@4-compact")]
    for step in script:
        told = []
        for game, syntax in zip(games, (hermes, compact), strict=True):
            if isinstance(step, str):
                text = step
            elif step[0] == "quote" and syntax is compact:
                text = compact.canonical_call(game.episode.session.tools[0], step[1])
            else:
                text = syntax.spell(*step)
            told.append([(o.code, o.text) for o in game.say(text)])
        same = [[(c, t if not t.startswith("! ") else c) for c, t in outcomes] for outcomes in told]
        assert same[0] == same[1], step
    states = [replace(g.episode.state, header="") for g in games]
    assert states[0] == states[1]
    assert [o for g in games for o in g.episode.state.windows["w1"].boundaries]


def test_lean_takes_both_syntaxes_too(chat):
    for syntax, module in (("compact", compact), ("json", hermes)):
        profile = replace(roomy("lean@1"), admission=0, stage_fill=0.0, stage_tokens=100, view_budget=6000, syntax=syntax)
        game = Game(shop(), chat, profile)
        quote = {"item": "desks", "qty": "2"}
        game.say(hermes.spell("quote", quote) if syntax == "json" else "quote item=desks qty=2")
        assert game.codes(module.spell("stage_done", {"outcome": BRIEF, "constraints": ("cap=9000 @e1",)})) == ["ok"]
        assert game.codes(module.spell("recall", {"what": "approval code"})) == ["shown"]
        assert [f.brief for f in game.episode.state.window.folds] == [BRIEF]
        assert [n.key for n in game.episode.state.notes] == ["cap"]


@pytest.mark.parametrize("profile", ["core@1", "unified@4", "unified@4-compact"])
def test_the_alternative_of_a_refusal_can_be_sent_as_it_is(chat, profile):
    """In the policy's syntax, with the window where one is asked for."""
    game = Game(shop(), chat, roomy(profile))
    expected = {"expected": "w1"} if profile != "core@1" else {}

    def spelled(tool, **args):
        if tool == "quote" and profile != "unified@4":
            return compact.canonical_call(game.episode.session.tools[0], args)
        more = expected if tool in ("note", "fold", "compress") else {}
        return (hermes if profile == "unified@4" else compact).spell(tool, {**args, **more})

    game.say(spelled("quote", item="desks", qty="2"))
    game.say(spelled("note", scope="public", key="code", value="AP-7741", status="open", refs=("e3",)))
    for text, code in (
        (spelled("fold", first=2, last=3, text=BRIEF, refs=()), "lost_pinned"),
        (spelled("read", ref="e3", last=None, page=9), "bad_arguments"),
        (spelled("fold", first=3, last=2, text=BRIEF, refs=()), "bad_arguments"),
    ):
        refusal = game.refused(text)
        assert refusal.code == code
        instead = refusal.text.split("; try ")[1]
        sent = f"<tool_call>\n{instead}\n</tool_call>" if profile == "unified@4" else instead
        assert game.say(sent.replace('"brief": "brief"', f'"brief": "{BRIEF}"').replace(" brief", f" {BRIEF}"))[0].code in (
            "ok",
            "shown",
            "range_overlaps_fold",
        ), instead
