"""``lean@1``: the policy says what it means (a stage is done, something is needed again), the host does the mechanics.

Below the admission length the session is plain history without context tools. Above it, a finished stage waits until its size and
the fill ask for a fold; the host never folds as a rite.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envs.calls import Done, Host, Rejected, limit_text
from envs.compact import Call, parse_note
from envs.log import Log
from envs.profiles import Profile
from envs.search import search
from envs.state import Fold, Stage, State, exchange_of


def stage_done(host: Host, state: State, call: Call) -> Done:
    """The stage so far is finished: its outcome becomes the brief of a later fold, its constraints go to the register."""
    from envs.tools import note  # the register's own rules, which import this module's calls

    outcome = call.args["outcome"].strip()
    limit_text(host, "outcome", outcome, host.profile.text_tokens, "a shorter outcome")
    stages = open_stages(host.log, state, host.turn - 1)
    if not stages:
        raise Rejected("no_gain", "nothing happened since the last stage", "go on with the task")
    after, rewrite = state, False
    for text in call.args["constraints"]:
        given = parse_note(text)
        if given.code:
            raise Rejected(given.code, f"constraint {text[:40]!r}: {given.why}", given.instead)
        try:
            done = note(host, after, given)
        except Rejected as no:
            if no.code != "no_gain":  # noted already is fine here
                raise Rejected(no.code, f"constraint {given.args['key']}: {no.why}", no.instead) from None
            continue
        after, rewrite = done.state, rewrite or done.rewrite
    made = tuple(Stage(first, last, outcome, tuple(r for r in _tools(host.log, first, last))) for first, last in stages)
    return Done(replace(after, stages=(*after.stages, *made)), "ok", "ok", rewrite=rewrite)


def open_stages(log: Log, state: State, upto: int) -> list[tuple[int, int]]:
    """Stretches of whole exchanges with business calls, between user messages, that no stage or fold holds yet."""
    begin = max([0, *(s.last for s in state.stages), *(f.last for f in state.window.folds)])
    found: list[tuple[int, int]] = []
    seq = begin + 1
    while seq <= upto:
        if log.main(seq).role != "assistant":
            seq += 1
            continue
        first, last = exchange_of(log, seq)
        if last > first:
            if found and found[-1][1] == first - 1:
                found[-1] = (found[-1][0], last)
            else:
                found.append((first, last))
        seq = last + 1
    return found


def _tools(log: Log, first: int, last: int) -> list[int]:
    return [s for s in range(first, last + 1) if log.main(s).role == "tool"][:8]


def due_stage(log: Log, state: State, profile: Profile, chat: Any, tokens: int) -> Stage | None:
    """The oldest finished stage that size and fill ask to fold now."""
    if tokens < profile.stage_fill * profile.view_budget or len(state.window.folds) >= profile.max_folds:
        return None
    for stage in state.stages:
        size = sum(chat.count(log.main(s).text) for s in range(stage.first, stage.last + 1))
        if size >= profile.stage_tokens and 2 * chat.count(stage.outcome) < size:
            return stage
    return None


def fold_stage(state: State, stage: Stage) -> State:
    """The state with a finished stage folded by the host."""
    from envs.rewrites import add_fold

    made = Fold(f"f{state.made[0] + 1}", stage.first, stage.last, stage.outcome, stage.keep)
    return add_fold(replace(state, stages=tuple(s for s in state.stages if s != stage)), made)


def recall(host: Host, state: State, call: Call) -> Done:
    """Raw evidence for what is asked: the first page of the best hits, with their references."""
    hits = search(host.log, call.args["what"], host.turn, 2, host.profile.find_tokens, host.chat)
    texts, room = [], host.profile.page_tokens
    for seq, _ in hits:
        event = host.log.main(seq)
        name = {"user": "user", "assistant": "own"}.get(event.role, event.name)
        page = host.chat.clip(event.text, room)
        texts.append(f"[e{seq} {name}] {page}")
        room -= host.chat.count(page)
        if room < host.profile.find_tokens:
            break
    shows = tuple(seq for seq, _ in hits[: len(texts)])
    return Done(state, "\n".join(texts) or "no hit", "recall", shows)
