"""Lending: a tool library's loan cards, who holds what and until when. Held out: never in training, validation or tuning."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="lending",
    entities=(
        "ladder",
        "sander",
        "jigsaw",
        "barrow",
        "chainsaw",
        "planer",
        "hoist",
        "generator",
        "mower",
        "trestle",
        "winch",
        "compressor",
        "grinder",
        "tiller",
        "auger",
        "anvil",
    ),
    entity_phrase="the {e}",
    lookup=ToolSpec(name="loan", args=("tool", "days"), missing="No loan card for that tool and those days."),
    change=ToolSpec(name="reissue", args=("tool",), missing="No loan card to reissue for that tool."),
    attrs=(
        Attr(
            "holder",
            "person",
            "holder",
            says=("Signed out to {v}.", "{v} has it at present.", "It was collected by {v}."),
            other=("Who walked off with {entity}?", "In whose hands do we find {entity} these days?"),
            none=("Nobody has signed for it.", "It sits on the rack, unclaimed."),
            guesses=("Last seen in a van with {v}, or so the porter thinks.", "Could be at the house of {v}, nobody has looked."),
        ),
        Attr(
            "due",
            "date",
            "return date",
            says=("Due back on {v}.", "It is to be returned by {v}.", "The loan runs out on {v}."),
            other=("When must {entity} come home?", "Until what day may {entity} stay away?"),
            none=("It was lent open-ended.", "Nothing was agreed about bringing it back."),
            guesses=(
                "Someone at the counter mentioned {v}, but it was never stamped.",
                "Pencilled on the card: {v}, then crossed.",
            ),
        ),
        Attr(
            "bond",
            "part",
            "bond",
            says=("A bond of {v} was left at the counter.", "We took {v} as security.", "Held against damage: {v}."),
            other=("How much cash do we hand over once {entity} is home safe?", "What sum are we keeping for {entity}?"),
            none=("No bond was taken.", "They were let off the security."),
            guesses=("I seem to recall {v} in an envelope, unlabelled.", "The volunteer believed it was {v}, without a receipt."),
        ),
        Attr(
            "worth",
            "amount",
            "replacement value",
            says=("A new one would cost {v}.", "Replacement value {v}.", "It is insured for {v}."),
            other=("How much are we out if {entity} never turns up?", "What do we charge whoever loses {entity}?"),
            guesses=("Second-hand ones go at {v}, says a member.", "An old price tag on the case shows {v}."),
        ),
        Attr(
            "slip",
            "code",
            "loan slip",
            says=("Loan slip {v}.", "The slip reads {v}.", "Written up under {v}."),
            other=(
                "What number do I give at the desk when I ask after {entity}?",
                "Which paperwork goes along when {entity} leaves?",
            ),
        ),
        Attr(
            "bay",
            "room",
            "storage bay",
            says=("It lives in {v}.", "Its hook is in {v}.", "Storage bay {v}."),
            other=("Where do I put {entity} after use?", "Where on the shelves would I look for {entity}?"),
        ),
        Attr(
            "check",
            "date",
            "safety check",
            says=("Last safety check on {v}.", "The electrician passed it on {v}.", "Its test sticker says {v}."),
            other=("When was {entity} looked over?", "How recent is the inspection of {entity}?"),
            none=("It has never had a safety check.", "The sticker has peeled off and no test is on file."),
            guesses=(
                "It may have been looked at around {v}, going by memory.",
                "Probably tested in passing on {v}, not written down.",
            ),
        ),
    ),
    sources=(
        "Tool shed",
        "East counter",
        "North counter",
        "Mill branch",
        "Quay branch",
        "Works library",
        "Parish store",
        "Yard office",
        "Estate store",
        "Harbour depot",
        "College shed",
        "Night desk",
    ),
    heads=(
        "{source} has the card for {entity}: out for {qty} days.",
        "Loan card of {entity}, {qty} days, kept at {source}.",
        "{source} wrote out {entity} for {qty} days.",
    ),
    change_heads=(
        "{source} has reissued {entity}.",
        "New card for {entity}, stamped at {source}.",
        "The card for {entity} was corrected at {source}.",
    ),
    work=(
        "Take out {entity} for {qty} days.",
        "I would like {entity} for {qty} days; see the loan card.",
        "Fetch the loan card of {entity}, {qty} days.",
    ),
    changes=(
        "Have {entity} reissued.",
        "Something changed on the card of {entity}: have it reissued.",
        "Bring up the reissued card of {entity}.",
    ),
    brief="{source} loan of {entity}",
    change_brief="{entity} card reissued",
    fillers=(
        "Please wipe tools down before they come home.",
        "Blades are sharpened by volunteers over the winter.",
        "Petrol tanks must be empty when handed in.",
        "Goggles and gloves can be had for the asking.",
        "Members may reserve one week ahead.",
        "A cracked handle is no shame, but do tell us.",
        "Batteries are charged overnight behind the bench.",
        "Lost keys are a nuisance for everyone.",
        "We do not lend to firms that hire out tools themselves.",
        "Extension leads are on the pegboard by the entrance.",
        "The kettle is for members as well.",
        "Sawdust goes in the sack, not down the drain.",
        "Ask for a demonstration if it is your first time.",
        "The reading corner has manuals for most machines.",
        "Late tools keep other people waiting.",
        "Unusual noises should be reported on a red tag.",
        "We close early when it snows.",
        "Donations of hand tools are always welcome.",
    ),
    user_fact=UserFact(
        "ceiling",
        "amount",
        "insurance ceiling",
        says=(
            "Our insurance ceiling is {v} for any one tool.",
            "Mind the insurance ceiling of {v}.",
            "The policy has an insurance ceiling of {v}.",
        ),
        changes=(
            "The insurers moved the insurance ceiling to {v}.",
            "From today the insurance ceiling is {v}.",
            "New policy, new insurance ceiling: {v}.",
        ),
        asks=(
            "What is our insurance ceiling now?",
            "Up to what insurance ceiling are we covered today?",
            "Remind me of the insurance ceiling in the policy.",
        ),
    ),
    compare=Compare(
        "worth",
        (
            "Is the replacement value of {entity} over the insurance ceiling, and what is the gap?",
            "Would {entity} break the insurance ceiling by its replacement value, and what is the gap?",
        ),
    ),
    rule=Rule(
        noun="countersigner",
        kind="person",
        says=(
            "As a rule {v} countersigns every loan.",
            "Nothing leaves the shed without a countersignature from {v}.",
            "Have all cards countersigned by {v}.",
        ),
        exceptions=(
            "Until I say otherwise, {v} countersigns for {entity}.",
            "Make an exception for {entity}: {v} countersigns there.",
            "With {entity} it is {v} who countersigns from here on.",
        ),
        withdrawals=(
            "The special arrangement for countersigning {entity} is over.",
            "No more exception for {entity} when it comes to countersigning.",
        ),
        reinstatements=(
            "The special arrangement for countersigning {entity} stands after all.",
            "I want the exception for {entity} back, same countersigner as before.",
        ),
        once=(
            "Just this once {v} may countersign {entity}.",
            "Today {v} can countersign {entity}, but only today.",
        ),
        asks=(
            "Who countersigns for {entity}?",
            "Whose countersignature does {entity} need?",
            "Who has to countersign before {entity} goes out?",
        ),
    ),
    totals=(
        "What do the tools on all cards so far come to by replacement value?",
        "Add up the replacement values of everything looked up so far.",
    ),
    across=(
        "By replacement value, {entity} or {other}: which is larger, and by how much?",
        "Which would be dearer to replace, {entity} or {other}, and by how much?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
