"""Permissions: who allowed what and until when, consent for one time against a standing rule, approvals only hoped for. A train family."""

from __future__ import annotations

from envs.tasks.base import Session, ToolSpec
from envs.tasks.engine import Builder, Compare, FamilySpec, Knobs, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="permissions",
    entities=(
        "vault",
        "payroll",
        "archive",
        "roster",
        "cluster",
        "registry",
        "mailbox",
        "sandbox",
        "warehouse",
        "directory",
        "dashboard",
        "repository",
        "intranet",
        "keystore",
        "laboratory",
        "calendar",
    ),
    entity_phrase="the {e}",
    lookup=ToolSpec(name="entitlement", args=("resource", "days"), missing="No entitlement for that resource and period."),
    change=ToolSpec(name="regrant", args=("resource",), missing="The entitlement to that resource was not reissued."),
    attrs=(
        Attr(
            "quota",
            "amount",
            "export quota",
            ("No more than {v} rows may be exported a day.", "Export quota: {v} rows.", "The holder may export {v} rows."),
            other=("How much data can leave {entity} on my account?", "What is the most I could copy out of {entity}?"),
            guesses=(
                "The form was submitted with {v} rows; that box is not binding.",
                "A former employee recalls {v} rows, which the system does not corroborate.",
            ),
        ),
        Attr(
            "grant",
            "code",
            "grant id",
            ("Access is granted by {v}.", "Grant id as registered: {v}.", "This grant has been issued as {v}."),
            other=(
                "Under which entry is my right to use {entity} recorded?",
                "What do I show at the desk to be let into {entity}?",
            ),
        ),
        Attr(
            "signatory",
            "person",
            "signatory",
            ("Consent was signed by {v}.", "{v} agreed in writing.", "The signatory is {v}."),
            other=("Who allowed us into {entity}?", "On whose word do we rely for {entity}?"),
            none=("Consent has not been given by anyone.", "The line for the signatory was left blank."),
            guesses=(
                "It is assumed that {v} would not object, but the question was never put.",
                "A colleague claims that {v} nodded, which is no consent.",
            ),
        ),
        Attr(
            "custodian",
            "person",
            "custodian",
            ("{v} is the custodian.", "Day-to-day custody lies with {v}.", "It is entrusted to {v} as custodian."),
            other=("Who looks after {entity}?", "Whom should I ring when {entity} is jammed?"),
            none=("The post of custodian is vacant.", "At present it is in nobody's custody."),
        ),
        Attr(
            "expiry",
            "date",
            "expiry date",
            ("The entitlement lapses on {v}.", "Expiry date: {v}.", "It remains valid until {v} and is then revoked."),
            other=("How long may I keep using {entity}?", "When will we be locked out of {entity} for good?"),
            none=("The entitlement is open-ended.", "No expiry date has been fixed."),
            guesses=(
                "An extension to {v} was applied for and is undecided.",
                "Someone noted {v} in the margin, initials illegible.",
            ),
        ),
        Attr(
            "lockout",
            "clock",
            "lockout time",
            ("Sessions are terminated at {v}.", "Lockout time: {v}.", "Nobody can sign in after {v}."),
            other=("Up to what hour can I work in {entity} at night?", "Until when of an evening is {entity} usable?"),
        ),
        Attr(
            "audit",
            "code",
            "audit reference",
            ("Audit reference {v} applies.", "The auditors have it down as {v}.", "For audit purposes see {v}."),
            other=("What do inspectors want quoted on {entity}?", "Which file did the compliance people open on {entity}?"),
            none=("The auditors have not opened a file.", "This matter carries no audit reference."),
            guesses=(
                "An unrelated letter mentions {v}, possibly a mix-up.",
                "A sticky note reads {v}; its author could not explain it.",
            ),
        ),
    ),
    sources=(
        "Security office",
        "Access board",
        "Identity team",
        "Data steward",
        "Legal counsel",
        "Works council",
        "Privacy desk",
        "Badge office",
        "Tenant admin",
        "Compliance unit",
        "Risk panel",
        "Site guard",
    ),
    heads=(
        "{source} certifies an entitlement to {entity} lasting {qty} days.",
        "Entitlement to {entity}, {qty} days, recorded by {source}.",
        "Pursuant to a request over {qty} days, {source} states the position on {entity}.",
    ),
    change_heads=(
        "{source} has reissued the entitlement to {entity}.",
        "Reissued by {source}: entitlement to {entity}.",
        "{source} withdrew the entitlement to {entity} and restored it on other terms.",
    ),
    work=(
        "May I use {entity} over {qty} days? Look up the entitlement.",
        "Verify our entitlement to {entity}, period of {qty} days.",
        "Before I go into {entity} for {qty} days, check what I am entitled to.",
    ),
    changes=(
        "The entitlement to {entity} was reissued; retrieve the current terms.",
        "They withdrew and restored our entitlement to {entity}, so fetch it anew.",
        "Obtain the reissued entitlement to {entity}.",
    ),
    brief="{source} entitlement to {entity}",
    change_brief="{entity} entitlement reissued",
    fillers=(
        "Credentials are personal and must not be shared.",
        "All activity is logged and may be reviewed.",
        "Screens have to be locked when unattended.",
        "Contractors are bound by the same policy as employees.",
        "Visitors must be accompanied at all times.",
        "Removable media are forbidden.",
        "Breaches are to be reported without delay.",
        "A second factor is required on every sign-in.",
        "Printed copies belong in the shredder.",
        "Training must be refreshed once a year.",
        "Privileges follow the principle of least access.",
        "The policy is available in the staff handbook.",
        "Disputes are settled by the steering committee.",
        "Remote work is allowed over the company tunnel only.",
        "Personal data may be used for the stated purpose alone.",
        "Dormant accounts are closed without warning.",
        "Exceptions do not set a precedent.",
        "Misuse may lead to disciplinary measures.",
    ),
    user_fact=UserFact(
        "ceiling",
        "amount",
        "download ceiling",
        says=(
            "I am bound by a download ceiling of {v} rows.",
            "My contract sets a download ceiling of {v} rows.",
            "Please respect the download ceiling: {v} rows.",
        ),
        changes=(
            "My download ceiling has been altered to {v} rows.",
            "As of today the download ceiling reads {v} rows.",
            "Legal replaced the download ceiling; it is {v} rows.",
        ),
        asks=(
            "What download ceiling am I bound by?",
            "Which download ceiling must I respect at the moment?",
            "State the download ceiling in its latest form.",
        ),
    ),
    compare=Compare(
        "quota",
        (
            "Would the full export quota of {entity} be over my download ceiling, and what is the gap?",
            "Check the export quota of {entity} against the download ceiling: over or not, and what gap?",
        ),
    ),
    rule=Rule(
        "default approver",
        "person",
        says=(
            "As a rule {v} is the default approver, nobody else.",
            "Our default approver is {v} without exception.",
            "Every request needs a yes from the default approver, {v}.",
        ),
        exceptions=(
            "Regarding {entity}, {v} stands in as default approver until revoked.",
            "By way of exception {v} acts as default approver on {entity}.",
            "The board made {v} default approver over {entity}.",
        ),
        withdrawals=(
            "The substitute default approver on {entity} is revoked.",
            "With immediate effect {entity} has no default approver of its own.",
        ),
        reinstatements=(
            "The substitute default approver on {entity} is restored.",
            "With immediate effect {entity} has its own default approver back.",
        ),
        once=(
            "On a single occasion {v} may replace the default approver on {entity}.",
            "I consent to {v} as default approver on {entity} this once, not again.",
        ),
        asks=(
            "Which default approver has to say yes to {entity}?",
            "Who counts as default approver on {entity}?",
            "Whose yes, as default approver, do I need on {entity}?",
        ),
    ),
    totals=(
        "Taken together, how many rows may be exported from all resources checked so far?",
        "What is the sum of the export quotas of everything we have verified?",
    ),
    across=(
        "As between {entity} and {other}, which export quota is larger, and by how much?",
        "Is the export quota of {entity} or of {other} the larger one, and by how much?",
    ),
)


def generate(seed: int, knobs: Knobs | None = None, future_seed: int | None = None) -> Session:
    """One session. ``future_seed`` redraws the second half of the session and keeps the first."""
    return Builder(SPEC, seed, knobs or Knobs(), future_seed).session()
