"""A finished data set on the Hugging Face Hub: its files as a dataset repository, the data card as its README."""

from __future__ import annotations

import os
from pathlib import Path

from data_gen.run import FILES
from envs.config import ConfigError

LOGIN = "log in with `hf auth login`, or set HF_TOKEN"


def push(out: Path, repo: str, private: bool = False) -> str:
    """Upload a finished folder; returns the address. Raises ConfigError, in one line, when it is not finished or the Hub refuses."""
    if missing := [f for f in ("done.json", *FILES) if not (out / f).exists()]:
        raise ConfigError(f"push: {out}: {missing[0]} is not there: finish the set with python -m data_gen (or merge) first")
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise ConfigError("push: HF_HUB_OFFLINE is set, so nothing is sent: unset it (HF_HUB_OFFLINE=0) and " + LOGIN)
    import httpx
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OfflineModeIsEnabled

    files = [f for f in FILES if f != "card.md"] + ["config.yaml"]
    operations = [CommitOperationAdd(path_in_repo=f, path_or_fileobj=str(out / f)) for f in files]
    operations.append(CommitOperationAdd(path_in_repo="README.md", path_or_fileobj=str(out / "card.md")))
    try:
        api = HfApi()
        address = api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
        api.create_commit(repo, operations, commit_message="Data set made by ctxctl", repo_type="dataset")
    except (HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OfflineModeIsEnabled, httpx.HTTPError, OSError) as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise ConfigError(
            f"push: {repo}: the Hub could not take it ({said}): check the name and the network, and {LOGIN}"
        ) from None
    return str(address)
