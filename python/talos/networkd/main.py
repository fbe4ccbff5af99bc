"""networkd: the node's network, applies config to the kernel and publishes the kernel's state."""

import trio

from talos.networkd.controllers.address_spec import AddressSpecController
from talos.networkd.controllers.bgp_config import BGPInstanceConfigController
from talos.networkd.controllers.config_layers import (
    CmdlineConfigController,
    DeviceConfigController,
    LinkConfigController,
    OperatorConfigController,
)
from talos.networkd.controllers.defaults import DefaultsController, HostDNSAddressController
from talos.networkd.controllers.ethernet_status import (
    EthernetConfigController,
    EthernetStatusController,
    HardwareAddrController,
)
from talos.networkd.controllers.external_addresses import ExternalAddressController
from talos.networkd.controllers.firewall import NfTablesChainConfigController, NfTablesChainController
from talos.networkd.controllers.kernel_status import make_kernel_status_controllers
from talos.networkd.controllers.kubespan import KubeSpanManagerController
from talos.networkd.controllers.link_alias import LinkAliasConfigController, LinkAliasSpecController
from talos.networkd.controllers.link_spec import LinkSpecController
from talos.networkd.controllers.link_status import LinkStatusController
from talos.networkd.controllers.machine_config import HostnameConfigController, ServersConfigController
from talos.networkd.controllers.merge import make_merge_controllers
from talos.networkd.controllers.network_policies import NetworkPoliciesController
from talos.networkd.controllers.network_status import NetworkStatusController
from talos.networkd.controllers.node_address import NodeAddressController
from talos.networkd.controllers.operator_spec import OperatorSpecController
from talos.networkd.controllers.platform_config import PlatformConfigApplyController
from talos.networkd.controllers.probes import ProbeConfigController, ProbeController
from talos.networkd.controllers.route_spec import RouteSpecController
from talos.networkd.controllers.rule_spec import RoutingRuleConfigController, RoutingRuleSpecController
from talos.networkd.controllers.siderolink import SiderolinkStatusController
from talos.networkd.controllers.simple_status import make_simple_status_controllers
from talos.networkd.controllers.static_host import StaticHostController
from talos.networkd.dhcp.wire import OpenWire, open_packets
from talos.networkd.dhcp6.wire import OpenWire6, open_socket
from talos.process.host import mirrored_state, run_controller_daemon
from talos.process.ready import notify_ready
from talos.process.run import Daemon, run
from talos.resource import ids
from talos.resource.changes import wait_for
from talos.resource.controller.controller import Controller
from talos.resource.state import State
from talos.system.logging import Log
from talos.system.net.kernel_links import open_links
from talos.system.net.links import Links

DEVICES_TIMEOUT = 30.0
"""Seconds that networkd waits for udevd. A link that is in use can still be renamed."""


def make_controllers(
    links: Links, log: Log, open_wire: OpenWire = open_packets, open_wire6: OpenWire6 = open_socket
) -> list[Controller]:
    """Every controller of this daemon."""
    return [
        DefaultsController(),
        HostDNSAddressController(),
        CmdlineConfigController(log),
        LinkConfigController(log),
        DeviceConfigController(),
        OperatorConfigController(),
        OperatorSpecController(open_wire, open_wire6, log),
        PlatformConfigApplyController(),
        ExternalAddressController(),
        HostnameConfigController(),
        ServersConfigController(),
        StaticHostController(log),
        RoutingRuleConfigController(),
        BGPInstanceConfigController(log),
        ProbeConfigController(),
        ProbeController(log),
        *make_merge_controllers(),
        LinkSpecController(links, log),
        AddressSpecController(links, log),
        RouteSpecController(links, log),
        RoutingRuleSpecController(links, log),
        LinkAliasConfigController(log),
        LinkAliasSpecController(links, log),
        NfTablesChainConfigController(),
        NfTablesChainController(links, log),
        NetworkPoliciesController(links),
        KubeSpanManagerController(links),
        SiderolinkStatusController(links),
        LinkStatusController(links, log),
        *make_kernel_status_controllers(links, log),
        EthernetConfigController(),
        EthernetStatusController(links, log),
        HardwareAddrController(),
        *make_simple_status_controllers(),
        NodeAddressController(),
        NetworkStatusController(),
    ]


async def serve_network(daemon: Daemon) -> None:
    """Run the controllers against the node's State until the daemon stops.

    The network stays as it is at the end: the next networkd finds it so.
    """
    async with open_links() as links:
        controllers = make_controllers(links, daemon.log)
        async with mirrored_state(daemon, controllers) as state:

            async def prepare() -> None:
                notify_ready()
                await wait_for_devices(state, daemon.log)

            await run_controller_daemon(daemon, state, controllers, prepare=prepare)


async def wait_for_devices(state: State, log: Log) -> None:
    """Wait until devices have their names, up to a limit: reachability matters more than names."""
    with trio.move_on_after(DEVICES_TIMEOUT) as waiting:
        await wait_for(state, *ids.DEVICES_STATUS, lambda resource: resource.spec.ready)
    if waiting.cancelled_caught:
        log.warning(f"devices are not ready after {DEVICES_TIMEOUT:.0f} s; links are used as they are")


def main() -> None:
    """Entry of the daemon."""
    run(serve_network, name="networkd")
