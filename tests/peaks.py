"""Real peaks of memory beside planned ones: a few optimizer steps of a run in this process.

python tests/peaks.py CONFIG [overrides]    # prints JSON: planned and measured GiB of the whole process, and the plan's parts

Config, data and model are used as they are. Where a model decides itself how long its rows are (RL), the plan is made for the
rows that it played, and every episode gets a quality of its own, so that no pass is left out for want of an advantage.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from envs.config import load_config  # noqa: E402  (the checkout comes first)
from envs.memory import GIB, parts, peak  # noqa: E402


def measure(recipe: str, overrides: list[str]) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    found = rl(recipe, overrides) if Path(recipe).name.startswith("rl") else sft(recipe, overrides)
    table = parts(found)
    return {
        "planned": round(peak(table)[0] / GIB, 3),
        "measured": round(high_water() / GIB, 3),
        "positions": found.tokens,
        "parts": {name: round(max(row.values()) / GIB, 3) for name, row in table.items()},
    }


def high_water() -> int:
    """Bytes of memory that this process has held at most since its program began.

    Not ``getrusage``: its figure outlives ``exec``, so that a child of a large test process would start with that one's memory.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def sft(recipe: str, overrides: list[str]) -> Any:
    from sft.config import SFTStageConfig
    from sft.memory import plan
    from sft.run import run

    config = load_config(SFTStageConfig, recipe, overrides)
    found = plan(config).work
    run(config)
    return found


def rl(recipe: str, overrides: list[str]) -> Any:
    from rl_moving import judge

    from envs.policies.hf import HFPolicy
    from rl.config import RLConfig
    from rl.passes import PackedPassTrainer
    from rl.plan import plan
    from rl.probes import ProbeGame
    from rl.run import run

    config = load_config(RLConfig, recipe, overrides)
    found = plan(config).work
    trees, contexts = [], []
    climb, generate = PackedPassTrainer._climb, HFPolicy.generate

    def climbed(self: Any, model: Any, tree: Any, shape: Any) -> Any:
        trees.append((tree.tokens.numel(), tree.sources.numel()))
        return climb(self, model, tree, shape)

    def generated(self: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        contexts.append(max(len(c) for c in given))
        return generate(self, given, *args, **kwargs)

    PackedPassTrainer._climb, HFPolicy.generate, ProbeGame.judge = climbed, generated, judge
    run(config, progress=False)
    tokens, scored = max(trees)
    sampling = dataclasses.replace(found.sampling, context=max(contexts))
    return dataclasses.replace(found, tokens=tokens, scored=scored, mask=tokens**2, sampling=sampling)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2:])))
