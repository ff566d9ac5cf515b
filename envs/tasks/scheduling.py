"""Scheduling: events moved, called off and put back on, their organisers and evidence ids, a house curfew. A train family."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="scheduling",
    entities=(
        "rehearsal",
        "offsite",
        "webinar",
        "hackathon",
        "interview",
        "induction",
        "retrospective",
        "assembly",
        "showcase",
        "fundraiser",
        "inspection",
        "keynote",
        "roadshow",
        "seminar",
        "ceremony",
        "reunion",
    ),
    entity_phrase="the {e}",
    lookup=ToolSpec(name="agenda", args=("event", "seats"), missing="No calendar entry for that event and number of seats."),
    change=ToolSpec(name="reschedule", args=("event",), missing="Nothing was moved for that event."),
    attrs=(
        Attr(
            "fee",
            "amount",
            "hire fee",
            ("Room hire runs to {v}.", "The venue bills us {v}.", "Hire fee as quoted: {v}."),
            other=("How much are we being charged to hold {entity}?", "What will accounts have to pay on {entity}?"),
            guesses=(
                "Somebody put the bill at roughly {v} without looking it up.",
                "I would not rely on {v} as the price, it is only hearsay.",
            ),
        ),
        Attr(
            "start",
            "date",
            "start date",
            ("It opens on {v}.", "Start date settled as {v}.", "The first day is {v}."),
            other=("When does {entity} begin?", "From when should people block their diaries because of {entity}?"),
            guesses=("Word in the corridor is {v}, but no one has agreed to that.", "A draft poster says {v}; please ignore it."),
        ),
        Attr(
            "reserve",
            "date",
            "reserve date",
            ("We are holding {v} in reserve.", "If it slips, it slips to {v}.", "Reserve date pencilled in: {v}."),
            other=(
                "Where does {entity} land should the original plan fall through?",
                "What is the backup for {entity} in case of a postponement?",
            ),
            none=("No reserve date was set.", "There is nothing to fall back on if it slips."),
        ),
        Attr(
            "organiser",
            "person",
            "organiser",
            ("{v} is running this one.", "The organiser is {v}.", "It was handed to {v} to organise."),
            other=("Who is in charge of {entity}?", "Whom do I chase about {entity}?"),
            none=("Nobody has put their name to it yet.", "It is still without an organiser."),
            guesses=(
                "I half expect {v} to take it on, though nothing is agreed.",
                "People keep mentioning {v}, who has not been asked.",
            ),
        ),
        Attr(
            "evidence",
            "code",
            "evidence id",
            ("The confirmation is filed as {v}.", "Evidence id for this: {v}.", "You can look up the signed minute under {v}."),
            other=("Which document proves what was agreed on {entity}?", "What do I cite if someone disputes {entity}?"),
            none=("Nothing was put in writing.", "There is no paper to back this up."),
        ),
        Attr(
            "doors",
            "clock",
            "arrival time",
            ("Doors open at {v}.", "Please be there by {v}.", "Arrival time on the invitation: {v}."),
            other=("How early must guests turn up to {entity}?", "At what hour are we letting people into {entity}?"),
        ),
        Attr(
            "room",
            "room",
            "meeting room",
            ("It takes place in {v}.", "Send everybody to {v}.", "Meeting room {v} is booked."),
            other=("Where in the building does {entity} happen?", "Which space do we walk to on the day of {entity}?"),
        ),
    ),
    sources=(
        "Planning office",
        "Facilities",
        "Events team",
        "Front office",
        "Board secretary",
        "Training unit",
        "Campus desk",
        "Press office",
        "Guest services",
        "Programme team",
        "Staff council",
        "Alumni desk",
    ),
    heads=(
        "{source} has {entity} down with {qty} seats.",
        "Calendar entry for {entity}, {qty} seats, kept by {source}.",
        "According to {source}, {entity} is on with {qty} seats.",
    ),
    change_heads=(
        "{source} has moved things around on {entity}.",
        "{source} called off {entity}, then put it back on.",
        "Fresh from {source}: {entity} was reinstated, not quite as before.",
    ),
    work=(
        "Please open the calendar entry for {entity}, {qty} seats.",
        "Could you see what is planned for {entity} with {qty} seats?",
        "Bring up {entity} in the calendar, {qty} seats.",
    ),
    changes=(
        "I hear that {entity} was moved; find out how.",
        "See how {entity} has been rescheduled.",
        "They called off {entity} and then revived it, so get the latest.",
    ),
    brief="{source} plans {entity}",
    change_brief="{entity} moved",
    fillers=(
        "Coffee is served in the foyer beforehand.",
        "Name badges are handed out at the door.",
        "Please mute your phone during the speeches.",
        "Parking is limited, so come by tram if you can.",
        "The sound system was serviced last week.",
        "Slides should reach us the evening before.",
        "Vegetarian meals need to be ordered ahead.",
        "Photographs will be taken throughout.",
        "Interpreters sit at the back on the left.",
        "Cloakroom staff leave when the last coat is gone.",
        "Chairs go back into stacks afterwards.",
        "A recording is shared with those who could not make it.",
        "Late arrivals are asked to use the side entrance.",
        "We try to leave a short break between sessions.",
        "Feedback forms are on every seat.",
        "Water and fruit are on the house.",
        "The lift is being repaired, so allow a little longer.",
        "Invitations went out with the usual wording.",
    ),
    user_fact=UserFact(
        "budget",
        "amount",
        "hire budget",
        says=(
            "Our hire budget is {v} an event.",
            "We have a hire budget of {v} to work with.",
            "Please bear in mind a hire budget of {v}.",
        ),
        changes=(
            "The hire budget has become {v}.",
            "Finance reset the hire budget to {v}.",
            "Work with a hire budget of {v} from here on.",
        ),
        asks=(
            "What hire budget are we working with?",
            "Could you repeat our hire budget to me?",
            "Which hire budget did I settle on last?",
        ),
    ),
    compare=Compare(
        "fee",
        (
            "Does the hire fee of {entity} go over our hire budget, and what is the gap?",
            "Put the hire fee of {entity} next to the hire budget: over or not, and by what gap?",
        ),
    ),
    rule=Rule(
        "curfew",
        "clock",
        says=(
            "House rule: the curfew is {v} for everybody.",
            "We observe a curfew of {v} in this building.",
            "The caretaker's curfew is {v}, no discussion.",
        ),
        exceptions=(
            "I got the caretaker to agree a curfew of {v} on {entity} until further notice.",
            "Treat {entity} as a special case: its curfew is {v}.",
            "A separate curfew of {v} goes with {entity} from now on.",
        ),
        withdrawals=(
            "The caretaker took back the special curfew on {entity}.",
            "Forget the separate curfew on {entity}, it gets the house one.",
        ),
        reinstatements=("The special curfew on {entity} stands again after all.", "We won back the separate curfew on {entity}."),
        once=(
            "Just this once the curfew on {entity} may be {v}.",
            "Tonight only, {entity} gets a curfew of {v}; next time the house one holds.",
        ),
        asks=(
            "By which curfew must we clear out after {entity}?",
            "Which curfew binds {entity}?",
            "What curfew do I print on the notice about {entity}?",
        ),
    ),
    totals=(
        "What does room hire add up to over every event we have opened so far?",
        "Sum the hire fees of all events opened until now: how much?",
    ),
    across=(
        "Take {entity} and {other}: which hire fee is larger, and by how much?",
        "Does {entity} or {other} have the larger hire fee, and what is the difference?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
