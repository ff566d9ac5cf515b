"""GRPO over episodes whose context is rewritten: a thin subclass of TRL's GRPOTrainer.

Stock TRL takes one completion a prompt. Here an episode is K append-only segments, so K training rows, with one reward:

- ``_generate`` plays the episodes and returns K rows but one transcript an episode: rewards, baselines and logs stay by episode;
- ``_generate_and_score_completions`` spreads each episode's advantage over its rows, and 0 over filler rows;
- ``_prepare_inputs`` cuts the rows into equal chunks, of like length or of like beginning, instead of shuffling them;
- ``_get_per_token_logps_and_entropies`` computes what rows of a chunk share once (``rl/packing.py``);
- ``_compute_loss`` compares log-probabilities of sampling with those of training, which the loss computes anyway.

The loss is dapo's: a sum over sampled tokens divided by their number in the whole batch, so it does not change when an episode is
cut into more segments. The ratio of old to new policy is 1 (one step a batch), and gradients of a rewrite reach the tokens before
it through the shared advantage.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl.models import unwrap_model_for_generation

from envs.chat import ChatML
from envs.config import ConfigError
from envs.policies.hf import HFPolicy
from rl.contract import check_args, check_contract
from rl.gaps import Gaps
from rl.outcome import Outcome, advantages, batch_metrics, flat_groups
from rl.packing import MAX_TOKENS, Tree, add_tree_scoring, can_pack, tree_of
from rl.rollout import Playable, Played, roll_out
from rl.rows import FILLER, Rows, alike, chunk, make_rows, real_tokens, spread
from rl.sampling import Turn, cut_turn, generate_turns

check_contract()


class EpisodeGRPOTrainer(GRPOTrainer):
    """GRPO whose rollouts are episodes.

    Args:
        start: makes the episode of a task; the members of a group are made of the same task.
        judge: the outcome of a played episode of a task.
        tasks: tasks to train on, in the order of their use (one group each).
        val_tasks: tasks played once each in ``evaluate()``.
        chat: the chat writer.
        max_turns, max_segments: caps of one episode; hitting one is a failure.
        weighting: ``token`` or ``episode`` (:func:`rl.rows.spread`).
        gap_stop: bound of the log-probability gap; of the maximum in fp32, of the mean under bf16.
        on_turn: called before each turn of a rollout with its number and the episodes that still run.
        redraw: how often a step may play groups without variance again, on other tasks (dynamic sampling).
        share_prefix: compute what rows of a chunk share once, where the model allows it.
        reuse_tokens: keys and values kept while a batch is played, in tokens.

    Raises:
        ConfigError: settings under which rows of one episode would not be weighed or trained together.
    """

    _buffered_inputs: Any

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
        weighting: str = "token",
        gap_stop: float = 1e-4,
        on_turn: Callable[[int, int], None] | None = None,
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

        self._tasks = [*tasks, *val_tasks]
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
        if low:
            raise ConfigError(
                f"model: trained weights must be fp32, but {low[0]} is {_dtype(self.model, low[0])}: load it in float32"
            )
        self._start, self._judge, self._chat = start, judge, chat
        self._caps = {"max_turns": max_turns, "max_segments": max_segments}
        self._weighting, self._gap_stop, self._on_turn = weighting, gap_stop, on_turn
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
        self._sharded, self._redraw, self._n_train = sharded, redraw, len(tasks)
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
        self._computed = 0

    # ---- rollouts -------------------------------------------------------------------------------------------------------

    def _widest(self, n: int) -> int:
        return max(gather_object([n]))

    def _sample(self, contexts: list[list[int]], seeds: list[str]) -> list[Turn]:
        stop = self._policy.stop_ids
        if self.use_vllm:  # syncs the weights first when a step has passed
            ids, logps = self._generate_single_turn(contexts, None, {}, 1)
            return [cut_turn(i, v, stop) for i, v in zip(ids, logps, strict=True)]
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
                return generate_turns(
                    model, contexts, generation_config=config, stop_ids=stop, pad_id=self._tokenizer.pad_token_id
                )
            turns = self._policy.generate(contexts, return_logps=True, seeds=seeds)
            return [Turn(list(t.ids), list(t.logps or ()), t.cut) for t in turns]

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        training, began = self.model.training, time.perf_counter()
        numbers = [row["task"] for row in self._inputs]
        self._policy.forget()  # the weights have changed
        places = range(self.accelerator.process_index * len(numbers), (self.accelerator.process_index + 1) * len(numbers))
        played, self._outcomes = self._play(numbers, places, 0)
        self._all_outcomes = gather_object(self._outcomes)
        if training and self._redraw:
            self._redraw_flat(played, places)
        self._policy.forget()  # and the memory is wanted for training
        chunks = self.args.steps_per_generation if training else 1
        self._rows = make_rows([one.segments for one in played], chunks, self._chat.end_id, self._widest)
        self._log_rollout("train" if training else "eval", time.perf_counter() - began)
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

    def _play(self, numbers: Sequence[int], places: Sequence[int], attempt: int) -> tuple[list[Played], list[Outcome]]:
        """Play and judge the tasks of these numbers; ``places`` are those of the episodes in the batch of all processes."""
        seed = f"{self.args.seed}/{self.state.global_step}/{attempt}"
        played = roll_out(
            [self._start(self._tasks[n]) for n in numbers],
            self._sample,
            self._chat,
            seeds=[f"{seed}/{n}/{place}" for n, place in zip(numbers, places, strict=True)],
            widest=self._widest,
            on_turn=self._on_turn,
            **self._caps,
        )
        return played, [self._judge(self._tasks[n], one) for n, one in zip(numbers, played, strict=True)]

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
            fresh = {g: rng.randrange(self._n_train) for g in groups}
            mine = [i for i, place in enumerate(places) if place // size in fresh]
            again, outcomes = self._play([fresh[places[i] // size] for i in mine], [places[i] for i in mine], attempt)
            for i, one, outcome in zip(mine, again, outcomes, strict=True):
                played[i], self._outcomes[i] = one, outcome
            self._all_outcomes = gather_object(self._outcomes)
        self._metrics["train"]["groups/redrawn"].append(redrawn * size / len(self._all_outcomes))

    def _log_rollout(self, mode: str, seconds: float) -> None:
        rows, metrics = self._rows, self._metrics[mode]
        tokens = sum(
            len(s.prompt_ids) + len(s.completion_ids) for s, o in zip(rows.segments, rows.owner, strict=True) if o != FILLER
        )
        totals = torch.tensor(gather_object([[tokens, rows.trained, rows.filler, len(rows.owner)]])).sum(0).tolist()
        tokens, trained, filler, n_rows = totals
        self._mean_tokens = trained / max(len(self._all_outcomes), 1)
        if mode == "train":
            self.state.num_input_tokens_seen += int(tokens)
            metrics["seconds/rollout"].append(seconds)
            metrics["rows/filler"].append(filler / n_rows)
            metrics["rows/trained_share"].append(trained / tokens)
        metrics["num_tokens"] = [self.state.num_input_tokens_seen]
        size = self.num_generations if mode == "train" else 1
        for name, value in batch_metrics(self._all_outcomes, size).items():
            metrics[name].append(value)

    # ---- one advantage an episode, spread over its rows -----------------------------------------------------------------

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._inputs, self.environments = inputs, None
        out = super()._generate_and_score_completions(inputs)
        training, rows = self.model.training, self._rows
        size = self.num_generations if training else 1
        everyone = advantages(self._all_outcomes, size)
        mine = everyone[self.accelerator.process_index * len(inputs) :][: len(inputs)]
        if out["prompt_ids"].size(0) != len(rows.owner) or out["advantages"].size(0) != len(inputs):
            raise RuntimeError("TRL changed what it returns by row and by episode: rl/trainer.py must be revised")
        device = out["advantages"].device
        out["advantages"] = spread(mine, rows, self._weighting, self._mean_tokens).to(device)
        out["place"] = torch.tensor(rows.place, device=device)
        logged = self._logs["advantages"]  # TRL put q - mean(q) there, without the saving
        for _ in range(min(len(everyone), len(logged))):
            logged.pop()
        logged.extend(everyone)
        return out

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """The chunk of this micro-step; at the first one of a step, roll out and cut the rows into chunks."""
        if not self.model.training:
            return super()._prepare_inputs(generation_batch)
        chunks = self.args.steps_per_generation
        if self._step % chunks == 0 or self._buffered_inputs is None:
            batch = self._generate_and_score_completions(generation_batch)
            self._buffered_inputs = chunk(batch, chunks, alike(batch) if self._pack else None)
            self._gaps, self._computed = Gaps(), 0
        return self._buffered_inputs[self._step % chunks]

    # ---- the training pass ----------------------------------------------------------------------------------------------

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        """TRL's log-probabilities of the completions, (rows, logits_to_keep); of shared beginnings where rows can be packed.

        Packed, tokens that aren't in the loss get 0: nothing reads them.
        """
        out = None
        if self._pack and self._scored is not None and model is not self.ref_model:
            tree = tree_of(input_ids, attention_mask, logits_to_keep, self._scored)
            if tree.tokens.numel() <= MAX_TOKENS:
                out = self._climb(model, tree, self._scored.shape)
        if out is None:
            out = super()._get_per_token_logps_and_entropies(model, input_ids, attention_mask, logits_to_keep, *args, **kwargs)
            self._computed += input_ids.numel()
        self._train_logps = out[0].detach()
        return out

    def _climb(self, model: Any, tree: Tree, shape: torch.Size) -> tuple[torch.Tensor, torch.Tensor, None]:
        device = self.accelerator.device
        with self.accelerator.autocast():
            logps, entropies = model(
                input_ids=tree.tokens.to(device), attention_mask=tree.mask.to(device), position_ids=tree.positions.to(device),
                tree_sources=tree.sources.to(device), tree_labels=tree.labels.to(device),
            )  # fmt: skip
        self._computed += tree.tokens.numel()
        where = (tree.rows.to(device), tree.columns.to(device))
        empty = torch.zeros(shape, dtype=logps.dtype, device=device)
        return empty.index_put(where, logps), empty.index_put(where, entropies), None

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self._scored = inputs["completion_mask"] * inputs["tool_mask"]
        # Without any advantage the gradient is zero: the pass is only needed for the figures that are logged.
        idle = self._may_idle and not inputs["advantages"].any()
        try:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not idle):
                loss = super()._compute_loss(model, inputs)
        finally:
            self._scored = None
        if idle:
            loss = loss + 0.0 * next(p for p in self.model.parameters() if p.requires_grad).sum()
        if self.model.training:
            self._gaps.measure(self._train_logps, inputs)
            if (self._step + 1) % self.args.steps_per_generation == 0:
                self._log_rows()
                self._log_gaps()
        return loss

    def _log_rows(self) -> None:
        """Computed tokens against tokens of rows: more is padding and fillers, less is what rows share."""
        real = sum(real_tokens(part) for part in self._buffered_inputs)
        totals = torch.tensor(gather_object([[real, self._computed]])).sum(0).tolist()
        share = totals[1] / totals[0]
        self._metrics["train"]["rows/padding"].append(max(0.0, 1.0 - 1.0 / share))
        self._metrics["train"]["rows/shared"].append(max(0.0, 1.0 - share))

    def _log_gaps(self) -> None:
        """Log the gaps of the whole batch; raise GapError beyond the bound, before the optimizer's step."""
        gaps = Gaps(gather_object([self._gaps.sums]))
        for name, value in gaps.metrics().items():
            self._metrics["train"][name].append(value)
        exact = not (self.args.bf16 or self.args.fp16 or self.use_vllm)
        gaps.check(self._gap_stop, exact, self.state.global_step + 1)


def _dataset(first: int, count: int) -> Dataset:
    rows = [{"prompt": [{"role": "user", "content": f"task {i}"}], "task": i} for i in range(first, first + count)]
    return Dataset.from_list(rows)


def _dtype(model: Any, name: str) -> str:
    return str(model.get_parameter(name).dtype).removeprefix("torch.")
