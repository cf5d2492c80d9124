"""A workspace."""

from __future__ import annotations

import pytest


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "ws"
    root.mkdir()
    return root
