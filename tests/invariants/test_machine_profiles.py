"""The ten invariants under every profile, in both syntaxes: random legal and illegal calls, checked after every turn.

The calls are drawn from one seed that is printed and can be given: ``CTXCTL_SEED=7 pytest tests/invariants``. At the end of an
episode it is replayed from its texts alone.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from game import Game, filler, make_session, roomy

from envs import compact, hermes
from envs.index import gaps
from envs.log import Event
from envs.profiles import CHANGING, CORE_TOOLS, LEAN_TOOLS
from envs.state import State, reason_out
from envs.trajectory import view_hash
from envs.view import freeze, render

SEED = int(os.environ.get("CTXCTL_SEED", "20261130"))
PROFILES = ("core@1", "unified@1", "unified@2", "unified@3-B", "unified@3-C", "unified@4", "unified@4-compact", "lean@1")
EPISODE = 60
"""Turns before an episode is replayed and another one begins."""
ITEMS = [f"i{n}" for n in range(8)]
LONG = (4, 12, 20, 30, 40, 8, 50, 1)
BRIEFS = (
    "brief",
    "Norra offer with the price, a code and the usual terms",
    filler(3),
    filler(6),
    "漢字 offer with e3 and e7 in it, more",
)


def session():
    """Forty user turns and eight results of very different length; the evidence gate watches ``revise``."""
    made = make_session(
        [f"Turn {n}: the cap is {9000 + n}. {filler(n % 3)} Answer: a=?" for n in range(40)],
        {f"quote item={i} qty=1": f"Item {i}: total {4100 + n}. — 漢 {filler(LONG[n], n)}" for n, i in enumerate(ITEMS)},
    )
    watched = made.tools[1].model_copy(update={"evidence": (("item", "cap"),)})
    return made.model_copy(update={"tools": (made.tools[0], watched)})


class Player:
    """Draws calls that are legal, nearly legal, or not at all, and checks what follows."""

    def __init__(self, profile: str, seed: int, chat: Any) -> None:
        budget = 8192 if profile.startswith("unified") else 1300
        self.profile = replace(roomy(profile), view_budget=budget, page_tokens=64, admission=0, stage_fill=0.2, run_scope="turn")
        if self.profile.max_notes:  # small, so that full memories are met
            self.profile = replace(self.profile, max_notes=6, max_window_notes=4)
        self.rng, self.chat = random.Random(f"{profile}/{seed}"), chat
        self.codes: Counter[str] = Counter()
        self.game = Game(session(), chat, self.profile)

    # ---- drawing --------------------------------------------------------------------------------------------------------------------

    def event(self) -> int:
        last = self.game.episode.log.last
        return max(1, self.rng.choice((last, last - 1, last - 2, last - self.rng.randrange(8), self.rng.randrange(1, last + 4))))

    def refs(self) -> tuple[str, ...]:
        kinds = self.rng.choices(("e", "f", "c"), (8, 1, 1), k=self.rng.randrange(3))
        return tuple(dict.fromkeys(f"{k}{self.event() if k == 'e' else self.rng.randrange(1, 5)}" for k in kinds))

    def args(self, tool: str) -> dict[str, Any]:
        rng, log = self.rng, self.game.episode.log
        if tool == "note":
            scope = rng.choice(("public", "public", "window")) if self.profile.windows else "public"
            value = rng.choice(("9000", "9001", "4100", "x", filler(4)))
            mark = rng.choice(("", "", "", "old", "open"))
            return {
                "scope": scope,
                "key": rng.choice("abcdefgh") if rng.random() < 0.7 else "cap",
                "value": value,
                "status": mark,
                "refs": self.refs(),
            }
        if tool == "fold":
            results = [e for e in log if e.role == "tool" and not reason_out(log, self.game.episode.state, e)]
            if results and rng.random() < 0.7:
                e = rng.choice(results[:3])
                return {"first": e.turn, "last": e.seq, "text": rng.choice(BRIEFS), "refs": (f"e{e.seq}",)}
            first = self.event()
            return {"first": first, "last": first + rng.randrange(-1, 5), "text": rng.choice(BRIEFS), "refs": self.refs()}
        if tool == "compress":
            state, upto = self.game.episode.state, self.event()
            if rng.random() < 0.6:
                upto = max(1, log.run_start(state.run) - 1)
            boundary = state.window.boundary
            kept = [*(boundary.keep if boundary else ()), *(k for f in state.window.folds for k in f.keep)]
            kept += [r for n in (*state.notes, *state.window.memory) if n.status == "open" for r in n.refs]
            keep = tuple(f"e{k}" for k in dict.fromkeys(kept) if k <= upto)[-8:]
            size = sum(self.chat.count(e.text) for e in log if e.seq <= upto and not reason_out(log, state, e))
            text = filler(max(2, size // 90)) if rng.random() < 0.8 else rng.choice(BRIEFS)
            return {"upto": upto, "text": text, "refs": keep if rng.random() < 0.9 else self.refs()}
        if tool == "read":
            kind = rng.choice(("e", "e", "e", "f", "c"))
            ref = f"{kind}{self.event() if kind == 'e' else rng.randrange(1, 5)}"
            last = self.event() if kind == "e" and rng.random() < 0.3 else None
            return {"ref": ref, "last": last, "page": rng.choice((1, 1, 1, 2, 3))}
        if tool == "find":
            return {"query": rng.choice(("total", "i3 total 4103", "xyz", "漢"))}
        if tool == "recall":
            return {"what": rng.choice(("total 4103", "cap", "xyz"))}
        if tool == "stage_done":
            note = f"cap={rng.choice((9000, 9001))} @e1"
            return {"outcome": rng.choice(BRIEFS), "constraints": (note,) if rng.random() < 0.5 else ()}
        window = f"w{rng.randrange(1, 1 + len(self.game.episode.state.windows) + (rng.random() < 0.1))}"
        words = {
            "title": "Stage",
            "handoff": "go on with it",
            "checkpoint": rng.choice(("", "here")),
            "outcome": rng.choice(("", "done")),
        }
        names = {
            "window_open": ("title", "handoff", "checkpoint"),
            "window_switch": ("checkpoint",),
            "window_close": ("outcome",),
        }
        more = {"window_switch": {"id": window}, "window_close": {"next": window}}
        return {**{n: words[n] for n in names.get(tool, ())}, **more.get(tool, {})}

    def call(self) -> str:
        rng, profile, state = self.rng, self.profile, self.game.episode.state
        json = profile.syntax == "json"
        if rng.random() < 0.35:
            tool, args = rng.choice((("quote", {"item": rng.choice(ITEMS), "qty": "1"}), ("revise", {"item": "a"})))
            return hermes.spell(tool, args) if json else " ".join([tool, *(f"{k}={v}" for k, v in args.items())])
        names = [t for t in profile.tools if t != "local"]
        names += ["fold", "compress", *(["note", "note"] * profile.windows)] * ("fold" in names)
        tool = rng.choice(names) if rng.random() < 0.97 else rng.choice((*CORE_TOOLS, *LEAN_TOOLS))
        args = self.args(tool)
        if profile.position_check and tool in CHANGING:
            args["expected"] = state.current if rng.random() < 0.93 else "w9"
        return (hermes if json else compact).spell(tool, args)

    def text(self) -> str:
        roll = self.rng.random()
        if roll < 0.14:
            return "a=4100"
        if roll < 0.19:
            return self.rng.choice(
                ("", "{", "<tool_call>", "note x", "frob a=1", "fold", '<tool_call>{"name": "read_raw"}</tool_call>')
            )
        return "\n".join(self.call() for _ in range(self.rng.choice((1, 1, 1, 2, 3))))

    # ---- checking ---------------------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        if self.game.episode.done:
            self.replay()
            self.game = Game(session(), self.chat, self.profile)
        episode = self.game.episode
        view, state, log = episode.view(), episode.state, list(episode.log)
        outcomes = self.game.say(*self.text().split("\n"), cut=self.rng.random() < 0.02)
        inference = episode.inferences[-1]
        self.codes.update(f"{o.tool or '-'} {o.code}" for o in outcomes)
        new: list[Event] = list(episode.log)[len(log) :]
        assert list(episode.log)[: len(log)] == log, "1: append-only"
        assert (inference.hash, inference.tokens_in) == (view_hash(view.ids), len(view.ids)), (
            "3: what was stored is what was seen"
        )
        changes = sum(o.code == "ok" for o in outcomes) + sum(e.name in ("clear", "host_fold") for e in new)
        assert episode.state.version == state.version + changes, "8: a version for every accepted change"
        if not changes and inference.kind != "answer":
            assert replace(episode.state, deltas=(), fill_mark=0) == replace(state, deltas=(), fill_mark=0), (
                "6: refusals change nothing"
            )
        told = [e.text for e in new if e.sub and e.name not in ("clear", "host_fold", "gate_overridden")]
        assert told == [o.text for o in outcomes if o.code not in ("result", "gate_overridden")]
        self.check_reads(outcomes)
        self.check_alternatives(outcomes)
        if not episode.done:
            self.check_view(state, view.ids, inference.ids)
        self.check_shorter(outcomes, state)

    def check_reads(self, outcomes: list[Any]) -> None:
        """7: read-back gives exactly the logged text, page by page."""
        log = self.game.episode.log
        for o in outcomes:
            if o.tool == "read" and o.code == "shown" and len(o.shows) == 1 and "-" not in o.text.split("]")[0]:
                head, page = o.text.split("\n", 1)
                number, pages = head.rsplit(" p", 1)[1].split("/")
                text = log.main(o.shows[0]).text
                assert page in text
                assert (int(number), int(pages)) != (1, 1) or page == text

    def check_alternatives(self, outcomes: list[Any]) -> None:
        """What a refusal offers instead, where it is a call, is a well-formed call in the policy's own syntax."""
        episode = self.game.episode
        json = self.profile.syntax == "json"
        for o in outcomes:
            instead = o.text.split("; try ", 1)[1] if o.text.startswith("! ") else ""
            word = instead.split(" ", 2)[1 if instead[:1] == "w" and instead[1:2].isdigit() else 0] if " " in instead else ""
            if "shorter value" in instead or not (
                instead.startswith("{") if json else word in (*self.profile.tools, "quote", "revise")
            ):
                continue
            text = f"<tool_call>\n{instead}\n</tool_call>" if json else instead
            parsed = (hermes if json else compact).parse(text, False, self.profile, episode.session.tools)
            assert parsed.kind == "calls", o.text
            assert [c.code for c in parsed.calls] == [""], o.text

    def check_view(self, before: State, ids: list[int], sampled: list[int]) -> None:
        e = self.game.episode
        view, log, state = e.view(), e.log, e.state
        assert view == render(log, state, e.rules, e.chat, e.system), "3: the held renderer equals one from nothing"
        assert view.ids == e.chat.render(view.messages)
        assert view.tokens <= self.profile.view_budget
        reasons = {s: reason_out(log, state, log.main(s)) for s in range(1, log.last + 1)}
        assert {s for s, r in reasons.items() if not r} == view.visible | view.parts, "2: in view, or out for one reason"
        listed = {s: g.reasons[0] for g in gaps(log, state) for s in range(g.first, g.last + 1)}
        assert listed == {s: "control" if r == "alias" else r for s, r in reasons.items() if r}, "2: the index says which"
        assert list(state.index) == gaps(log, state), "the frozen index is exact until the next rewrite"
        self.check_chat(view, reasons)
        self.check_folds()
        if self.profile.mapping == "D" and state.rewrites == before.rewrites:
            held = [*ids, *sampled]
            assert view.ids[: len(held)] == held, "mapping D: the held ids and a suffix"

    def check_chat(self, view: Any, reasons: dict[int, str]) -> None:
        """4: roles alternate, no result without its call, no call without its result."""
        roles = [m.role for m in view.messages]
        if self.profile.mapping == "C":
            assert roles.pop() == "assistant"
        assert roles[0] == "system"
        assert roles[-1] == "user"
        assert all(a != b or "assistant" in (a, b) for a, b in itertools.pairwise(roles))
        log = self.game.episode.log
        for seq, reason in reasons.items():
            event = log.main(seq)
            if event.role == "tool" and reason in ("", "cleared"):
                assert not reasons[event.turn], f"4: e{seq} without its call"
            if event.role == "tool" and not reasons[event.turn]:
                assert reason in ("", "cleared"), f"4: e{event.turn} without its result"

    def check_folds(self) -> None:
        """5: folds and boundaries keep to their window and to whole exchanges."""
        log, state = self.game.episode.log, self.game.episode.state
        ids = [x.id for w in state.windows.values() for x in (*w.folds, *w.covered, *w.boundaries)]
        assert len(ids) == len(set(ids))
        for window in state.windows.values():
            upto = window.boundary.upto if window.boundary else 0
            for fold in window.folds:
                events = [log.main(s) for s in range(fold.first, fold.last + 1)]
                assert all(e.window == window.id and e.role != "user" for e in events)
                assert events[0].role == "assistant"
                assert fold.last == log.last or log.main(fold.last + 1).role != "tool"
                assert fold.first > upto
            spans = sorted((f.first, f.last) for f in window.folds)
            assert all(a[1] < b[0] for a, b in itertools.pairwise(spans))
            uptos = [b.upto for b in window.boundaries]
            assert uptos == sorted(set(uptos))

    def check_shorter(self, outcomes: list[Any], before: State) -> None:
        """9: an accepted fold or boundary makes the view shorter, all else equal."""
        e = self.game.episode
        accepted = [o for o in outcomes if o.tool in ("fold", "compress") and o.code == "ok"]
        if len(outcomes) != 1 or not accepted or e.done:
            return
        turn = e.inferences[-1].event
        bare = replace(before, hidden={**before.hidden, turn: "control"})
        rules = replace(e.rules, mapping="D")
        then, now = (
            render(e.log, freeze(e.log, s, rules), rules, e.chat, e.system).tokens
            for s in (bare, replace(e.state, deltas=bare.deltas))
        )
        assert now < then

    def replay(self) -> None:
        """3: the log, the state and every view come back from the texts alone, without ground truth (10)."""
        again = Game(self.game.episode.session.stripped(), self.chat, self.profile)
        for (text, cut), inference in zip(self.game.texts, self.game.episode.inferences, strict=True):
            assert view_hash(again.view.ids) == inference.hash
            again.say(text, cut=cut)
        assert again.episode.log.digest() == self.game.episode.log.digest()
        assert again.episode.state == self.game.episode.state


