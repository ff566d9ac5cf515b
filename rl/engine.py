"""Turns from TRL's vLLM: its engine and its weight sync, our requests, each with a seed, stop ids and the log-probs of what was drawn.

- colocate: every process asks the engine that it holds.
- server: every process asks the server by itself; TRL sends it the weights, which needs CUDA on both sides.
- colocate with tensor parallelism: the processes of a group must hand in the same prompts together, so TRL's own call is made, with
  its random numbers: such a run resumes, but samples other tokens than an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envs.policies.vllm import VLLMPolicy, VLLMServerPolicy
from rl.contract import check_vllm_contract
from rl.sampling import Turn, cut_turn


class VLLMSampler:
    """The vLLM of a GRPO trainer that was built with ``use_vllm``.

    Args:
        trainer: the trainer; its ``vllm_generation`` holds the engine or the client.
        tokenizer: the model's.
        max_new_tokens: cap of a turn.
        temperature: of sampling; may be set between calls.
    """

    def __init__(self, trainer: Any, tokenizer: Any, *, max_new_tokens: int, temperature: float) -> None:
        check_vllm_contract()
        self._trainer, backend = trainer, trainer.vllm_generation
        self._backend = backend
        if backend.mode == "server":
            url = (backend.server_base_url or f"http://{backend.server_host}:{backend.server_port}") + "/v1"
            self._policy: Any = VLLMServerPolicy(url, tokenizer=tokenizer, max_new_tokens=max_new_tokens, temperature=temperature)
        else:
            self._policy = VLLMPolicy(None, tokenizer, llm=backend.llm, max_new_tokens=max_new_tokens, temperature=temperature)

    @property
    def temperature(self) -> float:
        """Of sampling; 0 takes the likeliest token."""
        return float(self._policy.temperature)

    @temperature.setter
    def temperature(self, value: float) -> None:
        self._policy.temperature = self._backend.temperature = value

    def generate(self, contexts: Sequence[Sequence[int]], seeds: Sequence[str]) -> list[Turn]:
        """One turn a context from the trainer's present weights, which are sent over when a step has passed since."""
        trainer, backend, stop = self._trainer, self._backend, self._policy.stop_ids
        if backend.mode == "colocate" and backend.tensor_parallel_size > 1:
            ids, logps = trainer._generate_single_turn([list(c) for c in contexts], None, {}, 1)
            return [cut_turn(list(i), list(v), stop) for i, v in zip(ids, logps, strict=True)]
        if trainer.state.global_step != trainer._last_loaded_step:
            self._send_weights()
            trainer._last_loaded_step = trainer.state.global_step
            if backend.mode == "server":  # the main process sends them: nobody may ask before it is done
                trainer.accelerator.wait_for_everyone()
        sleeps = backend.mode == "colocate" and backend.enable_sleep_mode
        if sleeps:
            if backend._llm_weights_sleeping:
                self._send_weights()
            backend.llm.wake_up(tags=["kv_cache"])
        turns = self._policy.generate(contexts, return_logps=True, seeds=seeds)
        if sleeps:
            backend.llm.sleep(level=2)
            backend._llm_weights_sleeping = True
        return [Turn(list(t.ids), list(t.logps or ()), t.cut) for t in turns]

    def _send_weights(self) -> None:
        backend = self._backend
        if backend.mode == "server" or self._trainer.accelerator.device.type != "cpu":
            backend.sync_weights()
            return
        # vLLM's CPU build packs weights as it loads them, so TRL's way of writing into them finds none: have them loaded and packed anew.
        runner = backend.llm.llm_engine.model_executor.driver_worker.model_runner
        runner.reload_weights(weights_iterator=backend._iter_named_params())
        for module in runner.get_model().modules():
            # Embeddings keep their weights beside the packed ones, and a head tied to them would keep packed ones of before.
            if hasattr(module, "cpu_linear") and module.weight.numel():
                module.quant_method.process_weights_after_loading(module)
        backend.llm.reset_prefix_cache()
