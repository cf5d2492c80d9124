"""`create_agent`: the engine's door (seed: `createAgent`)."""

from __future__ import annotations

import os

from indusagi_lsp.conductor.agent import Agent
from indusagi_lsp.conductor.config import AgentConfig, AgentDeps
from indusagi_lsp.contract.models import ModelCard
from indusagi_lsp.contract.places import user_places


class _AnyModel:
    """The catalogue of a host that brings its own invoker: any name is a model, of which nothing is known."""

    def card(self, model: str, /) -> ModelCard:
        provider, _, name = model.rpartition(":")
        return ModelCard(model, provider or "custom", name)


def create_agent(config: AgentConfig, deps: AgentDeps | None = None) -> Agent:
    """Make an agent.

    Args:
        config: how it behaves.
        deps: the parts it works with; what is left out gets a default. Without `invoke_model` the models of the user's
            own environment are used.

    Returns:
        An idle agent. Nothing is read, written or started before its first use.
    """
    deps = deps or AgentDeps()
    if deps.invoke_model is not None:
        return Agent(config, deps, invoke=deps.invoke_model, catalogue=deps.catalogue or _AnyModel())

    from indusagi_lsp.models import ModelsConfig, create_models

    models = create_models(
        ModelsConfig(), environ=dict(os.environ), cache_dir=user_places(os.environ).cache, clock=deps.clock
    )
    return Agent(config, deps, invoke=models.invoke, catalogue=deps.catalogue or models)
