"""The tool contract: validate a parsed call against log and state, then apply it or reject it. A rejection changes nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace

from envs.chat import ChatML
from envs.compact import Call, canonical_call
from envs.log import Log
from envs.profiles import Profile
from envs.search import search
from envs.state import Boundary, Fold, Note, State, exchange, exchange_of, fold_at, reason_out, run_start, standing_folds
from envs.tasks.base import Session
from envs.view import header, history


class Rejected(Exception):  # noqa: N818  (an outcome of the protocol, not an error)
    """A call that the host refuses: ``code``, one line of reason, the valid alternative."""

    def __init__(self, code: str, why: str, instead: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code, self.why, self.instead = code, why, instead

    @property
    def line(self) -> str:
        return f"! {self.code}: {self.why}; try {self.instead}"


@dataclass(frozen=True, slots=True)
class Done:
    """An accepted call: the outcome text, its name in the log, events whose text it shows, and whether it rewrites the view."""

    state: State
    text: str
    name: str
    shows: tuple[int, ...] = ()
    rewrite: bool = False


@dataclass(frozen=True, slots=True)
class Host:
    """What a call is carried out on: the log so far (the calling turn included), the rules, and the calling turn."""

    log: Log
    profile: Profile
    chat: ChatML
    session: Session
    turn: int


def normalise(text: str) -> str:
    """NFKC, casefolded, whitespace squeezed: how values are looked for in texts."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def resolve(host: Host, state: State, refs: tuple[str, ...]) -> tuple[int, ...]:
    """Events that references mean: ``f1`` and ``c1`` mean their range, a read-back turn its originals. Rejects unknown ones."""
    found: list[int] = []
    for ref in refs:
        first, last = span(host, state, ref)
        for seq in range(first, last + 1):
            aliases = [s for e in host.log if e.turn == seq and e.sub for s in e.shows] if ref[0] == "e" else []
            found += aliases or [seq]
    return tuple(dict.fromkeys(found))


def span(host: Host, state: State, ref: str) -> tuple[int, int]:
    """First and last event of one reference. Rejects unknown ones; the calling turn itself is not there yet."""
    last = host.turn - 1
    if ref[0] == "e":
        seq = int(ref[1:])
        if seq > last:
            raise Rejected("unknown_ref", f"no {ref}, the log ends at e{last}", f"e1 to e{last}")
        return seq, seq
    for window in state.windows.values():
        for fold in window.folds:
            if fold.id == ref:
                return fold.first, fold.last
        for boundary in window.boundaries:
            if boundary.id == ref:
                return 1, boundary.upto
    ids = [f.id for f in state.window.folds] + [b.id for b in state.window.boundaries]
    raise Rejected("unknown_ref", f"no {ref}", ", ".join(ids[-4:]) or "an event such as e1")


def _note(host: Host, state: State, call: Call) -> Done:
    key, value, status = call.args["key"], call.args["value"], call.args["status"]
    profile, log = host.profile, host.log
    refs = resolve(host, state, call.args["refs"])
    if len(refs) > profile.max_keep:
        raise Rejected("bad_arguments", f"{len(refs)} sources, at most {profile.max_keep}", f"note {key}={value} @e{refs[-1]}")
    size = host.chat.count(f"{key}={value}")
    if size > profile.note_tokens:
        raise Rejected(
            "limit_exceeded", f"{size} tokens, a note has at most {profile.note_tokens}", f"note {key}= a shorter value"
        )
    held = state.note(key)
    stating = {r: log.main(r).role for r in refs if normalise(value) in normalise(log.main(r).text)}
    refs = tuple(sorted(refs, key=lambda r: r not in stating))  # stable: the header shows the first one
    from_user = "user" in stating.values()
    if not set(stating.values()) & {"user", "tool"}:
        standing = "candidate"
    elif not from_user and held and held.user_value and normalise(held.user_value) != normalise(value):
        standing = "pending"
    else:
        standing = "current"
    note = Note(
        key, value, refs, status or "current", standing, user_value=value if from_user else held.user_value if held else ""
    )
    text = "ok" if standing == "current" else f"ok {standing}"
    if held:
        if (held.value, held.refs, held.status) == (note.value, note.refs, note.status):
            raise Rejected("no_gain", f"{key}={value} is noted already", "go on with the task")
        was = held.was if held.value == value else (held.refs[0] if held.refs else 0)
        note = replace(note, was=was, version=held.version + 1)
        notes = tuple(note if n.key == key else n for n in state.notes)
        return Done(replace(state, notes=notes), text, "ok", rewrite=True)
    notes = state.notes
    if len(notes) >= profile.max_notes:
        old = next((n for n in notes if n.status == "old"), None)
        if old is None:
            could = ", ".join(n.key for n in notes[:3])
            source = ",".join(f"e{r}" for r in notes[0].refs) or "e1"
            raise Rejected(
                "memory_full", f"{len(notes)} notes; {could} could go", f"note {notes[0].key}={notes[0].value} @{source} old"
            )
        notes = tuple(n for n in notes if n is not old)
    return Done(replace(state, notes=(*notes, note)), text, "ok")


