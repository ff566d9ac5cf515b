"""Fold and prefix compression: which ranges may go, what their text must say, and whether the view gets shorter by it."""

from __future__ import annotations

import re
from dataclasses import replace

from envs.calls import Done, Host, Rejected, resolve, span
from envs.compact import Call
from envs.shown import shown_text
from envs.state import Boundary, Fold, State, exchange_of, fold_at, last_before, reason_out
from envs.view import freeze, render


def fold(host: Host, state: State, call: Call) -> Done:
    """Replace a range of whole exchanges of the current window by a brief and kept references."""
    first, last = _range(host, state, call.args["first"], call.args["last"])
    shape = host.say(state, "fold", first=call.args["first"], last=call.args["last"], text="brief")
    if len(state.window.folds) >= host.profile.max_folds:
        ends = _run_end(host, state)
        instead = _compress_to(host, state, ends) if ends else "to answer: compress works once this turn of the user is done"
        raise Rejected("limit_exceeded", f"{host.profile.max_folds} folds stand", instead)
    _rewrites_left(host, state)
    keep = _kept(host, state, call, first, last, _pinned(state, first, last), shape)
    _check_text(host, call.args["text"], _covered(host, state, first, last), keep, shape)
    made = Fold(f"f{state.made[0] + 1}", first, last, call.args["text"], keep)
    after = add_fold(state, made)
    _gain(host, state, after)
    return Done(after, f"ok {made.id} e{first}-e{last}", "ok", rewrite=True)


def add_fold(state: State, made: Fold) -> State:
    """The state with one more fold in the current window."""
    after = state.with_window(replace(state.window, folds=(*state.window.folds, made)))
    return replace(after, made=(state.made[0] + 1, state.made[1]))


def _range(host: Host, state: State, first: int, last: int) -> tuple[int, int]:
    """A range that may be folded, widened to whole exchanges. Rejects any other."""
    log, window = host.log, state.window
    if first > last:
        raise Rejected("bad_arguments", "the range runs backwards", host.say(state, "fold", first=last, last=first, text="brief"))
    for seq in (first, last):
        if seq > host.turn:
            span(host, state, f"e{seq}")
    if window.boundary and first <= window.boundary.upto and log.main(first).window == window.id:
        raise Rejected(
            "range_already_compressed", f"{window.boundary.id} covers through e{window.boundary.upto}", "a later range"
        )
    if last >= host.turn:
        raise Rejected("range_unfinished", f"e{host.turn} is this turn", f"a range that ends before e{host.turn}")
    _one_window(host, state, first, last, f"a range within {window.id}")
    users = [s for s in range(first, last + 1) if log.main(s).role == "user"]
    if users:
        raise Rejected("range_has_user_message", f"e{users[0]} is a user message", "a range between user messages")
    first, last = exchange_of(log, first)[0], exchange_of(log, last)[1]
    crossed = next((f for f in window.folds if f.first <= last and first <= f.last), None)
    if crossed:
        raise Rejected("range_overlaps_fold", f"{crossed.id} covers e{crossed.first}-e{crossed.last}", "a range beside it")
    return first, last


def _one_window(host: Host, state: State, first: int, last: int, instead: str) -> None:
    for seq in range(first, last + 1):
        made = host.log.main(seq).window
        if made != state.current:
            raise Rejected("range_crosses_window", f"e{seq} belongs to {made}, you are in {state.current}", instead)


def compress(host: Host, state: State, call: Call) -> Done:
    """Replace what the current window holds through an event, finished Runs only, by a summary."""
    upto, log, window = call.args["upto"], host.log, state.window
    keep, covered = check_compress(host, state, call)
    first = log[log.places(window.id)[0]].seq
    boundary = Boundary(f"c{state.made[1] + 1}", upto, call.args["text"], keep, first)
    _check_text(host, call.args["text"], covered, keep, _compress_to(host, state, upto))
    after = add_boundary(state, boundary)
    _gain(host, state, after)
    return Done(after, f"ok {boundary.id} e{first}-e{upto}", "ok", rewrite=True)


def add_boundary(state: State, made: Boundary) -> State:
    """The state with a new boundary in the current window; folds that it covers stand no more."""
    window = state.window
    standing = tuple(f for f in window.folds if f.last > made.upto)
    gone = tuple(f for f in window.folds if f.last <= made.upto)
    after = state.with_window(
        replace(window, folds=standing, covered=(*window.covered, *gone), boundaries=(*window.boundaries, made))
    )
    return replace(after, made=(state.made[0], state.made[1] + 1), stages=tuple(s for s in state.stages if s.first > made.upto))


