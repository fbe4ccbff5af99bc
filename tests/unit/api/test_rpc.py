"""Errors of calls."""

import pytest

from talos.api.rpc import Code, RpcError, format_reason
from talos.system.errors import UserError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RpcError(Code.UNAVAILABLE, "no route"), "no route"),
        (RpcError(Code.UNAVAILABLE, ""), "UNAVAILABLE"),
        (UserError("is none", where="size", hint="give one"), "size: is none (give one)"),
        (ValueError("no number"), "no number"),
    ],
)
def test_the_reason_of_an_error_is_its_message_or_the_name_of_its_code(error: Exception, reason: str) -> None:
    assert format_reason(error) == reason
