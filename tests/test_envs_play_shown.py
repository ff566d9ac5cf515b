"""``python -m envs play``: what the player is shown, and what stays hidden. Every test plays."""

from __future__ import annotations

import re

import pytest
from game import filler, make_session, shop
from playing import BRIEF, QUOTE, games, hand, run_fixture, save_fixture, typed  # noqa: F401  (two are fixtures)

from envs import hermes
from envs.episode import PARSE, Episode, play
from envs.play_text import CLIP, news, outcome_lines, reasons, tool_lines, view_lines
from envs.policies.base import Sampled
from envs.policies.expert import Expert
from envs.profiles import PROFILES, get_profile, variant
from envs.runs import append_jsonl
from envs.tasks.base import Fact, Injection, Probe, Slot
from envs.tasks.probes import make_probes


def test_a_rejection_is_shown_with_its_reason_and_remarks_are_named(run, save):
    result = run("--seed", 3, text=typed("fold e2-e3 much too early\nlet me see", "quote item=tables") + ".\n")
    assert "← fold refused: ! unknown_ref: no e3" in result.output
    assert "← no call, nothing is done with it: let me see" in result.output
    assert "← quote refused: ! bad_arguments: qty missing; try quote item=" in result.output
    assert "← the turn: [host] no call and no answer" in result.output
    assert [o.code for i in games(save)[0].inferences for o in i.outcomes] == ["unknown_ref", "bad_arguments", "notice"]


def planted():
    """A probe with marks in all that is out of view when the player takes over: result, old brief, control turn, truth, future."""
    session = make_session(
        ["Quote desks zquser0. Answer: total=?", "Ask zquser1. Answer: total=?", "Later zqfuture0. Answer: total=?"],
        {"quote item=desks qty=2": f"Norra zqresult0. The total is 4100. {filler(24)}", "revise item=desks": "zqresult1"},
        slots=[(Slot(name="total", accept=("zqaccept0",), key="zqkey1", stale=("zqstale0",)),)] * 3,
        facts=[Fact(key="zqkey1", value="zqvalue0", where="turn:0")],
        tags=("zqtag0",),
        knobs={"zqknob0": 1},
    )
    prefix = (QUOTE, f"fold e2-e3 {BRIEF} zqbrief0 @e3\nnote gone=zqnote0 @e1\nnote held=zqnote1 @e1", "total=4100")
    injection = Injection(brief={"f1": BRIEF}, note={"gone": None, "held": ("zqwrong0", 1)})
    return Probe(
        id="zqbase0.0/missing", base="base-0", family="procurement", variant="missing", signal="asked", session=session, prefix=prefix,
        start=1, injection=injection, damaged_key="zqkey0",
    )  # fmt: skip


def test_reveal_shows_what_the_view_lacks_and_without_it_no_byte_of_it_is_printed(run, save, tmp_path):
    path = tmp_path / "probes.jsonl"
    append_jsonl(path, planted())
    looks = "/view\n/state\n/log\n/tools\n/help\n/example\n"
    hidden = run(path, text=f"{looks}note a=1\n\n{looks}/undo\nnote b=2\n\n{looks}")
    assert hidden.exit_code == 0, hidden.output
    assert set(re.findall(r"zq\w+", hidden.output)) == {"zquser0", "zquser1", "zqwrong0"}
    assert "missing" not in hidden.output
    assert "e3 quote  (out of view: f1)\n" in hidden.output
    assert "a probe of base-0" in hidden.output
    answered = run(path, text=f"total=1\n\ntotal=zqstale0\n\n{looks}")
    assert "ended: answered" in answered.output
    assert set(re.findall(r"zq\w+", answered.output)) == {"zquser0", "zquser1", "zqwrong0", "zqfuture0", "zqstale0"}
    open_ = run(path, "--reveal", text=looks)
    assert {"zqresult0", "zqbrief0", "zqnote0", "zqnote1"} <= set(re.findall(r"zq\w+", open_.output))
    assert not re.search("zqfuture|zqtag|zqknob|zqresult1", open_.output), "what nobody asked for is not in the log"
    assert "e3 quote (f1): Norra zqresult0. The total is 4100." in open_.output
    assert f"damaged f1 e2-e3: {BRIEF} zqbrief0 @e3" in open_.output
    assert f"now f1: {BRIEF}\n" in open_.output
    assert "damaged note gone=zqnote0 @e1 candidate  now gone" in open_.output
    assert "damaged note held=zqnote1 @e1 candidate  now held=zqwrong0 @e1\n" in open_.output
    later = run(path, text="/reveal\n/reveal\n/log\nx=1\n\n")
    assert "damaged f1" in later.output
    assert later.output.count("zqresult0") == 1, "switched off again, the log hides it"
    assert [g.policy for g in games(save)] == ["human+example+undo", "human", "human+reveal"]


def test_the_events_told_to_be_in_view_are_those_of_the_view(chat, expert_episodes, probes):
    for episode in expert_episodes[::5]:
        again = Episode(episode.session, episode.profile, chat)
        for inference in episode.inferences:
            view = again.view()
            told = reasons(again, view.messages)
            assert {e.seq for e, why in told if not e.sub and not why} == set(view.visible)
            again.step(Sampled(tuple(inference.ids), inference.text))
    for _, group in probes[::4]:
        episode = Episode.from_probe(group[-1], get_profile("core@1"), chat)
        told = reasons(episode, episode.view().messages)
        assert {e.seq for e, why in told if not e.sub and not why} == set(episode.view().visible)


