"""Procurement: quotes, a budget cap that changes mid-way, approval codes. A train and validation family."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, UserFact
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
        Attr("total", "amount", "total", ("The total is {v}.", "In all that comes to {v}.", "Total price {v}.")),
        Attr("deposit", "amount", "deposit", ("A deposit of {v} is due on order.", "Deposit {v}.", "They ask a deposit of {v}.")),
        Attr("freight", "amount", "freight charge", ("Freight costs {v}.", "The freight charge is {v}.", "Add {v} for freight.")),
        Attr("code", "code", "approval code", ("Approval code {v}.", "It is approved under {v}.", "The approval code is {v}.")),
        Attr(
            "contract", "code", "contract number", ("Contract number {v}.", "The contract is filed as {v}.", "See contract {v}.")
        ),
        Attr("delivery", "date", "delivery date", ("Delivery on {v}.", "They deliver on {v}.", "The delivery date is {v}.")),
        Attr("contact", "person", "contact", ("Contact is {v}.", "Ask for {v}.", "Your contact there is {v}.")),
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
        "{source} offers {qty} pieces of {entity}.",
        "Offer of {source} for {entity}, {qty} pieces.",
        "{source} on {entity}: {qty} pieces.",
    ),
    change_heads=(
        "{source} sends a revised offer for {entity}.",
        "Revised offer of {source} for {entity}.",
        "{source} changed its offer for {entity}.",
    ),
    work=(
        "Get a quote for {qty} pieces of {entity}.",
        "We need {qty} pieces of {entity}; get a quote.",
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
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
