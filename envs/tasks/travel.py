"""Travel: trips booked and rebooked, hotels, times, a daily allowance. Held out: never in training, validation or tuning."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="travel",
    entities=(
        "Oslo",
        "Lisbon",
        "Prague",
        "Riga",
        "Turin",
        "Porto",
        "Gdansk",
        "Bergen",
        "Malmo",
        "Basel",
        "Ghent",
        "Vilnius",
        "Graz",
        "Lyon",
        "Split",
        "Cork",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="trip", args=("city",), missing="No trip to that city."),
    change=ToolSpec(name="rebook", args=("city",), missing="No trip to rebook to that city."),
    attrs=(
        Attr(
            "fare",
            "amount",
            "fare",
            ("The fare is {v}.", "You pay a fare of {v}.", "Fare {v} for both ways."),
            other=("How much is the ticket to {entity}?", "What does getting to {entity} set us back?"),
            guesses=("A website showed {v} last night, gone by now.", "Friends went for about {v}, in another season."),
        ),
        Attr(
            "booking",
            "code",
            "booking reference",
            ("Booking reference {v}.", "It is booked under {v}.", "The booking is {v}."),
            other=("What do I show at the counter for {entity}?", "Which locator was I given for {entity}?"),
        ),
        Attr(
            "flight",
            "code",
            "flight number",
            ("Flight {v}.", "You fly with {v}.", "The flight number is {v}."),
            other=("Which plane takes me to {entity}?", "What do I look for on the airport board for {entity}?"),
            none=("There is no flight: a train takes you there.", "You go overland by coach."),
            guesses=("It may be moved to {v}, the airline has not decided.", "The old timetable lists {v}, no longer flown."),
        ),
        Attr(
            "hotel",
            "hotel",
            "hotel",
            ("You stay at {v}.", "Rooms are held at {v}.", "The hotel is {v}."),
            other=("Where do I sleep in {entity}?", "Where are we put up in {entity}?"),
            guesses=(
                "People speak well of {v}, but nothing is reserved there.",
                "We tried {v} first and were on the waiting list.",
            ),
        ),
        Attr(
            "checkin",
            "clock",
            "check-in time",
            ("Check-in from {v}.", "Rooms are ready at {v}.", "The check-in time is {v}."),
            other=("How early may I drop my bags in {entity}?", "When can I get the key in {entity}?"),
            guesses=("With luck they let you in by {v}, do not count on it.", "A review mentions {v}, two years old."),
        ),
        Attr(
            "guide",
            "person",
            "guide",
            ("Your guide is {v}.", "{v} meets you there.", "A guide, {v}, is booked."),
            other=("Who shows us around in {entity}?", "Whom do I look out for in {entity}?"),
            none=("No guide is booked.", "You explore on your own."),
        ),
        Attr(
            "departure",
            "date",
            "departure date",
            ("You leave on {v}.", "Departure on {v}.", "The departure date is {v}."),
            other=("When do I set off for {entity}?", "Which day does the journey to {entity} begin?"),
        ),
    ),
    sources=(
        "Nordwind Travel",
        "Atlas Tours",
        "Compass Desk",
        "Meridian Trips",
        "Falcon Travel",
        "Harbour Tours",
        "Sky Desk",
        "Vista Trips",
    ),
    heads=("{source} on the trip to {entity}.", "Trip to {entity}, by {source}.", "{source}: trip to {entity} found."),
    change_heads=(
        "{source} rebooked the trip to {entity}.",
        "Rebooked trip to {entity}, by {source}.",
        "{source}: trip to {entity} rebooked.",
    ),
    work=("Look up the trip to {entity}.", "Find the trip to {entity}.", "Please check the trip to {entity}."),
    changes=(
        "Have the trip to {entity} rebooked.",
        "Please rebook the trip to {entity}.",
        "Rebook the trip to {entity} as agreed.",
    ),
    brief="{source} trip to {entity}",
    change_brief="{entity} trip rebooked",
    fillers=(
        "Breakfast is included.",
        "Bring a valid passport.",
        "Cabin bags may weigh eight kilos.",
        "Seats are given at the gate.",
        "The shuttle runs every half hour.",
        "Late arrivals should call the desk.",
        "Smoking is not allowed in the rooms.",
        "Changes are possible until the day before.",
        "City tax is paid on the spot.",
        "The lounge is on the second floor.",
        "Children under two travel free.",
        "Taxis wait in front of the station.",
        "The weather is mild at that time of year.",
        "Museums are closed on Mondays.",
        "Travel insurance is advised.",
        "Receipts are sent by mail.",
    ),
    user_fact=UserFact(
        "allowance",
        "amount",
        "daily allowance",
        says=("The daily allowance is {v}.", "We have a daily allowance of {v}.", "Keep to a daily allowance of {v}."),
        changes=("The daily allowance is now {v}.", "New daily allowance: {v}.", "The daily allowance was set to {v}."),
        asks=(
            "What is the daily allowance now?",
            "Which daily allowance holds now?",
            "Remind me of the daily allowance in force.",
        ),
    ),
    rule=Rule(
        noun="earliest start",
        kind="clock",
        says=(
            "Never have me start before {v}.",
            "Nothing on my trips begins before {v}.",
            "My earliest start is {v}, on any trip.",
        ),
        exceptions=(
            "In {entity} I can start from {v}.",
            "For {entity} make {v} the earliest start.",
            "I will put up with {v} in {entity}, until I say no.",
        ),
        withdrawals=(
            "Forget the special start in {entity}.",
            "The usual start goes for {entity} again.",
        ),
        reinstatements=(
            "The special start in {entity} stands after all.",
            "Take up the special start in {entity} again.",
        ),
        once=(
            "For this one morning in {entity}, {v} is all right.",
            "I agree to {v} in {entity} this once and never again.",
        ),
        asks=(
            "How early may my day start in {entity}?",
            "What is the earliest start I accept in {entity}?",
            "From when on can you plan for me in {entity}?",
        ),
    ),
    totals=(
        "What do all the fares so far come to?",
        "Add up the fares of my trips so far.",
    ),
    across=(
        "Which fare is larger, the one to {entity} or the one to {other}, and by how much?",
        "Set the fare to {entity} against the fare to {other}: which is larger, and by how much?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
