"""Links in ``machine.network``."""

from dataclasses import dataclass

from talos.config.documents.v1alpha1.bond import Bond
from talos.config.documents.v1alpha1.device_selector import NetworkDeviceSelector
from talos.config.schema import PORT, UINT16, UINT32, Section, setting
from talos.config.values import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Section):
    """Routes through the link."""

    network: str = setting("destination prefix", default="")
    gateway: str = setting("next hop", default="")
    source: str | None = setting("source address of packets")
    metric: int | None = setting("priority of the route, lower wins", bounds=UINT32)
    mtu: int | None = setting("largest packet", bounds=UINT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class STP(Section):
    """Spanning tree protocol."""

    enabled: bool | None = setting("run the spanning tree protocol")


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeVLAN(Section):
    """VLANs on the bridge."""

    vlan_filtering: bool | None = setting("keep VLANs apart")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge(Section):
    """Settings of a bridge."""

    interfaces: tuple[str, ...] = setting("links of the bridge", default=())
    stp: STP | None = setting("spanning tree protocol")
    vlan: BridgeVLAN | None = setting("VLANs on the bridge")


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgePort(Section):
    """The bridge of a port."""

    master: str | None = setting("the bridge")


@dataclass(frozen=True, slots=True, kw_only=True)
class VIPEquinixMetalConfig(Section):
    """Virtual address of Equinix Metal."""

    api_token: str = setting("token for the provider's API", default="", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class VIPHCloudConfig(Section):
    """Virtual address of Hetzner Cloud."""

    api_token: str = setting("token for the provider's API", default="", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceVIPConfig(Section):
    """Virtual address shared by control plane nodes."""

    ip: str | None = setting("the address")
    equinix_metal: VIPEquinixMetalConfig | None = setting("virtual address of Equinix Metal")
    hcloud: VIPHCloudConfig | None = setting("virtual address of Hetzner Cloud")


@dataclass(frozen=True, slots=True, kw_only=True)
class DHCPOptions(Section):
    """Options of DHCP."""

    route_metric: int = setting("priority of routes from DHCP", default=0, bounds=UINT32)
    ipv4: bool | None = setting("request IPv4 (default: enabled)")
    ipv6: bool | None = setting("request IPv6 (default: disabled)")
    duidv6: str | None = setting("identifier for DHCPv6, in hexadecimal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vlan(Section):
    """VLANs on the link."""

    addresses: tuple[str, ...] | None = setting("addresses with prefix length")
    cidr: str | None = setting("one address with prefix length")
    routes: tuple[Route, ...] = setting("routes through the link", default=())
    dhcp: bool | None = setting("configure by DHCP")
    vlan_id: int = setting("number of the VLAN", default=0, bounds=UINT16)
    mtu: int | None = setting("largest packet", bounds=UINT32)
    vip: DeviceVIPConfig | None = setting("virtual address shared by control plane nodes")
    dhcp_options: DHCPOptions | None = setting("options of DHCP")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWireguardPeer(Section):
    """Peers."""

    public_key: str | None = setting("the peer's public key")
    endpoint: str | None = setting("address and port of the peer")
    persistent_keepalive_interval: Duration | None = setting("time between keepalives")
    allowed_ips: tuple[str, ...] | None = setting("prefixes behind the peer", key="allowedIPs")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWireguardConfig(Section):
    """Settings of a WireGuard link."""

    private_key: str | None = setting("private key", secret=True)
    listen_port: int | None = setting("UDP port to listen on", bounds=PORT)
    firewall_mark: int | None = setting("mark on its own packets")
    peers: tuple[DeviceWireguardPeer, ...] | None = setting("the other ends")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device(Section):
    """Links and their settings."""

    interface: str | None = setting("name of the link")
    device_selector: NetworkDeviceSelector | None = setting("selector of the link by its properties")
    addresses: tuple[str, ...] | None = setting("addresses with prefix length")
    cidr: str | None = setting("one address with prefix length")
    routes: tuple[Route, ...] | None = setting("routes through the link")
    bond: Bond | None = setting("make it a bond")
    bridge: Bridge | None = setting("make it a bridge")
    bridge_port: BridgePort | None = setting("make it a port of a bridge")
    vlans: tuple[Vlan, ...] | None = setting("VLANs on the link", merge_key="vlanId")
    mtu: int | None = setting("largest packet", bounds=UINT32)
    dhcp: bool | None = setting("configure by DHCP")
    ignore: bool | None = setting("leave the link alone")
    dummy: bool | None = setting("make it a link without hardware")
    dhcp_options: DHCPOptions | None = setting("options of DHCP")
    wireguard: DeviceWireguardConfig | None = setting("make it a WireGuard link")
    vip: DeviceVIPConfig | None = setting("virtual address shared by control plane nodes")
