"""KubePrism's controllers."""

import socket
from contextlib import suppress

import trio
import trio.testing

from talos.api.definitions.k8s_pb2 import KubePrismConfigSpec
from talos.kubed.controllers.prism import PrismController
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState


async def test_an_address_that_is_not_there_yet_is_listened_at_later() -> None:
    """The loopback interface may come up after this daemon."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    held.listen()
    port = held.getsockname()[1]
    state = MemoryState()
    await put(state, *ids.KUBE_PRISM_CONFIG, KubePrismConfigSpec(host="127.0.0.1", port=port))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [PrismController()])
        await trio.testing.wait_all_tasks_blocked(0.05)
        held.close()
        while True:
            with suppress(OSError):
                await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
                break
            await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
