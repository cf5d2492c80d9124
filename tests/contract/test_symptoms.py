"""Each symptom in the list has its tests, and they are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.symptoms import SYMPTOMS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_every_symptom_has_a_test(symptom):
    assert SYMPTOMS[symptom]
    for file, name in SYMPTOMS[symptom]:
        text = (ROOT / file).read_text("utf-8")
        wanted = f"def {name}(" if file.endswith(".py") else name
        assert wanted in text, f"{file} has no {name}"
