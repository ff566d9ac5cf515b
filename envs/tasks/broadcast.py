"""Broadcast: the rundown of an evening programme, its items moved and dropped. Held out: never in training, validation or tuning."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="broadcast",
    entities=(
        "headlines",
        "weather",
        "football",
        "markets",
        "interview",
        "traffic",
        "obituary",
        "postbag",
        "quiz",
        "concert",
        "debate",
        "recipe",
        "sketch",
        "bulletin",
        "serial",
        "lottery",
    ),
    entity_phrase="the {e}",
    lookup=ToolSpec(name="rundown", args=("item", "seconds"), missing="Not in the rundown at that length."),
    change=ToolSpec(name="reslot", args=("item",), missing="No rundown change for that item."),
    attrs=(
        Attr(
            "slot",
            "clock",
            "slot",
            says=("On air at {v}.", "It goes out at {v}.", "We cut to it at {v}."),
            other=("When do listeners get {entity}?", "How far into the evening does {entity} come up?"),
            none=("It has been dropped tonight.", "It is held over for another night."),
            guesses=("The floor manager fancies {v}, not agreed.", "Somebody scribbled {v} in the margin."),
        ),
        Attr(
            "out",
            "clock",
            "hard out",
            says=("We must be off it by {v}.", "Hard out {v}.", "The opt comes at {v} sharp."),
            other=("When does {entity} need to finish?", "How long can {entity} overrun before somebody screams?"),
            none=("Nothing follows, so let it breathe.", "There is no hard out on it."),
        ),
        Attr(
            "presenter",
            "person",
            "presenter",
            says=("Presented by {v}.", "{v} fronts it.", "In the chair: {v}."),
            other=("Whose voice do we hear in {entity}?", "Who is at the microphone for {entity}?"),
            none=("It runs unvoiced over a music bed.", "Nobody is down to present it."),
            guesses=("I hear {v} is itching to do it.", "An old call sheet still lists {v}, bin it."),
        ),
        Attr(
            "producer",
            "person",
            "producer",
            says=("Produced by {v}.", "{v} is running it from the gallery.", "Talkback goes to {v}."),
            other=("Who do I ring about {entity}?", "Who gets the blame for {entity}?"),
            guesses=("Might be one for {v}, depending on shifts.", "The rota had {v} until the swap."),
        ),
        Attr(
            "studio",
            "room",
            "studio",
            says=("Studio {v}.", "It is coming from {v}.", "Live out of {v}."),
            other=("Behind which door is {entity} made?", "Where are the microphones for {entity}?"),
        ),
        Attr(
            "clip",
            "code",
            "clip number",
            says=("Clip number {v}.", "Cue {v} off the server.", "The insert is loaded as {v}."),
            other=("What do I punch up for {entity}?", "Which recording plays in {entity}?"),
            none=("There is no clip with it.", "All live, so leave the server alone."),
            guesses=("Not {v}, which is last week's edit.", "The trail names {v}, unchecked."),
        ),
        Attr(
            "fee",
            "amount",
            "fee",
            says=("The fee is {v}.", "Contributors get {v} between them.", "Contracts signed it off at {v}."),
            other=("How much does {entity} set us back?", "What is the bill for {entity}?"),
            guesses=("The agent tried for {v}, cheeky.", "Talk in the canteen has it at {v}."),
        ),
    ),
    sources=(
        "Late desk",
        "Breakfast desk",
        "Newsroom",
        "Outside unit",
        "Night editor",
        "Duty editor",
        "Planning",
        "Regional desk",
        "Continuity",
        "Foreign desk",
        "Programme office",
        "Archive team",
    ),
    heads=(
        "{source} has {entity} down for {qty} seconds.",
        "Rundown, {source}: {entity} at {qty} seconds.",
        "{qty} seconds for {entity}, says {source}.",
    ),
    change_heads=(
        "{source} has shuffled {entity}.",
        "Rundown change from {source} on {entity}.",
        "Stop press from {source}: {entity} is not as it was.",
    ),
    work=(
        "Get me {entity} off the rundown, {qty} seconds.",
        "We have {qty} seconds for {entity}; check the rundown.",
        "How does {entity} look at {qty} seconds?",
    ),
    changes=(
        "Reslot {entity}.",
        "They have been moving {entity} about: get the change.",
        "Pull the rundown change on {entity}.",
    ),
    brief="{source} rundown of {entity}",
    change_brief="{entity} reslotted",
    fillers=(
        "Keep the link short and warm.",
        "The jingle is the usual one.",
        "Levels were hot in rehearsal.",
        "Tea is in the corridor, not in the booth.",
        "The autocue operator needs the script early.",
        "No swearing before the watershed.",
        "Legal have read the script and are happy.",
        "Please turn pages quietly.",
        "The lift to the roof is out of order.",
        "Headphones are to be wiped between shows.",
        "Pronunciations are pinned to the wall.",
        "Subtitles follow a few seconds behind.",
        "The guest book is by the door.",
        "Music rights are cleared for the whole series.",
        "Parking is tight, come by tram.",
        "The standby disc is in the drawer.",
        "Listeners like a bit of birdsong.",
        "Credits are read by whoever is free.",
    ),
    user_fact=UserFact(
        "limit",
        "amount",
        "spending limit",
        says=(
            "The spending limit is {v} an item.",
            "Keep each item inside a spending limit of {v}.",
            "Accounts hold us to a spending limit of {v}.",
        ),
        changes=(
            "Accounts have been on: the spending limit is {v} now.",
            "Scrap the old spending limit, it is {v} from tonight.",
            "We have been given a spending limit of {v} instead.",
        ),
        asks=(
            "What spending limit are we on now?",
            "Which spending limit did accounts leave us with?",
            "Tell me the spending limit as it stands tonight.",
        ),
    ),
    compare=Compare(
        "fee",
        (
            "Is the fee for {entity} over the spending limit, and what is the gap?",
            "Will accounts moan about the fee for {entity}: is it over the spending limit, and what is the gap?",
        ),
    ),
    rule=Rule(
        noun="green room",
        kind="room",
        says=(
            "Guests always wait in {v}.",
            "Our green room is {v}, for every item.",
            "Reception sends all guests to {v}.",
        ),
        exceptions=(
            "Guests for {entity} wait in {v} until I tell you.",
            "Use {v} as green room for {entity}.",
            "From tonight put the guests for {entity} in {v}.",
        ),
        withdrawals=(
            "Guests for {entity} can sit with everyone else again.",
            "Scrap the separate green room for {entity}.",
        ),
        reinstatements=(
            "The separate green room for {entity} is on again.",
            "Guests for {entity} had better go back to their own green room.",
        ),
        once=(
            "Tonight only, guests for {entity} may sit in {v}.",
            "One night and one night only for {entity}: guests in {v}.",
        ),
        asks=(
            "Where do the guests for {entity} wait?",
            "Which green room is it for {entity}?",
            "Where does reception send people for {entity}?",
        ),
    ),
    totals=(
        "What do the fees on the whole rundown so far come to?",
        "Tot up every fee we have seen: how much is that?",
    ),
    across=(
        "On fees, {entity} or {other}: which is larger, and by how much?",
        "Does {entity} cost more in fees than {other}, or less, and by how much?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
