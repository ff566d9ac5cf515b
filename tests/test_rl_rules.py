"""Rules of the training that no other file shows; docs/rl.md lists the test of each."""

from __future__ import annotations

import ast
import re
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from rl_moving import config, patch, write_probes
from test_rl_rows import padded, segment
from test_rl_trainer import make
from trl import GRPOConfig, GRPOTrainer

from envs.config import ConfigError, load_config
from envs.episode import Episode
from envs.policies.expert import Expert
from envs.profiles import get_profile
from envs.runs import read_jsonl
from envs.tasks import FAMILIES
from rl.config import RLConfig
from rl.contract import SIGNATURES, TRL_VERSION, check_args, check_contract
from rl.rollout import roll_out
from rl.rows import FILLER, chunk, real_tokens
from rl.run import build, run
from rl.sampling import Turn
from rl.trainer import EpisodeGRPOTrainer
from sft.rows import segment_rows

ROOT = Path(__file__).parents[1]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def probe_file(tmp_path_factory) -> Path:
    return write_probes(tmp_path_factory.mktemp("data") / "probes.jsonl")


# ---- contract with TRL --------------------------------------------------------------------------------------------------


def test_trl_is_pinned_to_the_version_the_subclass_is_written_for():
    assert f'"trl=={TRL_VERSION}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(rf"^trl=={re.escape(TRL_VERSION)}$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_method_that_moves_is_named(name):
    renamed = type("Renamed", (GRPOTrainer,), {name: None})
    changed = type("Changed", (GRPOTrainer,), {name: lambda self, something_else: None})
    for base in (renamed, changed):
        with pytest.raises(RuntimeError, match=f"GRPOTrainer.{name} takes"):
            check_contract(base=base)


def args(**more) -> GRPOConfig:
    given = {
        "use_cpu": True, "bf16": False, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
        "steps_per_generation": 2, "num_generations": 4, "loss_type": "dapo", "scale_rewards": "none",
        "reward_weights": [1.0, 0.0], "shuffle_dataset": False, "remove_unused_columns": False, "report_to": "none",
        "top_p": 1.0, "top_k": 0,
    }  # fmt: skip
    return GRPOConfig(**{**given, **more})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("loss_type", loss) for loss in ("grpo", "sapo", "luspo", "bnpo", "dr_grpo")],
        ("scale_rewards", "group"), ("scale_rewards", "batch"), ("num_iterations", 2), ("importance_sampling_level", "sequence"),
        ("mask_truncated_completions", True), ("top_p", 0.9), ("top_k", 50), ("min_p", 0.1), ("repetition_penalty", 1.1),
        ("shuffle_dataset", True),
    ],
)  # fmt: skip
def test_what_must_not_be_is_refused_by_trainer_and_config(tmp_path, name, value):
    check_args(args())
    with pytest.raises(ConfigError, match=name):
        check_args(args(**{name: value}))
    path = tmp_path / "rl.yaml"
    path.write_text("probes: p.jsonl\nout: o\n")
    with pytest.raises(ConfigError, match=name):
        load_config(RLConfig, path, [f"trainer.{name}={str(value).lower()}"])


def test_importance_sampling_of_vllm_weighs_tokens_and_not_rows():
    given = vars(args()) | {"use_vllm": True}
    for mode in ("token_truncate", "token_mask"):
        check_args(SimpleNamespace(**given | {"vllm_importance_sampling_mode": mode}))
    for mode in ("sequence_truncate", "sequence_mask"):
        with pytest.raises(ConfigError, match="a row is not an episode"):
            check_args(SimpleNamespace(**given | {"vllm_importance_sampling_mode": mode}))


