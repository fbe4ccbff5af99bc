"""The objects of PID 1, constructed once, for the boot sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from talos.machined.boot.power import PowerSequences
from talos.machined.boot.sequence import Sequencer
from talos.machined.logs.crash import CrashLog
from talos.machined.logs.kernel import DeviceKernelLog
from talos.machined.logs.store import LogStore
from talos.machined.node.debug_containers import DebugContainers
from talos.machined.node.etc_files import EtcFiles
from talos.machined.node.etcd import EtcdControl
from talos.machined.node.events import EventLog
from talos.machined.node.identity import Identity
from talos.machined.node.key_requests import KeyRequests
from talos.machined.node.meta_store import MetaStore
from talos.machined.node.stage import MachineStage
from talos.machined.node.sysctls import KernelParams
from talos.machined.node.workloads import Workloads
from talos.machined.platform.platform import PlatformPort
from talos.machined.services.processes import ProcessRunner
from talos.machined.services.reaper import Reaper
from talos.machined.services.supervisor import Supervisor
from talos.machined.services.zygote_client import Zygote
from talos.process.run import Daemon
from talos.resource.memory.state import MemoryState
from talos.system.cgroups import Groups
from talos.system.files import Files
from talos.system.logging import Log
from talos.system.mounts import Mounts
from talos.system.power import PowerSwitch
from talos.system.proc.sysctl import Sysctls
from talos.upgrade.session import Upgrades
from talos.upgrade.slots.open_keys import OpenKeys

STATE_DIR = Path("/system/state")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPorts:
    """The interfaces to the kernel that PID 1 uses."""

    files: Files
    mounts: Mounts
    groups: Groups
    sysctls: Sysctls
    power: PowerSwitch


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """All objects. Tasks that outlive a sequence run in ``nursery``."""

    daemon: Daemon
    log: Log
    controllers_log: Log
    ports: SystemPorts
    platform: PlatformPort
    identity: Identity
    state: MemoryState
    stage: MachineStage
    events: EventLog
    logs: LogStore
    crash: CrashLog
    kernel_log: DeviceKernelLog
    reaper: Reaper
    zygote: Zygote
    supervisor: Supervisor
    sequencer: Sequencer
    power: PowerSequences
    etcd: EtcdControl
    etc: EtcFiles
    params: KernelParams
    processes: ProcessRunner
    meta: MetaStore
    keys: KeyRequests
    open_keys: OpenKeys
    upgrades: Upgrades
    workloads: Workloads
    debug_containers: DebugContainers
    extensions: Sequence[str]
    """The services of system extensions."""
    nursery: trio.Nursery

    def show_identity(self, identity: Identity) -> None:
        """Write the machine's identity to /etc, where programs look it up."""
        self.etc.write("machine-id", identity.machine_id + "\n", mode=0o444)
