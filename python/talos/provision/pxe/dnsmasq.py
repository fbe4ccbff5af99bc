"""The arguments of dnsmasq, and its log in plain English.

There are two requests: firmware's own boot code loads iPXE over TFTP, then iPXE is sent to the script
on the web server. iPXE is recognised by DHCP option 175, which only it uses.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from talos.provision.pxe.network import BootNetwork

SCRIPT = "boot.ipxe"
BIOS_LOADER = "undionly.kpxe"
"""Drives the network card through the firmware that loaded it."""
EFI_LOADER = "snponly.efi"
"""The same for UEFI; ``ipxe.efi`` has drivers of its own."""
IPXE_OPTION = 175
EFI_ARCHITECTURES = (7, 9)
"""RFC 4578 as firmware uses it: both mean UEFI on x86-64."""
LEASE_TIME = "1h"

_OFFER = re.compile(r"DHCPACK\(\S+\) (?P<ip>\S+) (?P<mac>[0-9a-f:]{17})")
_PROXY = re.compile(r"PXE\(\S+\) (?:[0-9.]+ )?(?P<mac>[0-9a-f:]{17}) (?P<file>\S+)")
_SENT = re.compile(r"sent (?P<path>\S+) to (?P<ip>\S+)")
_ORDINARY = ("User aborted the transfer", "autoexec.ipxe not found", " proxy")
"""UEFI requests a size first; iPXE looks for a script that we lack; an offer of PXE without a file."""
_FAILED = re.compile(r"(?:failed|error|cannot|not found|no address)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaders:
    """The folder with iPXE, and the name of its UEFI program there."""

    folder: Path
    efi: str = EFI_LOADER


def make_arguments(place: BootNetwork, loaders: Loaders, leases: Path) -> list[str]:
    """What follows the program's name. ``leases`` is a file that dnsmasq may write."""
    script = f"{place.url}/{SCRIPT}"
    argv = [
        "--keep-in-foreground",
        "--log-facility=-",
        "--log-dhcp",
        "--conf-file=/dev/null",
        "--pid-file",
        "--port=0",  # no DNS
        f"--interface={place.interface}",
        "--except-interface=lo",
        "--bind-interfaces",
        f"--dhcp-leasefile={leases}",
        "--enable-tftp",
        f"--tftp-root={loaders.folder}",
        f"--dhcp-match=set:ipxe,{IPXE_OPTION}",
        *(f"--dhcp-match=set:efi,option:client-arch,{number}" for number in EFI_ARCHITECTURES),
        f"--dhcp-boot=tag:ipxe,{script},,{place.address.ip}",  # an offer without a server is none to iPXE
    ]
    return argv + (_make_proxy(place, loaders) if place.lease is None else _make_full(place, loaders))


def _make_proxy(place: BootNetwork, loaders: Loaders) -> list[str]:
    """Another server gives the addresses, this one names what to boot."""
    return [
        f"--dhcp-range={place.address.network.network_address},proxy,{place.address.netmask}",
        f"--pxe-service=tag:!ipxe,X86PC,Talos,{BIOS_LOADER}",
        f"--pxe-service=tag:!ipxe,X86-64_EFI,Talos,{loaders.efi}",
        f"--pxe-service=tag:!ipxe,BC_EFI,Talos,{loaders.efi}",
    ]


def _make_full(place: BootNetwork, loaders: Loaders) -> list[str]:
    """We give the addresses, too."""
    lease = place.lease
    if lease is None:
        raise ValueError("no addresses to give")
    routers = f"{place.gateway}" if place.gateway else ""
    resolvers = ",".join(map(str, place.resolvers))
    return [
        f"--dhcp-range={lease.first},{lease.last},{place.address.netmask},{LEASE_TIME}",
        "--dhcp-authoritative",
        # An empty option keeps dnsmasq from naming itself as router and resolver, which it is not.
        f"--dhcp-option=option:router{',' + routers if routers else ''}",
        f"--dhcp-option=option:dns-server{',' + resolvers if resolvers else ''}",
        f"--dhcp-boot=tag:!ipxe,tag:!efi,{BIOS_LOADER}",
        f"--dhcp-boot=tag:!ipxe,tag:efi,{loaders.efi}",
    ]


def describe_line(line: str) -> str:
    """What a line of the log means to who watches machines boot; empty when it means nothing to them."""
    if any(word in line for word in _ORDINARY):
        return ""
    text = line.split(": ", 1)[-1].strip()
    text = re.sub(r"^[0-9]+ ", "", text)  # the number of the transaction
    if match := _OFFER.match(text):
        return f"{match['mac']}: has address {match['ip']}"
    if match := _PROXY.match(text):
        return f"{match['mac']}: is sent to {match['file']}"
    if match := _SENT.match(text):
        return f"{match['ip']}: has loaded {Path(match['path']).name}"
    return text if _FAILED.search(text) else ""
