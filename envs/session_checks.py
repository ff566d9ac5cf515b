"""What a session file must hold beyond its shape: numbers that exist, results with their calls, a judge that can tell right from wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envs.session_score import judge, plain, says
from envs.sessions import LONGEST_PATTERN, Case


def check(case: Case) -> Iterator[str]:
    """Every problem of a case as ``field: what is there: what belongs there``. Raises SlowPattern."""
    yield from _events(case)
    yield from _references(case)
    yield from _value(case)
    yield from _damage(case)
    yield from _replies(case)


def _events(case: Case) -> Iterator[str]:
    calls: dict[str, int] = {}
    answered: dict[str, int] = {}
    for place, event in enumerate(case.events):
        at = f"events.{place}"
        if event.n != place + 1:
            yield f"{at}.n: {event.n}: should be {place + 1}: events are numbered 1, 2, 3 without a gap"
        if event.call and event.role != "assistant":
            yield f"{at}.call: on a {event.role} event: only an assistant calls a tool"
        if (event.call_id is not None) != (event.role == "tool"):
            what = "required but not given" if event.role == "tool" else f"on a {event.role} event"
            yield f"{at}.call_id: {what}: a tool result, and nothing else, names the call that it answers"
        if not event.text.strip() and not event.call and event.role != "tool":
            yield f"{at}.text: required but not given: " + ("give text or call" if event.role == "assistant" else "add it")
        if event.call:
            if event.call.id in calls:
                yield f"{at}.call.id: {event.call.id!r} is the call of event {calls[event.call.id]}: give every call its own id"
            calls[event.call.id] = event.n
        if event.call_id is not None:
            if event.call_id not in calls:
                known = ", ".join(list(calls)[:6]) or "none"
                yield f"{at}.call_id: {event.call_id!r}: no earlier event makes that call: the calls before it are {known}"
            if event.call_id in answered:
                yield f"{at}.call_id: {event.call_id!r} is answered by event {answered[event.call_id]}: one result a call"
            answered[event.call_id] = event.n


def _references(case: Case) -> Iterator[str]:
    last = len(case.events)
    expected, damage = case.expected, case.injection
    lists = [("expected.evidence", expected.evidence)]
    lists += [(f"expected.facts.{i}.events", fact.events) for i, fact in enumerate(expected.facts)]
    if damage:
        lists.append(("injection.hide", damage.hide))
    for field, numbers in lists:
        for place, number in enumerate(numbers):
            if number > last:
                yield f"{field}.{place}: {number}: there is no such event: the log ends at {last}"
    for place, insert in enumerate(damage.insert if damage else []):
        if insert.before != "end" and insert.before > last:
            yield f"injection.insert.{place}.before: {insert.before}: there is no such event: use 1 to {last}, or 'end'"
    if not expected.evidence and damage:
        yield "expected.evidence: empty: name the events that mend the damage"


def _value(case: Case) -> Iterator[str]:
    expected = case.expected
    value, check = expected.value, expected.check
    if check == "exact":
        for field, given in (("value", value), *((f"aliases.{i}", a) for i, a in enumerate(expected.aliases))):
            if not _word(given):
                yield f"expected.{field}: {given!r}: check 'exact' takes a text or a number"
        return
    if check == "json":
        if not isinstance(value, dict | list):
            yield f"expected.value: {value!r}: check 'json' takes an object or an array"
        if expected.forbidden:
            yield "expected.forbidden: not looked at by check 'json': leave it empty"
        return
    if expected.aliases:
        yield f"expected.aliases: not looked at by check {check!r}: leave it empty" + (
            ", and give a list of forms inside value" if check == "all_of" else ""
        )
    if not isinstance(value, list) or not value:
        yield f"expected.value: {value!r}: check {check!r} takes a list with at least one entry"
        return
    for place, item in enumerate(value):
        at = f"expected.value.{place}"
        if check == "all_of":
            forms = item if isinstance(item, list) else [item]
            if not forms or not all(_word(f) for f in forms):
                yield f"{at}: {item!r}: takes a text, a number, or a list of such forms"
        elif not isinstance(item, str) or not item:
            yield f"{at}: {item!r}: takes a regular expression as text"
        elif len(item) > LONGEST_PATTERN:
            yield f"{at}: a pattern of {len(item)} characters: at most {LONGEST_PATTERN}"
        else:
            try:
                re.compile(item)
            except (re.error, RecursionError, OverflowError) as error:
                yield f"{at}: {item[:60]!r}: not a regular expression ({error}): mend it (Python's re)"


def _word(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and bool(plain(value))


def _damage(case: Case) -> Iterator[str]:
    damage, expected = case.injection, case.expected
    if damage is None:
        return
    if expected.behaviour == "read_back" and not case.hidden & set(expected.evidence):
        yield "expected.evidence: none of it is in injection.hide: hide some of it, or set behaviour to answer_from_view"
    evidence = "\n".join(case.event_text(n) for n in sorted(set(expected.evidence)))
    seen = case.damaged_text()
    for place, token in enumerate(expected.needs_raw):
        if not says(evidence, token):
            yield f"expected.needs_raw.{place}: {token!r}: no evidence event says it"
        if says(seen, token):
            yield f"expected.needs_raw.{place}: {token!r}: the damaged view says it: it must stand in hidden events alone"
    torn = _torn_pairs(case)
    if torn and damage.op != "pair_split":
        yield f"injection.hide: call {torn[0]!r} and its result are not hidden together: hide both, or set op to pair_split"
    if not torn and damage.op == "pair_split":
        yield "injection.op: 'pair_split', but every call in view has its result and every result its call: hide one of a pair"


def _torn_pairs(case: Case) -> list[str]:
    """Calls of which the view shows one half; a marker that says ``(result of ID)`` stands for the other one."""
    told = " ".join(i.text for i in case.injection.insert) if case.injection else ""
    places = {e.call.id: e.n for e in case.events if e.call}
    pairs = [(e.call_id, places[e.call_id], e.n) for e in case.events if e.call_id is not None]
    return [c for c, n, result in pairs if (n in case.hidden) != (result in case.hidden) and f"(result of {c})" not in told]


def _replies(case: Case) -> Iterator[str]:
    if not judge(case, case.gold_reply):
        yield f"gold_reply: {case.gold_reply[:60]!r}: the check refuses it: mend the reply or expected.value"
    if judge(case, case.bad_reply):
        yield f"bad_reply: {case.bad_reply[:60]!r}: the check accepts it: mend the reply or expected.value"
