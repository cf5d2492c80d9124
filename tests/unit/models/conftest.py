from __future__ import annotations

import pytest

from support.model_bench import Bench


@pytest.fixture
async def bench(tmp_path):
    bench = Bench(tmp_path / "cache")
    yield bench
    for models in bench.made:
        await models.close()
