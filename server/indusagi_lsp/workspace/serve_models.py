"""The operation on models."""

from __future__ import annotations

from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.views import model_info
from indusagi_lsp.workspace.host import Host

HINT = (
    "Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, run Ollama, or name a provider of your own in {config}; "
    "then choose a model by `provider:name`."
)


async def listing(host: Host, params: m.WorkspaceParams) -> m.ModelsListResult:
    """`models/list`: what can be named here, what of it would answer now, and how to set a better one."""
    models = [model_info(one.card, available=one.available, note=one.note) for one in await host.models.list()]
    return m.ModelsListResult(models=models, current=host.model_id, hint=HINT.format(config=host.places.config_file))