def test_the_base_is_the_stock_trainer_without_its_rollout_hooks():
    names = {kind.__name__ for kind in EpisodeGRPOTrainer.__mro__}
    assert "GRPOTrainer" in names
    assert not any("Async" in name for name in names)
    for path in (ROOT / "rl").glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        used = {n.arg for n in nodes if isinstance(n, ast.keyword)} | {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        assert not used & {"rollout_func", "environment_factory"}, path.name
        assert not [n for n in nodes if isinstance(n, ast.ImportFrom) and "experimental" in (n.module or "")], path.name


# ---- precision ----------------------------------------------------------------------------------------------------------


def test_bf16_weights_round_a_small_update_away_and_fp32_weights_keep_it():
    for dtype, moved in ((torch.bfloat16, False), (torch.float32, True)):
        weight = torch.nn.Parameter(torch.full((4,), 0.5, dtype=dtype))
        weight.grad = torch.ones_like(weight)
        torch.optim.AdamW([weight], lr=1e-5, weight_decay=0.0).step()
        assert bool((weight != 0.5).any()) == moved


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_adapter_is_fp32_on_a_base_of_the_runs_precision(probe_file, tmp_path, precision):
    trainer = build(config(probe_file, tmp_path, lora={"r": 2}, precision=precision))
    trained = {p.dtype for p in trainer.model.parameters() if p.requires_grad}
    frozen = {p.dtype for n, p in trainer.model.named_parameters() if not p.requires_grad and "norm" not in n}
    assert trained == {torch.float32}
    assert frozen == {torch.bfloat16 if precision == "bf16" else torch.float32}
    assert not any("lm_head" in n for n, p in trainer.model.named_parameters() if p.requires_grad)


def test_full_weights_are_fp32_under_bf16_autocast(probe_file, tmp_path):
    trainer = build(config(probe_file, tmp_path, precision="bf16"))
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
    assert trainer.args.bf16


def test_the_cost_share_of_the_config_reaches_the_advantages(probe_file, tmp_path, monkeypatch):
    seen = []

    def advantages(outcomes, group_size, ablation, cost_share):
        seen.append(cost_share)
        return [0.0] * len(outcomes)

    monkeypatch.setattr("rl.trainer.advantages", advantages)
    build(config(probe_file, tmp_path, cost_share=0.7)).train()
    assert set(seen) == {0.7}


# ---- one recorder for rollouts and SFT rows -----------------------------------------------------------------------------


def test_a_rollout_and_the_sft_rows_of_its_record_are_the_same_tokens(chat):
    core, lengths = get_profile("core@1"), []
    for family in islice(FAMILIES.values(), 6):
        episode, expert = Episode(family.generate(5), core, chat), Expert(chat)

        def sample(contexts, seeds, episode=episode, expert=expert):
            ids = list(expert.act([episode.view()])[0].ids)
            return [Turn(ids, [-1.0] * len(ids), False)]

        (played,) = roll_out([episode], sample, chat, seeds=["0"], max_turns=200, max_segments=200)
        rows, dropped = segment_rows(episode.trajectory("rl"), chat)
        assert not dropped
        lengths.append(len(rows))
        assert [(r.input_ids, r.labels) for r in rows] == [(s.ids, s.labels()) for s in (x.trimmed() for x in played.segments)]
        # A turn that a later view shows again is part of that row's prompt: it is not trained twice.
        sampled = sum(len(i.ids) for i in episode.inferences)
        assert sum(sum(s.mask) for s in played.segments) == sampled
    assert max(lengths) > 1


# ---- rows ---------------------------------------------------------------------------------------------------------------


def test_sorting_and_trimming_pads_little_where_shuffling_pads_much():
    segments = [segment(prompt, done, done) for prompt, done in zip(range(20, 340, 10), range(3, 35), strict=True)]
    batch = padded(segments) | {"place": torch.ones(32, dtype=torch.long)}

    def padding(parts) -> float:
        read = sum(p["prompt_ids"].numel() + p["completion_ids"].numel() for p in parts)
        return 1 - sum(real_tokens(p) for p in parts) / read

    generator = torch.Generator().manual_seed(0)
    shuffled = padding(chunk(batch, 8, torch.randperm(32, generator=generator)))
    assert padding(chunk(batch, 8)) < 0.15 < shuffled
    assert padding([batch]) > 0.4, "as TRL pads: every row to the longest of the batch"
    first = chunk(batch, 8)[0]
    assert first["prompt_ids"].size(1) == 330, "the longest rows come first, so memory is short at once or never"


def test_filler_rows_enter_no_metric_but_their_own(chat, tmp_path):
    trainer = make(chat, tmp_path, settings={"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8,
                                             "steps_per_generation": 8})  # fmt: skip
    trainer.model.train()
    trainer._generate_and_score_completions([{"prompt": [], "task": t} for t in (0, 0, 0, 0, 1, 1, 1, 1)])
    rows, metrics = trainer._rows, trainer._metrics["train"]
    assert rows.filler > 0
    real = [s for s, o in zip(rows.segments, rows.owner, strict=True) if o != FILLER]
    assert metrics["rows/filler"] == [rows.filler / len(rows.owner)]
    assert metrics["rows/trained_share"] == [pytest.approx(rows.trained / sum(len(s.ids) for s in real))]
    assert metrics["num_tokens"] == [sum(len(s.ids) for s in real)]
    assert metrics["reward/q"] == [pytest.approx(sum(o.q for o in trainer._outcomes) / 8)]
    assert len(trainer._all_outcomes) == 8


# ---- names in tracking --------------------------------------------------------------------------------------------------

NAMES = (
    "reward/q", "reward/s", "reward/detail", "episode/segments", "episode/inferences", "episode/tokens", "episode/reads",
    "episode/rewrites", "logp_gap/seg1", "rows/padding", "rows/trained_share", "rows/filler", "groups/zero_variance",
    "groups/all_right", "seconds/host", "seconds/step", "rows/naive_ratio",
)  # fmt: skip
VALIDATED = ("q", "pair_success", "task_correct", "tokens", "detect/recall", "detect/false_alarm")


def test_runs_log_the_names_of_the_design(probe_file, tmp_path, monkeypatch):
    patch(monkeypatch)
    logged: list[dict] = []
    monkeypatch.setattr("envs.tracking.Tracker.log", lambda self, metrics, step=None: logged.append({**metrics, "step": step}))
    more = {"steps": 1, "episodes_per_step": 8, "val_probes": str(probe_file), "val_every": 1, "max_turns": 1}
    run(config(probe_file, tmp_path, **more), progress=False)
    start, train, end = logged
    assert [line["step"] for line in logged] == [0, 1, 1]
    assert [name for name in NAMES if name not in train] == []
    assert any(re.fullmatch(r"calls/\w+/\w+", name) for name in train)
    assert {"detect/recall", "detect/false_alarm"} <= set(train), "the batch holds damaged and present probes"
    for line in (start, end):
        assert [n for name in VALIDATED for n in (f"val/{name}", f"val/{name}/support") if n not in line] == []
    stored = read_jsonl(tmp_path / "metrics.jsonl")
    assert [{k: v for k, v in x.items() if k != "seconds"} for x in stored] == logged
