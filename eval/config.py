"""The one schema of an evaluation: what is played, by which arms, and what was decided before anyone saw a number."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from envs.config import ConfigError, Strict
from envs.managers import MANAGERS
from envs.profiles import Profile, get_profile, variant
from envs.tasks import HELD_OUT_FAMILIES

HELD_OUT = frozenset(HELD_OUT_FAMILIES) | {
    "travel", "tenancy", "laboratory", "catering", "lending", "casework", "fieldwork", "broadcast",
}  # fmt: skip
"""Families kept from training, validation and tuning, ours or a file's: scored only under ``split: held_out``."""


PROMPTS = ("neutral", "guided")
SAFEGUARDS = {"index": "index", "gate": "evidence_gate", "conflicts": "conflict_flags"}
"""Safeguards by the name that a config has for them, and the profile's flag."""
Safeguard = Literal["index", "gate", "conflicts"]


MODEL_POLICIES = ("hf", "openai", "vllm")
"""Policies that ask a model; the others are scripts."""


class Requests(Strict):
    """How a server is asked: decides how long a run takes, and no score."""

    concurrency: int | None = Field(default=None, ge=1)
    """Requests under way at once; as many as ``batch_size`` if not given, and never more."""
    timeout: float = Field(default=600.0, gt=0)
    """Seconds for one try."""
    retries: int = Field(default=5, ge=0)
    """Tries after the first, where the server is out of reach, overrun or broken."""
    backoff: float = Field(default=0.5, gt=0)
    """Seconds before the first of them; twice as long before each further one, a minute at most."""


