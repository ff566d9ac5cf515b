"""The tool contract: validate a parsed call against log and state, then apply it or reject it. A rejection changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from envs.calls import Done, Host, Rejected, aliases_of, check_position, events_of, resolve, span
from envs.compact import Call, canonical_call
from envs.header import conflict_text, conflicts
from envs.lean import recall, stage_done
from envs.rewrites import compress, fold
from envs.search import search
from envs.state import Note, State
from envs.tasks.base import Session
from envs.text import same_value, states
from envs.windows import window_close, window_list, window_open, window_switch


def note(host: Host, state: State, call: Call) -> Done:
    """Write an entry of public or window memory. Writing a key again supersedes it; a public one then rewrites the view."""
    key, value, status = call.args["key"], call.args["value"], call.args["status"]
    scope = call.args.get("scope", "public")
    profile = host.profile
    word = "local" if scope == "window" else "note"
    refs = resolve(host, state, call.args["refs"])
    if len(refs) > profile.max_keep:
        raise Rejected(
            "bad_arguments",
            f"{len(refs)} sources, at most {profile.max_keep}",
            host.say(state, "note", **{**call.args, "refs": (f"e{refs[-1]}",)}),
        )
    size = host.chat.count(f"{key}={value}")
    if profile.note_tokens is not None and size > profile.note_tokens:
        instead = f"{word} {key}= a shorter value" if profile.syntax == "compact" else f"a shorter value of {key}"
        raise Rejected("limit_exceeded", f"{size} tokens, a note has at most {profile.note_tokens}", instead)
    held = state.note(key, scope)
    entry = _sourced(host, state, Note(key, value, refs, status or "current"), held)
    text = "ok" if entry.standing == "current" else f"ok {entry.standing}"
    if held:
        if (held.value, held.refs, held.status) == (entry.value, entry.refs, entry.status):
            raise Rejected("no_gain", f"{key}={value} is noted already", "go on with the task")
        was = held.was if held.value == value else (held.refs[0] if held.refs else 0)
        entry = replace(entry, was=was, version=held.version + 1)
        after = state.with_memory(scope, tuple(entry if n.key == key else n for n in state.memory(scope)))
        if scope == "window" and held.value != value:
            text += f" replaces {held.value}"
        return Done(after, text + _conflict(host, after, key), "ok", rewrite=scope == "public")
    left = _room(host, state, scope)
    after = state.with_memory(scope, (*left, entry))
    if gone := [n.key for n in state.memory(scope) if n not in left]:
        text += f" dropped {gone[0]}"
    return Done(after, text + _conflict(host, after, key), "ok")


def _sourced(host: Host, state: State, entry: Note, held: Note | None) -> Note:
    """The entry with its standing: user over tool (pending) over inference (candidate), by the texts of its sources."""
    log = host.log
    stating = {r: log.main(r).role for r in entry.refs if states(log.main(r).text, entry.value)}
    entry = replace(
        entry, refs=tuple(sorted(entry.refs, key=lambda r: r not in stating))
    )  # stable: the header shows the first one
    known = (held, state.note(entry.key), state.note(entry.key, "window"))
    authority = next((n.user_value for n in known if n and n.user_value), "")
    if "user" in stating.values():
        return replace(entry, user_value=entry.value)
    if not host.profile.source_rules:
        standing = "current"
    elif "tool" not in stating.values():
        standing = "candidate"
    elif authority and not same_value(authority, entry.value):
        standing = "pending"
    else:
        standing = "current"
    return replace(entry, standing=standing, user_value=authority)


def _room(host: Host, state: State, scope: str) -> tuple[Note, ...]:
    """The entries of a scope with room for one more: an ``old`` one goes when memory is full. Rejects when none may."""
    notes = state.memory(scope)
    most = host.profile.max_window_notes if scope == "window" else host.profile.max_notes
    if most is None or len(notes) < most:
        return notes
    old = next((n for n in notes if n.status == "old"), None)
    if old is None:
        could = ", ".join(n.key for n in notes[:3])
        args = {"scope": scope, "key": notes[0].key, "value": notes[0].value, "status": "old"}
        refs = tuple(f"e{r}" for r in notes[0].refs) or ("e1",)
        raise Rejected("memory_full", f"{len(notes)} notes; {could} could go", host.say(state, "note", refs=refs, **args))
    return tuple(n for n in notes if n is not old)


def _conflict(host: Host, state: State, key: str) -> str:
    """What the outcome says about a conflict that the write leaves or makes: the header may be frozen until the next rewrite."""
    if not host.profile.conflict_flags:
        return ""
    return "".join(f"; conflict {conflict_text(state, pair)}" for pair in conflicts(state) if pair[0].key == key)


def _name(host: Host, seq: int) -> str:
    event = host.log.main(seq)
    return "own" if event.role == "assistant" else event.name or "user"


def read(host: Host, state: State, call: Call) -> Done:
    """Give back logged text, exactly, page by page."""
    ref, last, page = call.args["ref"], call.args["last"], call.args["page"]
    first, end = span(host, state, ref)
    if last is not None:
        end = span(host, state, f"e{last}")[1]
        if end < first:
            raise Rejected("bad_arguments", "the range runs backwards", host.say(state, "read", ref=f"e{end}", last=first))
        events = list(range(first, end + 1))
    else:
        events = list(events_of(host, state, ref))
        if len(events) == 1 and ref[0] == "e":
            events = list(dict.fromkeys(aliases_of(host, first))) or events
    if len(events) == 1:
        title, text = f"e{events[0]} {_name(host, events[0])}", host.log.main(events[0]).text
        spans = [(0, len(text), events[0])]
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
        instead = host.say(state, "read", ref=ref, last=last and end, page=len(pages))
        raise Rejected("bad_arguments", f"{what} has {len(pages)} page{'s' if len(pages) > 1 else ''}", instead)
    begin = sum(map(len, pages[: page - 1]))
    stop = begin + len(pages[page - 1])
    shows = tuple(seq for a, b, seq in spans if a < stop and begin < b)
    return Done(state, f"[{title}] p{page}/{len(pages)}\n{pages[page - 1]}", "read", shows)


def find(host: Host, state: State, call: Call) -> Done:
    """Search the raw log, or one window's part of it."""
    window = call.args.get("in_window", "")
    if window and window not in state.windows:
        raise Rejected("unknown_window", f"no {window}", ", ".join(state.windows))
    hits = search(host.log, call.args["query"], host.turn, host.profile.find_hits, host.profile.find_tokens, host.chat, window)
    text = "\n".join(f"[e{seq}] {snippet}" for seq, snippet in hits) or "no hit"
    return Done(state, text, "find", tuple(seq for seq, _ in hits))


APPLY: dict[str, Callable[[Host, State, Call], Done]] = {
    "note": note,
    "fold": fold,
    "compress": compress,
    "read": read,
    "find": find,
    "window_list": window_list,
    "window_open": window_open,
    "window_switch": window_switch,
    "window_close": window_close,
    "stage_done": stage_done,
    "recall": recall,
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
    check_position(host, state, call)
    done = APPLY[call.tool](host, state, call)
    if done.state is not state:
        done = replace(done, state=replace(done.state, version=state.version + 1))
        if host.profile.windows and done.name in ("ok", "moved"):
            done = replace(done, text=f"{done.text} v{done.state.version}")
    return done


__all__ = ["Done", "Host", "Rejected", "apply", "business", "resolve", "span"]
