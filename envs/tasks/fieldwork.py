"""Fieldwork: river stations with near-twin codes, their readings, calibrations and struck-out values.

Held out: never in training, validation or tuning.
"""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="fieldwork",
    entities=(
        "BRSK",
        "BRKS",
        "DNMO",
        "DMNO",
        "FALT",
        "FATL",
        "GRVE",
        "GVRE",
        "HLMN",
        "HLNM",
        "KTUS",
        "KUTS",
        "PRAL",
        "PARL",
        "TOLK",
        "TOKL",
    ),
    entity_phrase="station {e}",
    lookup=ToolSpec(name="fieldlog", args=("station", "hours"), missing="No log from that station for those hours."),
    change=ToolSpec(name="relog", args=("station",), missing="No corrected log from that station."),
    attrs=(
        Attr(
            "level",
            "reading",
            "water level",
            says=("The water level reads {v}.", "Level at the staff: {v}.", "We measured {v} at the gauge."),
            other=("How high was the river at {entity}?", "How far up the bank did the stream come at {entity}?"),
            none=("There was no water level to take, ice on the staff.", "The gauge stood dry."),
            guesses=("A passing angler put it near {v}.", "Struck out in the log: {v}, float stuck."),
        ),
        Attr(
            "turbidity",
            "reading",
            "turbidity",
            says=("Turbidity {v}.", "The probe gave {v} for turbidity.", "After settling the vial shows {v}."),
            other=("How cloudy was it at {entity}?", "How murky is {entity}?"),
            none=("The vial broke, so there is no turbidity.", "Turbidity was skipped on this round."),
            guesses=(
                "Disregard the {v} from the scratched cuvette.",
                "By eye it looked like {v}, before the lamp had warmed up.",
            ),
        ),
        Attr(
            "offset",
            "reading",
            "calibration offset",
            says=("Calibration offset {v}.", "It was zeroed with an offset of {v}.", "Subtract {v} as per calibration."),
            other=("By how much is the sensor out at {entity}?", "What correction do we apply at {entity}?"),
            guesses=("The bench test hinted at {v}, to be repeated.", "Void: {v}, taken with the wrong buffer."),
        ),
        Attr(
            "discharge",
            "amount",
            "discharge",
            says=("Discharge {v} litres a second.", "The flow works out at {v} litres a second.", "Rated discharge: {v}."),
            other=("How much is coming down past {entity}?", "What volume passes {entity}?"),
            guesses=("The old rating curve would say {v}, which nobody trusts.", "Invalidated: {v}, weed in the propeller."),
        ),
        Attr(
            "service",
            "date",
            "service date",
            says=("Last serviced on {v}.", "The sonde was swapped on {v}.", "Service date {v}."),
            other=("When did a technician attend to {entity}?", "When was {entity} overhauled?"),
            none=("It has not been serviced since it was put in.", "The maintenance page is blank."),
        ),
        Attr(
            "observer",
            "person",
            "observer",
            says=("Read by {v}.", "{v} was on the bank.", "Observer on duty: {v}."),
            other=("Who went out to {entity}?", "Whose visit to {entity} was it?"),
            guesses=("The initials could be those of {v}, hard to tell in pencil.", "The ferryman thinks he saw {v} there."),
        ),
        Attr(
            "sheet",
            "code",
            "field sheet",
            says=("Field sheet {v}.", "The carbon copy carries {v}.", "Keyed in from {v}."),
            other=("Which page of the binder holds {entity}?", "What do I ask the archive for to see {entity} on paper?"),
        ),
    ),
    sources=(
        "Upper valley crew",
        "Delta crew",
        "Glacier team",
        "Lowland crew",
        "Night patrol",
        "River authority",
        "Survey boat",
        "Ridge party",
        "Estuary team",
        "Dam office",
        "Forest wardens",
        "University team",
    ),
    heads=(
        "{source} log for {entity}, past {qty} hours.",
        "Upload by {source} covers {qty} hours at {entity}.",
        "{source} reports from {entity}: {qty} hours on record.",
    ),
    change_heads=(
        "{source} invalidated part of the log for {entity} and sent corrections.",
        "Corrected log of {entity}, signed {source}.",
        "After a site check {source} replaced values at {entity}.",
    ),
    work=(
        "Download the log of {entity} for the last {qty} hours.",
        "Has anything come in from {entity} over {qty} hours?",
        "Open {entity}, {qty} hours back.",
    ),
    changes=(
        "The log of {entity} was corrected; download it again.",
        "Some values at {entity} were invalidated: fetch the corrections.",
        "Relog {entity} with whatever was put right.",
    ),
    brief="{source} log for {entity}",
    change_brief="{entity} log corrected",
    fillers=(
        "Access is by the footpath below the weir.",
        "The solar panel was wiped clean.",
        "Cattle had been in the water upstream.",
        "A little leaf litter was cleared from the intake.",
        "The desiccant is due for a change.",
        "Wind was light and the sky overcast.",
        "Mind the wasps under the lid.",
        "The padlock is stiff and wants oil.",
        "No vandalism this time.",
        "Photographs are on the shared drive.",
        "Waders with felt soles are advised.",
        "The modem dropped out once during the night.",
        "Bank erosion continues on the outer bend.",
        "Spare fuses are taped inside the door.",
        "The farmer asks us to shut the gate.",
        "Herons were nesting nearby.",
        "The cable way was not used.",
        "Silt was flushed from the stilling well.",
    ),
    user_fact=UserFact(
        "alarm",
        "amount",
        "alarm threshold",
        says=(
            "The alarm threshold is {v} litres a second.",
            "We ring the valley above an alarm threshold of {v}.",
            "Work to an alarm threshold of {v} throughout.",
        ),
        changes=(
            "With the ground this wet, make the alarm threshold {v}.",
            "The duty hydrologist reset the alarm threshold to {v}.",
            "As of now the alarm threshold is {v}.",
        ),
        asks=(
            "Which alarm threshold are we working to now?",
            "What is the alarm threshold at the moment?",
            "Remind me where the alarm threshold stands.",
        ),
    ),
    compare=Compare(
        "discharge",
        (
            "Is the discharge at {entity} over the alarm threshold, and what is the gap?",
            "Has {entity} gone past the alarm threshold in discharge, and what is the gap?",
        ),
    ),
    rule=Rule(
        noun="datum",
        kind="code",
        says=(
            "Refer every level to datum {v}.",
            "Datum {v} applies across the network.",
            "Unless told otherwise we level against datum {v}.",
        ),
        exceptions=(
            "At {entity} use datum {v} for the time being.",
            "The benchmark was disturbed at {entity}, so tie it to datum {v}.",
            "Keep {entity} on datum {v} until the surveyors are done.",
        ),
        withdrawals=(
            "The local datum at {entity} is withdrawn.",
            "Stop using the local datum at {entity}.",
        ),
        reinstatements=(
            "The local datum at {entity} is valid again.",
            "We do need the local datum at {entity} after all.",
        ),
        once=(
            "For this visit alone, refer {entity} to datum {v}.",
            "Datum {v} will do for {entity} this once, then back to the network one.",
        ),
        asks=(
            "Which datum applies at {entity}?",
            "To what datum do I refer {entity}?",
            "Against which datum is {entity} levelled?",
        ),
    ),
    totals=(
        "Summed over every station opened so far, how much discharge is that?",
        "What does the discharge of all stations so far add up to?",
    ),
    across=(
        "Take the discharge at {entity} and at {other}: which is larger, and by how much?",
        "Which carries more, {entity} or {other}, and by how much does the discharge differ?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
