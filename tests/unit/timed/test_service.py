"""time.TimeService: the node's clock beside those of servers."""

import pytest
from google.protobuf.empty_pb2 import Empty

from talos.api.rpc import Call, Code, RpcError
from talos.api.time.time_pb2 import TimeRequest
from talos.timed.ntp.packet import Sample
from talos.timed.service import TimeService

NOW = 1_800_000_000.25
CALL = Call(method="/time.TimeService/Time", metadata={}, deadline=float("inf"), peer="")


async def test_time_takes_the_first_server_that_answers() -> None:
    async def servers() -> list[str]:
        return ["dead", "alive"]

    async def query_twin(name: str) -> Sample:
        if name == "dead":
            raise RpcError(Code.UNAVAILABLE, "dead")
        return Sample(server=name, local=NOW, offset=1.0, delay=0.0, distance=0.0)

    service = TimeService(servers, query_twin)
    message = (await service.time(Empty(), CALL)).messages[0]
    assert (message.server, message.localtime.seconds) == ("alive", 1_800_000_000)
    assert message.remotetime.ToNanoseconds() - message.localtime.ToNanoseconds() == 1_000_000_000
    with pytest.raises(RpcError, match="dead"):
        await service.check(TimeRequest(server="dead"), CALL)
    with pytest.raises(RpcError, match="no time server is named"):
        await service.check(TimeRequest(), CALL)
