"""Asks a server which models it has, quickly, and only when models are listed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from indusagi_lsp.models.config import Provider

_LARGEST = 1 << 20


def list_models(provider: Provider, *, timeout: float = 0.7) -> list[str] | None:
    """Ask for the models of a server that speaks OpenAI's format. Blocks: call it in a thread.

    Args:
        provider: whom to ask.
        timeout: seconds for each step.

    Returns:
        Their names; None if it does not answer, or answers something else.
    """
    import http.client

    parts = urlsplit(provider.base_url)
    cls = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = cls(parts.hostname or "", parts.port, timeout=timeout)
    headers = {"Authorization": f"Bearer {provider.key}"} if provider.key else {}
    try:
        connection.request("GET", f"{parts.path}/models", headers=headers)
        response = connection.getresponse()
        data = json.loads(response.read(_LARGEST)) if response.status == 200 else None
        models = data["data"] if isinstance(data, dict) else None
        return [model["id"] for model in models if isinstance(model["id"], str)] if models is not None else None
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()
