"""Tenancy: clauses of a lease with charges, bonds, waivers, excepted and withdrawn. Held out: never in training, validation or tuning."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="tenancy",
    entities=(
        "pets", "subletting", "heating", "gardening", "repairs", "insurance", "laundry", "storage", "smoking", "balconies", "bicycles",
        "guests", "noise", "painting", "antennas", "barbecues",
    ),
    entity_phrase="the clause on {e}",
    lookup=ToolSpec(name="clause", args=("topic", "page"), missing="The lease has no such clause on that page."),
    change=ToolSpec(name="addendum", args=("topic",), missing="No addendum touches that clause."),
    attrs=(
        Attr(
            "charge", "amount", "monthly charge",
            ("A monthly charge of {v} applies.", "The tenant owes {v} each month.", "Under it {v} falls due monthly."),
            other=("What does {entity} cost on a regular basis?", "What price is attached to {entity}?"),
            guesses=("A former tenant remembers a monthly charge of {v}, no proof.", "Hearsay puts the charge at {v}."),
        ),
        Attr(
            "bond", "amount", "bond",
            ("A bond of {v} is lodged.", "The landlord retains {v} as bond.", "Against damage, {v} is lodged."),
            other=("What sum can be kept back because of {entity}?", "How much money stays with the owner over {entity}?"),
            none=("The landlord asks for no bond.", "A bond is expressly excluded."),
            guesses=("Neighbours talk of a bond of {v}, unproven.", "The bond may once have been {v}; the receipt is lost."),
        ),
        Attr(
            "effect", "date", "effective date",
            ("In force since {v}.", "It binds both parties from {v}.", "The effective date is {v}."),
            other=("When did {entity} begin to hold?", "On which day did {entity} kick in?"),
        ),
        Attr(
            "waiver", "code", "waiver number",
            ("Waiver {v} is annexed.", "A waiver was granted, {v}.", "The waiver number is {v}."),
            other=("Which document excuses us from {entity}?", "By what reference were we let off {entity}?"),
            none=("No waiver was granted.", "A waiver was sought and refused."),
            guesses=("The porter mentioned {v} as a waiver, without paper.", "There may be a waiver {v}; the register is silent."),
        ),
        Attr(
            "signatory", "person", "signatory",
            ("Initialled by {v}.", "{v} signed in person.", "The signatory is {v}."),
            other=("Who agreed to {entity} in writing?", "Whose name stands beneath {entity}?"),
            guesses=("The scrawl resembles that of {v}, no expert has looked.", "Possibly {v} held the pen."),
        ),
        Attr(
            "address", "address", "address",
            ("It concerns {v} alone.", "The address is {v}.", "Let premises: {v}."),
            other=("Which building does {entity} speak of?", "Where does {entity} apply?"),
        ),
        Attr(
            "closing", "clock", "closing time",
            ("Permitted until {v}.", "All such use ends at {v}.", "The closing time is {v}."),
            other=("How late may one go under {entity}?", "When in the evening must we stop under {entity}?"),
            none=("It sets no closing time.", "There is no closing time on any day."),
        ),
    ),
    sources=(
        "Ashford Lettings", "Burrow and Kemp", "Crown Estates", "Dunmore Law", "Eastgate Homes", "Fairview Trust", "Glebe Chambers",
        "Hollis Property", "Keystone Rentals", "Linden Court", "Mayfield Legal", "Stonebridge Housing",
    ),
    heads=(
        "{source}, page {qty}: {entity}.",
        "On {entity}, page {qty} of the {source} lease.",
        "Here is {entity}, page {qty}, as drafted by {source}.",
    ),
    change_heads=(
        "{source} varies {entity} by addendum.",
        "Addendum to {entity} from {source}.",
        "Agreed variation of {entity}, {source} and the tenant.",
    ),
    work=(
        "Read me {entity} on page {qty}.",
        "Turn to page {qty} and open {entity}.",
        "What does page {qty} hold? Fetch {entity}.",
    ),
    changes=(
        "An addendum has arrived; fetch it for {entity}.",
        "See how the addendum varies {entity}.",
        "Both sides signed an addendum to {entity}; open it.",
    ),
    brief="{source} lease: {entity}",
    change_brief="{entity} varied",
    fillers=(
        "Words in the singular include the plural.",
        "Headings do not affect the reading of the lease.",
        "Notices must be given in writing.",
        "Time is of the essence.",
        "The remainder of the lease is unaffected.",
        "Consent may not be unreasonably withheld.",
        "Fair wear and tear is accepted.",
        "The parties took independent advice.",
        "Nothing here limits statutory rights.",
        "An oral promise has no effect.",
        "The inventory forms part of the agreement.",
        "Disputes go first to mediation.",
        "Both counterparts are equally valid.",
        "Joint tenants are liable together.",
        "Where texts differ, the later one prevails.",
        "Quiet enjoyment is assured.",
        "Meter readings are taken when the keys change hands.",
        "A breach must be remedied within a reasonable time.",
    ),
    user_fact=UserFact(
        "ceiling",
        "amount",
        "client ceiling",
        says=(
            "My instructions put the client ceiling at {v}.",
            "The client ceiling is {v} a month.",
            "Bear in mind a client ceiling of {v}.",
        ),
        changes=(
            "Fresh instructions: the client ceiling becomes {v}.",
            "The client ceiling was renegotiated and is {v} from today.",
            "Strike the old client ceiling and write {v}.",
        ),
        asks=(
            "What is the client ceiling under my latest instructions?",
            "Recite the client ceiling, please.",
            "Which client ceiling am I bound by?",
        ),
    ),
    compare=Compare(
        "charge",
        (
            "Does the monthly charge in {entity} go beyond the client ceiling, and what is the difference?",
            "Hold the monthly charge in {entity} against the client ceiling: beyond it or within, and how far?",
        ),
    ),
    rule=Rule(
        noun="governing form",
        kind="code",
        says=(
            "Form {v} is the governing form throughout.",
            "Save where excepted, the governing form is {v}.",
            "Construe every clause by {v}, the governing form.",
        ),
        exceptions=(
            "Excepted is {entity}: its governing form is {v}.",
            "Save for {entity}, where {v} is the governing form until revoked.",
            "I except {entity} and put it under {v} as governing form.",
        ),
        withdrawals=(
            "The exception of {entity} is withdrawn.",
            "I revoke what I excepted for {entity}; the common governing form rules it.",
        ),
        reinstatements=(
            "The exception of {entity} revives.",
            "My revocation was premature: {entity} is excepted as before.",
        ),
        once=(
            "For this single reading {entity} may follow {v} as governing form.",
            "Without precedent, and once only, {v} is governing form to {entity}.",
        ),
        asks=(
            "By which governing form do we construe {entity}?",
            "Counsel asks for the governing form of {entity}.",
            "As matters stand, what governing form rules {entity}?",
        ),
    ),
    totals=(
        "Taken together, what is the monthly charge of all clauses opened so far?",
        "Sum the monthly charge over each clause read: what does the tenant owe in all?",
    ),
    across=(
        "Weigh the monthly charge in {entity} against that in {other}: which is larger, and by how much?",
        "Among {entity} and {other}, which monthly charge is larger, and by how much?",
    ),
)  # fmt: skip


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
