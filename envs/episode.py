"""One session played: user turns, policy turns, business tools, host upkeep, limits, termination.

The episode keeps the ground-truth log and hands out views; it never calls a policy. ``play`` drives many episodes in lock-step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from envs.chat import ChatML, Message
from envs.compact import parse
from envs.ledger import Ledger
from envs.log import Log
from envs.managers import Manager
from envs.omissions import inject
from envs.policies.base import Policy, Sampled, View
from envs.profiles import CORE_TOOLS, Profile, check_capacity
from envs.state import Delta, State, after_rewrite
from envs.tasks.base import Probe, Session
from envs.tools import Host, Rejected, apply, business
from envs.trajectory import Inference, StoredMessage, StoredOutcome, Trajectory, view_hash
from envs.view import header, render

NOTICE = "[host] no call and no answer"


class Episode:
    """A session under a profile, from its first user turn.

    Args:
        session: the script; the host reads only its texts, tools and responses.
        manager: for ``plain@1``: a host-only manager that chooses what of the history is shown.

    Raises:
        ValueError: the profile's fixed parts take more than 60 % of its view budget.
    """

    def __init__(
        self, session: Session, profile: Profile, chat: ChatML, *, prompt: str = "neutral", manager: Manager | None = None
    ) -> None:
        check_capacity(profile, chat, prompt, session.tools)
        self.session, self.profile, self.chat, self.prompt, self.manager = session, profile, chat, prompt, manager
        self.probe: Probe | None = None
        self.system = profile.system(prompt, session.tools)
        self.log, self.state, self.ledger = Log(), State(), Ledger(session)
        self.done, self.reason = False, ""
        self.turn = -1
        """Index of the user turn being played."""
        self.turn = -1
        """Index of the user turn being played."""
        self.inferences: list[Inference] = []
        self.replies: dict[int, str] = {}
        self.start, self.prefix_events = 0, 0
        self._in_run = self._notices = 0
        self._replaying = False  # a frozen prefix is history: no limit of the view ends it
        self._tokens = 0
        self._rewritten = False
        self._view: View | None = None
        self._held: list[Message] = []
        self._next_user()

    @classmethod
    def from_probe(
        cls, probe: Probe, profile: Profile, chat: ChatML, *, prompt: str = "neutral", manager: Manager | None = None
    ) -> Episode:
        """The episode of a probe at the point where the policy takes over: prefix replayed, injection applied, question asked.

        Without context tools the context calls of the prefix never happened, and there is nothing to damage.
        """
        episode = cls(probe.session, profile, chat, prompt=prompt, manager=manager)
        episode._replaying = True
        for text in probe.prefix:
            said = text if profile.managed else plain_turn(text, probe.session)
            if said:
                episode.step(Sampled(chat.turn_ids(said), said))
        if episode.done or episode.turn != probe.start:
            raise ValueError(
                f"probe {probe.id}: its prefix ends in turn {episode.turn} ({episode.reason}), not in turn {probe.start}"
            )
        episode.probe, episode.start, episode.prefix_events = probe, probe.start, len(episode.log)
        if profile.managed:
            episode.state = inject(episode.log, episode.state, probe.injection)
            episode.state = replace(episode.state, header=header(episode.log, episode.state, profile))
        episode._replaying = False
        episode.inferences, episode._held, episode._tokens, episode._in_run, episode._notices = [], [], 0, 0, 0
        episode._rewritten = False
        episode._prepare()
        return episode

    # ---- what a policy sees and does ------------------------------------------------------------------------------------

    def view(self) -> View:
        """The input of the next inference. Raises RuntimeError when the episode is over."""
        view = self._open_view()
        # A copy: whatever a policy does to it, the record holds what was rendered.
        return View(list(view.messages), list(view.ids), list(view.out), view.visible)

    def _open_view(self) -> View:
        if self.done or self._view is None:
            raise RuntimeError(f"the episode is over ({self.reason}): there is no view")
        return self._view

    def step(self, sampled: Sampled) -> None:
        """Take one policy turn: log it, carry out its calls or accept its answer, and bring the next view about."""
        view = self._open_view()
        event = self.log.append(
            "assistant", sampled.text, window=self.state.current, run=self.state.run, ids=tuple(sampled.ids)
        )  # fmt: skip
        parsed = parse(sampled.text, sampled.cut, self.profile, self.session.tools)
        outcomes: list[StoredOutcome] = []
        if parsed.kind == "notice":
            self._notices += 1
            self.log.append_outcome(event.seq, NOTICE, window=self.state.current, run=self.state.run, name="notice")
            outcomes.append(StoredOutcome(tool="", code="notice", text=NOTICE))
        elif parsed.kind == "calls":
            outcomes = self._calls(event.seq, parsed.calls)
        self._store(view, sampled, event.seq, parsed.kind, outcomes)
        if parsed.kind == "answer":
            self.replies[self.turn] = sampled.text.strip()
            if self.turn + 1 == len(self.session.turns):
                self._end("answered")
                return
            self._next_user()
        else:
            self._prepare()

    def _calls(self, turn: int, calls: Sequence[Any]) -> list[StoredOutcome]:
        host = Host(self.log, self.profile, self.chat, self.session, turn)
        business_tools = {t.name for t in self.session.tools}
        outcomes: list[StoredOutcome] = []
        rewrite = False
        window, run = self.state.current, self.state.run
        for call in calls:
            args = {k: list(v) if isinstance(v, tuple) else v for k, v in call.args.items()}
            if call.tool in business_tools and not call.code:
                spelled, text = business(self.session, call)
                event = self.log.append("tool", text, window=window, run=run, name=call.tool, turn=turn)
                self.ledger.observe(f"call:{spelled}", event.seq)
                outcomes.append(StoredOutcome(tool=call.tool, code="result", text=text, args=args, event=event.seq))
                continue
            try:
                done = apply(host, self.state, call)
            except Rejected as no:
                self.log.append_outcome(turn, no.line, window=window, run=run, name=no.code)
                outcomes.append(StoredOutcome(tool=call.tool, code=no.code, text=no.line, args=args))
                continue
            self.state, rewrite = done.state, rewrite or done.rewrite
            self.log.append_outcome(turn, done.text, window=window, run=run, name=done.name, shows=done.shows)
            code = "ok" if done.name == "ok" else "shown"
            outcomes.append(StoredOutcome(tool=call.tool, code=code, text=done.text, args=args, shows=list(done.shows)))
        if rewrite:
            self._rewrite(turn)
        return outcomes

    # ---- the host's side ------------------------------------------------------------------------------------------------

    def _rewrite(self, turn: int | None) -> None:
        state = after_rewrite(self.log, self.state, turn)
        self.state = replace(state, header=header(self.log, state, self.profile))
        self._rewritten = True

    def _next_user(self) -> None:
        self.turn += 1
        self._in_run = self._notices = 0
        self.state = replace(self.state, run=self.turn)
        turn = self.session.turns[self.turn]
        event = self.log.append("user", turn.text, window=self.state.current, run=self.turn)
        self.ledger.observe(f"turn:{self.turn}", event.seq)
        self._prepare()

    def _prepare(self) -> None:
        """Make the next view: fill marks, upkeep when over budget, limits."""
        profile = self.profile
        if self._in_run >= profile.inferences_per_run:
            return self._end("limit_run")
        if self._notices >= profile.notices_per_run:
            return self._end("limit_notices")
        if len(self.inferences) >= profile.inferences_per_session:
            return self._end("limit_session")
        if self._tokens >= profile.tokens_per_session:
            return self._end("limit_tokens")
        view = self._render()
        while view.tokens > profile.view_budget and self._clear_oldest(view):
            view = self._render()
        if view.tokens > profile.view_budget and not self._replaying:
            return self._end("context_overflow")
        passed = [m for m in profile.fill_marks if view.tokens * 100 >= m * profile.view_budget]
        if profile.managed and passed and passed[-1] > self.state.fill_mark:
            view = self._tell_fill(view, passed[-1])
        self._view = view
        return None

    def _render(self) -> View:
        if self.manager is None:
            return render(self.log, self.state, self.profile, self.chat, self.system)
        messages = self.manager(self.log, self.profile.view_budget, self.chat, self.system)
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
        for seq in sorted(view.visible):
            event = self.log.main(seq)
            if (event.role == "tool" and event.run < self.state.run) or (event.role == "tool" and seq < self._newest_turn()):
                self.log.append_outcome(
                    self._newest_turn(), f"[host] cleared e{seq}", window=self.state.current, run=self.state.run, name="clear"
                )
                self.state = replace(self.state, cleared=self.state.cleared | {seq}, version=self.state.version + 1)
                self._rewrite(None)
                return True
        return False

    def _newest_turn(self) -> int:
        return max((e.seq for e in self.log if e.role == "assistant"), default=0)

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
        self._in_run += 1
        self._tokens += view.tokens + len(sampled.ids)
        rewritten, self._rewritten = self._rewritten, False
        self.inferences.append(
            Inference(
                turn=self.turn, event=event, keep=keep, new=new, hash=view_hash(view.ids), tokens_in=view.tokens, ids=list(sampled.ids),
                text=sampled.text, cut=sampled.cut, kind=kind, outcomes=outcomes, rewrite=rewritten, out=view.out,
                visible=sorted(view.visible), trained=sampled.trained, fill=round(view.tokens / self.profile.view_budget, 4),
            )
        )  # fmt: skip

    def trajectory(self, policy: str, kind: str | None = None) -> Trajectory:
        """The stored record of the episode so far."""
        probe = self.probe
        return Trajectory(
            id=(probe.id if probe else self.session.id), session=self.session, probe=probe.id if probe else None,
            variant=probe.variant if probe else None, signal=probe.signal if probe else None,
            base=probe.base if probe else None, family=self.session.family, profile=self.profile.name, prompt=self.prompt,
            manager=self.manager.__name__ if self.manager else None, policy=policy, kind=kind, wrong_note=bool(probe and probe.wrong_note), start=self.start,
            prefix_events=self.prefix_events, events=[e.as_dict() for e in self.log], inferences=self.inferences,
            replies=self.replies, stated=self.ledger.in_force(), reason=self.reason or "unfinished",
            notes={n.key: n.value for n in self.state.notes},
        )  # fmt: skip


def plain_turn(text: str, session: Session) -> str:
    """What of a policy turn exists under plain history: business calls and answers do, context calls do not ("" when nothing is left)."""
    names = {t.name for t in session.tools}
    lines = [line for line in text.split("\n") if line.split(" ", 1)[0] not in CORE_TOOLS or line.split(" ", 1)[0] in names]
    return "\n".join(lines)


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
