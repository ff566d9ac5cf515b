"""GRPO over episodes whose context is rewritten: a thin subclass of TRL's GRPOTrainer.

Stock TRL takes one completion a prompt. Here an episode is K append-only segments, so K training rows, with one reward:

- ``_generate`` plays the episodes and returns K rows but one transcript an episode: rewards, baselines and logs stay by episode;
- ``_generate_and_score_completions`` spreads each episode's advantage over its rows, and 0 over filler rows;
- ``_prepare_inputs`` cuts the rows into equal chunks, of like length or of like beginning, instead of shuffling them;
- ``_get_per_token_logps_and_entropies`` computes what rows of a chunk share once (``rl/passes.py``);
- ``_compute_loss`` compares log-probabilities of sampling with those of training, which the loss computes anyway;
- ``evaluate`` plays every validation task once, without a training pass.

The loss is dapo's: a sum over sampled tokens divided by their number in the whole batch, so it does not change when an episode is
cut into more segments. The ratio of old to new policy is 1 (one step a batch), and gradients of a rewrite reach the tokens before
it through the shared advantage.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from trl import GRPOConfig
from trl.models import unwrap_model_for_generation

from envs.chat import ChatML
from envs.config import ConfigError
from envs.policies.hf import HFPolicy
from envs.rewards import COST_SHARE
from envs.segments import Segment
from rl.ablation import permuted
from rl.clock import Clock
from rl.contract import check_args, check_contract
from rl.gaps import Gaps
from rl.outcome import Outcome, advantages, batch_metrics, flat_groups
from rl.packing import add_tree_scoring, can_pack
from rl.passes import PackedPassTrainer
from rl.rollout import Playable, Played, roll_out
from rl.rows import FILLER, Rows, alike, chunk, make_rows, naive_positions, spread
from rl.sampling import Turn, generate_turns

check_contract()


class EpisodeGRPOTrainer(PackedPassTrainer):
    """GRPO whose rollouts are episodes.

    Args:
        start: makes the episode of a task; the members of a group are made of the same task.
        judge: the outcome of a played episode of a task.
        tasks: tasks to train on, in the order of their use (one group each).
        val_tasks: tasks played once each in ``evaluate()``.
        val_temperature: of ``evaluate()``; 0 takes the likeliest token.
        measure: metrics of the validation outcomes, in the order of ``val_tasks``; they stand beside those of any batch.
        chat: the chat writer.
        max_turns, max_segments: caps of one episode; hitting one is a failure.
        ablation: names from ``rl.ablation.ABLATIONS``.
        cost_share: what saving weighs, as a share of the smallest step of ``q``.
        gap_stop: bound of the log-probability gap; of the maximum in fp32, of the mean under bf16.
        on_turn: called before each turn of a rollout with its number and the episodes that still run.
        pool: places in ``tasks`` that a redraw may take in a step (from 1); default: all.
        about_step: further metrics of a step (from 1).
        redraw: how often a step may play groups without variance again, on other tasks (dynamic sampling).
        share_prefix: compute what rows of a chunk share once, where the model allows it.
        reuse_tokens: keys and values kept while a batch is played, in tokens.

    Raises:
        ConfigError: settings under which rows of one episode would not be weighed or trained together.
    """

    control: Any

    def __init__(
        self,
        model: Any,
        args: GRPOConfig,
        *,
        start: Callable[[Any], Playable],
        judge: Callable[[Any, Played], Outcome],
        tasks: Sequence[Any],
        chat: ChatML,
        val_tasks: Sequence[Any] = (),
        max_turns: int = 24,
        max_segments: int = 8,
        ablation: Collection[str] = (),
        cost_share: float = COST_SHARE,
        val_temperature: float = 0.0,
        measure: Callable[[list[Outcome]], dict[str, float]] | None = None,
        gap_stop: float = 1e-4,
        on_turn: Callable[[int, int], None] | None = None,
        pool: Callable[[int], range] | None = None,
        about_step: Callable[[int], dict[str, float]] | None = None,
        redraw: int = 0,
        share_prefix: bool = True,
        reuse_tokens: int = 16_384,
        **kwargs: Any,
    ) -> None:
        check_args(args)

        # Closures over the outcomes of the rollout: TRL calls them by episode, after `_generate`.
        def q(completions: list[Any], **_: Any) -> list[float | None]:
            return [None if o.excluded else o.q for o in self._outcomes]

        def s(completions: list[Any], **_: Any) -> list[float | None]:
            return [None if o.excluded else o.s for o in self._outcomes]

        self._tasks, self.val_tasks = [*tasks, *val_tasks], list(val_tasks)
        super().__init__(
            model=model,
            reward_funcs=[q, s],
            args=args,
            train_dataset=_dataset(0, len(tasks)),
            eval_dataset=_dataset(len(tasks), len(val_tasks)) if val_tasks else None,
            processing_class=chat.tokenizer,
            **kwargs,
        )
        low = [n for n, p in self.model.named_parameters() if p.requires_grad and p.dtype != torch.float32]
        if low and not self.is_deepspeed_enabled:  # DeepSpeed trains fp32 weights of its own and casts these to bf16
            raise ConfigError(
                f"model: trained weights must be fp32, but {low[0]} is {_dtype(self.model, low[0])}: load it in float32"
            )
        self._start, self._judge, self._chat = start, judge, chat
        self._caps = {"max_turns": max_turns, "max_segments": max_segments}
        self._cost_share = cost_share
        self._ablation, self._gap_stop, self._on_turn = frozenset(ablation), gap_stop, on_turn
        self._val_temperature, self._measure = val_temperature, measure or (lambda outcomes: {})
        self.validated: list[Outcome] = []
        """Outcomes of the last validation, in the order of the tasks, on every process."""
        sharded = bool(self.is_deepspeed_enabled or self.is_fsdp_enabled)  # then every process must make the same passes
        plain = self.accelerator.unwrap_model(self.model)
        base = plain.get_base_model() if hasattr(plain, "get_base_model") else plain
        self._pack = share_prefix and not sharded and can_pack(base)
        if self._pack:
            add_tree_scoring(base, self.temperature)
        self._policy = HFPolicy(
            plain, self._tokenizer, max_new_tokens=self.max_completion_length, temperature=self.temperature,
            batch_size=max(args.per_device_train_batch_size * args.steps_per_generation, args.per_device_eval_batch_size),
            reuse_tokens=reuse_tokens,
        )  # fmt: skip
        self._engine: Any = None
        if self.use_vllm:
            from rl.engine import VLLMSampler

            caps = {"max_new_tokens": self.max_completion_length, "temperature": self.temperature}
            self._engine = VLLMSampler(self, self._tokenizer, **caps)
        self._sharded, self._redraw, self._n_train = sharded, redraw, len(tasks)
        self._pool, self._about_step = pool or (lambda step: range(len(tasks))), about_step or (lambda step: {})
        # Under DDP every parameter must take part in every backward pass.
        self._may_idle = self.accelerator.num_processes == 1 and args.beta == 0.0 and args.entropy_coef == 0.0
        self._may_idle = self._may_idle and not args.use_adaptive_entropy and not self.aux_loss_enabled
        self._inputs: list[dict[str, Any]] = []
        self._outcomes: list[Outcome] = []
        self._all_outcomes: list[Outcome] = []
        self._rows = Rows([], [], [])
        self._train_logps: torch.Tensor | None = None
        self._scored: torch.Tensor | None = None
        self._gaps = Gaps()
        self._mean_tokens = 0.0
        self._clock = Clock()
        self._computed = self._naive = 0

    # ---- rollouts -------------------------------------------------------------------------------------------------------

    def _widest(self, n: int) -> int:
        with self._clock("wait"):  # for the slowest process: no work of the host
            return max(gather_object([n]))

    def _sample(self, contexts: list[list[int]], seeds: list[str]) -> list[Turn]:
        with self._clock("sample"):
            return self._sample_turns(contexts, seeds)

    def _sample_turns(self, contexts: list[list[int]], seeds: list[str]) -> list[Turn]:
        if self._engine is not None:
            return self._engine.generate(contexts, seeds)
        stop = self._policy.stop_ids
        with (
            unwrap_model_for_generation(
                self.model_wrapped,
                self.accelerator,
                gather_deepspeed3_params=self.args.ds3_gather_for_generation,
                gradient_checkpointing_kwargs=self.args.gradient_checkpointing_kwargs,
            ) as model,
            torch.no_grad(),
            self._dist.summon_full_params(self.model_wrapped, recurse=False),
            # The same numerics as the training pass; weights are cast once a turn, not once a token.
            self.accelerator.autocast(),
        ):
            if self._sharded:
                config = copy.deepcopy(self.generation_config)
                config.eos_token_id = sorted(stop)
                if self._policy.temperature == 0:
                    config.do_sample, config.temperature, config.top_k = False, 1.0, None
                return generate_turns(
                    model, contexts, generation_config=config, stop_ids=stop, pad_id=self._tokenizer.pad_token_id
                )
            turns = self._policy.generate(contexts, return_logps=True, seeds=seeds)
            return [Turn(list(t.ids), list(t.logps or ()), t.cut) for t in turns]

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        began = time.perf_counter()
        numbers = [row["task"] for row in self._inputs]
        self._policy.forget()  # the weights have changed
        places = range(self.accelerator.process_index * len(numbers), (self.accelerator.process_index + 1) * len(numbers))
        played, self._outcomes = self._play(numbers, self._seeds(numbers, places, 0))
        self._all_outcomes = gather_object(self._outcomes)
        if self._redraw:
            self._redraw_flat(played, places)
        self._policy.forget()  # and the memory is wanted for training
        chunks = self.args.steps_per_generation
        self._naive = sum(naive_positions(s) for one in played for s in one.segments)
        self._rows = make_rows(self._trained_segments(played), chunks, self._chat.end_id, self._widest)
        self._log_rollout(time.perf_counter() - began)
        segments = self._rows.segments
        return (
            [s.prompt_ids for s in segments],
            [s.completion_ids for s in segments],
            [s.mask for s in segments],
            [one.transcript for one in played],
            [s.logps for s in segments],
            {},
            None,
            [],
        )

    def _seeds(self, numbers: Sequence[int], places: Sequence[int], attempt: int) -> list[str]:
        """Seeds of the episodes of these tasks; ``places`` are those of the episodes in the batch of all processes."""
        seed = f"{self.args.seed}/{self.state.global_step}/{attempt}"
        return [f"{seed}/{n}/{place}" for n, place in zip(numbers, places, strict=True)]

    def _play(self, numbers: Sequence[int], seeds: Sequence[str]) -> tuple[list[Played], list[Outcome]]:
        """Play and judge the tasks of these numbers."""
        played = roll_out(
            [self._start(self._tasks[n]) for n in numbers],
            self._sample,
            self._chat,
            seeds=seeds,
            widest=self._widest,
            on_turn=self._on_turn,
            **self._caps,
        )
        outcomes = [self._judge(self._tasks[n], one) for n, one in zip(numbers, played, strict=True)]
        return played, [dataclasses.replace(o, rows=len(one.segments)) for o, one in zip(outcomes, played, strict=True)]

    def _trained_segments(self, played: Sequence[Played]) -> list[list[Segment]]:
        """Segments by episode; with ``mask_overlong`` those of an episode that a limit ended hold no trained token."""
        if "mask_overlong" not in self._ablation:
            return [one.segments for one in played]
        return [
            [dataclasses.replace(s, mask=[0] * len(s.mask)) for s in one.segments] if outcome.overlong else one.segments
            for one, outcome in zip(played, self._outcomes, strict=True)
        ]

    def _redraw_flat(self, played: list[Played], places: Sequence[int]) -> None:
        """Play groups that teach nothing (one q, not all right) on other tasks instead, at most ``redraw`` times.

        All processes see all outcomes, so they agree on the groups; a group may lie on several of them.
        """
        size, redrawn = self.num_generations, 0
        for attempt in range(1, self._redraw + 1):
            groups = flat_groups(self._all_outcomes, size)
            if not groups:
                break
            redrawn += len(groups)
            rng = random.Random(f"{self.args.seed}/{self.state.global_step}/redraw {attempt}")
            pool = self._pool(self.state.global_step + 1)
            fresh = {g: rng.randrange(pool.start, pool.stop) for g in groups}
            mine = [i for i, place in enumerate(places) if place // size in fresh]
            numbers = [fresh[places[i] // size] for i in mine]
            again, outcomes = self._play(numbers, self._seeds(numbers, [places[i] for i in mine], attempt))
            for i, one, outcome in zip(mine, again, outcomes, strict=True):
                played[i], self._outcomes[i] = one, outcome
            self._all_outcomes = gather_object(self._outcomes)
        self._metrics["train"]["groups/redrawn"].append(redrawn * size / len(self._all_outcomes))

    def _log_rollout(self, seconds: float) -> None:
        rows, metrics = self._rows, self._metrics["train"]
        tokens = sum(
            len(s.prompt_ids) + len(s.completion_ids) for s, o in zip(rows.segments, rows.owner, strict=True) if o != FILLER
        )
        totals = torch.tensor(gather_object([[tokens, rows.trained, rows.filler, len(rows.owner)]])).sum(0).tolist()
        tokens, trained, filler, n_rows = totals
        self._mean_tokens = trained / max(len(self._all_outcomes), 1)
        self.state.num_input_tokens_seen += int(tokens)
        metrics["seconds/rollout"].append(seconds)
        metrics["rows/filler"].append(filler / n_rows)
        metrics["rows/trained_share"].append(trained / tokens)
        metrics["num_tokens"] = [self.state.num_input_tokens_seen]
        about = {f"ablation/{name}": 1.0 for name in sorted(self._ablation)} | self._about_step(self.state.global_step + 1)
        for name, value in (about | batch_metrics(self._all_outcomes, self.num_generations)).items():
            metrics[name].append(value)

    # ---- one advantage an episode, spread over its rows -----------------------------------------------------------------

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._inputs, self.environments = inputs, None
        out = super()._generate_and_score_completions(inputs)
        rows = self._rows
        everyone = advantages(self._all_outcomes, self.num_generations, self._ablation, self._cost_share)
        if "permuted_advantages" in self._ablation:
            movable = [not o.excluded for o in self._all_outcomes]
            everyone = permuted(everyone, movable, f"{self.args.seed}/{self.state.global_step}")
        mine = everyone[self.accelerator.process_index * len(inputs) :][: len(inputs)]
        if out["prompt_ids"].size(0) != len(rows.owner) or out["advantages"].size(0) != len(inputs):
            raise RuntimeError("TRL changed what it returns by row and by episode: rl/trainer.py must be revised")
        device = out["advantages"].device
        weighting = "episode" if "episode_weighting" in self._ablation else "token"
        out["advantages"] = spread(mine, rows, weighting, self._mean_tokens).to(device)
        if "mask_overlong" in self._ablation:
            out["num_items_in_batch"] = out["num_items_in_batch"].clamp(min=1)  # all of them may be masked
        out["place"] = torch.tensor(rows.place, device=device)
        logged = self._logs["advantages"]  # TRL put q - mean(q) there, without the saving
        for _ in range(min(len(everyone), len(logged))):
            logged.pop()
        logged.extend(everyone)
        return out

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """The chunk of this micro-step; at the first one of a step, roll out and cut the rows into chunks."""
        chunks = self.args.steps_per_generation
        if self._step % chunks == 0 or self._buffered_inputs is None:
            self._gaps, self._computed = Gaps(), 0
            with self._clock("host"):
                batch = self._generate_and_score_completions(generation_batch)
                self._buffered_inputs = chunk(batch, chunks, alike(batch) if self._pack else None)
        return self._buffered_inputs[self._step % chunks]

    # ---- validation -----------------------------------------------------------------------------------------------------

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Play each validation task once and log the metrics, as ``eval_<name>``; nothing that is trained changes.

        The tasks are dealt out to the processes; all of them know all outcomes afterwards (``validated``).
        """
        began, training = time.perf_counter(), self.model.training
        self.model.eval()
        self._policy.forget()
        numbers = range(self._n_train, len(self._tasks))
        here, world = self.accelerator.process_index, self.accelerator.num_processes
        mine, size = numbers[here::world], self.args.per_device_eval_batch_size
        found: list[tuple[int, Outcome]] = []
        with self._sampling_at(self._val_temperature):
            for first in range(0, self._widest(len(mine)), size):
                part = mine[first : first + size]
                # The same random streams in every validation: what differs between two of them is the weights.
                found += zip(part, self._play(part, [f"{self.args.seed}/validation/{n}" for n in part])[1], strict=True)
        self._policy.forget()
        self.validated = [outcome for _, outcome in sorted(gather_object(found), key=lambda pair: pair[0])]
        metrics = {name.removeprefix("reward/"): value for name, value in batch_metrics(self.validated, 1).items()}
        metrics |= self._measure(self.validated)
        metrics["seconds"] = time.perf_counter() - began
        self._clock.seconds.clear()  # of training steps alone
        logs = {f"eval_{name}": value for name, value in metrics.items()}
        self._metrics["eval"].clear()
        self.log(dict(logs))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, logs)
        self.model.train(training)
        return logs

    @contextlib.contextmanager
    def _sampling_at(self, temperature: float) -> Iterator[None]:
        holder: Any = self._engine or self._policy
        before, holder.temperature = holder.temperature, temperature
        try:
            yield
        finally:
            holder.temperature = before


def _dataset(first: int, count: int) -> Dataset:
    rows = [{"prompt": [{"role": "user", "content": f"task {i}"}], "task": i} for i in range(first, first + count)]
    return Dataset.from_list(rows)


def _dtype(model: Any, name: str) -> str:
    return str(model.get_parameter(name).dtype).removeprefix("torch.")
