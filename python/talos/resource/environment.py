"""The environment of the node's programs, with the config's variables, as a controller reads it."""

from collections.abc import Mapping

from talos.resource import ids
from talos.resource.controller.controller import ControllerRuntime
from talos.system.net.proxies import parse_environment


async def read_environment(runtime: ControllerRuntime) -> Mapping[str, str]:
    """The variables, proxies among them; none before they are known."""
    environment = await runtime.get_or_none(*ids.ENVIRONMENT)
    return parse_environment(environment.spec.variables) if environment else {}
