"""Laboratory: samples with twin codes, deviations, the order of events at the bench. Held out: never in training, validation or tuning."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="laboratory",
    # Twins side by side: two digits or letters swapped, or a character that looks alike.
    entities=(
        "KX4471", "KX4417", "PV3086", "PV3806", "MR9162", "NR9162", "TS5590", "TS5950", "LN2738", "LN2783", "VZ6045", "WZ6045",
        "RT7813", "TR7813", "QO1604", "QO1640",
    ),
    entity_phrase="sample {e}",
    lookup=ToolSpec(name="assay", args=("sample", "runs"), missing="No assay on file for that sample and number of runs."),
    change=ToolSpec(name="retest", args=("sample",), missing="No retest on file for that sample."),
    attrs=(
        Attr(
            "colonies", "amount", "colony count",
            ("The plate grew {v} colonies.", "Colony count {v} after a full night.", "We counted {v} on the agar."),
            other=("How many microbes did {entity} yield?", "What did the tally on {entity} come to?"),
            guesses=("At a glance there are {v} colonies, nobody tallied them.", "Software sees {v} colonies, flagged unreliable."),
        ),
        Attr(
            "dilution", "amount", "dilution factor",
            ("Diluted one to {v}.", "The dilution factor was {v}.", "Buffer was added by a factor of {v}."),
            other=("How thin was {entity} made?", "How strongly was {entity} watered down?"),
            none=("It was plated undiluted.", "No dilution factor, the stock was used neat."),
        ),
        Attr(
            "conductivity", "reading", "conductivity",
            ("Conductivity settled at {v}.", "The probe gave a conductivity of {v}.", "Conductivity at room temperature: {v}."),
            other=("How well does {entity} carry current?", "What did the meter display on {entity}?"),
            guesses=("Before calibration the probe claimed {v}, disregard it.", "Expected conductivity, from theory, {v}."),
        ),
        Attr(
            "sampled", "date", "sampling date",
            ("Drawn in the field on {v}.", "The vial is dated {v}.", "The sampling date is {v}."),
            other=("Which day was {entity} collected?", "When did someone gather {entity}?"),
        ),
        Attr(
            "incubation", "clock", "incubation start",
            ("It went into the incubator at {v}.", "Incubation start {v}.", "The incubator was closed on it at {v}."),
            other=("When was {entity} put in the warm cabinet?", "From what hour was {entity} kept warm?"),
            guesses=("The night shift supposes {v} for the incubator, unlogged.", "Smudged ink, perhaps {v}, beside incubation."),
        ),
        Attr(
            "deviation", "code", "deviation number",
            ("Deviation {v} was opened.", "It was run under deviation {v}.", "The deviation number is {v}."),
            other=("Which incident report covers {entity}?", "By what reference is the mishap on {entity} on record?"),
            none=("No deviation was opened.", "The run followed protocol without deviation."),
            guesses=("A sticky note reads {v}, maybe a deviation.", "Deviation {v} appears in a margin, struck out."),
        ),
        Attr(
            "analyst", "person", "analyst",
            ("Pipetted by {v}.", "{v} sat at the bench.", "The analyst was {v}."),
            other=("Who handled {entity}?", "Whose hands worked on {entity}?"),
        ),
    ),
    sources=(
        "Bench North", "Bench South", "Clean Suite", "Core Facility", "Culture Unit", "Isotope Wing", "Micro Section", "Night Crew",
        "Pilot Plant", "Quality Lab", "Reference Lab", "Water Group",
    ),
    heads=(
        "{source} assayed {entity} in {qty} runs.",
        "Assay of {entity} from {source}, {qty} runs.",
        "{qty} runs on {entity} completed at {source}.",
    ),
    change_heads=(
        "{source} repeated {entity}.",
        "Retest of {entity} from {source}.",
        "Repeat of {entity} completed at {source}.",
    ),
    work=(
        "Get the assay of {entity}, {qty} runs.",
        "{qty} runs were done on {entity}; show the assay.",
        "Pull the sheet of {entity} with {qty} runs.",
    ),
    changes=(
        "There was a retest of {entity}; get it.",
        "Check the retest sheet of {entity}.",
        "They had to repeat {entity}, show me the retest.",
    ),
    brief="{source} assay {entity}",
    change_brief="{entity} retested",
    fillers=(
        "Blanks were clean.",
        "The fume hood passed its check.",
        "Gloves were changed between vials.",
        "Controls behaved as expected.",
        "The centrifuge was balanced first.",
        "Media came from the usual batch.",
        "The lid had been sealed with film.",
        "A faint smell was noticed on opening.",
        "Raw traces are archived on the server.",
        "The freezer alarm stayed silent.",
        "Tips were filtered and sterile.",
        "Labels were read twice before use.",
        "The pellet looked slightly pink.",
        "Waste went into the yellow bin.",
        "A duplicate was kept in reserve.",
        "Temperatures drifted within tolerance.",
        "The balance is due for service.",
        "Sediment was stirred up before use.",
    ),
    user_fact=UserFact(
        "limit",
        "amount",
        "rejection limit",
        says=(
            "Set the rejection limit at {v} colonies.",
            "Our rejection limit is {v}.",
            "Plates past a rejection limit of {v} are discarded.",
        ),
        changes=(
            "Protocol change: rejection limit now {v}.",
            "The rejection limit was adjusted to {v}.",
            "Replace the earlier rejection limit by {v}.",
        ),
        asks=(
            "What rejection limit is in the protocol?",
            "Which rejection limit do I apply to the next plate?",
            "State the rejection limit that is valid.",
        ),
    ),
    compare=Compare(
        "colonies",
        (
            "Is the colony count of {entity} past the rejection limit, and by how many do they differ?",
            "Rejection limit against colony count of {entity}: past it or not, and how wide is the gap?",
        ),
    ),
    rule=Rule(
        noun="cold store",
        kind="room",
        says=(
            "Everything is shelved in cold store {v}.",
            "Our cold store is {v} by default.",
            "After the run, vials go back to {v}, the cold store.",
        ),
        exceptions=(
            "Do not shelve {entity} there; its cold store is {v} until I lift that.",
            "Only {entity} lives in cold store {v}.",
            "Move {entity} to cold store {v} and leave it there.",
        ),
        withdrawals=(
            "Lift the special storage of {entity}; default cold store.",
            "No more separate cold store for {entity}.",
        ),
        reinstatements=(
            "Special storage of {entity} applies once more.",
            "Put {entity} back on its separate cold store.",
        ),
        once=(
            "Tonight only, {entity} may sit in cold store {v}.",
            "You may park {entity} a single time in {v} as cold store.",
        ),
        asks=(
            "Into which cold store does {entity} go?",
            "I am holding {entity}: which cold store?",
            "Where is the cold store meant for {entity}?",
        ),
    ),
    totals=(
        "Adding the colony count of each sample on the sheets so far, what do we get?",
        "What is the combined colony count of all samples assayed until now?",
    ),
    across=(
        "Compare colony counts, {entity} with {other}: which is larger, and by how much?",
        "Which has the larger colony count, {entity} or {other}, and by how much?",
    ),
)  # fmt: skip


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
