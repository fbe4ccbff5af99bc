"""What dnsmasq is told, and what we tell of its log."""

from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

from talos.provision.pxe.dnsmasq import Loaders, describe_line, make_arguments
from talos.provision.pxe.network import Lease, Place

LOADERS = Loaders(folder=Path("/root/ipxe"))
PROXY = Place(interface="eth1", address=IPv4Interface("10.0.0.2/24"), port=8080)
FULL = Place(
    interface="eth1",
    address=IPv4Interface("10.0.0.2/24"),
    port=8080,
    lease=Lease(first=IPv4Address("10.0.0.50"), last=IPv4Address("10.0.0.90")),
    gateway=IPv4Address("10.0.0.1"),
    resolvers=(IPv4Address("10.0.0.1"), IPv4Address("9.9.9.9")),
)


def test_nothing_of_this_machine_counts() -> None:
    words = make_arguments(PROXY, LOADERS, Path("/tmp/x/leases"))
    assert {"--conf-file=/dev/null", "--port=0", "--bind-interfaces", "--interface=eth1"} <= set(words)
    assert "--dhcp-leasefile=/tmp/x/leases" in words
    assert "--tftp-root=/root/ipxe" in words


def test_ipxe_is_sent_to_the_script_with_our_address_as_server() -> None:
    for place in (PROXY, FULL):
        words = make_arguments(place, LOADERS, Path("/leases"))
        assert "--dhcp-boot=tag:ipxe,http://10.0.0.2:8080/boot.ipxe,,10.0.0.2" in words


def test_a_proxy_gives_no_address() -> None:
    words = make_arguments(PROXY, LOADERS, Path("/leases"))
    assert [word for word in words if word.startswith("--dhcp-range")] == [
        "--dhcp-range=10.0.0.0,proxy,255.255.255.0"
    ]
    assert "--pxe-service=tag:!ipxe,X86PC,Talos,undionly.kpxe" in words
    assert "--pxe-service=tag:!ipxe,X86-64_EFI,Talos,snponly.efi" in words
    assert not any("authoritative" in word or "router" in word for word in words)


def test_a_server_of_its_own_gives_addresses_router_and_resolvers() -> None:
    words = make_arguments(FULL, Loaders(folder=Path("/ipxe"), efi="ipxe.efi"), Path("/leases"))
    assert "--dhcp-range=10.0.0.50,10.0.0.90,255.255.255.0,1h" in words
    assert "--dhcp-option=option:router,10.0.0.1" in words
    assert "--dhcp-option=option:dns-server,10.0.0.1,9.9.9.9" in words
    assert "--dhcp-boot=tag:!ipxe,tag:!efi,undionly.kpxe" in words
    assert "--dhcp-boot=tag:!ipxe,tag:efi,ipxe.efi" in words


def test_without_a_router_none_is_named() -> None:
    place = Place(interface="eth1", address=FULL.address, port=8080, lease=FULL.lease)
    assert "--dhcp-option=option:router" in make_arguments(place, LOADERS, Path("/leases"))


def test_the_log_in_plain_words() -> None:
    mac = "52:54:00:aa:00:01"
    lines = {
        f"dnsmasq-dhcp[7]: 244 DHCPACK(tap0) 10.0.0.70 {mac} ": f"{mac}: has address 10.0.0.70",
        f"dnsmasq-dhcp[7]: 244 PXE(br0) 10.0.0.70 {mac} undionly.kpxe": f"{mac}: is sent to undionly.kpxe",
        "dnsmasq-tftp[7]: sent /usr/lib/ipxe/snponly.efi to 10.0.0.70": "10.0.0.70: has loaded snponly.efi",
        "dnsmasq-dhcp[7]: no address range available for eth1": "no address range available for eth1",
        "dnsmasq-dhcp[7]: 244 vendor class: PXEClient:Arch:00000:UNDI:002001": "",
        f"dnsmasq-dhcp[7]: 244 PXE(br0) {mac} proxy": "",
        "dnsmasq-tftp[7]: error 8 User aborted the transfer received from 10.0.0.70": "",
    }
    assert {line: describe_line(f"{line}\n") for line in lines} == lines
