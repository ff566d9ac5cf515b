"""The model card of an export: a YAML head for the hub, and what a reader must know before trusting the weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

if TYPE_CHECKING:
    from rl.adapters import Shipped
    from rl.export import Export

TEMPLATES = Path(__file__).parent / "templates"


def card(about: Export) -> str:
    """The card's text."""
    from huggingface_hub import ModelCardData

    head = ModelCardData(
        license=about.base["licence"] or "unknown",
        base_model=about.base["hub"],
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=["context-management", "agents", about.stage],
    )
    return _template("model_card.md.j2").render(
        head=head.to_yaml(),
        about=about,
        run=about.run,
        settings=_lines(about.settings),
        trained=about.trained_with,
        profiles=", ".join(about.rules["protocol"]),
    )


def adapter_card(about: Shipped, chain: Sequence[str]) -> str:
    """The card of a shipped adapter; ``chain`` are the folders that a merge takes, this one last."""
    from huggingface_hub import ModelCardData

    from rl.origin import HUB

    hub, licence = HUB.get(about.base, (None, None))
    head = ModelCardData(
        license=licence or "unknown", base_model=hub, library_name="peft", tags=["context-management", "agents", about.stage]
    )
    names = list(about.rules.get("protocol", {}))
    return _template("adapter_card.md.j2").render(
        head=head.to_yaml(),
        about=about,
        chain=" ".join(chain),
        settings=_lines(about.settings),
        metrics=_lines(about.metrics) if about.metrics else "",
        profiles=", ".join(names) or "core@1",
        plain=bool(names) and all(name.startswith("plain@") for name in names),
    )


def _template(name: str) -> Template:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=False,  # noqa: S701 (Markdown)
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(name)


def _lines(value: dict[str, Any]) -> str:
    """Settings as YAML, for a code block."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110).rstrip()
