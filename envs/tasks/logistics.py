"""Logistics: lots with near-twin numbers, gross and tare, partial deliveries with a rest still owed, a standing bay. A train family."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="logistics",
    entities=(
        "LX4471",
        "LX4417",
        "BN2086",
        "BN2068",
        "QR7150",
        "QR7510",
        "TM3392",
        "TN3392",
        "GD6604",
        "GD6640",
        "VK1859",
        "VK1589",
        "HP9025",
        "HB9025",
        "SW5738",
        "SW5783",
    ),
    entity_phrase="lot {e}",
    lookup=ToolSpec(name="manifest", args=("lot", "pallets"), missing="No manifest with that lot and pallet count."),
    change=ToolSpec(name="recount", args=("lot",), missing="That lot was not counted again."),
    attrs=(
        Attr(
            "received",
            "amount",
            "received count",
            ("Counted in: {v} units.", "Tallied at the ramp, {v} units on hand.", "Received count {v} units, tally closed."),
            other=("How many pieces made it here from {entity}?", "What can we pick of {entity} today?"),
            guesses=("Driver reckoned {v} pieces, did not tally.", "Packing slip reads {v} pieces, smudged, do not book."),
        ),
        Attr(
            "owed",
            "amount",
            "backorder",
            ("{v} units still owed.", "Backorder {v} units.", "Rest of {v} units to follow."),
            other=("What has the supplier yet to send us on {entity}?", "How far short are we with {entity}?"),
            none=("Delivery complete, nothing owed.", "Rest waived, no backorder."),
            guesses=("Supplier hinted at {v} pieces later, no paper.", "System proposes {v} pieces to come, not released."),
        ),
        Attr(
            "gross",
            "weight",
            "gross weight",
            ("Grosses {v}.", "Gross weight {v}, weighbridge.", "Scale says {v} all in."),
            other=("How heavy is {entity} as it stands?", "What load does {entity} put on the axle?"),
            guesses=("Forklift display blinked {v}, not calibrated.", "Carrier estimate {v}, to be verified."),
        ),
        Attr(
            "tare",
            "tare",
            "tare weight",
            ("Wood and wrap make {v}.", "Tare weight {v}.", "Deduct {v} of packaging."),
            other=("How much of {entity} is not goods?", "What would {entity} bring onto the scales emptied?"),
        ),
        Attr(
            "seal",
            "code",
            "seal number",
            ("Seal number {v}, intact.", "Sealed with {v}.", "Seal reads {v}."),
            other=("What is stamped on the lock of {entity}?", "Which tag did customs leave hanging on {entity}?"),
            none=("Came in unsealed.", "Doors open, no seal on it."),
            guesses=("Loose tag {v} lay on the floor, origin unclear.", "Paperwork hints at {v}, does not fit."),
        ),
        Attr(
            "bin",
            "room",
            "storage bin",
            ("Put away in {v}.", "Storage bin {v}.", "Stands in {v}, top level."),
            other=("Where on the floor do I find {entity}?", "Which rack holds {entity}?"),
            none=("Not put away, left in the aisle.", "No storage bin assigned."),
        ),
        Attr(
            "docked",
            "date",
            "dock date",
            ("Docked {v}.", "Off the truck on {v}.", "Dock date {v} as stamped."),
            other=("When did {entity} reach us?", "Since when has {entity} been in the house?"),
        ),
    ),
    sources=(
        "Gate North",
        "Gate South",
        "Hub West",
        "Kranich Cargo",
        "Osprey Lines",
        "Tidal Freight",
        "Yard Six",
        "Cold store",
        "Rail ramp",
        "Ferro Haulage",
        "Customs shed",
        "Crossdock",
    ),
    heads=(
        "{source} booked {entity}, {qty} pallets.",
        "Manifest {source}: {entity} on {qty} pallets.",
        "{qty} pallets of {entity} through {source}.",
    ),
    change_heads=(
        "{source} recounted {entity}.",
        "Recount at {source}, {entity}.",
        "{source} mixed up its papers, {entity} is rebooked.",
    ),
    work=(
        "Pull the manifest of {entity}, {qty} pallets.",
        "Need {entity} with {qty} pallets, get the manifest.",
        "Check in {entity}, {qty} pallets.",
    ),
    changes=("Get a recount of {entity}.", "Have {entity} counted again.", "Stocktake disagrees on {entity}, recount it."),
    brief="{source} manifest, {entity}",
    change_brief="{entity} recounted",
    fillers=(
        "Mind the near-identical labels.",
        "Shrink wrap torn on one corner.",
        "Do not stack.",
        "This side up.",
        "Forklift only, no hand jacks.",
        "Pallets to be swapped one for one.",
        "Driver waited at the ramp.",
        "Tail lift was needed.",
        "Keep dry.",
        "Photos of the damage are in the folder.",
        "Temperature logger switched off as agreed.",
        "Delivery note stamped and returned.",
        "Mixed cartons, sort before shelving.",
        "Edge protectors to be sent back.",
        "Barcode unreadable, typed in by hand.",
        "Hazard labels not required.",
        "Straps checked before unloading.",
        "Consignee notified.",
    ),
    user_fact=UserFact(
        "capacity",
        "amount",
        "shift capacity",
        says=(
            "Shift capacity is {v} units.",
            "We handle a shift capacity of {v} units, no more.",
            "Plan with a shift capacity of {v} units.",
        ),
        changes=(
            "Shift capacity is {v} units now.",
            "Crew changed, shift capacity goes to {v} units.",
            "Correct the shift capacity to {v} units.",
        ),
        asks=("What shift capacity do we plan with?", "Shift capacity as of now?", "Which shift capacity is current?"),
    ),
    compare=Compare(
        "received",
        (
            "Received count of {entity} against shift capacity: over or not, and what gap?",
            "Is {entity} over shift capacity by its received count, and what is the gap?",
        ),
    ),
    rule=Rule(
        "standing bay",
        "room",
        says=("Unload everything at {v}, that is the standing bay.", "Standing bay is {v}.", "Standing bay for all trucks: {v}."),
        exceptions=(
            "Exception, {entity} gets {v} as standing bay until cancelled.",
            "Not so {entity}: standing bay {v}.",
            "Reroute {entity}, its standing bay is {v}.",
        ),
        withdrawals=(
            "Cancel the bay exception, {entity} goes to the common standing bay.",
            "The standing bay set apart for {entity} is cancelled.",
        ),
        reinstatements=(
            "Bay exception is on again, {entity} goes back to its own standing bay.",
            "The standing bay set apart for {entity} holds again.",
        ),
        once=(
            "One truck only, {entity} unloads at {v}, then the standing bay as ever.",
            "Let {entity} into {v} once, the standing bay is closed for an hour.",
        ),
        asks=(
            "Which standing bay takes {entity}?",
            "Where does {entity} unload, which standing bay?",
            "Send {entity} to which standing bay?",
        ),
    ),
    totals=(
        "Units counted in over all lots so far, summed up?",
        "What do the received counts of all manifests pulled so far add up to?",
    ),
    across=(
        "Between {entity} and {other}, which received count is larger, and by how much?",
        "Held side by side, {entity} and {other}: which has the larger received count, and by how much?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