class Arm(Strict):
    """One contestant: who acts, under which profile and prompt, over whose view."""

    policy: Literal[
        "hf", "openai", "vllm", "expert", "never_read", "always_read", "abstainer", "fabricator", "last_value", "closed_book",
        "script",
        "memory_dumper", "protocol_chatterer", "forgetter", "unmended", "claimer", "replayer", "misnoter", "stale_answerer",
        "half_answerer", "yes_no_guesser", "meta_replier", "endless", "provoker", "stubborn", "babbler",
    ]  # fmt: skip
    model: str | None = None
    """Model name or folder; for ``hf`` and ``vllm``, and for ``openai`` the same weights as the server's: their tokenizer counts, their
    hash is locked. An ``openai`` arm without one counts with ``tokenizer``, and nothing says what was served.
    """
    served_model: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """The model's name on the server; for ``openai`` only."""
    base_url: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """Of the server's API, ``http://localhost:8000/v1`` say; for ``openai`` only. Not locked: the server may move."""
    api_key_env: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """Environment variable that holds the server's key (default: OPENAI_API_KEY); for ``openai`` only, not locked."""
    endpoint: Literal["chat", "ids"] | None = Field(default=None, exclude_if=lambda name: name is None)
    """How an ``openai`` arm asks: ``chat`` (default) sends messages, which any server takes; ``ids`` sends and gets token ids, vLLM alone."""
    requests: Requests | None = Field(default=None, exclude_if=lambda settings: settings is None)
    """Time limit, retries and how many at once, of an ``openai`` arm; not locked."""
    script: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """Script of a seed suite, by name; for policy ``script`` only, which plays the seed suites alone."""
    profile: str = "core@1"
    """Any profile of ``envs.profiles``."""
    ablate: tuple[Safeguard, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Safeguards of the profile that this arm plays without: the omission index, the evidence gate, the flags of conflicting memories."""
    enable: tuple[Safeguard, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Safeguards that the profile leaves out and this arm plays with (the gate under core@1)."""
    prompt: str = "neutral"
    """Prompt text by name (``neutral``, ``guided``), or the path of a text file (``*.txt``), as ``tune-prompt`` writes one."""
    manager: str | None = None
    """Host-only manager of the view, by name (``envs.managers``); for ``plain@1`` only."""
    view_budget: int | None = Field(default=None, ge=128)
    """View budget in tokens instead of the profile's own, for a managed ``plain@1`` arm (plain cut to another budget)."""

    @field_validator("profile")
    @classmethod
    def _known(cls, name: str) -> str:
        return get_profile(name).name

    @field_validator("prompt")
    @classmethod
    def _readable(cls, prompt: str) -> str:
        if prompt not in PROMPTS and not prompt.endswith(".txt"):
            raise ValueError(f"unknown prompt {prompt!r}: use {', '.join(PROMPTS)}, or the path of a text file that ends in .txt")
        if prompt.endswith(".txt") and not Path(prompt).is_file():
            raise ValueError(f"no prompt file {prompt!r}: python -m eval tune-prompt writes one, or use {', '.join(PROMPTS)}")
        return prompt

    @model_validator(mode="after")
    def _safeguards(self) -> Self:
        profile = get_profile(self.profile)
        for name in (*self.ablate, *self.enable):
            if not profile.managed:
                raise ValueError(f"safeguard {name!r} guards context tools, {self.profile} has none: drop ablate and enable")
            wanted = name in self.enable
            if getattr(profile, SAFEGUARDS[name]) == wanted:
                other = "ablate" if wanted else "enable"
                raise ValueError(
                    f"{self.profile} plays {'with' if wanted else 'without'} {name!r} anyway: drop it, or {other}: [{name}]"
                )
        return self

    @property
    def rules(self) -> Profile:
        """The profile that the arm plays under: with safeguards taken out or put in, and named for them."""
        flags = {SAFEGUARDS[name]: name in self.enable for name in (*self.ablate, *self.enable)}
        return variant(self.profile, **flags)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.policy == "script") != bool(self.script):
            raise ValueError("policy 'script' and script go together: give policy: script with script: pass, or neither")
        # The expert alone reads windows; the controls read core@1 and plain views.
        reads = ("core@1", "plain@1") if self.policy != "expert" or not get_profile(self.profile).windows else (self.profile,)
        if self.policy not in (*MODEL_POLICIES, "script") and self.profile not in reads:
            raise ValueError(f"policy {self.policy!r} cannot read views of {self.profile}: use core@1 or plain@1, or policy: hf")
        if self.policy in ("hf", "vllm") and not self.model:
            raise ValueError(f"policy {self.policy!r} needs a model: add model: smollm2, or a model folder")
        if self.model and self.policy not in MODEL_POLICIES:
            raise ValueError(f"policy {self.policy!r} takes no model: drop model, or use policy: hf")
        for name in ("base_url", "served_model"):
            if self.policy == "openai" and not getattr(self, name):
                raise ValueError(
                    f"policy 'openai' needs {name}: the server's address, and the model's name there (GET /v1/models)"
                )
        for name in ("base_url", "served_model", "api_key_env", "endpoint", "requests"):
            if self.policy != "openai" and getattr(self, name):
                raise ValueError(f"policy {self.policy!r} takes no {name}: drop it, or use policy: openai")
        if self.manager and self.manager not in MANAGERS:
            raise ValueError(f"unknown manager {self.manager!r}: choose one of {', '.join(MANAGERS)}")
        if self.manager and self.profile != "plain@1":
            raise ValueError(f"manager {self.manager!r} needs profile: plain@1 ({self.profile} lets the policy manage its view)")
        if self.view_budget and not self.manager:
            raise ValueError("view_budget needs a manager, which keeps the view below it: add manager: truncate")
        return self


WHERE = ("base_url", "api_key_env", "requests")
"""Fields of an arm that say where it is played, and not what it is: left out of the lock."""


