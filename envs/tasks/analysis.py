"""Business reports: periods and metrics by region, restated figures, a threshold of the board. A train and validation family."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr
from envs.tasks.table import Table

SPEC = FamilySpec(
    name="analysis",
    entities=(
        "Iberia", "Benelux", "Scotland", "Bavaria", "Anatolia", "Catalonia", "Flanders", "Tuscany", "Silesia", "Brittany", "Quebec",
        "Texas", "Florida", "Ontario", "Punjab", "Kerala",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="report", args=("region", "weeks"), missing="No report covers that region and period."),
    change=ToolSpec(name="restate", args=("region",), missing="Nothing to restate for that region."),
    attrs=(
        Attr(
            "revenue", "amount", "net revenue",
            ("Net revenue came in at {v}.", "Sales after returns stood at {v}.", "On the bottom row, net revenue of {v}."),
            other=("How much did {entity} take in?", "What was turned over in {entity}, all told?"),
            guesses=("One slide floats net revenue near {v}, unaudited.", "Sales might land around {v}, says a draft nobody signed."),
        ),
        Attr(
            "plan", "amount", "plan figure",
            ("The plan figure had been {v}.", "Budgeted for the period: {v}.", "Against a plan figure of {v}."),
            other=("What were we aiming for in {entity}?", "How high was the goal for {entity} to reach?"),
            none=("No plan figure had been set.", "The region went into the year without a plan figure."),
            guesses=("Someone recalls a plan figure like {v}, source unknown.", "The plan may have said {v}; the file is missing."),
        ),
        Attr(
            "orders", "amount", "order count",
            ("The sales force booked {v} orders.", "Orders counted: {v}.", "The order count reached {v}."),
            other=("How many deals were signed in {entity}?", "How often did customers buy in {entity}?"),
        ),
        Attr(
            "index", "reading", "price index",
            ("The price index closed on {v}.", "Prices, indexed, read {v}.", "A price index of {v} was computed."),
            other=("How dear has {entity} become since the base year?", "How did the cost level in {entity} develop?"),
            guesses=("Early estimates of the price index hover at {v}.", "An intern eyeballed the index as {v} from a chart."),
        ),
        Attr(
            "cutoff", "date", "cut-off date",
            ("Data as of {v}.", "The books were frozen on {v}.", "The cut-off date is {v}."),
            other=("Up to which day do the numbers for {entity} run?", "When did you stop counting in {entity}?"),
        ),
        Attr(
            "owner", "person", "report owner",
            ("Compiled by {v}.", "{v} answers for the figures.", "The report owner is {v}."),
            other=("Who stands behind what we know of {entity}?", "Whom do I call if {entity} looks wrong?"),
            guesses=("Rumour has {v} taking the report over, nothing official.", "It could be the work of {v}, by the style."),
        ),
        Attr(
            "journal", "code", "journal number",
            ("Posted under {v}.", "Journal {v} carries the entries.", "The journal number is {v}."),
            other=("Which reference does finance file {entity} by?", "By what reference do auditors trace {entity}?"),
            none=("It has not reached a journal yet.", "No journal number has been issued."),
        ),
    ),
    sources=(
        "Finance Hub", "Group Control", "Sales Insight", "Data Office", "Revenue Desk", "Regional Audit", "Market Watch",
        "Field Analytics", "Ledger Team", "Planning Cell", "Forecast Unit", "Treasury Desk",
    ),
    heads=(
        "{source} reports on {entity}, {qty} weeks.",
        "{entity} over {qty} weeks, as seen by {source}.",
        "{qty} weeks of {entity}, pulled by {source}.",
    ),
    change_heads=(
        "{source} restates {entity}.",
        "Restated: {entity}, figures by {source}.",
        "{entity} after corrections by {source}.",
    ),
    work=(
        "Pull the report on {entity} for the last {qty} weeks.",
        "I want to see {entity}, {qty} weeks back.",
        "Run {qty} weeks of numbers on {entity}.",
    ),
    changes=(
        "Have {entity} restated.",
        "Auditors found errors; restate {entity}.",
        "Pull the corrected numbers on {entity}.",
    ),
    brief="{source} figures, {entity}",
    change_brief="{entity} corrected",
    fillers=(
        "Seasonal effects have been smoothed.",
        "Small accounts are grouped under other.",
        "Currency moves were neutral over the period.",
        "Footnotes explain the change in method.",
        "The trend is clearer without the holidays.",
        "Online channels grew faster than shops.",
        "Promotions pulled some demand forward.",
        "The weather helped outdoor goods.",
        "Figures are unaudited unless marked.",
        "Intercompany items have been eliminated.",
        "Churn stayed flat among large clients.",
        "The mix shifted towards premium lines.",
        "A competitor left the market in spring.",
        "Comparisons exclude closed branches.",
        "Inventories were rebuilt after the shortage.",
        "The chart on the next page shows the same picture.",
        "Rounding may leave small gaps between rows.",
        "Management comments follow in the annex.",
    ),
    user_fact=UserFact(
        "threshold",
        "amount",
        "board threshold",
        says=(
            "The board threshold is {v}.",
            "Only what beats a board threshold of {v} goes upstairs.",
            "Work with {v} as the board threshold.",
        ),
        changes=(
            "The board threshold has moved to {v}.",
            "They raised or cut it, no matter: board threshold {v} from here on.",
            "Read {v} wherever I said board threshold.",
        ),
        asks=(
            "What board threshold are we working with?",
            "Which board threshold applies at this point?",
            "Where does the board threshold stand?",
        ),
    ),
    compare=Compare(
        "revenue",
        (
            "Does net revenue in {entity} clear the board threshold, and how far apart are the two?",
            "Set net revenue in {entity} against the board threshold: above it or not, and by what distance?",
        ),
    ),
    rule=Rule(
        noun="reviewer",
        kind="person",
        says=(
            "Every draft goes past {v}, our reviewer.",
            "As a rule the reviewer is {v}.",
            "Unless told otherwise, send drafts to {v} as reviewer.",
        ),
        exceptions=(
            "On {entity}, though, make {v} the reviewer until further notice.",
            "{entity} is special: there the reviewer is {v}.",
            "Exempt {entity} from that; its drafts see {v} as reviewer.",
        ),
        withdrawals=(
            "{entity} is no longer special; the usual reviewer takes it.",
            "Scrap the separate reviewer on {entity}.",
        ),
        reinstatements=(
            "Bring back the separate reviewer on {entity}.",
            "{entity} is special again; its own reviewer returns.",
        ),
        once=(
            "Just this once {v} may be reviewer on {entity}.",
            "The next draft on {entity}, and only that one, has {v} as reviewer.",
        ),
        asks=(
            "Who is the reviewer on {entity} these days?",
            "A draft on {entity} is ready: which reviewer gets it?",
            "Name the reviewer who sees {entity}.",
        ),
    ),
    totals=(
        "What is the net revenue of all regions reported so far, added up?",
        "Add up net revenue across every region we have pulled: what is the sum?",
    ),
    across=(
        "Put net revenue in {entity} beside {other}: which is larger, and by how much?",
        "Of {entity} and {other}, whose net revenue is larger, and by how much?",
    ),
    table=Table("revenue", ("Mon", "Tue", "Wed", "Thu", "Fri"), "Takings day by day in thousands:"),
)  # fmt: skip


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