def test_a_result_that_lands_in_a_window_just_left_is_not_printed(chat):
    session = make_session(["Quote. Answer: total=?"] * 2, {QUOTE: "Norra zqresult0. Total 4100."})
    lines = (QUOTE, 'w1 local k=zqmine @e1\nw1 window_open title="b" checkpoint="zqleft"', "", "/view", "/state", "/log")
    lines = tuple(part for line in lines for part in line.split("\n"))
    _, text = hand(chat, session, *lines, profile="unified@4-compact")
    assert "← quote: result e3" in text
    assert "← window_open: ok w2 open" in text
    assert "zqresult0" not in text
    assert "zqleft" not in text
    _, text = hand(chat, session, *lines, profile="unified@4-compact", reveal=True)
    assert "e3 quote (w1): Norra zqresult0. Total 4100." in text
    assert "w1 checkpoint: zqleft" in text
    assert "w1 note: k=zqmine @e1" in text


def test_only_what_is_new_is_printed_unless_all_is_wanted(run):
    text = typed("quote item=tables qty=42", "code=PA-4558")
    brief, whole = run("--seed", 3, text=text).output, run("--seed", 3, "--whole", text=text).output
    again = run("--seed", 3, text=text + "/view\n").output
    assert "… 6 lines as before" in brief
    assert "as before" not in whole
    assert whole.count("budget cap of 2058") == 3
    assert brief.count("budget cap of 2058") == 1
    assert again.count("budget cap of 2058") == 2
    assert brief.count("code=PA-4558") == 1, "the player's own turn is echoed once"


def test_news_keeps_the_order_and_leaves_out_what_was_typed(chat):
    game = Episode(shop(2), get_profile("core@1"), chat)
    first = view_lines(game.view().messages)
    game.step(Sampled(chat.turn_ids(QUOTE), QUOTE))
    second = view_lines(game.view().messages)
    fresh = [line for line in second if line not in first]
    assert news(first, second)[1:] == fresh
    assert news(first, second, [("own", f"A│ {QUOTE}")])[1:] == fresh[1:]
    assert news(second, second) == [("dim", f"… {len(second)} lines as before")]
    assert news(second, first)[-1] == ("dim", "… 2 lines gone")


def test_the_verdict_says_what_was_wrong_and_only_revealed_what_is_right(run, save):
    turns = typed("quote item=tables qty=42", "code=AP-1111", "delivery=unknown", "cap=2058")
    result = run("--seed", 3, "--turns", 3, text=turns)
    assert "✗ code: wrong: a value that stood in no view" in result.output
    assert "✗ delivery: not answered (unknown)" in result.output
    assert "✗ cap: wrong: a value that is no longer in force" in result.output
    assert "0 of 3 slots right in 3 user turns" in result.output
    assert "right is" not in result.output
    assert "user turn 1 of" not in result.output
    shown = run("--seed", 3, "--turns", 3, "--reveal", text=turns)
    assert "right is PA-4558, stated in e3" in shown.output
    assert "user turn 1 of 3" in shown.output
    assert [g.policy for g in games(save)] == ["human", "human+reveal"]


def test_a_damaged_probe_is_scored_at_its_end(chat, run):
    seed = next(s for s in range(9) if make_probes("procurement", s, "static", chat))
    probe = make_probes("procurement", seed, "static", chat)[-1]
    episode = Episode.from_probe(probe, get_profile("core@1"), chat)
    play([episode], Expert(chat))
    turns = typed(*(i.text for i in episode.inferences))
    result = run("--probe", "static", "--seed", seed, text=turns)
    assert f"a probe of {probe.base}, " in result.output
    assert "damaged probe (missing): recovered; reached: accessible" in result.output
    twin = run("--probe", "static", "--seed", seed, "--undamaged", text="total=1\n\n")
    assert "probe without damage (present)" in twin.output
    plain = run("--probe", "static", "--seed", seed, "--profile", "plain@1", "--reveal")
    assert "has no folds, so nothing is damaged" in plain.output


@pytest.mark.parametrize("rules", [*PROFILES.values(), variant("core@1", compress_by="agent"), variant("unified@4", compress_by="agent")],
                         ids=lambda p: p.name)  # fmt: skip
def test_every_example_of_the_contract_is_a_call(rules):
    tools = shop(1).tools
    lines = [text for style, text in tool_lines(rules, tools) if style == "own"][:-1]
    text = "\n".join(lines).replace("…", "x")
    parsed = PARSE[rules.syntax](text, False, rules, tools)
    assert parsed.remarks == ()
    assert [c for c in parsed.calls if c.code] == []
    names = {c.tool for c in parsed.calls}
    assert names == (set(rules.tools) | {t.name for t in tools}) - {"local"}


def test_control_characters_do_not_reach_the_terminal(chat):
    session = make_session(["Quote \x1b[31mred\x07\r. Answer: total=?"], {QUOTE: "a\x9b2Jb\tc"})
    _, text = hand(chat, session, QUOTE, "", "/log", "/view", reveal=True)
    assert r"Quote \x1b[31mred\x07\x0d." in text
    assert "a\\x9b2Jb\tc" in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)


def test_long_outcomes_and_texts_are_clipped_on_one_line(chat):
    _, text = hand(chat, shop(1), QUOTE, "", "/log")
    line = next(x for x in text.split("\n") if x.startswith(" e3 quote"))
    assert line.endswith("…")
    assert len(line) <= CLIP + 12
    game = Episode(shop(1), variant("unified@4", min_gain=0), chat)
    said = hermes.spell("window_list", {})
    game.step(Sampled(chat.turn_ids(said), said))
    assert outcome_lines(game.inferences[-1].outcomes) == [("good", "← window_list: shown")]
