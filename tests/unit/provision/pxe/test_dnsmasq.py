"""dnsmasq's arguments, and the translation of its log."""

from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

from talos.provision.pxe.dnsmasq import Loaders, SignedImage, describe_line, make_arguments
from talos.provision.pxe.network import BootNetwork, Lease

LOADERS = Loaders(folder=Path("/root/ipxe"))
PROXY = BootNetwork(interface="eth1", address=IPv4Interface("10.0.0.2/24"), port=8080)
FULL = BootNetwork(
    interface="eth1",
    address=IPv4Interface("10.0.0.2/24"),
    port=8080,
    lease=Lease(first=IPv4Address("10.0.0.50"), last=IPv4Address("10.0.0.90")),
    gateway=IPv4Address("10.0.0.1"),
    resolvers=(IPv4Address("10.0.0.1"), IPv4Address("9.9.9.9")),
)


def test_nothing_of_this_machine_counts() -> None:
    argv = make_arguments(PROXY, LOADERS, Path("/tmp/x/leases"))
    assert {"--conf-file=/dev/null", "--port=0", "--bind-interfaces", "--interface=eth1"} <= set(argv)
    assert "--dhcp-leasefile=/tmp/x/leases" in argv
    assert "--tftp-root=/root/ipxe" in argv


def test_ipxe_is_sent_to_the_script_with_our_address_as_server() -> None:
    for place in (PROXY, FULL):
        argv = make_arguments(place, LOADERS, Path("/leases"))
        assert "--dhcp-boot=tag:ipxe,http://10.0.0.2:8080/boot.ipxe,,10.0.0.2" in argv


def test_a_proxy_gives_no_address() -> None:
    argv = make_arguments(PROXY, LOADERS, Path("/leases"))
    assert [word for word in argv if word.startswith("--dhcp-range")] == [
        "--dhcp-range=10.0.0.0,proxy,255.255.255.0"
    ]
    assert "--pxe-service=tag:!ipxe,X86PC,Talos,undionly.kpxe" in argv
    assert "--pxe-service=tag:!ipxe,X86-64_EFI,Talos,snponly.efi" in argv
    assert not any("authoritative" in word or "router" in word for word in argv)


def test_a_server_of_its_own_gives_addresses_router_and_resolvers() -> None:
    argv = make_arguments(FULL, Loaders(folder=Path("/ipxe"), efi="ipxe.efi"), Path("/leases"))
    assert "--dhcp-range=10.0.0.50,10.0.0.90,255.255.255.0,1h" in argv
    assert "--dhcp-option=option:router,10.0.0.1" in argv
    assert "--dhcp-option=option:dns-server,10.0.0.1,9.9.9.9" in argv
    assert "--dhcp-boot=tag:!ipxe,tag:!efi,undionly.kpxe" in argv
    assert "--dhcp-boot=tag:!ipxe,tag:efi,ipxe.efi" in argv


def test_without_a_router_none_is_named() -> None:
    place = BootNetwork(interface="eth1", address=FULL.address, port=8080, lease=FULL.lease)
    assert "--dhcp-option=option:router" in make_arguments(place, LOADERS, Path("/leases"))


def test_firmware_that_boots_from_http_is_sent_to_the_signed_image_and_no_other_to_anything() -> None:
    url = "http://10.0.0.2:8080/assets/talos.efi"
    argv = make_arguments(FULL, SignedImage(url=url), Path("/leases"))
    assert "--dhcp-range=10.0.0.50,10.0.0.90,255.255.255.0,1h" in argv
    assert "--dhcp-match=set:http,option:client-arch,16" in argv
    assert "--dhcp-option-force=tag:http,option:vendor-class,HTTPClient" in argv
    assert [word for word in argv if word.startswith("--dhcp-boot")] == [f"--dhcp-boot=tag:http,{url}"]
    assert not any("tftp" in word for word in argv)


def test_log_lines_are_translated() -> None:
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
