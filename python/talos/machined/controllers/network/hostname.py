"""The host name: from the command line into the State, from the State into the kernel.

networkd decides which name holds; telling the kernel takes a privilege it doesn't have.
"""

import logging
import socket
from collections.abc import Callable

from talos.api.definitions import enums_pb2
from talos.machined.controllers.network.platform_config import make_hostname
from talos.resource import kinds
from talos.resource.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system import kernel
from talos.system.cmdline import Cmdline

log = logging.getLogger(__name__)

CONFIG_NAMESPACE = "network-config"
HOSTNAME_ID = "hostname"
ARGUMENT = "talos.hostname"


class CmdlineHostnameController(Reconciler):
    """Writes the HostnameSpec of the layer ``cmdline``."""

    name = "network.HostnameCmdlineController"
    outputs = (Output(kinds.HOSTNAME_SPEC, shared=True),)

    def __init__(self, cmdline: Cmdline) -> None:
        self._cmdline = cmdline

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """The command line doesn't change while we run."""
        name = self._cmdline.first(ARGUMENT)
        if name:
            spec = make_hostname(name, enums_pb2.CONFIG_CMDLINE)
            await runtime.modify(
                kinds.HOSTNAME_SPEC,
                f"cmdline/{HOSTNAME_ID}",
                lambda old: old.CopyFrom(spec),
                namespace=CONFIG_NAMESPACE,
            )


class KernelHostnameController(Reconciler):
    """Gives the kernel the name that HostnameStatus says."""

    name = "network.KernelHostnameController"
    inputs = (Input(kinds.HOSTNAME_STATUS, id=HOSTNAME_ID),)

    def __init__(
        self,
        read: Callable[[], str] = socket.gethostname,
        write: Callable[[str], None] = kernel.set_hostname,
    ) -> None:
        self._read = read
        self._write = write

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write it when it differs."""
        status = await runtime.get_or_none(kinds.HOSTNAME_STATUS, HOSTNAME_ID)
        if status is not None and status.spec.hostname != self._read():
            log.info("the host name is %s", status.spec.hostname)
            self._write(status.spec.hostname)
