"""Procurement: quotes, a budget cap that changes mid-way, approval codes. A train and validation family."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="procurement",
    entities=(
        "desks",
        "chairs",
        "lamps",
        "shelves",
        "printers",
        "cabinets",
        "sofas",
        "monitors",
        "benches",
        "lockers",
        "stools",
        "projectors",
        "scanners",
        "carpets",
        "curtains",
        "tables",
    ),
    entity_phrase="the {e}",
    lookup=ToolSpec(name="quote", args=("item", "qty"), missing="No offer for that item and quantity."),
    change=ToolSpec(name="revise", args=("item",), missing="No offer to revise for that item."),
    attrs=(
        Attr(
            "total",
            "amount",
            "total",
            ("The total is {v}.", "In all that comes to {v}.", "Total price {v}."),
            other=("How much will {entity} set us back altogether?", "What is the bottom line for {entity}?"),
            guesses=(
                "A colleague reckons on {v} all in, without having seen the offer.",
                "Last year it was nearer {v}, for what that is worth.",
            ),
        ),
        Attr(
            "deposit",
            "part",
            "deposit",
            ("A deposit of {v} is due on order.", "Deposit {v}.", "They ask a deposit of {v}."),
            other=("What must we pay up front for {entity}?", "How much is wanted in advance for {entity}?"),
            none=("No deposit is asked.", "Nothing is payable before the goods arrive."),
        ),
        Attr(
            "freight",
            "part",
            "freight charge",
            ("Freight costs {v}.", "The freight charge is {v}.", "Add {v} for freight."),
            other=("How much goes to the haulier for {entity}?", "How much extra is carriage on {entity}?"),
            none=("Shipping is free.", "They carry it at their own expense."),
            guesses=(
                "The driver spoke of {v} for the lorry, but he does not set prices.",
                "Carriage may end up near {v}, unconfirmed.",
            ),
        ),
        Attr(
            "code",
            "code",
            "approval code",
            ("Approval code {v}.", "It is approved under {v}.", "The approval code is {v}."),
            other=("What do I type to get {entity} past finance?", "Which clearance has been granted for {entity}?"),
        ),
        Attr(
            "contract",
            "code",
            "contract number",
            ("Contract number {v}.", "The contract is filed as {v}.", "See contract {v}."),
            other=("What does our agreement on {entity} go by?", "Which reference did the lawyers give {entity}?"),
            guesses=(
                "A draft circulated as {v} and was thrown out.",
                "Somebody scribbled {v} on the folder, with a question mark.",
            ),
        ),
        Attr(
            "delivery",
            "date",
            "delivery date",
            ("Delivery on {v}.", "They deliver on {v}.", "The delivery date is {v}."),
            other=("When will {entity} get here?", "On what day can we expect {entity}?"),
            guesses=("The warehouse hopes for {v}, not confirmed.", "It could be {v} if the factory catches up."),
        ),
        Attr(
            "contact",
            "person",
            "contact",
            ("Contact is {v}.", "Ask for {v}.", "Your contact there is {v}."),
            other=("Whom do I ring about {entity}?", "Who at the supplier looks after {entity}?"),
            none=("Nobody is named to turn to.", "No contact is given."),
        ),
    ),
    sources=(
        "Norra Office",
        "Baltic Supply",
        "Kestrel Trade",
        "Omega Interiors",
        "Delta Works",
        "Halden Group",
        "Marlow Stores",
        "Pinewood Ltd",
        "Quill and Co",
        "Ridge Partners",
        "Solberg AB",
        "Tamar Goods",
    ),
    heads=(
        "{source} offers {entity}, {qty} pieces.",
        "Offer of {source} for {entity}, {qty} pieces.",
        "{source} on {entity}: {qty} pieces.",
    ),
    change_heads=(
        "{source} sends a revised offer for {entity}.",
        "Revised offer of {source} for {entity}.",
        "{source} changed its offer for {entity}.",
    ),
    work=(
        "Get a quote for {entity}, {qty} pieces.",
        "We are buying {entity}, {qty} pieces; get a quote.",
        "Ask for an offer on {entity}, {qty} pieces.",
    ),
    changes=("Ask for a revised offer for {entity}.", "Have the offer for {entity} revised.", "Get a better offer for {entity}."),
    brief="{source} quote for {entity}",
    change_brief="{entity} offer revised",
    fillers=(
        "Prices exclude tax.",
        "The offer is valid for thirty days.",
        "Packaging is taken back on request.",
        "Assembly is not part of the offer.",
        "Samples can be seen in the showroom.",
        "Payment within thirty days of the invoice.",
        "Colours may differ slightly from the pictures.",
        "Spare parts are kept for ten years.",
        "The goods stay ours until they are paid in full.",
        "Unloading takes two people and about an hour.",
        "Please check the goods on arrival and report damage in writing.",
        "Our general terms apply to this offer.",
        "Larger orders are shipped in two lots.",
        "The surface can be cleaned with mild soap.",
        "All wood comes from certified forests.",
        "Returns are accepted in the original packaging.",
        "The showroom is closed on public holidays.",
        "Instructions are enclosed in five languages.",
    ),
    user_fact=UserFact(
        "cap",
        "amount",
        "budget cap",
        says=("The budget cap is {v}.", "Our budget cap is {v} an order.", "Stay under a budget cap of {v}."),
        changes=("The budget cap is now {v}.", "New budget cap: {v}.", "The budget cap has been changed to {v}."),
        asks=("What is the budget cap now?", "Remind me of the budget cap in force.", "Which budget cap holds today?"),
    ),
    compare=Compare(
        "total",
        (
            "Is the total for {entity} over the budget cap, and what is the gap?",
            "Compare the total for {entity} with the budget cap: over or not, and the gap?",
        ),
    ),
    rule=Rule(
        noun="cost centre",
        kind="code",
        says=("Book every order on cost centre {v}.", "All orders go on cost centre {v}.", "Our standing cost centre is {v}."),
        exceptions=(
            "Book {entity} on cost centre {v} until further notice.",
            "Charge {entity} to cost centre {v} instead.",
            "An exception: cost centre {v} for {entity}.",
        ),
        withdrawals=(
            "The cost centre exception for {entity} is withdrawn.",
            "Book {entity} like everything else again.",
        ),
        reinstatements=(
            "The cost centre exception for {entity} is back in force.",
            "Reinstate the cost centre exception for {entity}.",
        ),
        once=(
            "Just this time, book {entity} on cost centre {v}.",
            "I allow cost centre {v} for {entity} this once; after that the rule holds.",
        ),
        asks=(
            "Which cost centre takes {entity}?",
            "On which cost centre do I book {entity}?",
            "What cost centre goes on the order of {entity}?",
        ),
    ),
    totals=(
        "What do the totals of all offers so far add up to?",
        "Add up the totals of every offer we have seen.",
    ),
    across=(
        "Which has the larger total, {entity} or {other}, and by how much?",
        "Compare the totals of {entity} and {other}: which is larger, and by how much?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
