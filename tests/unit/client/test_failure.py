"""Errors of calls as one line."""

import pytest

from talos.api.rpc import Code, RpcError
from talos.client.failure import describe
from talos.client.target import Target
from talos.system.errors import UserError

ONLY_THIS = "without a client certificate a node in maintenance mode allows only this much"


@pytest.mark.parametrize(
    ("error", "is_insecure", "text"),
    [
        (RpcError(Code.NOT_FOUND, "no such file"), False, "rpc error: code = NotFound desc = no such file"),
        (RpcError(Code.DEADLINE_EXCEEDED, ""), False, "rpc error: code = DeadlineExceeded"),
        (
            RpcError(Code.PERMISSION_DENIED, "not authorized"),
            False,
            "rpc error: code = PermissionDenied desc = not authorized",
        ),
        (
            RpcError(Code.PERMISSION_DENIED, ""),
            True,
            f"rpc error: code = PermissionDenied: {ONLY_THIS}",
        ),
        (UserError("is none", where="size"), False, "size: is none"),
    ],
)
def test_an_error_has_its_code_and_the_remedy(
    error: RpcError | UserError, text: str, *, is_insecure: bool
) -> None:
    assert describe(error, Target(endpoints=(), nodes=(), insecure=is_insecure)) == text
