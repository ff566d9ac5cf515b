"""A stateful machine over random legal and illegal turns: the invariants of the protocol hold after every one."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from game import Game, filler, make_session, roomy
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from envs.index import gaps, merge_oldest
from envs.state import reason_out
from envs.trajectory import view_hash
from envs.view import render

CHAT = None
REACHED: Counter[str] = Counter()
ITEMS = [f"i{n}" for n in range(8)]
TEXTS = [
    "brief",
    "Norra offer with the price, a code and the usual terms",
    filler(3),
    filler(6),
    filler(14),
    "漢字 offer with e3 and e7 named in it, and more",
]
LONG = {0: 4, 1: 12, 2: 20, 3: 30, 4: 40, 5: 8, 6: 60, 7: 1}


def session():
    responses = {f"quote item={i} qty=1": f"Item {i}: total {4100 + n}. — 漢 {filler(LONG[n], n)}" for n, i in enumerate(ITEMS)}
    return make_session([f"Turn {n}: the cap is {9000 + n}. {filler(n % 3)} Answer: a=?" for n in range(40)], responses)


class Protocol(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.start()

    def start(self) -> None:
        self.game = Game(session(), CHAT, roomy(view_budget=1200, page_tokens=64))

    def live(self) -> bool:
        return hasattr(self, "game") and not self.game.episode.done

    def play(self, *lines: str, cut: bool = False) -> None:
        episode = self.game.episode
        view = episode.view()
        state, log = episode.state, list(episode.log)
        outcomes = self.game.say(*lines, cut=cut)
        inference = episode.inferences[-1]
        REACHED.update(f"{o.tool} {o.code}" for o in outcomes)
        REACHED.update(e.name for e in list(episode.log)[len(log) :] if e.name == "clear")
        # 1. append-only
        assert list(episode.log)[: len(log)] == log
        # 3. pure: what was stored is what was seen
        assert inference.hash == view_hash(view.ids)
        assert inference.tokens_in == len(view.ids)
        # 8. one version an accepted change; 6. nothing changes by what was refused
        changes = sum(o.code == "ok" for o in outcomes)
        clears = sum(e.name == "clear" for e in list(episode.log)[len(log) :])
        assert episode.state.version == state.version + changes + clears
        if not changes and not clears and inference.kind != "answer":
            a, b = episode.state, state
            assert (a.notes, a.windows, a.hidden, a.shown, a.cleared, a.header, a.rewrites, a.run) == (
                b.notes, b.windows, b.hidden, b.shown, b.cleared, b.header, b.rewrites, b.run
            )  # fmt: skip
        accepted = [o for o in outcomes if o.code == "ok" and o.tool in ("fold", "compress")]
        if episode.done:
            assert episode.reason in ("answered", "context_overflow")
            return
        new = episode.view()
        # mapping D: between rewrites the next ids are the held ids and a suffix
        held = [*view.ids, *inference.ids]
        if episode.state.rewrites == state.rewrites:
            assert new.ids[: len(held)] == held
        else:
            assert new.messages[0].content.endswith(episode.state.header)
        # 9. a fold or boundary makes the view shorter than the same view without it
        if accepted and len(outcomes) == 1 and not clears and not episode.state.deltas and not state.deltas:
            notes_then = sum(episode.chat.count(n) + 1 for n in new.messages[0].content.split("\n")) - sum(
                episode.chat.count(n) + 1 for n in view.messages[0].content.split("\n")
            )
            assert new.tokens <= view.tokens + max(notes_then, 0) - 16

    # ---- legal and illegal turns ---------------------------------------------------------------------------------------------

    number = st.integers(1, 40)
    near = st.integers(-7, 2)

    @precondition(live)
    @rule(item=st.sampled_from([*ITEMS, "nothing"]), more=st.booleans())
    def quote(self, item: str, more: bool) -> None:
        self.play(f"quote item={item} qty=1", *(["quote item=i0 qty=1"] if more else []))

    @precondition(live)
    @rule(back=near, length=st.integers(0, 4), text=st.sampled_from(TEXTS), cite=st.booleans())
    def fold(self, back: int, length: int, text: str, cite: bool) -> None:
        first = max(1, self.game.episode.log.last + back - length)
        self.play(f"fold e{first}-e{first + length} {text}" + (f" @e{first + length}" if cite else ""))

    @precondition(live)
    @rule(text=st.sampled_from(TEXTS))
    def fold_newest_result(self, text: str) -> None:
        log = self.game.episode.log
        results = [e for e in log if e.role == "tool" and not e.sub and not reason_out(log, self.game.episode.state, e)]
        if results:
            e = results[0]
            self.play(f"fold e{e.turn}-e{e.seq} {text} @e{e.seq}")

    @precondition(live)
    @rule(back=near, text=st.sampled_from(TEXTS), cites=st.sampled_from(["", " @e3", " @e1,e2", " @f1"]))
    def compress(self, back: int, text: str, cites: str) -> None:
        self.play(f"compress e{max(1, self.game.episode.log.last + back)} {text}{cites}")

    @precondition(live)
    @rule()
    def compress_finished_runs(self) -> None:
        e = self.game.episode
        last = max((x.seq for x in e.log if x.role == "user"), default=1) - 1
        if last:
            kept = [k for n in e.state.notes if n.status == "open" for k in n.refs]
            kept += [k for f in e.state.window.folds for k in f.keep]
            kept = [k for k in dict.fromkeys(kept) if k <= last][-8:]
            covered = sum(e.chat.count(x.text) for x in e.log if x.seq <= last and not reason_out(e.log, e.state, x))
            text = filler(max(2, covered // 90))
            self.play(f"compress e{last} {text}" + (f" @{','.join(f'e{k}' for k in kept)}" if kept else ""))

    @precondition(live)
    @rule(
        key=st.sampled_from(["a", "b", "c", "d", "cap", "k1", "k2", "k3", "k4"]),
        value=st.sampled_from(["9000", "9001", "x", filler(4)]),
        ref=number,
        mark=st.sampled_from(["", " old", " open"]),
    )
    def note(self, key: str, value: str, ref: int, mark: str) -> None:
        self.play(f"note {key}={value} @e{min(ref, self.game.episode.log.last + 1)}{mark}")

    @precondition(live)
    @rule(ref=st.sampled_from(["e", "f", "c"]), n=number, page=st.integers(1, 3))
    def read(self, ref: str, n: int, page: int) -> None:
        self.play(f"read {ref}{n if ref == 'e' else n % 4 + 1}" + (f" p{page}" if page > 1 else ""))

    @precondition(live)
    @rule(words=st.sampled_from(["total", "i3 total 4103", "xyz", "漢"]))
    def find(self, words: str) -> None:
        self.play(f"find {words}")

    @precondition(live)
    @rule()
    def answer(self) -> None:
        self.play("a=4100")

    @precondition(live)
    @rule(text=st.sampled_from(["", "{", "note x", "window_open t", "read e0", "fold", "order a=1"]), cut=st.booleans())
    def malformed(self, text: str, cut: bool) -> None:
        self.play(text, cut=cut)

    @precondition(live)
    @rule(
        lines=st.lists(
            st.sampled_from(
                [
                    "quote item=i1 qty=1",
                    "note z=1 @e1",
                    "note z=2 @e1",
                    "read e1",
                    "find total",
                    "read e99",
                    "remark",
                    f"fold e2-e3 {TEXTS[1]}",
                ]
            ),
            min_size=2,
            max_size=5,
        )
    )
    def several(self, lines: list[str]) -> None:
        self.play(*lines)

    @precondition(lambda self: hasattr(self, "game") and self.game.episode.done)
    @rule()
    def over(self) -> None:
        """An episode that is over takes no turn; another one begins."""
        with pytest.raises(RuntimeError, match="over"):
            self.game.say("a=1")
        self.game.texts.pop()
        self.teardown()
        self.start()

    # ---- what holds after every turn ----------------------------------------------------------------------------------------------

    @invariant()
    def every_event_is_in_view_or_out_for_one_reason_that_the_index_lists(self) -> None:
        if not self.live():
            return
        e = self.game.episode
        view = e.view()
        found = gaps(e.log, e.state)
        listed: dict[int, str] = {}
        for gap in found:
            for seq in range(gap.first, gap.last + 1):
                assert seq not in listed, "one gap an event"
                listed[seq] = gap.reasons[0]
        everything = set(range(1, e.log.last + 1))
        assert set(listed) | view.visible | view.parts == everything
        assert len(listed) + len(view.visible) + len(view.parts) == len(everything), "each once"
        for gap in found:
            roles = [e.log.main(s).role for s in range(gap.first, gap.last + 1)]
            assert (gap.user, gap.own, gap.tool) == tuple(roles.count(r) for r in ("user", "assistant", "tool"))
        assert view.out == [str(g) for g in found]
        told = e.state.header.rsplit("\nout: ", 1)[1]
        assert len(told.split("; ")) <= 6
        merged = merge_oldest(found, 6)
        assert len(merged) <= 6
        assert sum(g.user + g.own + g.tool for g in merged) == len(listed)
        body = "\n".join(m.content for m in view.messages[1:])
        for seq in view.visible:
            assert e.log.main(seq).text in body
        for seq in view.parts:
            event = e.log.main(seq)
            pages = e.chat.pages(event.text, e.profile.page_tokens)
            assert f"[e{seq} {event.name}] p1/{len(pages)}\n{pages[0]}" in body
            assert e.chat.count(event.text) > e.profile.whole_share * e.profile.view_budget
            REACHED["paged"] += 1

    @invariant()
    def the_index_in_the_view_is_exact(self) -> None:
        """What the header lists is what was out of view at the last rewrite, and nothing has left or come back since."""
        if not self.live():
            return
        e = self.game.episode
        told = e.state.header.rsplit("\nout: ", 1)[1]
        now = "; ".join(map(str, merge_oldest(gaps(e.log, e.state), 6))) or "none"
        assert told == now

    @invariant()
    def every_view_is_a_valid_chat_within_budget(self) -> None:
        if not self.live():
            return
        e = self.game.episode
        view = e.view()
        roles = [m.role for m in view.messages]
        assert roles[0] == "system"
        assert roles[1] == roles[-1] == "user"
        assert all(a != b for a, b in itertools.pairwise(roles))
        assert view.tokens == len(view.ids) <= e.profile.view_budget
        assert view.ids == e.chat.render(view.messages)
        for m in view.messages:
            assert m.role == "user" or m.role == "system" or m.ids is not None

    @invariant()
    def rendering_is_pure(self) -> None:
        if not self.live():
            return
        e = self.game.episode
        assert render(e.log, e.state, e.profile, e.chat, e.system).ids == e.view().ids

    @invariant()
    def folds_are_whole_exchanges_that_never_cross(self) -> None:
        if not hasattr(self, "game"):
            return
        log, window = self.game.episode.log, self.game.episode.state.window
        for i, fold in enumerate(window.folds):
            roles = [log.main(s).role for s in range(fold.first, fold.last + 1)]
            assert "user" not in roles
            assert roles[0] == "assistant"
            assert fold.last == log.last or log.main(fold.last + 1).turn < fold.first or log.main(fold.last + 1).role != "tool"
            assert set(fold.keep) <= set(range(fold.first, fold.last + 1))
            for other in window.folds[:i]:
                assert other.last < fold.first or fold.last < other.first
            for boundary in window.boundaries:
                assert not fold.first <= boundary.upto < fold.last
        uptos = [b.upto for b in window.boundaries]
        assert uptos == sorted(set(uptos))
        assert all(log.main(u).run < self.game.episode.state.run for u in uptos)

    def teardown(self) -> None:
        """3. Replaying the texts gives byte-equal views; 7. reading gives the logged text."""
        if not hasattr(self, "game"):
            return
        again = Game(self.game.episode.session.stripped(), CHAT, self.game.profile)
        for (text, cut), inference in zip(self.game.texts, self.game.episode.inferences, strict=True):
            assert view_hash(again.view.ids) == inference.hash
            again.say(text, cut=cut)
        assert again.episode.log.digest() == self.game.episode.log.digest()
        assert again.episode.state == self.game.episode.state


def test_the_invariants_hold_over_random_turns(chat):
    global CHAT
    CHAT = chat
    run_state_machine_as_test(
        Protocol,
        settings=settings(
            max_examples=24,
            stateful_step_count=24,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],  # shrinking takes minutes; run the long test to shrink
        ),
    )
    for reached in (
        "clear",
        "paged",
        "note ok",
        "fold ok",
        "compress ok",
        "read shown",
        "find shown",
        "quote result",
        "fold no_gain",
        "note unknown_ref",
    ):
        assert REACHED[reached], f"the machine never reached {reached}: {REACHED}"


@pytest.mark.slow
def test_the_invariants_hold_over_many_random_turns(chat):
    global CHAT
    CHAT = chat
    run_state_machine_as_test(
        Protocol,
        settings=settings(max_examples=400, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)),
    )
