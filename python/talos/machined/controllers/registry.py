"""The list of controllers in machined."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from talos.disks.image_cache import CacheDisks
from talos.disks.raid.provide import DeviceReader
from talos.extensions.cri import PARTS
from talos.machined.controllers.block.diagnostics import VolumeDiagnosticsController
from talos.machined.controllers.block.kmsd import KeyDaemonController
from talos.machined.controllers.block.mount_request import MountRequestController
from talos.machined.controllers.block.next_keys import NextKeysController
from talos.machined.controllers.block.scrub import FSScrubController
from talos.machined.controllers.block.swap_status import SwapStatusController
from talos.machined.controllers.block.system_disk import SystemDiskController
from talos.machined.controllers.block.trim import VolumeTrimController
from talos.machined.controllers.block.user_disks import UserDiskConfigController
from talos.machined.controllers.block.volume_config import VolumeConfigController
from talos.machined.controllers.block.volume_manager import VolumeManagerController
from talos.machined.controllers.block.volume_settler import VolumeContext
from talos.machined.controllers.block.zswap_status import ZswapStatusController
from talos.machined.controllers.cluster.identity import NodeIdentityController
from talos.machined.controllers.config.machine_type import MachineTypeController
from talos.machined.controllers.config.persistence import PersistenceController
from talos.machined.controllers.cri.config_files import CRIConfigFilesController
from talos.machined.controllers.cri.customization import CustomizationConfigController
from talos.machined.controllers.cri.image_cache import ImageCacheConfigController
from talos.machined.controllers.cri.registries import RegistriesConfigController
from talos.machined.controllers.cri.runtime_spec import RuntimeSpecConfigController
from talos.machined.controllers.cri.seccomp_profile import (
    SeccompProfileController,
    SeccompProfileFileController,
)
from talos.machined.controllers.etcd.pki import EtcdPKIController
from talos.machined.controllers.files.etc_file import EtcFileController
from talos.machined.controllers.files.etc_file_config import (
    EtcFileConfigController,
    TrustedRootsController,
    UdevRulesFileController,
)
from talos.machined.controllers.files.initiator_names import InitiatorNamesController
from talos.machined.controllers.hardware.inventory import HardwareInventoryController
from talos.machined.controllers.hardware.pcr_status import PCRStatusController
from talos.machined.controllers.k8s.address_filter import AddressFilterController
from talos.machined.controllers.k8s.address_overlap import AddressOverlapController
from talos.machined.controllers.k8s.etcd_encryption import EtcdEncryptionConfigController
from talos.machined.controllers.k8s.kubelet import KubeletConfigController, KubeletSpecController
from talos.machined.controllers.k8s.kubelet_identity import KubeletIdentityController
from talos.machined.controllers.k8s.kubelet_kubeconfig import KubeletKubeconfigController
from talos.machined.controllers.k8s.kubelet_service import KubeletServiceController
from talos.machined.controllers.k8s.static_pod_files import (
    StaticPodConfigsController,
    StaticPodSecretsController,
)
from talos.machined.controllers.k8s.user_pods import UserPodController
from talos.machined.controllers.kubespan.identity import KubeSpanIdentityController
from talos.machined.controllers.network.address_event import AddressEventController
from talos.machined.controllers.network.bgp_service import BGPServiceController
from talos.machined.controllers.network.config import (
    HostDNSConfigController,
    NodeAddressSortAlgorithmController,
)
from talos.machined.controllers.network.etc_file import NetworkEtcFileController
from talos.machined.controllers.network.platform_config import PlatformNetworkController
from talos.machined.controllers.perf.stats import StatsController
from talos.machined.controllers.runtime.boot_confirmation import BootConfirmationController
from talos.machined.controllers.runtime.booted_entry import BootedEntryController
from talos.machined.controllers.runtime.console_logs import ConsoleLogsController
from talos.machined.controllers.runtime.environment import EnvironmentController
from talos.machined.controllers.runtime.extensions import (
    ExtensionServiceConfigController,
    ExtensionServiceConfigFilesController,
    ExtensionStatusController,
)
from talos.machined.controllers.runtime.image_gc import CRIImageGCController
from talos.machined.controllers.runtime.kernel_modules import KernelModuleStatusController
from talos.machined.controllers.runtime.kernel_params import (
    KernelParamConfigController,
    KernelParamDefaultsController,
    KernelParamSpecController,
)
from talos.machined.controllers.runtime.log_sinks import (
    EventsSinkConfigController,
    KmsgLogConfigController,
    LogServiceController,
)
from talos.machined.controllers.runtime.machine_status import MachineStatusController
from talos.machined.controllers.runtime.maintenance import (
    ApiServiceConfigController,
    MaintenanceConfigController,
)
from talos.machined.controllers.runtime.meta import MetaController
from talos.machined.controllers.runtime.oom import OOMController
from talos.machined.controllers.runtime.own_memory import OwnMemoryController
from talos.machined.controllers.runtime.sbom import SBOMItemController
from talos.machined.controllers.runtime.security_state import SecurityStateController
from talos.machined.controllers.runtime.self_check import SelfCheckController, open_watchdog, read_nothing
from talos.machined.controllers.runtime.trial_probes import TrialProbeController
from talos.machined.controllers.runtime.unique_token import UniqueMachineTokenController
from talos.machined.controllers.runtime.upgrade_lock import UpgradeLockController
from talos.machined.controllers.runtime.watchdog import (
    WatchdogTimerConfigController,
    WatchdogTimerController,
)
from talos.machined.controllers.secrets.all import make_controllers as make_secrets_controllers
from talos.machined.controllers.security.image_verification import ImageVerificationConfigController
from talos.machined.controllers.security.trusted_root import TUFTrustedRootController
from talos.machined.controllers.siderolink.config import (
    SiderolinkConfigController,
    read_siderolink_argument,
)
from talos.machined.controllers.storage.lvm import LVMController
from talos.machined.controllers.storage.raid import RAIDController
from talos.machined.logs.console import make_console
from talos.machined.logs.store import LogStore
from talos.machined.node.etc_files import EtcFiles
from talos.machined.node.etc_layer import EtcLayer
from talos.machined.node.identity import Identity
from talos.machined.node.meta_store import MetaStore
from talos.machined.node.ports.node import Node
from talos.machined.node.ports.power import RebootMode
from talos.machined.node.ports.services import ServiceState
from talos.machined.node.stage import MachineStage
from talos.machined.node.sysctls import KernelParams
from talos.machined.platform.arguments import METAL, find_environment
from talos.resource.controller.controller import Controller
from talos.rpc.bridge import Bridge
from talos.system.block.lvm import Lvm
from talos.system.block.mapped import read_images
from talos.system.block.md import Array, Mdadm, read_arrays
from talos.system.block.sysfs import Sysfs
from talos.system.block.trim import trim_filesystem
from talos.system.block.wipe import make_blank
from talos.system.files import KernelFiles
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline
from talos.system.watchdog import KernelWatchdog
from talos.upgrade.slots.folder import SlotFolder

CRI = "cri"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """The dependencies of controllers besides the State."""

    node: Node
    logs: LogStore
    stage: MachineStage
    etc: EtcFiles
    etc_layer: EtcLayer
    set_hostname: Callable[[str], None]
    write_pod_resolvers: Callable[[str], None]
    bridge: Bridge
    log: Log
    params: KernelParams
    volumes: VolumeContext
    meta: MetaStore
    slots: SlotFolder | None
    identity: Identity
    show_identity: Callable[[Identity], None]


def make_controllers(context: ControllerContext) -> list[Controller]:
    """Construct all controllers."""
    return [
        MachineTypeController(),
        NetworkEtcFileController(context.write_pod_resolvers),
        *make_etc_controllers(context),
        *make_volume_controllers(context),
        MachineStatusController(context.stage, context.node.events.publish),
        AddressEventController(context.node.events.publish),
        BGPServiceController(context.node.services),
        *([PlatformNetworkController(context.log)] if context.node.platform.name == METAL else []),
        HostDNSConfigController(),
        NodeAddressSortAlgorithmController(),
        AddressFilterController(),
        AddressOverlapController(),
        EtcdEncryptionConfigController(),
        StaticPodSecretsController(),
        UserPodController(),
        StaticPodConfigsController(),
        KubeletConfigController(),
        KubeletSpecController(),
        KubeletServiceController(context.node.services.terminate),
        KubeletIdentityController(context.node.connect),
        KubeletKubeconfigController(),
        *make_runtime_controllers(context),
        *make_cri_controllers(context),
        ApiServiceConfigController(),
        MaintenanceConfigController(context.stage, context.log),
        *make_secrets_controllers(context.bridge),
        EtcdPKIController(),
        UniqueMachineTokenController(),
        SiderolinkConfigController(
            read_siderolink_argument(context.node.platform), context.node.services, context.log
        ),
    ]


def make_etc_controllers(context: ControllerContext) -> list[Controller]:
    """Controllers of files in /etc."""
    services = context.node.services

    async def restart_cri() -> None:
        """Go reads authorities once in a process. A containerd that is yet to start finds the new ones."""
        if services.get(CRI).state in (ServiceState.PREPARING, ServiceState.RUNNING):
            await services.terminate(CRI)

    return [
        EtcFileConfigController(),
        UdevRulesFileController(),
        TrustedRootsController(context.etc_layer.read_image),
        *([InitiatorNamesController()] if context.node.platform.has_kernel else []),
        EtcFileController(context.etc, context.etc_layer, context.set_hostname, restart_cri, context.log),
    ]


def make_runtime_controllers(context: ControllerContext) -> list[Controller]:
    """Controllers of kernel parameters, counters and the inventories of software and hardware."""
    files, has_kernel = context.node.ports.files, context.node.platform.has_kernel
    return [
        KernelParamDefaultsController(context.params),
        KernelParamConfigController(),
        KernelParamSpecController(context.params, context.log),
        EnvironmentController(find_environment(parse_cmdline(context.node.platform.cmdline))),
        KmsgLogConfigController(),
        EventsSinkConfigController(),
        LogServiceController(context.node.services),
        ConsoleLogsController(context.logs, make_console(has_kernel=has_kernel)),
        WatchdogTimerConfigController(),
        WatchdogTimerController(KernelWatchdog, context.log),
        SelfCheckController(
            context.node.upgrades,
            partial(context.node.power.reboot, mode=RebootMode.FORCE),
            context.node.services.probe,
            context.log,
            context.slots.open_watchdog if context.slots else open_watchdog,
            read_images if has_kernel else read_nothing,
        ),
        TrialProbeController(context.node.upgrades),
        BootConfirmationController(context.node.upgrades, context.log),
        UpgradeLockController(context.node.upgrades, context.node.upgrade_lock, context.log),
        *([OOMController(context.log)] if has_kernel else []),
        OwnMemoryController(context.node.ports.groups, context.log),
        SecurityStateController(files, is_container=not has_kernel),
        *([BootedEntryController(files)] if has_kernel else []),
        SBOMItemController(files),
        ExtensionStatusController(files),
        ExtensionServiceConfigController(),
        ExtensionServiceConfigFilesController(context.node.services),
        StatsController(files),
        *([HardwareInventoryController(files), KernelModuleStatusController(files)] if has_kernel else []),
    ]


def make_cri_controllers(context: ControllerContext) -> list[Controller]:
    """Controllers of containerd's configuration."""
    platform, services = context.node.platform, context.node.services
    return [
        RegistriesConfigController(),
        ImageVerificationConfigController(),
        TUFTrustedRootController(context.node.processes.capture, context.log),
        ImageCacheConfigController(
            services, CacheDisks(context.volumes.mounts) if platform.has_disks else None, context.log
        ),
        RuntimeSpecConfigController(),
        CustomizationConfigController(),
        SeccompProfileController(),
        SeccompProfileFileController(),
        CRIConfigFilesController(
            context.log,
            partial(services.terminate, CRI),
            extensions=context.etc_layer.image / Path(PARTS).relative_to("/etc"),
            root=context.etc.shown.parent,
            restrict_oom_score=not platform.has_kernel,
        ),
        CRIImageGCController(context.node.connect, context.log),
    ]


