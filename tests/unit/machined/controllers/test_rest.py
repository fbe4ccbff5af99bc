"""machined's controllers at rest."""

from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from tests.harness.rest import CountingState, check_rest
from tests.unit.disks.volumes.disks import DISK, MemoryBlocks, MemoryCrypt
from tests.unit.machined.controllers.block.tpms import MemoryTpm
from tests.unit.machined.controllers.block.world import MemoryFolders

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec
from talos.api.definitions.network_pb2 import HostnameStatusSpec, NodeAddressSpec, ResolverStatusSpec
from talos.api.definitions.runtime_pb2 import DevicesStatusSpec
from talos.api.definitions.time_pb2 import StatusSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.disks.volumes.requests import create_lifecycle, request_mount
from talos.disks.volumes.scrubber import Scrubber
from talos.machined.controllers.block.volume_settler import VolumeContext
from talos.machined.controllers.registry import ControllerContext, make_controllers
from talos.machined.logs.store import LogStore
from talos.machined.node.etc_files import EtcFiles
from talos.machined.node.etc_layer import EtcLayer
from talos.machined.node.events import EventLog
from talos.machined.node.identity import make_identity
from talos.machined.node.key_requests import KeyRequests
from talos.machined.node.meta_store import MetaStore
from talos.machined.node.stage import MachineStage
from talos.machined.node.sysctls import KernelParams
from talos.machined.platform.platform import MetalPlatform
from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType
from talos.process.addresses import CONFIG_VERSION
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.system.block.scrub import Findings
from talos.system.cgroups import NoGroups
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline
from talos.system.proc.sysctl import KernelSysctls
from talos.testing.files import MemoryFiles
from talos.testing.mounts import MemoryMounts
from talos.upgrade.state import IDLE

CA = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
CONFIG = f"""
version: v1alpha1
machine:
  type: controlplane
  token: abcdef.0123456789abcdef
  ca: {{crt: {b64encode(CA.crt).decode()}, key: {b64encode(CA.pem.key).decode()}}}
  certSANs: [api.example.org]
  sysctls: {{vm.swappiness: "1", net.missing: "1"}}
  env: {{GRPC_GO_LOG_VERBOSITY_LEVEL: "99"}}
  registries: {{mirrors: {{docker.io: {{endpoints: ["https://mirror.example.org"]}}}}}}
cluster:
  controlPlane: {{endpoint: "https://10.5.0.2:6443"}}
"""


def make_context(state: CountingState, folder: Path, log: Log) -> ControllerContext:
    """Everything that controllers touch, in memory or in a folder."""
    (folder / "proc/sys/vm").mkdir(parents=True)
    (folder / "proc/sys/vm/swappiness").write_text("60\n")

    async def refresh() -> None:
        await trio.lowlevel.checkpoint()

    blocks = MemoryBlocks()
    blocks.install()
    # As they are now: counters that stand still.
    counters = ("/proc/cpuinfo", "/proc/stat", "/proc/meminfo")
    files = MemoryFiles({path: Path(path).read_text(encoding="ascii") for path in counters})
    files.contents["/sys/module/zswap/parameters/enabled"] = "N\n"
    node = SimpleNamespace(
        events=EventLog(),
        platform=MetalPlatform(arguments=parse_cmdline("")),
        ports=SimpleNamespace(files=files, groups=NoGroups()),
        processes=SimpleNamespace(capture=None),
        services=SimpleNamespace(terminate=trio.lowlevel.checkpoint, probe=trio.lowlevel.checkpoint),
        connect=None,
        upgrade_lock=None,
        upgrades=SimpleNamespace(
            fallback="",
            current=IDLE,
            is_guarded=False,
            has_begun=True,
            needs_probes=False,
            listen=list[object]().append,
        ),
        power=SimpleNamespace(reboot=lambda: None),
    )
    (folder / "etc").mkdir()
    return ControllerContext(
        node=cast("Any", node),
        logs=LogStore(),
        stage=MachineStage(),
        etc=EtcFiles(MemoryMounts(), folder / "generated", folder / "etc"),
        etc_layer=EtcLayer(folder=folder / "layer"),
        set_hostname=lambda _: None,
        write_pod_resolvers=lambda _: None,
        bridge=cast("Any", None),
        log=log,
        params=KernelParams(KernelSysctls(folder), {"proc.sys.vm.swappiness": "10"}),
        volumes=VolumeContext(
            state=state,
            blocks=blocks,
            mounts=MemoryMounts(),
            refresh=refresh,
            make_folder=lambda _path, _mode: None,
            folders=MemoryFolders(),
            devices=MemoryCrypt(blocks),
            meta=MetaStore(),
            keys=KeyRequests(),
            open_keys={},
            tpm=MemoryTpm(),
            scrubber=Scrubber(lambda _target, _check: Findings()),
            log=log,
        ),
        meta=MetaStore(),
        slots=None,
        identity=make_identity(),
        show_identity=lambda _: None,
    )


@pytest.mark.parametrize("config", ["", CONFIG], ids=["maintenance", "controlplane"])
async def test_nothing_is_written_without_a_change(config: str, tmp_path: Path) -> None:
    state = CountingState()
    await create_lifecycle(state)
    await request_mount(state, "EPHEMERAL")
    await put(state, *ids.DEVICES_STATUS, DevicesStatusSpec(ready=True))
    await put(state, *ids.TIME_STATUS, StatusSpec(synced=True))
    await put(state, *ids.HOSTNAME_STATUS, HostnameStatusSpec(hostname="node-1", domainname="example.org"))
    await put(state, *ids.RESOLVER_STATUS, ResolverStatusSpec(search_domains=["example.org"]))
    addresses = NodeAddressSpec()
    addresses.addresses.add(ip=bytes((10, 5, 0, 2)), prefix_length=24)
    for resource in (
        ids.NODE_ADDRESS_DEFAULT,
        ids.NODE_ADDRESS_CURRENT,
        ids.NODE_ADDRESS_ACCUMULATIVE,
        ids.NODE_ADDRESS_ACCUMULATIVE_NO_K8S,
    ):
        await put(state, *resource, addresses, annotations={CONFIG_VERSION: "1"})
    volume = DiscoveredVolumeSpec(
        name="talosmeta", partition_label="META", parent="vda", parent_dev_path=DISK
    )
    await put(state, kinds.DISCOVERED_VOLUME, "vda4", volume)
    if config:
        await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=config.encode()))
    else:
        empty = ids.MAINTENANCE_SERVICE_REQUEST[0].spec()
        await put(state, *ids.MAINTENANCE_SERVICE_REQUEST, empty)
    lines: list[str] = []
    log = Log(write=lines.append)
    await check_rest(state, make_controllers(make_context(state, tmp_path, log)))
    found = await state.get(*ids.API_CERTIFICATE)
    assert found.spec.skip_verifying_client_cert is not bool(config)
