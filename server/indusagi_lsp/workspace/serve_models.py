"""The operation on models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.views import model_info
from indusagi_lsp.workspace.host import Host

OLLAMA = "ollama"


async def listing(host: Host, params: m.WorkspaceParams) -> m.ModelsListResult:
    """`models/list`: what can be named here, what of it would answer now, and how to set a better one."""
    models = [model_info(one.card, available=one.available, note=one.note) for one in await host.models.list()]
    return m.ModelsListResult(models=models, current=host.model_id, hint=hint(models, host.places.config_file))


def hint(models: Sequence[m.ModelInfo], config: Path) -> str:
    """How to have a better model than the one in use; what is at hand already comes first.

    Args:
        models: what is listed.
        config: the user's configuration file.
    """
    running = [model.id for model in models if model.provider == OLLAMA and model.available]
    offer = f"Ollama is running here: choose {' or '.join(running[:3])}. " if running else ""
    ways = "Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY"
    ways += "" if running else ", run Ollama"
    return f"{offer}{ways}, or name a provider of your own in {config}; then choose a model by `provider:name`."
