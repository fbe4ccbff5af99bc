"""How long the reason of a failed call may be."""

from urllib.parse import quote

import pytest

from talos.api.rpc import Code, RpcError
from talos.rpc.status import MAX_MESSAGE_LENGTH, to_rpc_error
from talos.system.errors import UserError
from talos.system.logging import Log

LOG = Log(write=lambda _: None)


@pytest.mark.parametrize("text", ["mistake", "mistake\n", "ü", "%", "\ud800"])
def test_a_long_reason_begins_with_what_matters(text: str) -> None:
    message = text * (1_000_000 // len(text))
    error = to_rpc_error(UserError(message), "/m", LOG)
    known = to_rpc_error(RpcError(Code.NOT_FOUND, message), "/m", LOG)
    assert (known.code, known.message) == (Code.NOT_FOUND, error.message)
    assert error.code is Code.INVALID_ARGUMENT
    assert len(quote(error.message.encode(errors="replace"), safe="")) <= 3 * (MAX_MESSAGE_LENGTH + 100)
    shown, _, rest = error.message.partition("… (")
    assert message.startswith(shown)
    assert rest == f"{len(message) - len(shown)} more characters)"


def test_a_short_one_stays() -> None:
    for size in (1, 1000, 4096):
        assert to_rpc_error(UserError("x" * size), "/m", LOG).message == "x" * size