def check_compress(host: Host, state: State, call: Call) -> tuple[tuple[int, ...], int]:
    """Kept references, and tokens that the compression would replace. Rejects a range that may not be compressed."""
    upto, log, window = call.args["upto"], host.log, state.window
    ends = _run_end(host, state)
    shape = _compress_to(host, state, ends) if ends else host.say(state, "fold", first=2, last=5, text="brief")
    if upto > host.turn:
        span(host, state, f"e{upto}")
    if log.main(upto).window != window.id:
        raise Rejected("range_crosses_window", f"e{upto} belongs to {log.main(upto).window}, you are in {window.id}", shape)
    if window.boundary and upto <= window.boundary.upto:
        raise Rejected("range_already_compressed", f"{window.boundary.id} covers through e{window.boundary.upto}", shape)
    if upto > ends:
        raise Rejected("range_unfinished", f"e{upto} is in the current run", shape)
    fold = fold_at(window, upto)
    if fold and upto < fold.last:
        raise Rejected(
            "range_overlaps_fold", f"{fold.id} covers e{fold.first}-e{fold.last}", _compress_to(host, state, fold.last)
        )
    if log.main(upto).role != "user":
        end = exchange_of(log, upto)[1]
        if end > upto:
            raise Rejected("range_splits_call", f"the turn of e{upto} has results through e{end}", _compress_to(host, state, end))
    _rewrites_left(host, state)
    first = log[log.places(window.id)[0]].seq
    cited = {r for n in (*state.notes, *window.memory) for r in n.refs}
    held = [*(window.boundary.keep if window.boundary else ()), *(k for f in window.folds if f.last <= upto for k in f.keep)]
    kept = [k for k in dict.fromkeys(held) if k not in cited]
    must = list(dict.fromkeys([*_pinned(state, first, upto), *kept[-host.profile.max_keep :]]))
    keep = _kept(host, state, call, first, upto, must, _compress_to(host, state, upto))
    covered = _covered(host, state, window.boundary.upto + 1 if window.boundary else first, upto)
    if window.boundary:
        covered += host.chat.count(window.boundary.summary)
    return keep, covered


def _run_end(host: Host, state: State) -> int:
    """The last event of the window that a compression may cover: the one before the current Run; 0 when there is none."""
    return last_before(host.log, state.current, host.log.run_start(state.run))


def _compress_to(host: Host, state: State, upto: int) -> str:
    return host.say(state, "compress", upto=upto, text="summary")


def _rewrites_left(host: Host, state: State) -> None:
    most = host.profile.max_rewrites
    if most is not None and state.rewrites >= most:
        raise Rejected("limit_exceeded", f"{most} rewrites are used up", "go on with the task")


def _pinned(state: State, first: int, last: int) -> list[int]:
    """Sources of open notes in the range: they must be kept."""
    return [r for n in (*state.notes, *state.window.memory) if n.status == "open" for r in n.refs if first <= r <= last]


def _kept(host: Host, state: State, call: Call, first: int, last: int, must: list[int], shape: str) -> tuple[int, ...]:
    """The kept references of a fold or compression. What must be kept may also be named in the text (``desks e3``): it stays readable."""
    keep = resolve(host, state, call.args["refs"])
    outside = [k for k in keep if not first <= k <= last]
    if outside:
        raise Rejected("bad_arguments", f"e{outside[0]} is not in e{first}-e{last}", shape)
    if not host.profile.refuse_lossy:
        return keep
    named = {int(m) for m in re.findall(r"\be([1-9][0-9]{0,5})\b", call.args["text"])}
    most = host.profile.max_keep
    lost = [m for m in must[:most] if m not in keep and m not in named]
    # A sub-agent writes its summary later: the host keeps what must be kept.
    if lost and host.profile.compress_by == "agent" and call.tool == "compress":
        return tuple(dict.fromkeys([*must[:most], *keep]))[:most]
    if lost:
        args = {**call.args, "text": "summary" if call.tool == "compress" else "brief"}
        args["refs"] = tuple(f"e{k}" for k in list(dict.fromkeys([*must[:most], *keep]))[:most])
        raise Rejected("lost_pinned", f"e{lost[0]} must be kept", host.say(state, call.tool, **args))
    return keep


def _check_text(host: Host, text: str, covered: int, keep: tuple[int, ...], shape: str) -> None:
    """Refuse a brief or summary that says nothing, or too much for what it covers."""
    size, profile = host.chat.count(text), host.profile
    if "\n" in text:
        raise Rejected("bad_arguments", "the text stands on one line", shape)
    least = max(profile.min_brief_tokens, -(-int(covered * profile.min_brief_share * 100) // 100))
    if profile.refuse_empty and size < least:
        raise Rejected("empty_text", f"{size} tokens say too little of {covered}, at least {least}", shape)
    if profile.refuse_gainless and size > profile.max_brief_share * covered:
        most = int(profile.max_brief_share * covered)
        raise Rejected("no_gain", f"{size} tokens for {covered} covered, at most {most}", "a shorter text or none")
    if len(keep) > profile.max_keep:
        raise Rejected("no_gain", f"{len(keep)} kept references, at most {profile.max_keep}", "fewer references")


def _covered(host: Host, state: State, first: int, last: int) -> int:
    """Tokens that the range takes in the view as it stands: what a brief of it replaces."""
    total, seen = 0, set[str]()
    for position in range(host.log.position(first), len(host.log)):
        event = host.log[position]
        seq = event.turn if event.sub else event.seq
        if seq > last or (event.role == "user" and event.seq > last):
            break
        reason = reason_out(host.log, state, event)
        fold = fold_at(state.window, seq)
        if fold and reason == fold.id and fold.id not in seen:
            seen.add(fold.id)
            total += host.chat.count(fold.brief)
        elif not reason:
            total += host.chat.count(shown_text(event, host.profile, host.chat))
    return total


def without_turn(state: State, turn: int) -> State:
    """The state as if policy turn ``turn`` had left the view already."""
    return replace(state, hidden={**state.hidden, turn: "control"})


def _tokens(host: Host, state: State) -> int:
    """Tokens of header and history rendered anew, the calling turn left out."""
    bare = without_turn(state, host.turn)
    profile = replace(host.profile, mapping="D")
    return render(host.log, freeze(host.log, bare, profile), profile, host.chat, "").tokens


def _gain(host: Host, before: State, after: State) -> None:
    if not host.profile.refuse_gainless:
        return
    saved = _tokens(host, before) - _tokens(host, after)
    if saved < host.profile.min_gain:
        raise Rejected("no_gain", f"saves {saved} tokens, at least {host.profile.min_gain}", "a longer range or none")
