"""The compact grammar of core@1, each form from a turn's raw text through ``Episode.step``."""

from __future__ import annotations

import pytest
from game import Game, shop

BRIEF = "Norra offer for two desks with the total, the approval code and terms"


@pytest.fixture
def game(chat):
    """e1 user, e2 call, e3 result, e4 answer, e5 user."""
    game = Game(shop(), chat)
    game.say("quote item=desks qty=2")
    game.say("total=4100")
    return game


CALLS = [
    ("note cap=9000", "note", {"key": "cap", "value": "9000", "refs": (), "status": ""}),
    ("note cap=9000 @e1", "note", {"key": "cap", "value": "9000", "refs": ("e1",), "status": ""}),
    ("note cap=9000 @e1,e3", "note", {"key": "cap", "value": "9000", "refs": ("e1", "e3"), "status": ""}),
    ("note cap=9000 @e1,e1", "note", {"key": "cap", "value": "9000", "refs": ("e1",), "status": ""}),
    ("note cap=9000 @e1 old", "note", {"key": "cap", "value": "9000", "refs": ("e1",), "status": "old"}),
    ("note cap=9000 @e1 open", "note", {"key": "cap", "value": "9000", "refs": ("e1",), "status": "open"}),
    ("note cap=9000 open", "note", {"key": "cap", "value": "9000 open", "refs": (), "status": ""}),
    ("note a.b_2=x = y @ home", "note", {"key": "a.b_2", "value": "x = y @ home", "refs": (), "status": ""}),
    ("note " + "k" * 40 + "=1", "note", {"key": "k" * 40, "value": "1", "refs": (), "status": ""}),
    ("note who=林舟 @e1", "note", {"key": "who", "value": "林舟", "refs": ("e1",), "status": ""}),
    (f"fold e2-e3 {BRIEF}", "fold", {"first": 2, "last": 3, "text": BRIEF, "refs": ()}),
    (f"fold e2-e3 {BRIEF} @e3", "fold", {"first": 2, "last": 3, "text": BRIEF, "refs": ("e3",)}),
    (f"fold e2-e3 {BRIEF} @e2,e3", "fold", {"first": 2, "last": 3, "text": BRIEF, "refs": ("e2", "e3")}),
    (f"compress e4 {BRIEF}", "compress", {"upto": 4, "text": BRIEF, "refs": ()}),
    (f"compress e4 {BRIEF} @e3", "compress", {"upto": 4, "text": BRIEF, "refs": ("e3",)}),
    ("read e3", "read", {"ref": "e3", "last": None, "page": 1}),
    ("read e3 p1", "read", {"ref": "e3", "last": None, "page": 1}),
    ("read e2-e3", "read", {"ref": "e2", "last": 3, "page": 1}),
    ("read e2-e3 p1", "read", {"ref": "e2", "last": 3, "page": 1}),
    ("find approval code", "find", {"query": "approval code"}),
    ("quote item=chairs qty=3", "quote", {"item": "chairs", "qty": "3"}),
    ("quote qty=3 item=chairs", "quote", {"item": "chairs", "qty": "3"}),
    ('quote item="two chairs" qty="3"', "quote", {"item": "two chairs", "qty": "3"}),
    (r'quote item="a \"b\" \u6f22 \\" qty=3', "quote", {"item": 'a "b" 漢 \\', "qty": "3"}),
    ("quote   item=chairs    qty=3", "quote", {"item": "chairs", "qty": "3"}),
    ("quote item=a=b qty=3", "quote", {"item": "a=b", "qty": "3"}),
    ('quote item=ab"c qty=3', "quote", {"item": 'ab"c', "qty": "3"}),
    ('quote item="" qty=3', "quote", {"item": "", "qty": "3"}),
    ("  read e3  ", "read", {"ref": "e3", "last": None, "page": 1}),
    ("\r\nread e3\r\n", "read", {"ref": "e3", "last": None, "page": 1}),
]


@pytest.mark.parametrize(("text", "tool", "args"), CALLS)
def test_a_well_formed_call_is_understood_and_carried_out(game, text, tool, args):
    outcomes = game.say(text)
    stored = {k: list(v) if isinstance(v, tuple) else v for k, v in args.items()}
    assert [(o.tool, o.args) for o in outcomes] == [(tool, stored)]
    assert outcomes[0].code in ("ok", "shown", "result")
    assert game.episode.inferences[-1].kind == "calls"


