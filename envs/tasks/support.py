"""Customer support: orders looked up, amended, policy text again and again, an address that changes. A train and validation family."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="support",
    entities=(
        "kettle",
        "toaster",
        "backpack",
        "headset",
        "keyboard",
        "blender",
        "tent",
        "jacket",
        "camera",
        "drill",
        "mixer",
        "router",
        "helmet",
        "scooter",
        "heater",
        "speaker",
    ),
    entity_phrase="the {e}",
    lookup=ToolSpec(name="order", args=("item",), missing="No order for that item."),
    change=ToolSpec(name="amend", args=("item",), missing="No order to amend for that item."),
    attrs=(
        Attr(
            "paid",
            "amount",
            "amount paid",
            ("The customer paid {v}.", "Amount paid: {v}.", "We received {v} for it."),
            other=("How much did I give you for {entity}?", "What was I charged for {entity}?"),
            guesses=("The catalogue says {v}, which may be out of date.", "Similar ones go for {v} or so."),
        ),
        Attr(
            "refund",
            "part",
            "refund",
            ("The refund comes to {v}.", "A refund of {v} is possible.", "Refund {v}."),
            other=("How much do I get back for {entity}?", "What will be credited to my card for {entity}?"),
            none=("No refund is due.", "It is too late for money back."),
            guesses=(
                "A colleague on the phone may have promised {v}, which nobody recorded.",
                "It might be {v} back, still to be worked out.",
            ),
        ),
        Attr(
            "tracking",
            "code",
            "tracking number",
            ("Tracking number {v}.", "The parcel travels as {v}.", "It is tracked as {v}."),
            other=("How do I follow {entity} on its way?", "What do I type in to see where {entity} is?"),
            none=("It has not been handed to the courier yet.", "This one goes untracked by letter post."),
        ),
        Attr(
            "case",
            "code",
            "case number",
            ("Case number {v}.", "The case is filed as {v}.", "See case {v}."),
            other=(
                "What do I quote when I write in about {entity}?",
                "Which reference did you open for my complaint about {entity}?",
            ),
            guesses=(
                "An earlier complaint, {v}, turned out to be about something else.",
                "The chat window showed {v}, probably for another customer.",
            ),
        ),
        Attr(
            "arrival",
            "date",
            "arrival date",
            ("It arrives on {v}.", "Arrival on {v}.", "The arrival date is {v}."),
            other=("When will {entity} be at my door?", "Which day should I stay in for {entity}?"),
            guesses=("The depot hopes for {v}, nothing firm.", "It could be as late as {v}, said the driver."),
        ),
        Attr(
            "agent",
            "person",
            "agent",
            ("The agent is {v}.", "{v} handles it.", "Handled by agent {v}."),
            other=("Who at your end works on {entity}?", "Whom do I speak to about {entity}?"),
            none=("Nobody has taken it on yet.", "It is waiting to be assigned."),
            guesses=("{v} may take it over, not settled.", "It was nearly passed to {v}, who was on leave."),
        ),
        Attr(
            "pickup",
            "clock",
            "pickup time",
            ("Pickup at {v}.", "The courier comes at {v}.", "The pickup time is {v}."),
            other=("When does the van call for {entity}?", "At what o'clock is {entity} fetched?"),
        ),
    ),
    sources=(
        "Order desk",
        "Web shop",
        "Service centre",
        "Returns desk",
        "Warehouse East",
        "Warehouse West",
        "Parcel office",
        "Store online",
        "Help line",
        "Claims desk",
    ),
    heads=("{source} on the order of {entity}.", "Order of {entity}, from {source}.", "{source}: order of {entity} found."),
    change_heads=(
        "{source} amended the order of {entity}.",
        "Amended order of {entity}, from {source}.",
        "{source}: order of {entity} amended.",
    ),
    work=("Look up the order of {entity}.", "Find my order of {entity}.", "Please check the order of {entity}."),
    changes=(
        "Have the order of {entity} amended.",
        "Please amend the order of {entity}.",
        "Change the order of {entity} as agreed.",
    ),
    brief="{source} order of {entity}",
    change_brief="{entity} order amended",
    fillers=(
        "Returns are free within fourteen days.",
        "Refunds go to the card that was used.",
        "Opened software cannot be returned.",
        "Please keep the receipt for the warranty.",
        "The warranty covers two years of normal use.",
        "Wear and tear is not covered.",
        "Parcels are left with a neighbour if nobody is at home.",
        "Our shops take returns as well.",
        "A return label can be printed at home.",
        "Gift cards cannot be paid out.",
        "Damaged parcels should be refused at the door.",
        "Reviews are checked before they are published.",
        "The help line is open on working days.",
        "Batteries must be returned apart.",
        "Repairs take about two weeks.",
        "Delivery to islands takes longer.",
        "Personal data is deleted after three years.",
        "Prices include tax.",
    ),
    user_fact=UserFact(
        "address",
        "address",
        "delivery address",
        says=("My address is {v}.", "Deliver to {v}, please.", "I live at {v}."),
        changes=("I have moved: my address is now {v}.", "From now on deliver to {v}.", "My new address is {v}."),
        asks=("Which delivery address holds now?", "What is my delivery address at present?", "Where do you deliver to now?"),
    ),
    rule=Rule(
        noun="neighbour",
        kind="person",
        says=(
            "If I am out, leave parcels with {v}.",
            "{v} takes in my parcels.",
            "When nobody answers, my parcels go to {v}.",
        ),
        exceptions=(
            "For {entity}, {v} takes the parcel in.",
            "Leave {entity} with {v} instead, until I tell you.",
            "I want {entity} left with {v}, not with the usual neighbour.",
        ),
        withdrawals=(
            "Forget what I said about who takes {entity} in.",
            "No special neighbour for {entity} any more.",
        ),
        reinstatements=(
            "What I said about who takes {entity} in counts again.",
            "The special neighbour for {entity} is back.",
        ),
        once=(
            "Only this time, hand {entity} to {v}.",
            "{v} may take {entity} this once, not again.",
        ),
        asks=(
            "Who takes in {entity} if I am out?",
            "Which neighbour gets {entity}?",
            "With whom would you leave {entity}?",
        ),
    ),
    totals=(
        "How much have I paid for everything so far?",
        "What do the amounts paid add up to, all orders together?",
    ),
    across=(
        "For which did I pay more, {entity} or {other}, and by how much?",
        "Amount paid for {entity} against {other}: which is larger, and by how much?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
