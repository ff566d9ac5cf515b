"""``lean@1``: the policy says what it means (a stage is done, something is needed again), the host does the mechanics.

Below the admission length the session is plain history without context tools. Above it, a finished stage waits until its size and
the fill ask for a fold; the host never folds as a rite.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envs.calls import Done, Host, Rejected, limit_text
from envs.compact import READ, Call, parse_note, parse_read
from envs.log import Log
from envs.profiles import Profile
from envs.search import search, words
from envs.state import Boundary, Fold, Stage, State, exchange_of, last_before

COMPRESS_FILL = 0.8
"""Fill from which the host compresses finished Runs whose stages are folded already."""


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
    boundary = state.window.boundary
    ends = [*(s.last for s in state.stages), *(f.last for f in state.window.folds), boundary.upto if boundary else 0]
    found: list[tuple[int, int]] = []
    fresh = True  # a user message has come since the last stretch
    seq = max(ends) + 1
    while seq <= upto:
        if log.main(seq).role == "user":
            fresh, seq = True, seq + 1
            continue
        first, last = exchange_of(log, seq)
        if last > first:  # turns between two exchanges (a note) belong to their stage
            if fresh:
                found.append((first, last))
            else:
                found[-1] = (found[-1][0], last)
            fresh = False
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


def due_boundary(log: Log, state: State, profile: Profile, chat: Any, tokens: int) -> Boundary | None:
    """A compression of the finished Runs, once folds alone no longer hold the view down: their briefs, oldest first to go."""
    window = state.window
    upto = last_before(log, state.current, log.run_start(state.run))
    gone: list[Fold | Stage] = [f for f in window.folds if f.last <= upto]
    if not gone or tokens < COMPRESS_FILL * profile.view_budget or any(f.first <= upto < f.last for f in window.folds):
        return None
    gone += [s for s in state.stages if s.last <= upto]
    gone.sort(key=lambda g: g.first)
    parts = [window.boundary.summary] if window.boundary else []
    parts += dict.fromkeys(g.brief if isinstance(g, Fold) else g.outcome for g in gone)
    while len(parts) > 1 and chat.count("; ".join(parts)) > profile.text_tokens:
        parts.pop(0)
    keep = [*(window.boundary.keep if window.boundary else ()), *(k for f in gone for k in f.keep)]
    first = log[log.places(window.id)[0]].seq
    return Boundary(f"c{state.made[1] + 1}", upto, "; ".join(parts), tuple(dict.fromkeys(keep))[-profile.max_keep :], first)


def recall(host: Host, state: State, call: Call) -> Done:
    """Raw evidence for what is asked, with references: of the best hits the page that holds most of the words.

    A reference instead of words (``e3``, ``e3 p2``) reads that page.
    """
    what = call.args["what"].strip()
    if READ.match(f"read {what}"):
        from envs.tools import read  # read-back proper, which imports this module's calls

        return read(host, state, parse_read(what))
    hits = search(host.log, what, host.turn, 2, host.profile.find_tokens, host.chat)
    wanted = set(words(what))
    texts: list[str] = []
    shows: list[int] = []
    room = host.profile.page_tokens
    for seq, _ in hits:
        event = host.log.main(seq)
        pages = host.chat.pages(event.text, host.profile.page_tokens)
        number = max(range(len(pages)), key=lambda n: (len(wanted & set(words(pages[n]))), -n))
        size = host.chat.count(pages[number])
        if texts and size > room:
            break
        room -= size
        name = {"user": "user", "assistant": "own"}.get(event.role, event.name)
        texts.append(f"[e{seq} {name}] p{number + 1}/{len(pages)}\n{pages[number]}")
        shows.append(seq)
    return Done(state, "\n".join(texts) or "no hit", "recall", tuple(shows))
