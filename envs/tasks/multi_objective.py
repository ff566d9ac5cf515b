"""An office manager's errands, each on its own: who comes when, where to, what it costs. A train and validation family."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="multi_objective",
    bundle=0.35,
    entities=(
        "badges", "bouquets", "keys", "parking", "windows", "coffee", "recycling", "signage", "boiler", "shredder", "piano",
        "aquarium", "extinguishers", "postbox", "awning", "plaque",
    ),
    entity_phrase="the {e}",
    lookup=ToolSpec(name="errand", args=("about", "minutes"), missing="That errand is not on the list."),
    change=ToolSpec(name="defer", args=("about",), missing="That errand was never booked."),
    attrs=(
        Attr(
            "bill", "amount", "bill",
            ("It will set us back {v}.", "The bill comes to {v}.", "They charge {v}, everything included."),
            other=("How much money goes on {entity}?", "What do we spend on {entity}?"),
            guesses=("The bill might run to {v}, going by last year.", "Accounts had pencilled in {v}, pending a bill."),
        ),
        Attr(
            "prepayment", "part", "prepayment",
            ("Wire a prepayment of {v}.", "{v} has to be sent ahead.", "Prepayment wanted: {v}."),
            other=("What must reach them early for {entity}?", "How much is owed up front on {entity}?"),
            none=("No prepayment is asked.", "They start without a prepayment."),
            guesses=("Reception believes the prepayment is about {v}, but check.", "A prepayment of perhaps {v}, nothing in writing."),
        ),
        Attr(
            "helper", "person", "helper",
            ("{v} takes care of it.", "The helper they send is {v}.", "Look out for {v}, the helper."),
            other=("Who will be dealing with {entity}?", "Whose visit do we expect about {entity}?"),
            guesses=("Perhaps {v} could do it; nobody has asked.", "Last time it was {v}, this time who knows."),
        ),
        Attr(
            "start", "clock", "start time",
            ("They ring the bell at {v}.", "Work begins at {v}.", "Start time {v}, give or take nothing."),
            other=("At what hour will somebody turn up about {entity}?", "How early do we unlock for {entity}?"),
            guesses=("Could be {v}, their office was vague.", "Someone on the phone mumbled {v} as a possible start."),
        ),
        Attr(
            "day", "date", "appointed day",
            ("It is in the diary for {v}.", "They come on {v}.", "The appointed day is {v}."),
            other=("Which calendar date belongs to {entity}?", "When, this month or next, will they get round to {entity}?"),
        ),
        Attr(
            "room", "room", "room",
            ("Let them into {v}.", "The room is {v}.", "Everything happens in {v}."),
            other=("Where in the building will they see to {entity}?", "Which door do I open for {entity}?"),
            none=("It is not tied to a room.", "No room is needed."),
        ),
        Attr(
            "job", "code", "job number",
            ("Mention {v} when you ring them.", "The job number is {v}.", "Their slip says job {v}."),
            other=("What reference do I give on the phone about {entity}?", "Under which entry do they list {entity}?"),
        ),
    ),
    sources=(
        "Handy Brothers", "Bright Facilities", "Corner Service", "Lobby Desk", "Swift Errands", "Tidy House", "Metro Fix",
        "Oakwood Care", "Plan Nine", "Rapid Hands", "Urban Help", "Willow Works",
    ),
    heads=(
        "{source} will see to {entity}; they allow {qty} minutes.",
        "About {entity}: {source} can do it in {qty} minutes.",
        "Booked for {entity}: {source}, {qty} minutes.",
    ),
    change_heads=(
        "{source} had to find another time for {entity}.",
        "New arrangement on {entity} with {source}.",
        "About {entity}: {source} rang with changes.",
    ),
    work=(
        "Next on my list is {entity}; find someone, {qty} minutes should do.",
        "Could you sort out {entity}? Allow {qty} minutes.",
        "While you are at it, see about {entity}, {qty} minutes at most.",
    ),
    changes=(
        "That slot clashes; reschedule {entity}.",
        "Ring them and settle another time for {entity}.",
        "We have to rearrange things, please find a new time for {entity}.",
    ),
    brief="{source} booked for {entity}",
    change_brief="{entity} moved",
    fillers=(
        "They bring their own ladder.",
        "Somebody should be at the front desk.",
        "The lift is out of order again.",
        "Please clear the corridor beforehand.",
        "A cup of tea is always welcome.",
        "Invoices go to accounts by mail.",
        "The neighbours have been told.",
        "Their van fits into the courtyard.",
        "Bad weather may delay things a little.",
        "Leave a note if the office is empty.",
        "They tidy up after themselves.",
        "Old parts are taken away for free.",
        "The boss would like to be kept posted.",
        "Dogs make the younger one nervous.",
        "Shoes come off on the new floor.",
        "Cancelling is free until the evening before.",
        "Spare fuses lie in the top drawer.",
        "Ask for a receipt with the company name.",
    ),
    user_fact=UserFact(
        "cash",
        "amount",
        "petty cash",
        says=(
            "There is {v} in petty cash.",
            "I counted petty cash this morning: {v}.",
            "We have to make do with petty cash of {v}.",
        ),
        changes=(
            "Petty cash has been topped up, it is {v} now.",
            "I recounted: petty cash holds {v}.",
            "After today's trip to the bank petty cash is {v}.",
        ),
        asks=("How much petty cash do we have?", "What did petty cash last stand at?", "What is left in petty cash as far as you know?"),
    ),
    compare=Compare(
        "bill",
        (
            "Would the bill for {entity} exceed petty cash, and how far apart are they?",
            "Petty cash or not for {entity}: is the bill above it, and what separates them?",
        ),
    ),
    rule=Rule(
        noun="earliest hour",
        kind="clock",
        says=(
            "Nobody is let in before {v}, that is our earliest hour.",
            "House rule: {v} is the earliest hour for tradespeople.",
            "For all of these the earliest hour is {v}.",
        ),
        exceptions=(
            "I make an exception of {entity}: earliest hour {v}.",
            "With {entity} it is different, {v} is the earliest hour there.",
            "Until I say otherwise, {v} counts as earliest hour for {entity}.",
        ),
        withdrawals=(
            "Forget the exception I made of {entity}; house rule again.",
            "I take back the special earliest hour for {entity}.",
        ),
        reinstatements=(
            "On second thoughts the exception for {entity} is back on.",
            "Restore the special earliest hour for {entity}.",
        ),
        once=(
            "Only on this visit the earliest hour for {entity} may be {v}.",
            "For one day, {v} is fine as earliest hour with {entity}; then the house rule holds.",
        ),
        asks=(
            "From what earliest hour may they come about {entity}?",
            "They ask how soon they can be let in for {entity}: what is the earliest hour?",
            "Which earliest hour holds with {entity}?",
        ),
    ),
    totals=(
        "What do the bills of all errands so far come to together?",
        "If we settle every bill on the list today, how much is that in all?",
    ),
    across=(
        "Take the bills for {entity} and {other}: which is larger, and by how much?",
        "Is it {entity} or {other} that costs us more: which bill is larger, and by how much?",
    ),
)  # fmt: skip


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
