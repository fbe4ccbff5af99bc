"""What PID 1 sends the zygote to start a daemon."""

from talos.machined.services.spec import ENVIRONMENT
from talos.machined.services.zygote import ForkRequest, parse_request
from talos.system.sandbox import Paths


def test_a_request_is_the_same_after_the_socket() -> None:
    request = ForkRequest(
        module="sample",
        title="sample",
        uid=1,
        gid=2,
        capabilities=(3,),
        paths=Paths(readable=("/a", "/b"), writable=("/c",)),
        sockets=("/d",),
        families=(2, 10),
        environment=ENVIRONMENT,
    )
    assert parse_request(request.encode()) == request
