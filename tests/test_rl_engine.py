"""How the trainer asks TRL's vLLM, as far as no engine is needed: the real ones run in tests/real/test_vllm_*.py (``make test-vllm``).

The backend is a stand-in that writes down what was asked of it, since sleeping, a server's weight sync and tensor parallelism need CUDA.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from envs.policies.sampler import Sampled
from envs.policies.smollm2 import load_tokenizer
from envs.policies.vllm import _waves
from rl import engine as module
from rl.contract import VLLM_STATE, check_vllm_contract
from rl.engine import VLLMSampler


class Backend:
    def __init__(self, **more) -> None:
        self.asked: list[str] = []
        self.mode, self.tensor_parallel_size, self.enable_sleep_mode, self._llm_weights_sleeping = "colocate", 1, False, False
        self.server_base_url, self.server_host, self.server_port, self.temperature = None, "127.0.0.1", 8000, 1.0
        self.llm = SimpleNamespace(
            llm_engine=SimpleNamespace(model_config=SimpleNamespace(max_model_len=64)),
            wake_up=lambda tags: self.asked.append(f"wake {tags[0]}"),
            sleep=lambda level: self.asked.append(f"sleep {level}"),
        )
        self.__dict__.update(more)

    def sync_weights(self) -> None:
        self.asked.append("sync")
        self._llm_weights_sleeping = False


class Policy:
    """What stands behind the sampler: it answers every context with the end of a turn."""

    def __init__(self, *args, asked: list[str], **kwargs) -> None:
        self.asked, self.where, self.temperature = asked, args[0], kwargs["temperature"]
        self.stop_ids = frozenset({2})

    def generate(self, contexts, return_logps, seeds):
        assert return_logps
        self.asked.append(f"sample {','.join(seeds)}")
        return [Sampled([7, 2], [-0.5, -0.1], False) for _ in contexts]


@pytest.fixture
def make(monkeypatch):
    def build(**more):
        backend = Backend(**more)
        for name in ("VLLMPolicy", "VLLMServerPolicy"):
            monkeypatch.setattr(module, name, lambda *a, **k: Policy(*a, asked=backend.asked, **k))
        trainer = SimpleNamespace(
            vllm_generation=backend, _last_loaded_step=-1, state=SimpleNamespace(global_step=0),
            accelerator=SimpleNamespace(
                wait_for_everyone=lambda: backend.asked.append("wait"), device=SimpleNamespace(type="cuda")
            ),
            _generate_single_turn=lambda ids, *rest: ([[7, 2, 9] for _ in ids], [[-0.5, -0.1, -0.2] for _ in ids]),
        )  # fmt: skip
        return VLLMSampler(trainer, load_tokenizer("tiny"), max_new_tokens=8, temperature=1.0), trainer, backend

    return build


def test_weights_go_over_once_a_step(make):
    sampler, trainer, backend = make()
    for _ in range(2):
        sampler.generate([[1]], ["a"])
    trainer.state.global_step = 1
    turns = sampler.generate([[1], [1]], ["b", "c"])
    assert backend.asked == ["sync", "sample a", "sample a", "sync", "sample b,c"]
    assert [(t.ids, t.logps, t.cut) for t in turns] == [([7, 2], [-0.5, -0.1], False)] * 2


def test_no_process_asks_a_server_before_the_weights_are_there(make):
    sampler, _, backend = make(mode="server")
    sampler.generate([[1]], ["a"])
    assert backend.asked == ["sync", "wait", "sample a"]
    assert sampler._policy.where == "http://127.0.0.1:8000/v1"


def test_a_sleeping_engine_gets_its_weights_back_and_sleeps_again(make):
    sampler, trainer, backend = make(enable_sleep_mode=True, _llm_weights_sleeping=True)
    sampler.generate([[1]], ["a"])
    assert backend.asked == ["sync", "wake kv_cache", "sample a", "sleep 2"]
    backend.asked.clear()
    trainer._last_loaded_step = 0
    sampler.generate([[1]], ["b"])  # no step has passed, but sleeping threw the weights away
    assert backend.asked == ["sync", "wake kv_cache", "sample b", "sleep 2"]


def test_tensor_parallel_engines_are_asked_through_trl(make):
    sampler, _, backend = make(tensor_parallel_size=2)
    turns = sampler.generate([[1]], ["a"])
    assert (turns[0].ids, turns[0].logps, turns[0].cut) == ([7, 2], [-0.5, -0.1], False)
    assert backend.asked == []


def test_the_temperature_holds_for_both(make):
    sampler, _, backend = make()
    sampler.temperature = 0.0
    assert (sampler.temperature, backend.temperature) == (0.0, 0.0)


def test_waves_keep_every_context_whole_and_in_order():
    assert _waves([5, 5, 5], None) == [slice(0, 3)]
    assert _waves([3, 3, 3, 9, 1], 9) == [slice(0, 3), slice(3, 4), slice(4, 5)]
    assert _waves([4, 4], 8) == [slice(0, 2)]
    with pytest.raises(ValueError, match="context 1: 10 tokens, vLLM's CPU build reads 9 at once"):
        _waves([1, 10], 9)


def test_trls_backend_is_as_it_is_taken():
    check_vllm_contract()

    class Moved:
        def sync_weights(self, something) -> None: ...

    with pytest.raises(RuntimeError, match=r"VLLMGeneration.sync_weights takes"):
        check_vllm_contract(Moved)

    class Forgets:
        def sync_weights(self) -> None: ...
        def _init_vllm(self) -> None: ...

    with pytest.raises(RuntimeError, match=f"no longer sets {VLLM_STATE[0]}"):
        check_vllm_contract(Forgets)
