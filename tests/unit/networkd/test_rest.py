"""networkd at rest."""

import pytest
from tests.harness.rest import CountingState, check_rest
from tests.unit.networkd.dhcp.server import Server

from talos.api.definitions import enums_pb2
from talos.api.definitions.cluster_pb2 import IdentitySpec
from talos.api.definitions.network_pb2 import LinkSpecSpec, PlatformConfigSpec, TimeServerSpecSpec
from talos.api.definitions.runtime_pb2 import KernelCmdlineSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.networkd.main import make_controllers
from talos.resource import ids
from talos.resource.changes import put
from talos.system.logging import Log
from talos.system.net.links import ARPHRD_ETHER, ARPHRD_LOOPBACK, LinkState
from talos.testing.links import MemoryLinks

CONFIG = """
version: v1alpha1
machine:
  type: worker
  network:
    hostname: node-1
    nameservers: [10.5.0.53]
    interfaces:
    - interface: eth0
      mtu: 1400
      addresses: [10.5.0.2/24, "fd00::2/64"]
      routes: [{network: 0.0.0.0/0, gateway: 10.5.0.1}]
      vlans: [{vlanId: 7, addresses: [10.7.0.1/24]}]
  time:
    servers: [time.example.org]
---
apiVersion: v1alpha1
kind: BridgeConfig
name: br0
links: []
stp: {enabled: true}
addresses: [{address: 10.99.0.1/24}]
routes: [{destination: 10.98.0.0/16, gateway: 10.99.0.254}, {destination: 10.97.0.0/16, gateway: 172.16.0.1}]
---
apiVersion: v1alpha1
kind: BridgeConfig
name: br1
links: [eth2]
hardwareAddr: "02:00:00:00:00:99"
---
apiVersion: v1alpha1
kind: BondConfig
name: bond0
bondMode: active-backup
links: [eth3]
mtu: 1450
---
apiVersion: v1alpha1
kind: VethConfig
name: va
peer: {name: vb}
---
apiVersion: v1alpha1
kind: BridgeConfig
name: eth4
links: []
---
apiVersion: v1alpha1
kind: WireguardConfig
name: wg0
privateKey: aKJ6DwKKrFGYo3Q6W5+WJyBbJQ1kkPrMHHaF6OOCHXA=
peers:
- publicKey: 7kPMCnFlP9b3DPJMNFaQ0v4uv9P0rHT3G1Cgzr7G9nM=
  endpoint: 192.0.2.1:51820
  allowedIPs: [10.1.0.0/16]
addresses: [{address: 10.1.0.1/32}]
---
apiVersion: v1alpha1
kind: VRFConfig
name: vrf0
table: "100"
links: [va]
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: lan%d
selector: {match: link.driver == "virtio_net"}
---
apiVersion: v1alpha1
kind: EthernetConfig
name: lan0
rings: {rx: 256}
wakeOnLan: [magic]
"""


def make_links() -> MemoryLinks:
    loopback = LinkState(index=1, name="lo", type=ARPHRD_LOOPBACK, mtu=65536)
    nics = [
        LinkState(
            index=number + 2,
            name=f"eth{number}",
            type=ARPHRD_ETHER,
            mtu=1500,
            hardware_address=bytes((2, 0, 0, 0, 1, number)),
        )
        for number in range(5)
    ]
    return MemoryLinks([loopback, *nics])


@pytest.mark.parametrize("config", ["", CONFIG], ids=["none", "all"])
async def test_nothing_is_written_without_a_change(config: str) -> None:
    state, links, server = CountingState(), make_links(), Server(host_name="given", interface_mtu=1400)
    platform = PlatformConfigSpec(
        links=[LinkSpecSpec(name="eth1", up=True, mtu=1400)],
        time_servers=[TimeServerSpecSpec(ntp_servers=["10.5.0.123"])],
    )
    platform.hostnames.add(hostname="platform", config_layer=enums_pb2.CONFIG_PLATFORM)
    await put(state, *ids.PLATFORM_CONFIG, platform)
    await put(state, *ids.IDENTITY, IdentitySpec(node_id="one"))
    await put(state, *ids.KERNEL_CMDLINE, KernelCmdlineSpec(cmdline="ip=::::node:eth1:off bond=x:y:z"))
    if config:
        await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=config.encode()))
    lines: list[str] = []
    changes: list[int] = []

    def disturb() -> None:
        # An event of the kernel's that changes nothing.
        changes.append(len(links.changes))
        links.plug(3, carrier=True)

    controllers = make_controllers(links, Log(write=lines.append), server.open)
    await check_rest(state, controllers, disturb=disturb)
    assert changes == [changes[0], changes[0] + 1], "the kernel gets again what it has refused or has"
    assert len(set(lines)) == len(lines), "a line is logged again"
