from __future__ import annotations

import inspect

from indusagi_lsp.contract import errors as contract
from indusagi_lsp.protocol import errors


def test_every_kind_of_error_has_a_code():
    kinds = {
        cls.kind for cls in vars(contract).values() if inspect.isclass(cls) and issubclass(cls, contract.IndusagiError)
    }
    assert kinds <= set(errors.CODES)


def test_ours_carry_their_words():
    error = errors.error_of(contract.SessionNotFound("x"))
    assert error["code"] == errors.CODES["session_not_found"]
    assert "'x'" in error["message"]
    assert error["data"]["kind"] == "session_not_found"
    assert error["data"]["hint"]


def test_a_new_kind_has_a_code_too():
    class Odd(contract.IndusagiError):
        kind = "odd"

    assert errors.error_of(Odd("x"))["code"] == errors.OTHER


def test_anything_else_says_nothing_of_itself():
    error = errors.error_of(ValueError("/home/secret"))
    assert error["code"] == errors.INTERNAL_ERROR
    assert "secret" not in str(error)
