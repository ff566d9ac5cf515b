"""``render(log, state, …) -> View``: what the policy sees at one inference. Pure and deterministic, never reads ground truth.

System message (prompt, tool contract, header), then history in order of the log: a fold or boundary stands where its range
began. Everything that is not the policy's own turn is ``user``; neighbouring host blocks join by a line feed.

``Renderer`` gives the same views and does again only what changed: between two rewrites the history is held and extended.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from envs.chat import ChatML, Message
from envs.header import header, state_block
from envs.index import gaps
from envs.log import Event, Log
from envs.policies.base import View
from envs.profiles import Profile
from envs.shown import is_paged, shown_text
from envs.state import Fold, State, reason_out


def freeze(log: Log, state: State, profile: Profile) -> State:
    """The state right after a rewrite, with its index and header."""
    state = replace(state, index=tuple(gaps(log, state)) if profile.managed else ())
    return replace(state, header=header(log, state, profile)) if profile.managed else state


def block(event: Event, state: State, chat: ChatML, profile: Profile) -> str:
    """The text of one host-rendered event."""
    if event.role == "host" or not profile.managed:
        return event.text
    if event.role == "user":
        return f"[e{event.seq} {event.name or 'user'}] {event.text}"
    if event.seq in state.cleared:
        return f"[e{event.seq} {event.name}] cleared {chat.count(event.text)} tokens"
    return f"[e{event.seq} {event.name}] {shown_text(event, profile, chat)}"


def fold_block(fold_id: str, first: int, last: int, text: str, keep: tuple[int, ...]) -> str:
    """The line that stands for a fold or a boundary: ``[f1 e2-e3] brief @e3``."""
    refs = f" @{','.join(f'e{k}' for k in keep)}" if keep else ""
    return f"[{fold_id} e{first}-e{last}] {text}{refs}"


class Renderer:
    """Views of one episode. ``system`` is prompt and tool contract, fixed for the episode.

    Holds the messages up to the newest policy turn ("closed"); what the host said after it is written anew for every view.
    """

    def __init__(self, profile: Profile, chat: ChatML, system: str) -> None:
        self.profile, self.chat, self.system = profile, chat, system
        self._epoch = -1
        self._todo: list[int | Fold] = []
        self._tail: list[str] = []
        self._tail_visible: set[int] = set()

    def render(self, log: Log, state: State) -> View:
        """The view of a state. ``log`` and ``state`` must come from one episode, not older than at the call before."""
        if self._epoch != state.rewrites:
            self._start(log, state)
        self._extend(log, state)
        head = self._head
        if self.profile.managed and self.profile.mapping != "D":
            head = self._system_message(header(log, state, self.profile))
        messages = [head, *self._messages]
        ids = [*self.chat.message_ids(head), *self._ids]
        tail = list(self._tail)
        block = state_block(state) if self.profile.state_block else ""
        if block and self.profile.mapping == "B":
            tail.append(block)
        last = [Message("user", "\n".join(tail))] if tail else []
        if block and self.profile.mapping == "C":
            last.append(Message("assistant", block))
        for message in last:
            ids += self.chat.message_ids(message)
        messages += last
        ids += self.chat.generation
        return View(messages, ids, list(self._out), frozenset(self._visible | self._tail_visible), frozenset(self._parts))

    def upto(self, log: Log, state: State, last: int) -> str:
        """The history through event ``last`` as one text, as the policy sees it."""
        self._start(log, state)
        end = log.position(last + 1) if last < log.last else len(log)
        self._todo = [i for i in self._todo if (log.position(i.first) if isinstance(i, Fold) else i) < end]
        self._next = len(log.places(state.current))
        self._extend(log, state)
        return "\n".join([*(m.content for m in self._messages), *self._tail])

    def _system_message(self, text: str) -> Message:
        return Message("system", f"{self.system}\n{text}" if self.profile.managed else self.system)

    def _start(self, log: Log, state: State) -> None:
        """Begin anew after a rewrite: the boundary, then every place of the window that no fold covers."""
        self._epoch = state.rewrites
        self._head = self._system_message(state.header)
        self._out = [str(g) for g in state.index]
        self._messages: list[Message] = []
        self._ids: list[int] = []
        self._visible: set[int] = set()
        self._parts: set[int] = set()
        self._host: list[str] = []
        self._host_visible: set[int] = set()
        self._todo = []
        boundary = state.window.boundary
        if boundary:
            self._host.append(fold_block(boundary.id, boundary.first, boundary.upto, boundary.summary, boundary.keep))
        places = log.places(state.current)
        at = bisect_left(places, log.position(boundary.upto) + 1) if boundary else 0
        for fold in sorted(state.window.folds, key=lambda f: f.first):
            begin = bisect_left(places, log.position(fold.first))
            self._todo += places[at:begin]
            self._todo.append(fold)
            at = bisect_left(places, log.position(fold.last + 1)) if fold.last < log.last else _after(log, places, fold.last)
        self._todo += places[at:]
        self._next = len(places)
        elsewhere = [
            log.position(seq)
            for run in range(state.protect, state.run + 1)
            for seq in log.run_users(run)
            if log.main(seq).window != state.current
        ]
        if elsewhere:
            self._todo.extend(elsewhere)
            self._todo.sort(key=lambda item: log.position(item.first) if isinstance(item, Fold) else item)
        self._deltas = 0

    def _extend(self, log: Log, state: State) -> None:
        """Take in what the log holds beyond the closed part; sets the tail."""
        places = log.places(state.current)
        self._todo += places[self._next :]
        self._next = len(places)
        host, visible = list(self._host), set(self._host_visible)
        deltas, told = state.deltas, self._deltas
        done = 0
        for number, item in enumerate(self._todo):
            if isinstance(item, Fold):
                host.append(fold_block(item.id, item.first, item.last, item.brief, item.keep))
                continue
            while told < len(deltas) and deltas[told].after <= item:
                host.append(deltas[told].text)
                told += 1
            event = log[item]
            reason = reason_out(log, state, event)
            if reason and reason != "cleared":
                continue
            if not event.sub and not reason:
                (self._parts if is_paged(event, self.profile, self.chat) else visible).add(event.seq)
            if event.role != "assistant":
                host.append(block(event, state, self.chat, self.profile))
                continue
            if host:
                self._close(Message("user", "\n".join(host)))
            self._close(Message("assistant", event.text, event.ids))
            self._visible |= visible
            host, visible, done = [], set(), number + 1
            self._host, self._host_visible, self._deltas = [], set(), told
        self._todo = self._todo[done:]
        self._tail, self._tail_visible = [*host, *(d.text for d in deltas[told:])], visible

    def _close(self, message: Message) -> None:
        self._messages.append(message)
        self._ids += self.chat.message_ids(message)


def _after(log: Log, places: list[int], last: int) -> int:
    """Index in ``places`` of the first entry after the newest exchange, whose outcomes belong to it."""
    at = bisect_left(places, log.position(last) + 1)
    turn = log.main(last).turn or last
    while at < len(places) and (log[places[at]].turn == turn):
        at += 1
    return at


def render(log: Log, state: State, profile: Profile, chat: ChatML, system: str) -> View:
    """The view of a state, from nothing."""
    return Renderer(profile, chat, system).render(log, state)
