"""The omission index: what is out of view, as ranges with reason and counts by role. Always exact.

It changes at rewrites only. Making it anew costs what lies beyond the boundary of the current window, not the length of the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from envs.log import Log
from envs.state import Gap, State, fold_at, reason_out


def gaps(log: Log, state: State) -> list[Gap]:
    """All stretches of main events out of view, in order, neighbours of one reason merged."""
    found: list[Gap] = []
    for first, last, reason in _pieces(log, state):
        reason = "control" if reason == "alias" else reason
        user, own, tool = log.counts(first, last)
        held = found[-1] if found else None
        if held and held.last == first - 1 and held.reasons == (reason,):
            found[-1] = Gap(held.first, last, held.reasons, held.user + user, held.own + own, held.tool + tool)
        else:
            found.append(Gap(first, last, (reason,), user, own, tool))
    return found


def _pieces(log: Log, state: State) -> Iterator[tuple[int, int, str]]:
    """Ranges out of view, each of one reason."""
    window = state.window
    upto = window.boundary.upto if window.boundary else 0
    for name, first, last in log.stretches():
        if name != window.id:
            yield from _around(first, last, _protected(log, state, first, last), name)
            continue
        if first <= upto:
            assert window.boundary
            yield from _around(first, min(last, upto), [], window.boundary.id)
        seq = max(first, upto + 1)
        while seq <= last:
            fold = fold_at(window, seq)
            if fold:
                yield seq, fold.last, fold.id
                seq = fold.last + 1
                continue
            reason = reason_out(log, state, log.main(seq))
            if reason:
                yield seq, seq, reason
            seq += 1


def _protected(log: Log, state: State, first: int, last: int) -> list[int]:
    """User messages of other windows that are in view: those since the last rewrite's Run."""
    if last < log.run_start(state.protect):
        return []
    return [s for run in range(state.protect, state.run + 1) for s in log.run_users(run) if first <= s <= last]


def _around(first: int, last: int, holes: list[int], reason: str) -> Iterator[tuple[int, int, str]]:
    """The range without its ``holes``."""
    for hole in holes:
        if hole > first:
            yield first, hole - 1, reason
        first = hole + 1
    if first <= last:
        yield first, last, reason


def merge_oldest(found: list[Gap], lines: int) -> list[Gap]:
    """At most ``lines`` entries: past that, the oldest are merged into one with all their reasons and counts."""
    extra = len(found) - lines
    if extra <= 0:
        return found
    old = found[: extra + 1]
    reasons = tuple(dict.fromkeys(r for g in old for r in g.reasons))
    merged = Gap(old[0].first, old[-1].last, reasons, *(sum(getattr(g, n) for g in old) for n in ("user", "own", "tool")))
    return [merged, *found[extra + 1 :]]