def _check_text(host: Host, text: str, covered: int, keep: tuple[int, ...], shape: str) -> None:
    """Refuse a brief or summary that says nothing, or too much for what it covers."""
    size, profile = host.chat.count(text), host.profile
    least = max(profile.min_brief_tokens, -(-int(covered * profile.min_brief_share * 100) // 100))
    if size < least:
        raise Rejected("empty_text", f"{size} tokens say too little of {covered}, at least {least}", shape)
    if size > profile.max_brief_share * covered:
        most = int(profile.max_brief_share * covered)
        raise Rejected("no_gain", f"{size} tokens for {covered} covered, at most {most}", "a shorter text or none")
    if len(keep) > profile.max_keep:
        raise Rejected("no_gain", f"{len(keep)} kept references, at most {profile.max_keep}", "fewer references")


def without_turn(state: State, turn: int) -> State:
    """The state as if policy turn ``turn`` had left the view already."""
    return replace(state, hidden={**state.hidden, turn: "control"})


def _tokens(host: Host, state: State) -> int:
    """Tokens of header and history rendered anew, the calling turn left out."""
    bare = without_turn(state, host.turn)
    messages, _ = history(host.log, bare, host.profile, host.chat)
    return host.chat.count(header(host.log, bare, host.profile)) + len(host.chat.render(messages))


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
            total += host.chat.count(event.text)
    return total


def _gain(host: Host, before: State, after: State) -> None:
    saved = _tokens(host, before) - _tokens(host, after)
    if saved < host.profile.min_gain:
        raise Rejected("no_gain", f"saves {saved} tokens, at least {host.profile.min_gain}", "a longer range or none")


def _pinned(state: State, first: int, last: int) -> list[int]:
    """Sources of open notes in the range: they must be kept."""
    return [r for n in state.notes if n.status == "open" for r in n.refs if first <= r <= last]


def _kept(host: Host, state: State, call: Call, first: int, last: int, must: list[int], shape: str) -> tuple[int, ...]:
    """The kept references of a fold or compression. What must be kept may also be named in the text (``desks e3``): it stays readable."""
    keep = resolve(host, state, call.args["refs"])
    outside = [k for k in keep if not first <= k <= last]
    if outside:
        raise Rejected("bad_arguments", f"e{outside[0]} is not in e{first}-e{last}", shape)
    named = {int(m) for m in re.findall(r"\be([1-9][0-9]{0,5})\b", call.args["text"])}
    most = host.profile.max_keep
    lost = [m for m in must[:most] if m not in keep and m not in named]
    if lost:
        want = ",".join(f"e{k}" for k in list(dict.fromkeys([*must[:most], *keep]))[:most])
        raise Rejected("lost_pinned", f"e{lost[0]} must be kept", f"{shape} @{want}")
    return keep


def _fold(host: Host, state: State, call: Call) -> Done:
    first, last, log, window = call.args["first"], call.args["last"], host.log, state.window
    shape = f"fold e{first}-e{last} brief"
    if first > last:
        raise Rejected("bad_arguments", "the range runs backwards", f"fold e{last}-e{first} brief")
    for seq in (first, last):
        if seq > host.turn:
            span(host, state, f"e{seq}")
    if window.boundary and first <= window.boundary.upto:
        raise Rejected(
            "range_already_compressed", f"{window.boundary.id} covers through e{window.boundary.upto}", "a later range"
        )
    if last >= host.turn:
        raise Rejected("range_unfinished", f"e{host.turn} is this turn", f"a range that ends before e{host.turn}")
    users = [s for s in range(first, last + 1) if log.main(s).role == "user"]
    if users:
        raise Rejected("range_has_user_message", f"e{users[0]} is a user message", "a range between user messages")
    first, last = exchange_of(log, first)[0], exchange_of(log, last)[1]
    crossed = next((f for f in standing_folds(window) if f.first <= last and first <= f.last), None)
    if crossed:
        raise Rejected("range_overlaps_fold", f"{crossed.id} covers e{crossed.first}-e{crossed.last}", "a range beside it")
    if len(standing_folds(window)) >= host.profile.max_folds:
        ends = run_start(log, state.run) - 1
        instead = f"compress e{ends} summary" if ends else "to answer: compress works once this turn of the user is done"
        raise Rejected("limit_exceeded", f"{host.profile.max_folds} folds stand", instead)
    keep = _kept(host, state, call, first, last, _pinned(state, first, last), shape)
    _check_text(host, call.args["text"], _covered(host, state, first, last), keep, shape)
    fold = Fold(f"f{len(window.folds) + 1}", first, last, call.args["text"], keep)
    after = state.with_window(replace(window, folds=(*window.folds, fold)))
    _gain(host, state, after)
    return Done(after, f"ok {fold.id} e{first}-e{last}", "ok", rewrite=True)


def _compress(host: Host, state: State, call: Call) -> Done:
    upto, log, window = call.args["upto"], host.log, state.window
    ends = run_start(log, state.run) - 1
    shape = f"compress e{ends} summary" if ends else "fold e2-e5 brief"
    if upto > host.turn:
        span(host, state, f"e{upto}")
    if window.boundary and upto <= window.boundary.upto:
        raise Rejected("range_already_compressed", f"{window.boundary.id} covers through e{window.boundary.upto}", shape)
    if upto > ends:
        raise Rejected("range_unfinished", f"e{upto} is in the current run", shape)
    fold = fold_at(window, upto)
    if fold and upto < fold.last:
        raise Rejected("range_overlaps_fold", f"{fold.id} covers e{fold.first}-e{fold.last}", f"compress e{fold.last} summary")
    event = log.main(upto)
    if event.role != "user":
        end = exchange_of(log, upto)[1]
        if end > upto:
            raise Rejected("range_splits_call", f"the turn of e{upto} has results through e{end}", f"compress e{end} summary")
    cited = {r for n in state.notes for r in n.refs}
    held = [
        *(window.boundary.keep if window.boundary else ()),
        *(k for f in standing_folds(window) if f.last <= upto for k in f.keep),
    ]
    kept = [k for k in dict.fromkeys(held) if k not in cited]
    must = list(dict.fromkeys([*_pinned(state, 1, upto), *kept[-host.profile.max_keep :]]))
    keep = _kept(host, state, call, 1, upto, must, f"compress e{upto} summary")
    boundary = Boundary(f"c{len(window.boundaries) + 1}", upto, call.args["text"], keep)
    covered = _covered(host, state, (window.boundary.upto if window.boundary else 0) + 1, upto)
    if window.boundary:
        covered += host.chat.count(window.boundary.summary)
    _check_text(host, call.args["text"], covered, keep, shape)
    after = state.with_window(replace(window, boundaries=(*window.boundaries, boundary)))
    _gain(host, state, after)
    return Done(after, f"ok {boundary.id} e1-e{upto}", "ok", rewrite=True)


def _name(host: Host, seq: int) -> str:
    event = host.log.main(seq)
    return {"user": "user", "assistant": "own"}.get(event.role, event.name)


def _read(host: Host, state: State, call: Call) -> Done:
    ref, last, page = call.args["ref"], call.args["last"], call.args["page"]
    first, end = span(host, state, ref)
    if last is not None:
        end = span(host, state, f"e{last}")[1]
        if end < first:
            raise Rejected("bad_arguments", "the range runs backwards", f"read e{end}-e{first}")
    events = list(range(first, end + 1))
    if len(events) == 1:
        title, text = f"e{first} {_name(host, first)}", host.log.main(first).text
        spans = [(0, len(text), first)]
    else:
        title, text, spans = f"e{first}-e{end}", "", []
        for seq in events:
            piece = f"[e{seq} {_name(host, seq)}] {host.log.main(seq).text}\n"
            spans.append((len(text), len(text) + len(piece), seq))
            text += piece
        text = text[:-1]
    pages = host.chat.pages(text, host.profile.page_tokens)
    if page > len(pages):
        what = ref if last is None else f"{ref}-e{end}"
        raise Rejected(
            "bad_arguments", f"{what} has {len(pages)} page{'s' if len(pages) > 1 else ''}", f"read {what} p{len(pages)}"
        )
    begin = sum(map(len, pages[: page - 1]))
    stop = begin + len(pages[page - 1])
    shows = tuple(seq for a, b, seq in spans if a < stop and begin < b)
    return Done(state, f"[{title}] p{page}/{len(pages)}\n{pages[page - 1]}", "read", shows)


def _find(host: Host, state: State, call: Call) -> Done:
    hits = search(host.log, call.args["query"], host.turn, host.profile.find_hits, host.profile.find_tokens, host.chat)
    text = "\n".join(f"[e{seq}] {snippet}" for seq, snippet in hits) or "no hit"
    return Done(state, text, "find", tuple(seq for seq, _ in hits))


APPLY: dict[str, Callable[[Host, State, Call], Done]] = {
    "note": _note,
    "fold": _fold,
    "compress": _compress,
    "read": _read,
    "find": _find,
}


def business(session: Session, call: Call) -> tuple[str, str]:
    """Canonical spelling and result text of a business call."""
    tool = next(t for t in session.tools if t.name == call.tool)
    spelled = canonical_call(tool, call.args)
    return spelled, session.responses.get(spelled, tool.missing)


def apply(host: Host, state: State, call: Call) -> Done:
    """Carry out one context call. Raises Rejected; then nothing has changed."""
    if call.code:
        raise Rejected(call.code, call.why, call.instead)
    done = APPLY[call.tool](host, state, call)
    if done.state is not state:
        done = replace(done, state=replace(done.state, version=state.version + 1))
    return done


__all__ = ["Done", "Host", "Rejected", "apply", "business", "exchange", "normalise", "resolve", "span", "without_turn"]
