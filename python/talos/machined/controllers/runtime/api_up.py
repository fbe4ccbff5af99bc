"""When the node's API answers: a boot leaves for later what no client can read before."""

from talos.process.daemons import APID
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input

API_UP = Input(kinds.SERVICE, id=APID.name)
"""What a controller declares that waits."""


async def wait_for_api(runtime: ControllerRuntime) -> None:
    """Until apid has passed a health check."""
    while True:
        service = await runtime.get_or_none(kinds.SERVICE, APID.name)
        if service is not None and service.spec.healthy:
            return
        await runtime.wait_for_round()
