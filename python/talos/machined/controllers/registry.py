"""Every controller that runs in machined: one plain list."""

from collections.abc import Callable
from dataclasses import dataclass

from talos.daemon.bridge import Bridge
from talos.daemon.logging import Log
from talos.machined.controllers.config.machine_type import MachineTypeController
from talos.machined.controllers.files.etc_file import EtcFileController
from talos.machined.controllers.runtime.machine_status import MachineStatusController
from talos.machined.controllers.runtime.maintenance import (
    ApiServiceConfigController,
    MaintenanceConfigController,
)
from talos.machined.controllers.secrets.all import make_controllers as make_secrets_controllers
from talos.machined.etc_files import EtcFiles
from talos.machined.node import Node
from talos.machined.stage import MachineStage
from talos.resource.controller import Controller


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What controllers are made with, beside the State that they run against."""

    node: Node
    stage: MachineStage
    etc: EtcFiles
    set_hostname: Callable[[str], None]
    bridge: Bridge
    log: Log


def make_controllers(parts: Parts) -> list[Controller]:
    """All of them."""
    return [
        MachineTypeController(),
        EtcFileController(parts.etc, parts.set_hostname),
        MachineStatusController(parts.stage, parts.node.events.publish),
        ApiServiceConfigController(),
        MaintenanceConfigController(parts.stage, parts.log),
        *make_secrets_controllers(parts.bridge),
    ]
