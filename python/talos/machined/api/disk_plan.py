"""What a config given to an empty machine would do to its disks."""

from talos.config.model import Config
from talos.disks.devices import are_devices_ready
from talos.disks.install.array import describe_new_array
from talos.disks.install.plan import plan_install
from talos.disks.installation import is_installed
from talos.machined.node.ports.node import Node
from talos.system.block.layout import INSTALLED
from talos.upgrade.slots.port import DiskSlots


async def describe_disk_plan(node: Node, config: Config) -> str:
    """The plan as text; empty where nothing would be installed.

    UserError: when the config names no disk that can be used.
    """
    if not node.platform.has_disks or await is_installed(node.state):
        return ""
    if not await are_devices_ready(node.state):
        return "The disks are not discovered yet: repeat the dry run for the plan of the installation."
    slots = node.upgrades.slots
    areas = slots.areas if isinstance(slots, DiskSlots) else INSTALLED
    if text := await describe_new_array(node.state, config, areas):
        return text
    plan = await plan_install(node.state, config, areas=areas)
    return "" if plan is None else plan.text()
