"""One session played: user turns, policy turns, business tools, host upkeep, limits, termination.

The episode keeps the ground-truth log and hands out views; it never calls a policy. ``play`` drives many episodes in lock-step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from envs import compact, hermes
from envs.capacity import check_capacity
from envs.chat import ChatML, Message
from envs.compact import Call, Parsed
from envs.gate import check_evidence
from envs.lean import due_boundary, due_stage, fold_stage
from envs.ledger import Ledger
from envs.log import Log
from envs.maintenance import Pending, maintenance_view
from envs.managers import Manager
from envs.omissions import inject
from envs.policies.base import Policy, Sampled, View
from envs.profiles import Profile
from envs.respell import respell
from envs.rewrites import add_boundary
from envs.state import Delta, State, after_rewrite
from envs.tasks.base import Probe, Session
from envs.tools import Host, Rejected, apply, business
from envs.trajectory import Inference, StoredEntry, StoredMessage, StoredOutcome, Trajectory, shared_prefix, view_hash
from envs.view import Renderer, freeze

NOTICE = "[host] no call and no answer"
PARSE = {"compact": compact.parse, "json": hermes.parse}


class Episode:
    """A session under a profile, from its first user turn.

    Args:
        session: the script; the host reads only its texts, tools and responses.
        manager: for ``plain@1``: a host-only manager that chooses what of the history is shown.

    Raises:
        ValueError: the profile's fixed parts take more than 60 % of its view budget.
    """

    def __init__(
        self, session: Session, profile: Profile, chat: ChatML, *, prompt: str = "", manager: Manager | None = None
    ) -> None:
        prompt = prompt or profile.prompt
        check_capacity(profile, chat, prompt, session.tools)
        self.session, self.profile, self.chat, self.prompt, self.manager = session, profile, chat, prompt, manager
        self.probe: Probe | None = None
        self.log, self.state, self.ledger = Log(), State(admitted=not profile.admission), Ledger(session)
        # Below the admission length of its profile a session is plain history.
        self.rules = profile if self.state.admitted else replace(profile, tools=())
        self.system = self.rules.system(prompt, session.tools)
        self._renderer = Renderer(self.rules, chat, self.system)
        self.done, self.reason = False, ""
        self.turn = -1
        """Index of the user turn being played."""
        self.inferences: list[Inference] = []
        self.replies: dict[int, str] = {}
        self.start, self.prefix_events = 0, 0
        self._in_run = self._notices = 0
        self._replaying = False  # a frozen prefix is history: no limit of the view ends it
        self._tokens = 0  # counted against the limit
        self._overran = False
        self._rewritten = False
        self._view: View | None = None
        self._held: list[Message] = []
        self._ids: list[int] = []  # of the last inference, input and output
        self._pending: Pending | None = None
        self._managing = False  # the view is a question of the manager to the model
        self.state = freeze(self.log, self.state, self.rules)
        self._next_user()

    @classmethod
    def from_probe(
        cls, probe: Probe, profile: Profile, chat: ChatML, *, prompt: str = "", manager: Manager | None = None
    ) -> Episode:
        """The episode of a probe at the point where the policy takes over: prefix replayed, injection applied, question asked.

        Context calls that the profile lacks never happened; without folds there is nothing to damage.
        """
        episode = cls(probe.session, profile, chat, prompt=prompt, manager=manager)
        episode._replaying = True
        for text in probe.prefix:
            said = respell(text, probe.session.tools, episode.rules, episode.state.current)
            if said:
                episode.step(Sampled(chat.turn_ids(said), said))
        if episode.done or episode.turn != probe.start:
            raise ValueError(
                f"probe {probe.id}: its prefix ends in turn {episode.turn} ({episode.reason}), not in turn {probe.start}"
            )
        episode.probe, episode.start, episode.prefix_events = probe, probe.start, len(episode.log)
        if "fold" in profile.tools:
            episode.state = inject(episode.log, episode.state, probe.injection)
            episode.state = freeze(episode.log, episode.state, episode.rules)
        episode._replaying = False
        episode.inferences, episode._held, episode._tokens, episode._in_run, episode._notices = [], [], 0, 0, 0
        episode._ids = []
        episode._rewritten = False
        episode._prepare()
        return episode

    # ---- what a policy sees and does ------------------------------------------------------------------------------------

    def view(self) -> View:
        """The input of the next inference. Raises RuntimeError when the episode is over."""
        view = self._open_view()
        # A copy: whatever a policy does to it, the record holds what was rendered.
        return View(list(view.messages), list(view.ids), list(view.out), view.visible, view.parts)

    def _open_view(self) -> View:
        if self.done or self._view is None:
            raise RuntimeError(f"the episode is over ({self.reason}): there is no view")
        return self._view

    def step(self, sampled: Sampled) -> None:
        """Take one policy turn: log it, carry out its calls or accept its answer, and bring the next view about."""
        view = self._open_view()
        if self._pending:
            self._summarised(view, sampled)
            return
        if self._managing:
            self._managing = False
            self.manager.receive(sampled.text)  # type: ignore[union-attr]
            self._store(view, sampled, self.log.last, "maintenance", [])
            self._prepare()
            return
        event = self.log.append(
            "assistant", sampled.text, window=self.state.current, run=self.state.run, ids=tuple(sampled.ids)
        )  # fmt: skip
        parsed = self._parse(sampled)
        outcomes: list[StoredOutcome] = []
        if parsed.kind == "notice":
            self._notices += 1
            self.log.append_outcome(event.seq, NOTICE, window=self.state.current, run=self.state.run, name="notice")
            outcomes.append(StoredOutcome(tool="", code="notice", text=NOTICE))
        elif parsed.kind == "calls":
            outcomes = self._calls(event.seq, list(parsed.calls), view.visible)
        self._store(view, sampled, event.seq, parsed.kind, outcomes)
        if parsed.kind != "answer":
            self._prepare()
        elif self._over_tokens() and self.profile.overrun == "cut":
            self._end("limit_tokens")
        else:
            self.replies[self.turn] = sampled.text.strip()
            if self.turn + 1 == len(self.session.turns):
                self._end("answered")
            else:
                self._next_user()

    def _parse(self, sampled: Sampled) -> Parsed:
        """What a turn says: calls, an answer, or nothing usable."""
        return PARSE[self.rules.syntax](sampled.text, sampled.cut, self.rules, self.session.tools)

    def _calls(self, turn: int, calls: list[Call], visible: frozenset[int]) -> list[StoredOutcome]:
        """Carry out the calls of a turn in order, each on the state that the one before left."""
        outcomes: list[StoredOutcome] = []
        rewrite = leaves = False
        place = (self.state.current, self.state.run)  # a move and what follows it belong to the window left
        host = Host(self.log, self.rules, self.chat, self.session, turn)
        while calls:
            call = calls.pop(0)
            if self._asks_agent(call) and self.state.current == place[0]:
                # The sub-agent is asked before the later calls of the turn: they run on the state it brings about.
                try:
                    self._pending = Pending.of(host, self.state, call, calls, rewrite, leaves)
                    return outcomes
                except Rejected as no:
                    outcomes.append(self._refused(turn, call, no, place))
                    continue
            rewrite, leaves = self._one(host, call, visible, outcomes, place, rewrite, leaves)
        if rewrite:
            self._rewrite(turn if leaves else None)
        return outcomes

    def _one(
        self, host: Host, call: Call, visible: frozenset[int], outcomes: list[StoredOutcome], place: tuple[str, int], rewrite: bool,
        leaves: bool,
    ) -> tuple[bool, bool]:  # fmt: skip
        """Carry out one call; returns whether the turn rewrites the view so far, and whether it leaves it."""
        turn, log = host.turn, self.log
        window, run = place
        args = {k: list(v) if isinstance(v, tuple) else v for k, v in call.args.items()}
        try:
            if self.state.current != window:
                raise Rejected("after_move", f"you left {window} in this turn", f"it in the next turn, in {self.state.current}")
            if not call.code and call.tool in {t.name for t in self.session.tools}:
                told = check_evidence(host, self.state, call, visible) if self.rules.evidence_gate else ""
                spelled, text = business(self.session, call)
                event = log.append("tool", text, window=window, run=run, name=call.tool, turn=turn)
                self.ledger.observe(f"call:{spelled}", event.seq)
                outcomes.append(StoredOutcome(tool=call.tool, code="result", text=text, args=args, event=event.seq))
                if told:
                    log.append_outcome(turn, f"[host] {told}", window=window, run=run, name="gate_overridden")
                    outcomes.append(StoredOutcome(tool=call.tool, code="gate_overridden", text=told, args=args))
                return rewrite, leaves
            done = apply(host, self.state, call)
        except Rejected as no:
            outcomes.append(self._refused(turn, call, no, place))
            return rewrite, leaves
        self.state = done.state
        log.append_outcome(turn, done.text, window=window, run=run, name=done.name, shows=done.shows)
        code = "ok" if done.name in ("ok", "moved") else "shown"
        outcomes.append(StoredOutcome(tool=call.tool, code=code, text=done.text, args=args, shows=list(done.shows)))
        return rewrite or done.rewrite, leaves or (done.rewrite and done.leaves)

    def _refused(self, turn: int, call: Call, no: Rejected, place: tuple[str, int]) -> StoredOutcome:
        window, run = place
        args = {k: list(v) if isinstance(v, tuple) else v for k, v in call.args.items()}
        self.log.append_outcome(turn, no.line, window=window, run=run, name=no.code)
        return StoredOutcome(tool=call.tool, code=no.code, text=no.line, args=args)

    # ---- compression by a sub-agent ---------------------------------------------------------------------------------------

    def _asks_agent(self, call: Call) -> bool:
        return self.rules.compress_by == "agent" and call.tool == "compress" and not call.code

    def _summarised(self, view: View, sampled: Sampled) -> None:
        """The sub-agent's turn is the summary of the compression that waits; the rest of the calling turn follows."""
        pending = self._pending
        assert pending
        self._pending = None
        turn = pending.host.turn
        place = (self.log.main(turn).window, self.log.main(turn).run)
        text = "" if sampled.cut else " ".join(sampled.text.split())  # half a summary is none
        self.log.append_outcome(turn, text, window=place[0], run=place[1], name="maintenance")
        call = replace(pending.call, args={**pending.call.args, "text": text})
        outcomes: list[StoredOutcome] = []
        caller = self.inferences[-1]
        rewrite, leaves = self._one(
            pending.host, call, frozenset(caller.visible), outcomes, place, pending.rewrite, pending.leaves
        )
        self._store(view, sampled, turn, "maintenance", [])
        caller.outcomes.extend(outcomes)
        host, calls = pending.host, list(pending.rest)
        while calls:
            call = calls.pop(0)
            if self._asks_agent(call):
                no = Rejected("no_gain", "one compression a turn", "go on with the task")
                caller.outcomes.append(self._refused(turn, call, no, place))
                continue
            more: list[StoredOutcome] = []
            rewrite, leaves = self._one(host, call, frozenset(caller.visible), more, place, rewrite, leaves)
            caller.outcomes.extend(more)
        if rewrite:
            self._rewrite(turn if leaves else None)
            caller.rewrite, self._rewritten = True, False
        self._prepare()

    # ---- the host's side ------------------------------------------------------------------------------------------------

    def _rewrite(self, turn: int | None) -> None:
        self.state = freeze(self.log, after_rewrite(self.log, self.state, turn), self.rules)
        self._rewritten = True

    def _next_user(self) -> None:
        self.turn += 1
        if self.profile.tokens_scope == "turn":
            self._tokens = 0
        if self.profile.run_scope == "turn" or self.turn == 0:
            self._in_run = self._notices = 0
            self.state = replace(self.state, run=self.turn)
        turn = self.session.turns[self.turn]
        event = self.log.append("user", turn.text, window=self.state.current, run=self.state.run)
        self.ledger.observe(f"turn:{self.turn}", event.seq)
        self._prepare()

    def _over_tokens(self) -> bool:
        return self._tokens > self.profile.tokens_per_session

    def _limit(self) -> str:
        """The limit that forbids another inference, or ``""``."""
        profile = self.profile
        if self._in_run >= profile.inferences_per_run:
            return "limit_run"
        if self._notices >= profile.notices_per_run:
            return "limit_notices"
        if len(self.inferences) >= profile.inferences_per_session:
            return "limit_session"
        return "limit_tokens" if self._tokens >= profile.tokens_per_session else ""

    def _prepare(self) -> None:
        """Make the next view: limits, admission, finished stages, upkeep when over budget, fill marks."""
        profile = self.profile
        if reason := self._limit():
            return self._end(reason)
        if self._pending:
            self._view = maintenance_view(self._pending, self.state)
            return None
        if not self._replaying and self.manager:
            asked = self.manager.request(self.log, profile.view_budget, self.chat, self.system)
            if asked:
                self._managing, self._view = True, View(asked, self.chat.render(asked))
                return None
        view = self._render()
        if not self.state.admitted and view.tokens > profile.admission:
            self._admit()
            view = self._render()
        while self.rules.lean and (stage := due_stage(self.log, self.state, self.rules, self.chat, view.tokens)):
            self._host_fold(fold_stage(self.state, stage), f"[host] folded e{stage.first}-e{stage.last}")
            view = self._render()
        if self.rules.lean and (made := due_boundary(self.log, self.state, self.rules, self.chat, view.tokens)):
            self._host_fold(add_boundary(self.state, made), f"[host] compressed e{made.first}-e{made.upto}")
            view = self._render()
        while view.tokens > profile.view_budget and self._clear_oldest(view):
            view = self._render()
        if view.tokens > profile.view_budget and not self._replaying:
            return self._end("context_overflow")
        passed = [m for m in profile.fill_marks if view.tokens * 100 >= m * profile.view_budget]
        if self.rules.managed and passed and passed[-1] > self.state.fill_mark:
            view = self._tell_fill(view, passed[-1])
        self._view = view
        return None

    def _admit(self) -> None:
        """From here on the session is long enough for context tools."""
        self.rules = self.profile
        self.system = self.rules.system(self.prompt, self.session.tools)
        self._renderer = Renderer(self.rules, self.chat, self.system)
        self.state = replace(self.state, admitted=True, version=self.state.version + 1)
        self._rewrite(None)

    def _host_fold(self, state: State, text: str) -> None:
        self._log_host(text, "host_fold")
        self.state = replace(state, version=self.state.version + 1)
        self._rewrite(None)

    def _log_host(self, text: str, name: str) -> None:
        self.log.append_outcome(self.log.newest_turn, text, window=self.state.current, run=self.state.run, name=name)

    def _render(self) -> View:
        if self.manager is None:
            return self._renderer.render(self.log, self.state)
        messages = self.manager.view(self.log, self.profile.view_budget, self.chat, self.system)
        return View(messages, self.chat.render(messages))

    def _tell_fill(self, view: View, mark: int) -> View:
        """Tell the fill once it passes a mark, before the user text when that comes last."""
        percent = view.tokens * 100 // self.profile.view_budget
        asked = self.log.main(self.log.last).role == "user"
        after = self.log.position(self.log.last) if asked else len(self.log)
        delta, before = Delta(after, f"[host] fill {percent}%"), self.state
        self.state = replace(before, deltas=(*before.deltas, delta), fill_mark=mark)
        told = self._render()
        if told.tokens > self.profile.view_budget:  # the line itself must not push the view over the budget
            self.state, told = before, view
        return told

    def _clear_oldest(self, view: View) -> bool:
        """Replace the oldest result in view by a reference; the newest exchange stays."""
        if not self.profile.clear_results:
            return False
        newest = self.log.newest_turn
        for seq in sorted(view.visible | view.parts):
            event = self.log.main(seq)
            if event.role == "tool" and (event.run < self.state.run or seq < newest):
                self._log_host(f"[host] cleared e{seq}", "clear")
                self.state = replace(self.state, cleared=self.state.cleared | {seq}, version=self.state.version + 1)
                self._rewrite(None)
                return True
        return False

    def _end(self, reason: str) -> None:
        self.done, self.reason, self._view = True, reason, None

    def abort(self) -> None:
        """End the episode because the backend failed: counted as infrastructure, never as the policy's doing."""
        self._end("backend_error")

    # ---- the record -----------------------------------------------------------------------------------------------------

    def _store(self, view: View, sampled: Sampled, event: int, kind: Any, outcomes: list[StoredOutcome]) -> None:
        keep = 0
        for a, b in zip(self._held, view.messages, strict=False):
            if a != b:
                break
            keep += 1
        new = [
            StoredMessage(role=m.role, content=m.content, ids=None if m.ids is None else list(m.ids))
            for m in view.messages[keep:]
        ]
        self._held = list(view.messages)
        shared, self._ids = shared_prefix(self._ids, view.ids), [*view.ids, *sampled.ids]
        self._in_run += 1
        self._tokens += view.tokens + len(sampled.ids)
        self._overran = self._overran or self._over_tokens()
        rewritten, self._rewritten = self._rewritten, False
        self.inferences.append(
            Inference(
                turn=self.turn, event=event, keep=keep, new=new, hash=view_hash(view.ids), tokens_in=view.tokens, ids=list(sampled.ids),
                text=sampled.text, cut=sampled.cut, kind=kind, outcomes=outcomes, rewrite=rewritten, out=view.out,
                visible=sorted(view.visible), trained=sampled.trained, error=sampled.error, fill=round(view.tokens / self.profile.view_budget, 4),
                shared=shared,
            )
        )  # fmt: skip

    def trajectory(self, policy: str, kind: str | None = None) -> Trajectory:
        """The stored record of the episode so far."""
        probe = self.probe
        return Trajectory(
            id=(probe.id if probe else self.session.id), session=self.session, probe=probe.id if probe else None,
            variant=probe.variant if probe else None, signal=probe.signal if probe else None,
            base=probe.base if probe else None, hint=probe.hint if probe else "none", family=self.session.family, profile=self.profile.name, prompt=self.prompt,
            manager=self.manager.name if self.manager else None, policy=policy, kind=kind, wrong_note=bool(probe and probe.wrong_note), start=self.start,
            prefix_events=self.prefix_events, events=[e.as_dict() for e in self.log], inferences=self.inferences,
            replies=self.replies, stated=self.ledger.in_force(), reason=self.reason or "unfinished",
            notes={n.key: n.value for n in self.state.notes}, memory=self._memory(), truth=self.ledger.truth(),
            over_tokens=self._overran, indexed=self.rules.managed and self.rules.index,
        )  # fmt: skip

    def _memory(self) -> list[StoredEntry]:
        held = [("public", n) for n in self.state.notes]
        held += [(w.id, n) for w in self.state.windows.values() for n in w.memory]
        return [StoredEntry(scope=s, key=n.key, value=n.value, status=n.status, standing=n.standing) for s, n in held]


def play(episodes: Sequence[Episode], policy: Policy, on_step: Callable[[int], None] | None = None) -> None:
    """Play episodes to their end in lock-step: one policy call for all that are not done.

    ``on_step`` is called after every round with the number of episodes that ended in it.
    """
    live = [e for e in episodes if not e.done]
    while live:
        turns = policy.act([e.view() for e in live])
        for episode, turn in zip(live, turns, strict=True):
            episode.step(turn)
        left = [e for e in live if not e.done]
        if on_step:
            on_step(len(live) - len(left))
        live = left