def run(profile: str, steps: int, chat: Any, seed: int) -> Counter[str]:
    """Play ``steps`` turns in episodes of at most ``EPISODE``; returns what was reached."""
    player = Player(profile, seed, chat)
    for number in range(steps):
        if number % EPISODE == EPISODE - 1:
            player.replay()
            player.game = Game(session(), chat, player.profile)
        try:
            player.step()
        except AssertionError:
            print(f"seed {seed}, profile {profile}, step {number}; turns:\n" + "\n---\n".join(t for t, _ in player.game.texts))
            raise
    player.replay()
    return player.codes


EXPECTED = {
    "core@1": {"fold ok", "compress ok", "note ok", "read shown", "find shown", "fold no_gain", "fold range_overlaps_fold", "quote result"},
    "unified@4": {"window_open ok", "window_switch ok", "window_close ok", "window_list shown", "fold ok", "note wrong_window", "fold range_crosses_window"},
    "lean@1": {"stage_done ok", "recall shown", "note ok", "stage_done no_gain"},
}  # fmt: skip


@pytest.mark.parametrize("profile", PROFILES)
def test_the_invariants_hold_over_random_calls(chat, profile):
    """3,000 turns over all profiles."""
    print(f"seed {SEED}")
    reached = run(profile, 3000 // len(PROFILES), chat, SEED)
    assert sum(reached.values()) > 200
    assert EXPECTED.get(profile, set()) <= set(reached), sorted(reached)


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_the_invariants_hold_over_many_more(chat, profile):
    """20,000 turns over all profiles."""
    seed = SEED + 1
    print(f"seed {seed}")
    reached = run(profile, 20_000 // len(PROFILES), chat, seed)
    codes = {key.split(" ")[1] for key in reached}
    if profile == "unified@4":
        missing = {
            "unknown_tool", "bad_arguments", "wrong_window", "unknown_window", "after_move", "last_window", "unknown_ref",
            "range_crosses_window", "range_overlaps_fold", "range_splits_call", "range_has_user_message", "range_unfinished",
            "range_already_compressed", "empty_text", "lost_pinned", "no_gain", "memory_full", "limit_exceeded", "evidence_required",
        } - codes  # fmt: skip
        assert not missing, "rejection codes that were never reached"
