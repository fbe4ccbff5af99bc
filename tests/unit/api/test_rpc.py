"""Errors of calls."""

from talos.api.rpc import Code, RpcError


def test_an_error_without_a_message_has_its_code_as_the_reason() -> None:
    assert RpcError(Code.UNAVAILABLE, "no route").reason == "no route"
    assert RpcError(Code.UNAVAILABLE, "").reason == "UNAVAILABLE"