MISFITS = [
    "note", "note cap", "note =9000", "note cap=", "note cap= ", "note cap= 9000", "note Cap=9000", "note cap =9000",
    "note " + "k" * 41 + "=1", "note ca-p=1", "note  cap=1", "note cap= @e1", "note кап=1", "note\tcap=9000",
    "fold", "fold e2-e3", "fold e2-e3 ", "fold e2 brief of it", "fold 2-3 brief of it", "fold e2-3 brief of it", "fold e2 - e3 brief",
    "fold e0-e3 brief of it", "fold e03-e4 brief of it", "fold f1-f2 brief of it", "fold e2-e3-e4 brief of it", "fold e2..e3 brief",
    "fold E2-E3 brief of it", "fold e1234567-e1234568 brief of it", "fold e3-e2 " + BRIEF,
    "compress", "compress e4", "compress 4 summary of it", "compress e0 summary of it", "compress e2-e4 summary", "compress f1 summary",
    "compress c1 summary", "compress -e4 summary",
    "read", "read 3", "read e", "read e0", "read e3.1", "read e3 e4", "read e3 p0", "read e3 p", "read e3 1", "read e3-f1", "read f1-e3",
    "read e3-", "read e3p1", "read e3 p99999", "read x3", "read e3,e4", "read  e3", "read e4-e3", "read e3 p2", "read all",
    "read @e3", "read E3", "read e٣", "read\te3", "read e3-e4 p9",
    "find", "find ", "find\t",
    "quote", "quote item", "quote item=chairs", "quote qty=3", "quote item= qty=3", "quote item=chairs qty=3 color=red",
    "quote item=chairs qty=3 item=desks", 'quote item="chairs qty=3', 'quote item="chairs"qty=3', "quote item=chairs, qty=3 x",
    "quote chairs 3", 'quote item="\\x" qty=3', 'quote item="a\tb" qty=3', "quote Item=chairs qty=3", "quote item==", "quote(item=chairs)".replace("(", " ("),
    'quote item="\\ud800" qty=3', "revise", "revise desks", "revise item=\"",
]  # fmt: skip


@pytest.mark.parametrize("text", MISFITS)
def test_a_misfit_of_a_known_tool_is_bad_arguments(game, text):
    refusal = game.refused(text)
    assert refusal.code == "bad_arguments"
    assert refusal.tool == text.split()[0]


UNKNOWN = [
    "window_open title", "window_list", "window_close done", "memory_write public cap 9000", "read_raw e3", "search_raw code",
    "window_switch w1", "order item=chairs qty=3", "frob x=", "delete_all now=1",
]  # fmt: skip


@pytest.mark.parametrize("text", UNKNOWN)
def test_a_tool_that_the_profile_lacks_is_unknown(game, text):
    refusal = game.refused(text)
    assert refusal.code == "unknown_tool"
    for name in ("note", "fold", "compress", "read", "find", "quote", "revise"):
        assert name in refusal.text.split("; try ")[1]


@pytest.mark.parametrize("text", ["note cap=9000 @e1", "fold e2-e3 brief", "read e3", "find code", "compress e3 all of it"])
def test_plain_history_has_no_context_tools(chat, text):
    game = Game(shop(), chat, "plain@1")
    refusal = game.refused(text)
    assert refusal.code == "unknown_tool"
    assert "note" not in refusal.text.split("; try ")[1]


NOTICES = [
    "",
    " ",
    "\n \n\t",
    '{"tool": "read"}',
    "  {",
    "<tool_call>\n{}\n</tool_call>",
    "<",
    "\n<b>total=5</b>",
    "{read e3}\nread e3",
]


@pytest.mark.parametrize("text", NOTICES)
def test_nothing_usable_is_answered_by_a_host_notice(game, text):
    state, turn = game.episode.state, game.episode.turn
    outcomes = game.say(text)
    assert [(o.tool, o.code) for o in outcomes] == [("", "notice")]
    assert game.last == "[host] no call and no answer"
    assert game.episode.inferences[-1].kind == "notice"
    assert (game.episode.state, game.episode.turn) == (state, turn)
    assert game.view.messages[-1].role == "user"


