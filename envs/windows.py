"""Windows: open, switch, close. A move takes effect at the next inference; its call and outcome belong to the window left."""

from __future__ import annotations

from dataclasses import replace

from envs.calls import Done, Host, Rejected, limit_text
from envs.compact import Call
from envs.state import State, Window


def window_list(host: Host, state: State, call: Call) -> Done:
    """All windows, one a line."""
    lines = []
    for window in state.windows.values():
        here = " current" if window.id == state.current else ""
        lines.append(f"{window.id} {window.title} {window.status}{here}" + (f": {window.outcome}" if window.outcome else ""))
    return Done(state, "\n".join(lines), "list")


def window_open(host: Host, state: State, call: Call) -> Done:
    """A new window with its hand-over input; the one left gets its checkpoint."""
    title, handoff, checkpoint = (call.args[n].strip() for n in ("title", "handoff", "checkpoint"))
    if not title:
        raise Rejected("empty_text", "a window needs a title", "window_open with a title")
    for name, text in (("title", title), ("handoff", handoff), ("checkpoint", checkpoint)):
        limit_text(host, name, text, _most(host, name), f"a shorter {name}")
    if len(state.windows) >= host.profile.max_windows:
        names = ", ".join(w.id for w in state.windows.values())
        raise Rejected("limit_exceeded", f"{len(state.windows)} windows, at most {host.profile.max_windows}", f"one of {names}")
    made = Window(f"w{len(state.windows) + 1}", title=title, handoff=handoff)
    return _move(_left(state, checkpoint).with_window(made), made.id, f"opened from {state.current}", f"ok {made.id} open")


def window_switch(host: Host, state: State, call: Call) -> Done:
    """Go to another window, also a finished one, which is open again then."""
    target, checkpoint = call.args["id"], call.args["checkpoint"].strip()
    _known(state, target)
    if target == state.current:
        raise Rejected("no_gain", f"you are in {target} already", "go on with the task")
    limit_text(host, "checkpoint", checkpoint, _most(host, "checkpoint"), "a shorter checkpoint")
    opened = replace(state.windows[target], status="open")
    return _move(_left(state, checkpoint).with_window(opened), target, f"entered from {state.current}", f"ok {target} entered")


def window_close(host: Host, state: State, call: Call) -> Done:
    """Finish the current window with its outcome and go to another one."""
    outcome, target = call.args["outcome"].strip(), call.args["next"]
    if not outcome:
        raise Rejected("empty_text", "say the outcome", "window_close with an outcome")
    limit_text(host, "outcome", outcome, _most(host, "outcome"), "a shorter outcome")
    if not any(w.status == "open" and w.id != state.current for w in state.windows.values()):
        raise Rejected("last_window", f"{state.current} is the last open window", "go on in it, or window_open first")
    _known(state, target)
    if target == state.current:
        raise Rejected("bad_arguments", f"next is {target}, the window to close", "another window")
    done = replace(state.window, status="done", outcome=outcome)
    opened = replace(state.windows[target], status="open")
    after = state.with_window(done).with_window(opened)
    return _move(after, target, f"entered from {state.current}, closed", f"ok {state.current} done, {target} entered")


def _most(host: Host, name: str) -> int:
    return host.profile.title_tokens if name == "title" else host.profile.text_tokens


def _known(state: State, target: str) -> None:
    if target not in state.windows:
        raise Rejected("unknown_window", f"no {target}", ", ".join(state.windows))


def _left(state: State, checkpoint: str) -> State:
    """The state with the checkpoint of the window that is left; an empty one leaves the earlier one."""
    return state.with_window(replace(state.window, checkpoint=checkpoint or state.window.checkpoint))


def _move(state: State, target: str, how: str, text: str) -> Done:
    return Done(replace(state, current=target, moved=how), text, "moved", rewrite=True, leaves=False)
