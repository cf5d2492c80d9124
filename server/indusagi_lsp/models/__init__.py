"""The models: providers, the bundled local model, retries, prices.

All model calls of the house go through here. Importing this package is cheap; the model libraries are
imported in a thread at the first call.
"""

from __future__ import annotations

from indusagi_lsp.models.breaker import CircuitBreaker
from indusagi_lsp.models.config import ModelsConfig, Provider, ProviderConfig, read_models_config
from indusagi_lsp.models.local import LocalModel
from indusagi_lsp.models.retry import RetryPolicy
from indusagi_lsp.models.service import Listed, Models, ModelSource, create_models

__all__ = [
    "CircuitBreaker",
    "Listed",
    "LocalModel",
    "ModelSource",
    "Models",
    "ModelsConfig",
    "Provider",
    "ProviderConfig",
    "RetryPolicy",
    "create_models",
    "read_models_config",
]
