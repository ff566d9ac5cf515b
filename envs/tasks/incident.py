"""Incidents: services that broke, suspects ruled out, root causes, losses that did not happen, blame without proof. A train family."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="incident",
    entities=(
        "checkout",
        "billing",
        "login",
        "catalog",
        "gateway",
        "mailer",
        "indexer",
        "scheduler",
        "ledger",
        "basket",
        "profiles",
        "webhooks",
        "thumbnails",
        "recommender",
        "geocoder",
        "uploads",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="inspect", args=("service", "minutes"), missing="No telemetry for that service and window."),
    change=ToolSpec(name="recheck", args=("service",), missing="No corrected findings for that service."),
    attrs=(
        Attr(
            "errors",
            "amount",
            "error count",
            ("{v} requests failed.", "Dashboard shows {v} errors.", "Error count is {v} after dedup."),
            other=("How many calls went bad on {entity}?", "What volume of bad responses did {entity} return?"),
            guesses=(
                "Early chatter said {v} bad responses; that figure was never checked.",
                "The {v} on the old panel double counts retries, so discard it.",
            ),
        ),
        Attr(
            "lost",
            "part",
            "order loss",
            ("{v} orders are gone for good.", "Order loss comes to {v}.", "We wrote off {v} orders."),
            other=(
                "How many purchases vanished while {entity} was down?",
                "How much of what customers bought through {entity} is beyond replaying?",
            ),
            none=("No orders were lost.", "Every single order was replayed, nothing is missing."),
            guesses=(
                "A tweet claims {v} orders vanished; the data do not show it.",
                "Worst case on paper would be {v} orders, pure extrapolation.",
            ),
        ),
        Attr(
            "cause",
            "code",
            "root cause",
            ("Root cause confirmed: {v}.", "Bisect lands on {v}, reproduced twice.", "It was {v} that took us down."),
            other=("Which deploy do we hold responsible for {entity}?", "What is behind the trouble with {entity}?"),
            none=("Root cause is unknown, we never reproduced it.", "The bisect came back empty."),
            guesses=(
                "Somebody in the channel blames {v}, no proof.",
                "Timing makes {v} look guilty, but correlation is all we have.",
            ),
        ),
        Attr(
            "cleared",
            "code",
            "ruled-out suspect",
            (
                "{v} is ruled out.",
                "Reverting {v} made no difference, so it is off the list.",
                "Suspect {v} was not even live at the time.",
            ),
            other=("Which candidate can we stop looking at on {entity}?", "What has been proven innocent with {entity}?"),
            none=("We could not eliminate any of the suspects.", "Nothing is off the table yet."),
            excluded=True,
        ),
        Attr(
            "onset",
            "clock",
            "onset time",
            ("First alert fired at {v}.", "Onset time per the graphs: {v}.", "It went red at {v}."),
            other=("When did things begin to go wrong on {entity}?", "Since when has {entity} been misbehaving?"),
            guesses=(
                "One customer swears it began around {v}, which our graphs contradict.",
                "Support remembers something near {v}, unverified.",
            ),
        ),
        Attr(
            "latency",
            "reading",
            "peak latency",
            ("Calls took up to {v} s.", "Peak latency {v} s.", "The slowest percentile topped out at {v} s."),
            other=("How sluggish did {entity} get at worst?", "What was the longest wait on {entity}?"),
        ),
        Attr(
            "lead",
            "person",
            "incident lead",
            ("{v} took command.", "Incident lead is {v}.", "Pager went to {v}, who ran the bridge."),
            other=("Who was coordinating on {entity}?", "Whose name goes on the review of {entity}?"),
            none=("Nobody claimed command.", "The bridge ran without an incident lead."),
        ),
    ),
    sources=(
        "Trace viewer",
        "Log store",
        "Status board",
        "Pager feed",
        "Platform crew",
        "Night shift",
        "Metrics wall",
        "Edge crew",
        "Data crew",
        "Database guild",
        "Network watch",
        "Canary bot",
    ),
    heads=(
        "{source}, {entity}, trailing {qty} minutes.",
        "Findings on {entity} from {source}, window of {qty} minutes.",
        "{source} went through {qty} minutes of {entity}.",
    ),
    change_heads=(
        "{source} corrects itself on {entity}.",
        "Correction from {source} concerning {entity}.",
        "{source} looked at {entity} again and got something else.",
    ),
    work=(
        "Dig into {entity}, last {qty} minutes.",
        "What happened to {entity}? Look at the last {qty} minutes.",
        "Pull {qty} minutes of telemetry on {entity}.",
    ),
    changes=(
        "There is a correction on {entity}, fetch it.",
        "Somebody re-ran the numbers on {entity}; grab the outcome.",
        "Get the corrected findings on {entity}.",
    ),
    brief="{source} findings on {entity}",
    change_brief="{entity} corrected",
    fillers=(
        "Disk pressure stayed flat throughout.",
        "DNS answers were consistent from every region.",
        "Certificates are valid well into next year.",
        "Autoscaling added nodes as designed.",
        "Garbage collection pauses look ordinary.",
        "Replication lag never left the green band.",
        "Synthetic checks kept passing from the outside.",
        "Feature flags were untouched.",
        "Queue depth recovered by itself.",
        "The cache hit rate dipped briefly.",
        "Health checks flapped on two hosts.",
        "Logs from the sidecar are noisy but harmless.",
        "The status page was updated by hand.",
        "Retries hid part of the symptom.",
        "A follow-up on alert wording is still open.",
        "Please keep the timeline blameless.",
        "Rate limits behaved the way the runbook says.",
        "No packet loss between the zones.",
    ),
    user_fact=UserFact(
        "allowed",
        "amount",
        "error budget",
        says=(
            "Error budget is {v} failures a service.",
            "We run on an error budget of {v}.",
            "For the review assume an error budget of {v}.",
        ),
        changes=(
            "Error budget just got changed to {v}.",
            "Scrap that, the error budget is {v} now.",
            "Management reset our error budget to {v}.",
        ),
        asks=("What error budget are we on?", "Say again, which error budget counts?", "Current error budget, please?"),
    ),
    compare=Compare(
        "errors",
        (
            "Did {entity} blow the error budget, and what is the gap to its error count?",
            "Error count of {entity} against the error budget: over or not, what gap?",
        ),
    ),
    rule=Rule(
        "war room",
        "room",
        says=(
            "Whenever something burns, the war room is {v}.",
            "Our standing war room is {v}.",
            "Everyone gathers in {v}, that is the war room.",
        ),
        exceptions=(
            "Whoever fights {entity} uses {v} as war room until I say otherwise.",
            "Exception on {entity}: war room {v}.",
            "People on {entity} have their own war room, {v}.",
        ),
        withdrawals=(
            "The separate war room on {entity} is gone, join everybody else.",
            "Scrap the war room exception on {entity}.",
        ),
        reinstatements=("Bring back the war room exception on {entity}.", "The crew on {entity} got its own war room back."),
        once=(
            "This one time the war room on {entity} is {v}.",
            "Use {v} as war room on {entity} tonight, never mind after that.",
        ),
        asks=(
            "Which war room do responders on {entity} go to?",
            "If {entity} breaks again, which war room is it?",
            "Where is the war room on {entity}?",
        ),
    ),
    totals=(
        "Add up the errors of every service inspected so far: what is the sum?",
        "How many requests failed over all the services we dug into?",
    ),
    across=(
        "Of {entity} and {other}, which one has the larger error count, and by how much?",
        "Error count, {entity} versus {other}: which is larger, and by how much?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