def make_volume_controllers(context: ControllerContext) -> list[Controller]:
    """Controllers of disks, volumes and their content."""
    return [
        SystemDiskController(context.log),
        VolumeConfigController(has_partitions=context.node.platform.has_disks),
        VolumeManagerController(context.volumes),
        *(make_storage_controllers(context) if context.node.platform.has_disks else []),
        KeyDaemonController(context.volumes.keys, context.node.services),
        *(
            [
                PCRStatusController(context.volumes.tpm, context.log),
                NextKeysController(context.node.upgrades, context.log),
            ]
            if context.node.platform.has_kernel
            else []
        ),
        VolumeDiagnosticsController(),
        SwapStatusController(KernelFiles().read),
        ZswapStatusController(KernelFiles().read),
        VolumeTrimController(trim_filesystem, context.log),
        FSScrubController(context.volumes.scrubber, context.log),
        MountRequestController(),
        MetaController(context.meta, context.log, str(context.slots.meta) if context.slots else ""),
        NodeIdentityController(context.identity, context.show_identity, context.log),
        PersistenceController(context.log),
        KubeSpanIdentityController(context.log),
    ]


def make_storage_controllers(context: ControllerContext) -> list[Controller]:
    """Construct those of what lies between disks and volumes."""
    capture, blocks = context.node.processes.capture, context.volumes.blocks
    refresh, log = context.volumes.refresh, context.log

    async def read() -> Sequence[Array]:
        return await trio.to_thread.run_sync(read_arrays, Sysfs())

    reader = DeviceReader(probe=blocks.probe, read_head=blocks.read_head)
    return [
        LVMController(Lvm(capture, make_blank), blocks.read_head, refresh, log),
        RAIDController(Mdadm(capture, make_blank), read, reader, refresh, log),
        UserDiskConfigController(),
    ]
