"""The model card of an export: a YAML head for the hub, and what a reader must know before trusting the weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
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
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=False,  # noqa: S701 (Markdown)
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("model_card.md.j2").render(
        head=head.to_yaml(),
        about=about,
        run=about.run,
        settings=_lines(about.settings),
        trained=about.trained_with,
        profiles=", ".join(about.rules["protocol"]),
    )


def _lines(value: dict[str, Any]) -> str:
    """Settings as YAML, for a code block."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110).rstrip()
