"""Catering: portions, diets, allergies and substitutions by event. Held out: never in training, validation or tuning."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="catering",
    entities=(
        "wedding", "gala", "brunch", "christening", "regatta", "premiere", "hackathon", "picnic", "reunion", "vernissage", "jubilee",
        "graduation", "funeral", "luncheon", "congress", "masquerade",
    ),
    entity_phrase="the {e}",
    lookup=ToolSpec(name="menu", args=("event", "tables"), missing="No menu was drawn up for that event and seating."),
    change=ToolSpec(name="substitute", args=("event",), missing="Nothing was substituted for that event."),
    attrs=(
        Attr(
            "portions", "amount", "portion count",
            ("We plate {v} portions.", "Portion count: {v}, canapes included.", "Cook for a portion count of {v}."),
            other=("How many servings leave the kitchen at {entity}?", "How much food do we send out to {entity}?"),
            guesses=("The host shouted something like {v} portions across the yard.", "Last summer they plated {v}, so maybe again."),
        ),
        Attr(
            "vegan", "part", "vegan count",
            ("We cook {v} of them vegan.", "Vegan count {v}.", "Mark {v} plates as vegan."),
            other=("How many eat nothing from animals at {entity}?", "How much goes out without meat or dairy at {entity}?"),
            none=("Nobody ordered vegan.", "There is no vegan count for it."),
            guesses=("The planner would bet on {v} vegan, unasked.", "Vegan, hmm, {v} or so, thinks the waiter."),
        ),
        Attr(
            "allergy", "code", "allergy card",
            ("Allergy card {v} hangs at the pass.", "All allergies are on {v}.", "Pin up {v} as allergy card."),
            other=("Which sheet says who must not have nuts at {entity}?", "Where is it written what makes people ill at {entity}?"),
            none=("No allergy card was handed in.", "Guests reported no allergies."),
            guesses=("There was talk of allergy card {v}, never seen.", "Old allergy card {v} still lies about, ignore it."),
        ),
        Attr(
            "swap", "weight", "substitute weight",
            ("Swap the wheat for {v} of rice flour.", "Substitute weight {v}.", "In place of butter, {v} of margarine."),
            other=("How heavy is the stand-in at {entity}?", "What mass of alternative goods do we load for {entity}?"),
        ),
        Attr(
            "cook", "person", "head cook",
            ("{v} runs the stoves.", "Head cook on the day: {v}.", "Aprons on under {v}."),
            other=("Who leads the brigade at {entity}?", "Who is boss of the kitchen for {entity}?"),
            guesses=("With luck {v} is free to cook.", "The rota once had {v} cooking, then rubbed out."),
        ),
        Attr(
            "serving", "clock", "serving time",
            ("First course out at {v}.", "Serving time {v} sharp.", "Bell goes at {v}, then we serve."),
            other=("When do they begin to eat at {entity}?", "At what hour must the soup be hot at {entity}?"),
        ),
        Attr(
            "tasting", "date", "tasting date",
            ("Tasting on {v}.", "The trial dishes are due on {v}.", "Tasting date, fixed: {v}."),
            other=("Which day does the client sample food for {entity}?", "When may they try what we cook at {entity}?"),
        ),
    ),
    sources=(
        "Basil and Thyme", "Copper Pan", "Dill House", "Fig Tree", "Golden Ladle", "Juniper Table", "Olive Branch", "Pepper Mill",
        "Saffron Cooks", "Silver Spoon", "Truffle Club", "Velvet Plate",
    ),
    heads=(
        "Menu for {entity}, {qty} tables, by {source}.",
        "{source} cooks at {entity}, {qty} tables laid.",
        "{qty} tables for {entity}, {source} at the stove.",
    ),
    change_heads=(
        "Kitchen swap at {entity}, by {source}.",
        "{source} changed the menu of {entity}.",
        "Substitutions for {entity}, chalked up by {source}.",
    ),
    work=(
        "Chef wants the menu for {entity}, {qty} tables.",
        "{qty} tables at {entity}: bring up the menu.",
        "Let me see what we serve at {entity}, {qty} tables.",
    ),
    changes=(
        "Something ran out for {entity}; bring up the swaps.",
        "Chef changed dishes at {entity}, get the substitutions.",
        "See what was swapped on the menu of {entity}.",
    ),
    brief="{source} menu, {entity}",
    change_brief="{entity} swapped",
    fillers=(
        "Bread is baked in the morning.",
        "Cold plates stay in the van until called.",
        "The ice will not last in the sun.",
        "Glasses are hired and must come back clean.",
        "Someone has to watch the fryer.",
        "Herbs are picked at the last moment.",
        "Linen comes in white unless asked.",
        "Leftovers go to the shelter.",
        "The cake is carried by two people.",
        "No open flames under the marquee.",
        "Napkins are folded the evening before.",
        "The dishwasher needs a strong fuse.",
        "Children get their own little buffet.",
        "Cheese should breathe before it is cut.",
        "Sauces travel in flasks.",
        "Bring tape for the cables.",
        "The band eats after the guests.",
        "Wine is poured from the right.",
    ),
    user_fact=UserFact(
        "capacity",
        "amount",
        "kitchen capacity",
        says=(
            "Our kitchen capacity is {v}.",
            "We cannot plate more than a kitchen capacity of {v}.",
            "Kitchen capacity, so you know: {v}.",
        ),
        changes=(
            "An oven broke or came back: kitchen capacity {v} now.",
            "Reckon with {v} as kitchen capacity instead.",
            "Kitchen capacity went to {v}.",
        ),
        asks=(
            "What kitchen capacity do we run at?",
            "Chef, kitchen capacity right now?",
            "Which kitchen capacity should I plan on?",
        ),
    ),
    compare=Compare(
        "portions",
        (
            "Does the portion count at {entity} burst our kitchen capacity, and by how many do the two differ?",
            "Kitchen capacity versus portion count at {entity}: too many or not, and how big is the gap?",
        ),
    ),
    rule=Rule(
        noun="taster",
        kind="person",
        says=(
            "No pot leaves before the taster, {v}, has had a spoon.",
            "House custom: {v} is taster.",
            "Our taster is {v} for every event.",
        ),
        exceptions=(
            "At {entity} we do it differently, {v} is taster.",
            "Give {entity} another taster: {v}, until I call it off.",
            "Not so for {entity}, where {v} stands in as taster.",
        ),
        withdrawals=(
            "Call off the other taster at {entity}.",
            "Usual taster for {entity} after all.",
        ),
        reinstatements=(
            "The other taster at {entity} is on again.",
            "Back to a taster of its own for {entity}.",
        ),
        once=(
            "For one pot only, {v} can be taster at {entity}.",
            "Fine, {v} as taster at {entity}, but never again after that.",
        ),
        asks=(
            "Pot is ready at {entity}: which taster do I fetch?",
            "Who is taster at {entity}?",
            "Which taster has the spoon for {entity}?",
        ),
    ),
    totals=(
        "Every event on the board so far, what is the portion count altogether?",
        "Add each portion count we have seen: how many plates is that?",
    ),
    across=(
        "Portion count at {entity} or at {other}, which is larger, and by how much?",
        "Chef compares {entity} to {other}: which portion count is larger, and by how much?",
    ),
)  # fmt: skip


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
