"""Errors of calls as one line."""

import pytest

from talos.api.rpc import Code, RpcError
from talos.client.failure import describe
from talos.client.target import Target
from talos.system.errors import UserError


@pytest.mark.parametrize(
    ("error", "is_insecure", "text"),
    [
        (RpcError(Code.NOT_FOUND, "no such file"), False, "no such file (NotFound)"),
        (RpcError(Code.DEADLINE_EXCEEDED, ""), False, "DeadlineExceeded"),
        (RpcError(Code.PERMISSION_DENIED, "not authorized"), False, "not authorized (PermissionDenied)"),
        (
            RpcError(Code.PERMISSION_DENIED, ""),
            True,
            "PermissionDenied: without a client certificate a node in maintenance mode allows only this much",
        ),
        (UserError("is none", where="size"), False, "size: is none"),
    ],
)
def test_an_error_has_its_code_and_the_remedy(
    error: RpcError | UserError, text: str, *, is_insecure: bool
) -> None:
    assert describe(error, Target(endpoints=(), nodes=(), insecure=is_insecure)) == text
