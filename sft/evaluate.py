"""Teacher-forced validation: the loss on held-out rows, and how many turns greedy decoding would reproduce exactly.

A turn is exact when, given the recorded text before each of its tokens, every one is the model's first choice. That is a
necessary condition for playing it; whether sessions are solved is the evaluation stage's question.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tqdm import tqdm

from envs.chat import ChatML
from envs.samples import COLUMNS, sample_row
from envs.scoring import score
from envs.trajectory import Trajectory
from sft.rows import IGNORE, Row
from sft.shared import build_tree, can_share, tree_states

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BATCH = 16
SAMPLE_COLUMNS = (*COLUMNS, "exact_turns")


@torch.no_grad()
def teacher_forced(model: PreTrainedModel, rows: Sequence[Row], progress: bool = False) -> dict[str, Any]:
    """Loss in nats a token, token accuracy, and exact turns, in all, by kind of trajectory and by family (``None`` without rows)."""
    model.eval()
    loss = correct = tokens = 0.0
    turns: dict[str, list[bool]] = defaultdict(list)
    families: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    ordered = sorted(rows, key=lambda r: r.input_ids)  # neighbours share prefixes
    for start in tqdm(range(0, len(ordered), BATCH), desc="held out", unit="batch", disable=not progress):
        batch = ordered[start : start + BATCH]
        for row, hidden in zip(batch, _states(model, batch), strict=True):
            labels = torch.tensor(row.labels[1:], device=hidden.device)
            mask = labels != IGNORE
            logits = model.get_output_embeddings()(hidden[:-1][mask]).float()
            row_loss = torch.nn.functional.cross_entropy(logits, labels[mask], reduction="sum").item()
            loss += row_loss
            hits = torch.ones_like(mask)
            hits[mask] = logits.argmax(-1) == labels[mask]
            correct += hits[mask].sum().item()
            tokens += mask.sum().item()
            exact_here = [bool(hits[a - 1 : b - 1].all()) for a, b in row.turns()]
            turns[row.kind] += exact_here
            part = (row_loss, mask.sum().item(), sum(exact_here), len(exact_here))
            families[row.family] = [a + b for a, b in zip(families[row.family], part, strict=True)]
    every = [exact for kind in turns.values() for exact in kind]
    return {
        "rows": len(rows),
        "turns": len(every),
        "loss": loss / tokens if tokens else None,
        "token_accuracy": correct / tokens if tokens else None,
        "exact_turns": sum(every) / len(every) if every else None,
        "exact_turns_by_kind": {kind: sum(v) / len(v) for kind, v in sorted(turns.items())},
        "by_family": {
            name: {"loss": total / n, "exact_turns": hits / turns} for name, (total, n, hits, turns) in sorted(families.items())
        },
    }


def tracked(result: Mapping[str, Any]) -> dict[str, float]:
    """A result of :func:`teacher_forced` under the names of tracking: ``val/<metric>`` and ``val/<metric>/<family>``."""
    out = {f"val/{name}": result[name] for name in ("loss", "token_accuracy", "exact_turns")}
    for family, figures in result["by_family"].items():
        out |= {f"val/{name}/{family}": value for name, value in figures.items()}
    return {name: value for name, value in out.items() if value is not None}


@torch.no_grad()
def first_choices(model: PreTrainedModel, row: Row) -> list[list[int]]:
    """For each trained turn of a row, the token that is first choice at each of its places, given the recorded text before."""
    model.eval()
    (hidden,) = _states(model, [row])
    head = model.get_output_embeddings()
    return [head(hidden[a - 1 : b - 1]).argmax(-1).tolist() for a, b in row.turns()]


def sample_rows(model: PreTrainedModel, chat: ChatML, trajectories: Sequence[Trajectory], rows: Sequence[Row]) -> list[list[Any]]:
    """Rows of :data:`SAMPLE_COLUMNS`: held-out episodes as recorded, and what the model would have said where it differs.

    ``q`` is the recorded episode's, ``exact_turns`` the share of its trained turns that the model gives word for word.
    """
    table = []
    for trajectory in trajectories:
        choices = [c for row in rows if row.trajectory == trajectory.id for c in first_choices(model, row)]
        trained = [i for i in trajectory.inferences if i.trained and i.ids]
        same = [choice == list(i.ids) for choice, i in zip(choices, trained, strict=True)]
        said = iter(None if ok else chat.decode(choice) for ok, choice in zip(same, choices, strict=True))
        own = [next(said) if i.trained and i.ids else None for i in trajectory.inferences]
        table.append([*sample_row(trajectory, score(trajectory).q, own), sum(same) / len(same) if same else None])
    return table


def _states(model: PreTrainedModel, batch: Sequence[Row]) -> Iterator[torch.Tensor]:
    """Last hidden states of each row."""
    rows = [row.input_ids for row in batch]
    if can_share(model):
        tree = build_tree(rows)
        packed = tree_states(model, tree)
        yield from (packed[index.to(packed.device)] for index in tree.index)
    else:
        yield from (model.base_model(torch.tensor([ids], device=model.device)).last_hidden_state[0] for ids in rows)
