"""Every data kind under every profile that is trained on: right, refused where it errs, and rebuilt to the token."""

from __future__ import annotations

from collections import Counter

import pytest

from data_gen.build import build
from data_gen.config import Counts, DataConfig, Sizes
from envs.tasks import HELD_OUT_FAMILIES, TRAIN_FAMILIES
from envs.tasks.base import DAMAGED
from sft.rows import build_rows

COUNTS = {
    "direct": 2, "managed": 4, "recovery": 18, "rich": 9, "plain": 3, "static": 2, "variants": 9, "changed": 2, "keep": 0, "other": 0,
    "never": 0, "never_open": 0,
}  # fmt: skip


@pytest.fixture(scope="module", params=["core@1", "unified@4", "unified@4-compact"])
def made(request):
    config = DataConfig(
        profile=request.param, families=TRAIN_FAMILIES, counts=Counts(**COUNTS), sizes=Sizes(turns=(2, 6), fillers=(4, 10)),
        val_bases=9, val_mix=("variants", "static", "changed"), rl_bases=0,
    )  # fmt: skip
    return request.param, build(config)


def test_every_kind_and_variant_is_there_and_no_held_out_family(made):
    profile, data = made
    kinds = Counter(t.kind for t in data.trajectories)
    assert set(kinds) == {"direct", "managed", "recovery", "rich", "plain", "detect"}
    assert {t.family for t in data.trajectories} == set(TRAIN_FAMILIES)
    assert not {t.family for t in data.trajectories} & set(HELD_OUT_FAMILIES)
    assert {t.profile for t in data.trajectories} == {profile, "plain@1"}
    variants = {t.variant for t in data.trajectories if t.variant}
    wanted = set(DAMAGED) - {"windowed"} if profile == "core@1" else set(DAMAGED)
    assert variants >= wanted | {"present", "fabricated", "irrelevant_gap"}
    assert all(t.prompt == "neutral" for t in data.trajectories)


def test_errors_are_refused_and_masked_and_the_rest_is_trained(made):
    profile, data = made
    codes = Counter()
    for t in data.trajectories:
        for i in t.inferences:
            if t.kind == "recovery" and not t.probe and not i.trained:
                codes.update(o.code for o in i.outcomes if o.code not in ("ok", "result", "shown"))
    assert sum(codes.values()) >= 10
    if profile != "core@1":
        assert codes["wrong_window"], codes
    assert codes["bad_arguments"] + codes["notice"] + codes["unknown_tool"]


def test_rows_rebuild_to_the_token(made, chat):
    _, data = made
    rows, counts = build_rows(data.trajectories, chat, 8192)
    assert counts.rows == len(rows)
    assert counts.trained_tokens > 1000
    assert counts.untrained_inferences > 0


def test_a_probe_that_no_view_can_tell_is_never_trained(made):
    _, data = made
    assert not [t for t in data.trajectories if t.variant == "corrupted" and t.signal == "none"]
    assert [p for p in data.val_probes if p.variant == "corrupted" and p.signal == "none"], "it is evaluated"
