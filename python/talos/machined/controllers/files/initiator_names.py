"""EtcFileSpec: the names by which this machine requests disks over iSCSI and NVMe, as upstream makes them."""

import uuid
from typing import override

from talos.api.definitions.files_pb2 import EtcFileSpecSpec
from talos.machined.node.identity import Identity
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

NAMING_AUTHORITY = "2017-11.dev.talos"
MODE = 0o600


class InitiatorNamesController(Reconciler):
    """Identity → EtcFileSpec of three files that initiators in containers read."""

    name = "files.InitiatorNamesController"
    inputs = (Input(*ids.IDENTITY),)
    outputs = (Output(kinds.ETC_FILE_SPEC, shared=True),)

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        identity = await runtime.get_or_none(*ids.IDENTITY)
        if identity is None:
            return
        for name, text in make_files(Identity(identity.spec.node_id).machine_id).items():
            spec = EtcFileSpecSpec(contents=text.encode(), mode=MODE)
            await runtime.put(kinds.ETC_FILE_SPEC, name, spec)


def make_files(machine_id: str) -> dict[str, str]:
    """The files below /etc, by the 32 digits of ``/etc/machine-id``."""
    host = uuid.UUID(bytes=machine_id[:16].encode("ascii"))
    return {
        "iscsi/initiatorname.iscsi": f"InitiatorName=iqn.{NAMING_AUTHORITY}:{machine_id}\n",
        "nvme/hostid": str(host),
        "nvme/hostnqn": f"nqn.{NAMING_AUTHORITY}:uuid:{host}",
    }
