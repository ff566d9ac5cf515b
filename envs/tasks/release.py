"""Releases: components checked before they ship, waivers, versions, a ticket that nobody may touch and its exceptions. A train family."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="release",
    entities=(
        "parser",
        "renderer",
        "installer",
        "updater",
        "exporter",
        "linter",
        "compiler",
        "debugger",
        "profiler",
        "emulator",
        "formatter",
        "tokenizer",
        "bundler",
        "launcher",
        "minifier",
        "crawler",
    ),
    entity_phrase="the {e}",
    lookup=ToolSpec(name="readiness", args=("component", "soak"), missing="No readiness report for that component and soak."),
    change=ToolSpec(name="rebuild", args=("component",), missing="No second candidate for that component."),
    attrs=(
        Attr(
            "size",
            "amount",
            "package size",
            ("Package size is {v} kB.", "The artifact weighs in at {v} kB.", "It unpacks to {v} kB."),
            other=("How big is {entity} to download?", "What does {entity} take up on disk?"),
            guesses=(
                "The wiki still lists {v} kB from an experiment that was thrown away.",
                "Stripping symbols might get it to {v} kB, nobody has tried.",
            ),
        ),
        Attr(
            "ticket",
            "code",
            "tracking ticket",
            ("Tracking ticket {v} is linked.", "All subtasks hang off {v}.", "Progress is tracked in {v}."),
            other=("Where can I follow the work on {entity}?", "Which issue do I put in the changelog next to {entity}?"),
        ),
        Attr(
            "waiver",
            "code",
            "waiver",
            ("Failing checks are waived under {v}.", "A waiver exists: {v}.", "Waiver {v} has been countersigned."),
            other=("Which exemption lets {entity} through?", "By what dispensation may {entity} skip the gate?"),
            none=("No waiver was granted.", "The request to waive the failing checks was turned down."),
            guesses=(
                "An exemption numbered {v} has been drafted, it is not signed.",
                "Last year's exemption {v} does not carry over.",
            ),
        ),
        Attr(
            "target",
            "version",
            "target version",
            ("The tag will be {v}.", "Target version agreed: {v}.", "We are cutting {v} from main."),
            other=("Which number does {entity} carry once it is out?", "What will {entity} call itself in its about box?"),
            guesses=(
                "Marketing slides promise {v}; engineering never agreed.",
                "It could end up being called {v} if the naming debate drags on.",
            ),
        ),
        Attr(
            "floor",
            "version",
            "runtime floor",
            ("It refuses to start below runtime {v}.", "Runtime floor: {v}.", "Supported from runtime {v} upwards."),
            other=("How old an interpreter does {entity} tolerate?", "What is the oldest platform on which {entity} works?"),
            none=("There is no runtime floor.", "Any runtime will do."),
        ),
        Attr(
            "ship",
            "date",
            "ship date",
            ("It goes out on {v}.", "Ship date is {v}, weather permitting.", "The rollout window opens on {v}."),
            other=("When can customers have {entity}?", "How soon will {entity} be generally available?"),
            guesses=(
                "Sales has been telling people {v}, without asking us.",
                "Somebody wrote {v} on the whiteboard with a question mark.",
            ),
        ),
        Attr(
            "reviewer",
            "person",
            "reviewer",
            ("{v} approved the diff.", "Reviewer of record: {v}.", "The last review was done by {v}."),
            other=("Who looked over the code of {entity}?", "Whose name stands next to the green tick on {entity}?"),
            none=("Nobody has looked at the diff.", "It still lacks a reviewer."),
        ),
    ),
    sources=(
        "Build farm",
        "Nightly lane",
        "Gatekeeper",
        "Staging ring",
        "Signing host",
        "Matrix runner",
        "Smoke lane",
        "Beta channel",
        "Release train",
        "Packaging job",
        "Mirror check",
        "Regression rig",
    ),
    heads=(
        "{source} soaked {entity} for {qty} hours.",
        "Readiness report on {entity} by {source}, soak of {qty} hours.",
        "{source}: {entity} has {qty} hours of soak.",
    ),
    change_heads=(
        "{source} respun {entity}.",
        "New candidate of {entity} out of {source}.",
        "{source} threw away the last candidate of {entity} and built another.",
    ),
    work=(
        "Run the readiness check on {entity} with {qty} hours of soak.",
        "Next up is {entity}: readiness after {qty} hours of soak, please.",
        "See if {entity} can ship after a soak of {qty} hours.",
    ),
    changes=(
        "Respin {entity} and report back.",
        "The candidate of {entity} was rejected, get another build.",
        "Trigger a rebuild of {entity}.",
    ),
    brief="{source} check of {entity}",
    change_brief="{entity} respun",
    fillers=(
        "Unit tests are green on all platforms.",
        "Flaky tests were retried once.",
        "Licence headers are in place.",
        "The changelog has an entry in the unreleased section.",
        "Docs build without warnings.",
        "Debug symbols are uploaded separately.",
        "Dependencies are pinned in the lock file.",
        "Translations lag behind by a few strings.",
        "The binary is reproducible bit for bit.",
        "Static analysis raised only style remarks.",
        "Coverage moved by less than a point.",
        "Deprecated flags still print a notice.",
        "Fuzzing found no new crash.",
        "The upgrade path was walked by hand.",
        "Telemetry stays off by default.",
        "Checksums are published next to the archive.",
        "Rollback was rehearsed in staging.",
        "Benchmarks are within the usual noise.",
    ),
    user_fact=UserFact(
        "limit",
        "amount",
        "size limit",
        says=(
            "Size limit is {v} kB per component.",
            "We promised users a size limit of {v} kB.",
            "Hold every component to a size limit of {v} kB.",
        ),
        changes=(
            "The size limit changes to {v} kB.",
            "Product now wants a size limit of {v} kB instead.",
            "Overwrite the size limit, it is {v} kB.",
        ),
        asks=(
            "What size limit do we hold components to?",
            "Which size limit is in effect?",
            "Quote me the size limit as it stands.",
        ),
    ),
    compare=Compare(
        "size",
        (
            "Is {entity} over the size limit, and what is the gap to its package size?",
            "Hold the package size of {entity} against the size limit: over or not, and what gap?",
        ),
    ),
    rule=Rule(
        "frozen ticket",
        "code",
        says=(
            "Never touch the frozen ticket {v}, whatever you ship.",
            "Standing rule: {v} is the frozen ticket, hands off.",
            "The frozen ticket is {v} and stays out of every build.",
        ),
        exceptions=(
            "On {entity} the frozen ticket is {v} instead, until I tell you otherwise.",
            "Exception: {entity} has {v} as its frozen ticket.",
            "Whoever builds {entity} keeps away from frozen ticket {v} rather than the usual one.",
        ),
        withdrawals=(
            "I am dropping the frozen ticket exception on {entity}.",
            "As to {entity}, its own frozen ticket no longer counts.",
        ),
        reinstatements=(
            "The frozen ticket exception on {entity} is back in force.",
            "As to {entity}, its own frozen ticket counts again.",
        ),
        once=(
            "In this one build {entity} has {v} as frozen ticket, then it is back to normal.",
            "A single time, swap the frozen ticket on {entity} to {v}.",
        ),
        asks=(
            "Which frozen ticket must a build of {entity} leave alone?",
            "What is off limits as frozen ticket on {entity}?",
            "Name the frozen ticket I may not touch in {entity}.",
        ),
    ),
    totals=(
        "How many kB do all the components checked so far make together?",
        "What is the combined package size of everything we have checked?",
    ),
    across=(
        "Between {entity} and {other}, whose package size is larger, and by how much?",
        "Set {entity} beside {other}: which has the larger package size, and by how much?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
