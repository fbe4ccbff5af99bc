"""What a config given to an empty machine would do to its disks."""

from talos.api.definitions import enums_pb2 as enums
from talos.config.model import Config
from talos.disks.install.plan import plan_install
from talos.machined.node.ports import Node
from talos.resource import ids, kinds
from talos.resource.state import NotFoundError

META, DEVICES = "META", "devices"


async def describe_disk_plan(node: Node, config: Config) -> str:
    """The plan as text; empty where nothing would be installed.

    Raises:
        UserError: when the config names no disk that can be used.
    """
    if node.platform.mode == "container" or await _is_installed(node):
        return ""
    if not await _knows_devices(node):
        return "The machine does not know its disks yet: repeat the dry run for the plan of the installation."
    plan = await plan_install(node.state, config)
    return "" if plan is None else plan.text()


async def _is_installed(node: Node) -> bool:
    try:
        status = await node.state.get(kinds.VOLUME_STATUS, META)
    except NotFoundError:
        return False
    return status.spec.phase == enums.VOLUME_PHASE_READY


async def _knows_devices(node: Node) -> bool:
    try:
        return (await node.state.get(*ids.DEVICES_STATUS)).spec.ready
    except NotFoundError:
        return False
