"""What kubed reads in Kubernetes for PID 1, at an endpoint that a caller of the API has named."""

from typing import Any, cast

import pytest

from talos.api.internal.kubelet_pb2 import ReadRequest
from talos.api.rpc import Call, Code, RpcError
from talos.kubed.kubelet_service import KubeletService
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

from .controllers.test_certificates import ROOT


@pytest.mark.parametrize(
    ("endpoint", "code"),
    [
        ("https://[::1", Code.INVALID_ARGUMENT),
        ("https://10.0.0.1:port", Code.INVALID_ARGUMENT),
        ("https://a..b:6443", Code.UNAVAILABLE),
    ],
)
async def test_an_endpoint_that_is_none_is_refused(endpoint: str, code: Code) -> None:
    state = MemoryState()
    await put(state, *ids.KUBERNETES_ROOT_SECRET, ROOT)
    nothing = cast("Any", None)
    service = KubeletService(state, nothing, nothing, Log(write=lambda _: None))
    with pytest.raises(RpcError) as refused:
        await service.read(ReadRequest(path="/api/v1/nodes", endpoint=endpoint), cast("Call", None))
    assert refused.value.code is code
