"""Casework: a litigation practice's matters, their parties, listings and deadlines. Held out: never in training, validation or tuning."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="casework",
    entities=(
        "Abernathy",
        "Bexley",
        "Carrow",
        "Dunmore",
        "Ellery",
        "Fairfax",
        "Garrick",
        "Hollis",
        "Inskip",
        "Jessop",
        "Kendrick",
        "Lomax",
        "Merrick",
        "Norcott",
        "Ormond",
        "Pryor",
    ),
    entity_phrase="the matter of {e}",
    lookup=ToolSpec(name="docket", args=("matter", "entries"), missing="The registry holds no such entries in that matter."),
    change=ToolSpec(name="refile", args=("matter",), missing="No amended entry in that matter."),
    attrs=(
        Attr(
            "claimant",
            "person",
            "claimant",
            says=("The claimant is {v}.", "{v} brings the action.", "Proceedings were begun by {v}."),
            other=("Who is suing in {entity}?", "Who started {entity}?"),
        ),
        Attr(
            "counsel",
            "person",
            "opposing counsel",
            says=("Opposing counsel is {v}.", "{v} appears for the other side.", "The defence has retained {v}."),
            other=("Whom are we up against in {entity}?", "Which barrister must we beat in {entity}?"),
            none=("The other side acts in person.", "No notice of acting has been lodged for the defence."),
            guesses=(
                "Word in the corridor is that they want {v}.",
                "They are said to be courting {v}, with nothing on the record.",
            ),
        ),
        Attr(
            "deadline",
            "date",
            "filing deadline",
            says=(
                "Papers must be lodged by {v}.",
                "The order gives {v} as the filing deadline.",
                "Time for service runs out on {v}.",
            ),
            other=("When is it too late to respond in {entity}?", "When does the door close on us in {entity}?"),
            none=("The master has set no filing deadline.", "Time is at large until directions are given."),
            guesses=(
                "The trainee diarised {v}, subject to seeing the order.",
                "Counting on my fingers I make it {v}, do check.",
            ),
        ),
        Attr(
            "hearing",
            "clock",
            "hearing time",
            says=("The hearing starts at {v}.", "We are listed for {v}.", "Parties are called on at {v}."),
            other=("At what o'clock does the judge take {entity}?", "How early need I be robed in {entity}?"),
            none=("It will be dealt with on paper, without a hearing.", "It has come out of the list."),
            guesses=("The usher is hoping for {v}, if the morning goes well.", "It was provisionally down for {v}, not sealed."),
        ),
        Attr(
            "courtroom",
            "room",
            "courtroom",
            says=("Courtroom {v}.", "It will be heard in {v}.", "The judge sits in {v}."),
            other=("Where do I wheel the bundles for {entity}?", "Which door do I knock on for {entity}?"),
        ),
        Attr(
            "sum",
            "amount",
            "sum claimed",
            says=("The sum claimed is {v}.", "They are asking for {v}.", "Damages are pleaded at {v}."),
            other=("How much money is at stake in {entity}?", "What would losing {entity} cost the client?"),
            guesses=(
                "Our expert has floated {v} in conversation, no report yet.",
                "The papers in the press speak of {v}, on no authority.",
            ),
        ),
        Attr(
            "docket",
            "code",
            "docket number",
            says=("Docket number {v}.", "Issued under {v}.", "The court file is marked {v}."),
            other=("What reference goes on our letters in {entity}?", "What do I type at the terminal to find {entity}?"),
        ),
    ),
    sources=(
        "Listing office",
        "Chancery clerk",
        "County registry",
        "Commercial list",
        "Appeals office",
        "Sheriff clerk",
        "Costs office",
        "Masters corridor",
        "Legal aid desk",
        "Probate office",
        "Filing counter",
        "Judicial secretary",
    ),
    heads=(
        "{source} sends the latest {qty} entries in {entity}.",
        "In {entity}, {source} shows {qty} entries.",
        "Docket of {entity} as held by {source}, {qty} entries.",
    ),
    change_heads=(
        "{source} has entered an amendment in {entity}.",
        "By order, {source} varied the record in {entity}.",
        "In {entity} the record was corrected by {source}.",
    ),
    work=(
        "Pull the docket of {entity}, last {qty} entries.",
        "Let me see the last {qty} entries in {entity}.",
        "Check with the court on {entity}, {qty} entries back.",
    ),
    changes=(
        "Refile {entity} as the court has ordered.",
        "There was an amendment in {entity}: fetch it from the court.",
        "Get the amended entry in {entity}.",
    ),
    brief="{source} docket of {entity}",
    change_brief="{entity} docket amended",
    fillers=(
        "Bundles are to be paginated throughout.",
        "Skeleton arguments should be short.",
        "Costs follow the event.",
        "Robes are not worn in chambers.",
        "Transcripts are ordered separately.",
        "Without prejudice letters stay out of the bundle.",
        "Interpreters are booked by us.",
        "Statements stand as evidence in chief.",
        "Mediation remains open to both sides.",
        "Copies of authorities are not required.",
        "Leave to appeal was not sought.",
        "Disclosure is by list in the ordinary way.",
        "Phones off at the door.",
        "Foreign documents need a sworn translation.",
        "Correspondence goes to both parties alike.",
        "Inspection is by appointment.",
        "Judgment was reserved on limitation.",
        "The stay has been lifted by consent.",
    ),
    user_fact=UserFact(
        "authority",
        "amount",
        "settlement authority",
        says=(
            "The client gives us settlement authority of {v}.",
            "We hold settlement authority up to {v} a matter.",
            "My settlement authority is {v}.",
        ),
        changes=(
            "Fresh instructions: settlement authority of {v} from now on.",
            "The client has moved our settlement authority to {v}.",
            "Settlement authority now stands at {v}.",
        ),
        asks=(
            "What is our settlement authority now?",
            "How far does our settlement authority go at present?",
            "Remind me what settlement authority we hold.",
        ),
    ),
    compare=Compare(
        "sum",
        (
            "Is the sum claimed in {entity} over our settlement authority, and what is the gap?",
            "Does the sum claimed in {entity} exceed our settlement authority, and how wide is the gap?",
        ),
    ),
    rule=Rule(
        noun="service cut-off",
        kind="clock",
        says=(
            "We serve nothing after {v}, whatever the matter.",
            "Papers for service leave the office by {v}.",
            "The cut-off for service is {v}, every day.",
        ),
        exceptions=(
            "In {entity} we may serve until {v}, opponents agreeing.",
            "I am moving the cut-off to {v} in {entity}.",
            "Treat {v} as the cut-off in {entity} until you hear from me.",
        ),
        withdrawals=(
            "The separate cut-off in {entity} no longer applies.",
            "Opponents have gone back on their agreement in {entity}; serve by the usual cut-off.",
        ),
        reinstatements=(
            "The separate cut-off in {entity} applies once more.",
            "Opponents have come round again in {entity}; restore the separate cut-off.",
        ),
        once=(
            "For this one letter in {entity} you may serve as late as {v}.",
            "I consent to {v} in {entity} on this occasion only.",
        ),
        asks=(
            "Until when may we serve in {entity}?",
            "What cut-off for service binds us in {entity}?",
            "How late can papers go out in {entity}?",
        ),
    ),
    totals=(
        "What is our exposure if we add up the sums claimed in every matter so far?",
        "Taking all matters looked at so far, what do the sums claimed come to?",
    ),
    across=(
        "Put {entity} beside {other} by the sum claimed: which is larger, and by how much?",
        "Is more claimed in {entity} or in {other}, and by how much?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
