"""Travel: trips booked and rebooked, hotels, times, a daily allowance. Held out: never in training, validation or tuning."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, FamilySpec, Knobs, UserFact
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
        Attr("fare", "amount", "fare", ("The fare is {v}.", "You pay a fare of {v}.", "Fare {v} for both ways.")),
        Attr(
            "booking", "code", "booking reference", ("Booking reference {v}.", "It is booked under {v}.", "The booking is {v}.")
        ),
        Attr("flight", "code", "flight number", ("Flight {v}.", "You fly with {v}.", "The flight number is {v}.")),
        Attr("hotel", "hotel", "hotel", ("You stay at {v}.", "Rooms are held at {v}.", "The hotel is {v}.")),
        Attr("checkin", "clock", "check-in time", ("Check-in from {v}.", "Rooms are ready at {v}.", "The check-in time is {v}.")),
        Attr("guide", "person", "guide", ("Your guide is {v}.", "{v} meets you there.", "A guide, {v}, is booked.")),
        Attr("departure", "date", "departure date", ("You leave on {v}.", "Departure on {v}.", "The departure date is {v}.")),
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
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