@pytest.mark.parametrize("text", ["total=4100", "note cap=9000 @e1", "read e3", "quote item=chairs qty=3", "word"])
def test_a_turn_cut_by_the_cap_is_neither_call_nor_answer(game, text):
    turn, state = game.episode.turn, game.episode.state
    assert [o.code for o in game.say(text, cut=True)] == ["notice"]
    assert (game.episode.turn, game.episode.state) == (turn, state)
    assert game.last == "[host] no call and no answer"
    assert game.view.messages[-2].content == text, "what was sampled stays in view as it was"


ANSWERS = [
    "total=4100", "over=yes; by=500", "over=yes\nby=500", "unknown", "I do not know.", "Note cap=9000", "NOTE cap=9000 @e1",
    "notes cap", "please read e3", "- read e3", "`read e3`", "readE3", "ok", "! bad_arguments: x; try read e3", "[e3 quote] text",
    "note: cap 9000", "Order item=chairs", "total = 4100", "total=4100 name=x", "quotes", "👍", "\x00", "fold, then", "find: code",
]  # fmt: skip


@pytest.mark.parametrize("text", ANSWERS)
def test_a_turn_without_a_call_line_is_the_answer(game, text):
    assert game.say(text) == []
    assert game.episode.inferences[-1].kind == "answer"
    assert game.episode.replies[1] == text.strip()
    assert game.episode.turn == 2


def test_remarks_beside_calls_are_kept_in_view_and_do_nothing(game):
    text = "I will look it up.\nread e3\ntotal=4100\n\nThat should do."
    outcomes = game.say(text)
    assert [o.tool for o in outcomes] == ["read"]
    assert game.episode.turn == 1
    assert 1 not in game.episode.replies, "a turn with calls is never the answer"
    assert game.view.messages[-2].content == text


def test_one_line_per_call_in_order_on_the_updated_state(game):
    outcomes = game.say(
        "note cap=9000 @e1", "note cap=9000 @e1", "quote item=chairs qty=3", "read e99", "find approval", "note sum=4100 @e3 open"
    )
    assert [(o.tool, o.code) for o in outcomes] == [
        ("note", "ok"), ("note", "no_gain"), ("quote", "result"), ("read", "unknown_ref"), ("find", "shown"), ("note", "ok"),
    ]  # fmt: skip
    lines = game.last.split("\n")
    assert lines[0] == "ok"
    assert lines[1].startswith("! no_gain: ")
    assert lines[2].startswith("[e7 quote] Norra Office offers 3 chairs.")
    assert lines[3].startswith("! unknown_ref: ")
    assert lines[4].startswith("[e3] ")
    assert lines[-1] == "ok"
    assert [n.key for n in game.episode.state.notes] == ["cap", "sum"]
    assert game.episode.state.version == 2


def test_outcomes_that_are_not_results_get_a_number_under_their_turn_and_cannot_be_cited(game):
    game.say("note cap=9000 @e1", "quote item=chairs qty=3", "read e99")
    mine = [(e.ref, e.name) for e in game.episode.log if e.turn == 6]
    assert mine == [("e6.1", "ok"), ("e7", "quote"), ("e6.2", "unknown_ref")]
    assert game.refused("read e6.1").code == "bad_arguments"


def test_a_business_call_the_world_does_not_know_gives_the_tools_own_text(game):
    assert game.say("quote item=dragons qty=1")[0].text == "No offer."
    assert game.last == "[e7 quote] No offer."


def test_arguments_in_any_order_and_quoting_reach_the_same_record(game):
    texts = {
        game.say(line)[0].text for line in ("quote item=chairs qty=3", "quote qty=3 item=chairs", 'quote qty="3" item="chairs"')
    }
    assert len(texts) == 1
    assert "3 chairs" in texts.pop()


def test_the_contract_names_every_tool_once(game):
    lines = game.system.split("\n")
    assert lines[1] == "note key=value @e3 | fold e2-e5 brief @e3 | compress e9 summary | read e3 | find words"
    assert lines[2] == "quote item qty | revise item"
    plain = Game(shop(), game.chat, "plain@1")
    assert plain.system.split("\n") == [lines[0], lines[2]]
    assert plain.view.messages[1].content == plain.episode.session.turns[0].text, "plain history carries no tags"
