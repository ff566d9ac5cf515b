import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from envs.config import ConfigError, Strict, check_fields, dump_config, load_config


class Inner(Strict):
    kind: Literal["inner"] = "inner"
    learning_rate: float = 1e-3
    steps: int = Field(default=1, ge=1)


class Probe(Strict):
    kind: Literal["probe"] = "probe"
    facts: int = 3


class Run(Strict):
    model: str
    mode: Literal["online", "off"] = "off"
    inner: Inner = Inner()
    tasks: list[Inner] = []
    either: Annotated[Inner | Probe, Field(discriminator="kind")] | None = None
    by_name: dict[str, Inner] = {}
    trainer: dict[str, Any] = {}


@pytest.fixture
def write(tmp_path: Path):
    def _write(text: str) -> Path:
        path = tmp_path / "run.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return _write


def refusal(path: Path | None, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(Run, path, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_reads_yaml_and_overrides(write):
    path = write("model: tiny\nmode: off\ninner:\n  learning_rate: 1e-5\ntasks: [{steps: 2}, {}]\n")
    run = load_config(
        Run, path, ["inner.steps=4", "tasks.1.steps=9", "trainer.optim=adamw", "trainer.lr=2E-6", "trainer.on=true"]
    )
    assert run.mode == "off"
    assert run.inner.learning_rate == 1e-5
    assert run.inner.steps == 4
    assert [task.steps for task in run.tasks] == [2, 9]
    assert run.trainer == {"optim": "adamw", "lr": 2e-6, "on": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("-.5", -0.5),
        ("010", 10),
        ("1:30", "1:30"),
        ("yes", "yes"),
        ("true", True),
        ("~", None),
        ("", None),
        ("2024-01-01", "2024-01-01"),
        ("[1, 2e3]", [1, 2000.0]),
        ("a=b", "a=b"),
        ("'1e-5'", "1e-5"),
    ],
)
def test_override_values_are_yaml_1_2(text, value):
    assert load_config(Run, None, ["model=m", f"trainer.x={text}"]).trainer["x"] == value


def test_dump_reads_back_equal(write):
    run = load_config(Run, None, ["model=tïny", "inner.learning_rate=1e-5", "either.kind=probe", "trainer.betas=[0.9, 1e-8]"])
    assert load_config(Run, write(dump_config(run))) == run


def test_unknown_key_names_file_path_and_nearest(write):
    path = write("model: tiny\ninner:\n  learning_rat: 1\n")
    assert refusal(path) == f"{path}: inner.learning_rat: unknown key: did you mean 'learning_rate'?"


def test_unknown_keys_inside_lists_dicts_and_unions(write):
    assert "tasks.1.step: unknown key: did you mean 'steps'?" in refusal(write("model: m\ntasks: [{}, {step: 1}]\n"))
    assert "by_name.a.step: unknown key: did you mean 'steps'?" in refusal(write("model: m\nby_name: {a: {step: 1}}\n"))
    assert ": either.fact: unknown key: did you mean 'facts'?" in refusal(write("model: m\neither: {kind: probe, fact: 1}\n"))


def test_unknown_key_far_from_all_lists_the_valid_ones(write):
    assert refusal(write("model: m\ninner: {zzz: 1}\n")).endswith("use one of kind, learning_rate, steps")


def test_unknown_key_is_told_before_the_missing_one(write):
    message = refusal(write("modell: tiny\n"))
    assert "modell: unknown key: did you mean 'model'? (and 1 more)" in message


def test_wrong_type_names_file_field_value_and_expectation(write):
    path = write("model: m\ninner: {steps: many}\n")
    assert refusal(path) == (
        f"{path}: inner.steps: 'many' not accepted: input should be a valid integer, unable to parse string as an integer"
    )
    assert "inner.steps: 0 not accepted: input should be greater than or equal to 1" in refusal(
        write("model: m\ninner: {steps: 0}\n")
    )


def test_wrong_override_is_named_as_the_source(write):
    assert refusal(write("model: m\n"), "inner.steps=x").startswith("override 'inner.steps=x': inner.steps: 'x' not accepted")


def test_missing_key(write):
    assert refusal(write("mode: off\n")).endswith("model: required but not given: add it")
    assert refusal(None) == "(defaults): model: required but not given: add it"


@pytest.mark.parametrize("override", ["x", "=1", "a..b=1", ".a=1"])
def test_malformed_override(override):
    assert "not of the form dotted.key=value" in refusal(None, override)


def test_override_through_a_scalar_or_past_a_list(write):
    path = write("model: m\ntasks: [{}]\n")
    assert "which has no keys" in refusal(path, "model.name=x")
    assert "list of 1" in refusal(path, "tasks.3.steps=1")
    assert "isn't valid YAML" in refusal(path, "model=[1")


def test_file_problems(tmp_path, write):
    path = write("model: m\nmodel: n\n")
    assert refusal(path) == f"{path}:2: not valid YAML (key 'model' is given twice): correct that line"
    assert "not a mapping" in refusal(write("- a\n"))
    assert ":2: not valid YAML" in refusal(write("a: 1\n  b: 2\n"))
    assert refusal(tmp_path / "rum.yaml").endswith(f"did you mean {path}?")


def test_configs_are_frozen():
    run = load_config(Run, None, ["model=m"])
    with pytest.raises(ValueError, match="frozen"):
        run.model = "other"  # type: ignore[misc]


def test_check_fields():
    @dataclasses.dataclass
    class TrainerSettings:
        learning_rate: float = 0.1
        loss_type: str = "a"
        derived: int = dataclasses.field(default=0, init=False)

    check_fields(TrainerSettings, {"learning_rate": 1}, "run.yaml: trainer")
    with pytest.raises(ConfigError, match=r"run.yaml: trainer.learnin_rate: TrainerSettings .* did you mean 'learning_rate'\?"):
        check_fields(TrainerSettings, {"learnin_rate": 1}, "run.yaml: trainer")
    with pytest.raises(ConfigError, match="derived: TrainerSettings has no such setting"):
        check_fields(TrainerSettings, {"derived": 1}, "trainer")
    with pytest.raises(ConfigError, match="trainer.loss_type: 'b' not allowed here: only dapo is unbiased here"):
        check_fields(TrainerSettings, {"loss_type": "b"}, "trainer", reserved={"loss_type": "only dapo is unbiased here"})