class Decoding(Strict):
    """How model arms sample (``dtype``: hf and vllm alone). ``temperature`` 0 is greedy."""

    temperature: float = Field(default=0.0, ge=0)
    max_new_tokens: int = Field(default=96, ge=1)
    seed: int = 0
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the weights; ``auto`` is bfloat16 where the machine multiplies it natively, else float32."""


class Bootstrap(Strict):
    """Resampling of base sessions within each family, with their variants together."""

    resamples: int = Field(default=2000, ge=100)
    seed: int = 0


class Inference(Strict):
    """How arms are judged; decided before anything is played."""

    judged: tuple[str, ...] = ()
    """Main arms, those that a verdict is given for; if none is named, every model arm that manages its own view but the first such
    reference (without model arms: the scripted ones)."""
    margin: float = Field(default=0.03, gt=0, lt=1)
    """Correctness may be lower than that of plain history by less than this, or cost is not looked at."""
    discordance: float = Field(default=0.2, gt=0, le=1)
    """Share of pairs expected to differ: what power is stated for."""
    power: float = Field(default=0.8, gt=0, lt=1)
    """The power that the smallest detectable difference is stated for."""


class EvalConfig(Strict):
    """An evaluation. Everything but ``name``, ``out``, ``batch_size``, ``reuse_tokens`` and ``worst`` goes into the lock."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    out: str | None = None
    """Run folder; ``runs/<name>`` if not given."""
    probes: str | None = None
    """JSONL of Probe, one a line."""
    sessions: str | None = None
    """JSONL of Session, one a line: played from their first turn, reported apart."""
    split: Literal["val", "held_out"] = "val"
    arms: dict[str, Arm] = Field(min_length=1)
    tokenizer: str = "smollm2"
    """Tokenizer that counts for the arms without a model; the others count with their own."""
    decoding: Decoding = Decoding()
    batch_size: int = Field(default=16, ge=1)
    """Episodes in lock-step; results are stored after each such batch."""
    repeats: int = Field(default=1, ge=1)
    """How often every arm plays every sample, each time with other seeds; needs a temperature above 0 to tell anything."""
    reuse_tokens: int = Field(default=30_000, ge=0)
    """Read tokens whose keys and values an hf arm keeps between inferences: memory for speed (SmolLM2 in float32: 46 kB each)."""
    bootstrap: Bootstrap = Bootstrap()
    inference: Inference = Inference()
    references: tuple[str, ...] = ("base", "plain")
    """Arms that every other arm is paired with, where they are among the arms."""
    plain: str = "plain"
    """The arm that ``tokens_ratio_to_plain`` divides by, if it is among the arms."""
    worst: int = Field(default=4, ge=0)
    """Episodes shown in the report, worst first."""

    hypotheses: str = (
        "Learned context management raises pair_success over the untrained model at fewer tokens than plain history."
    )
    primary_metric: Literal["pair_success", "task_correct"] = "pair_success"
    selection: str = "Checkpoints are chosen on validation probes of the training families alone."
    exclusion: str = "Only infrastructure errors are excluded, each counted and shown; a limit reached is a failure."
    stopping: str = "Every arm plays every probe and session the stated number of times; nothing is added after the first score."
    diagnostic: str = "What follows a failed turn changes no verdict; its tokens count."

    @field_validator("arms")
    @classmethod
    def _names(cls, arms: dict[str, Arm]) -> dict[str, Arm]:
        for name in arms:
            if not name.replace("_", "").replace("-", "").isalnum():
                raise ValueError(f"arm name {name!r}: use letters, digits, - and _ (it names a folder)")
        return arms

    @model_validator(mode="after")
    def _something_to_play(self) -> Self:
        if not self.probes and not self.sessions:
            raise ValueError("nothing to play: give probes: or sessions: a JSONL file")
        for name, arm in self.arms.items():
            if arm.policy == "script":
                raise ValueError(f"arm {name!r} is a script of the seed suites: play it with python -m eval suites --arm")
        greedy = [name for name, arm in self.arms.items() if arm.policy in MODEL_POLICIES]
        if self.repeats > 1 and greedy and not self.decoding.temperature:
            raise ValueError(
                f"repeats: {self.repeats} at temperature 0: arm {greedy[0]!r} would say the same every time: set decoding.temperature "
                "above 0, or repeats: 1"
            )
        given = [("references", name) for name in self.references if "references" in self.model_fields_set]
        given += [("plain", self.plain)] if "plain" in self.model_fields_set else []
        given += [("inference.judged", name) for name in self.inference.judged]
        for field, name in given:
            if name not in self.arms:
                raise ValueError(f"{field} names arm {name!r}, which is not among the arms: use one of {', '.join(self.arms)}")
        return self

    @property
    def protocol(self) -> str | None:
        """The arm that detection, recovery and conflicts are judged against: the first reference that manages its own view."""
        return next((n for n in self.references if n in self.arms and get_profile(self.arms[n].profile).managed), None)

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.out or f"runs/{self.name}")

    def arm_folder(self, arm: str) -> Path:
        """Where an arm's episodes, errors and provenance lie."""
        return self.folder / "arms" / arm


def check_split(config: EvalConfig, families: Iterable[str]) -> None:
    """Refuse held-out families under any other split label. Raises ConfigError."""
    held = sorted(HELD_OUT & set(families))
    if held and config.split != "held_out":
        raise ConfigError(
            f"evaluation {config.name}: split: {config.split!r} but family {', '.join(held)} is held out: "
            "set split: held_out only for the final test, or take these families out"
        )
