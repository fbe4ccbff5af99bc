"""What PID 1 sends the zygote to start a process."""

import pytest

from talos.machined.services.spec import ENVIRONMENT
from talos.machined.services.zygote_request import (
    ExecuteRequest,
    ForkRequest,
    IsolateRequest,
    Request,
    format_request,
    parse_request,
)
from talos.system.sandbox import Paths


@pytest.mark.parametrize(
    "request_",
    [
        ForkRequest(
            module="sample",
            title="sample",
            uid=1,
            gid=2,
            capabilities=(3,),
            paths=Paths(readable=("/a", "/b"), writable=("/c",)),
            sockets=("/d",),
            families=(2, 10),
            environment=ENVIRONMENT,
        ),
        IsolateRequest(title="sandboxd"),
        ExecuteRequest(argv=("/bin/true", "1"), environment=ENVIRONMENT),
    ],
)
def test_a_request_is_the_same_after_the_socket(request_: Request) -> None:
    assert parse_request(format_request(request_)) == request_
