"""The arguments of dnsmasq, and its log in plain English.

There are two requests: firmware's own boot code loads iPXE over TFTP, then iPXE is sent to the script
on the web server. iPXE is recognised by DHCP option 175, which only it uses. A signed image is loaded from
the web server by UEFI itself, in one request (UEFI 2.10, section 24.7).
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
HTTP_ARCHITECTURE = 16
"""IANA's list of processor architectures: UEFI on x86-64 that boots from HTTP."""
HTTP_CLIENT = "HTTPClient"
"""The vendor class of its request, and of an answer that it takes."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedImage:
    """What UEFI loads by itself."""

    url: str


def make_arguments(place: BootNetwork, boot: Loaders | SignedImage, leases: Path) -> list[str]:
    """What follows the program's name. ``leases`` is a file that dnsmasq may write."""
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
    ]
    if isinstance(boot, SignedImage):
        return [*argv, *_make_leases(place), *_make_http(boot)]
    argv += [
        "--enable-tftp",
        f"--tftp-root={boot.folder}",
        f"--dhcp-match=set:ipxe,{IPXE_OPTION}",
        *(f"--dhcp-match=set:efi,option:client-arch,{number}" for number in EFI_ARCHITECTURES),
        # An offer without a server is none to iPXE.
        f"--dhcp-boot=tag:ipxe,{place.url}/{SCRIPT},,{place.address.ip}",
    ]
    if place.lease is None:
        return argv + _make_proxy(place, boot)
    return [
        *argv,
        *_make_leases(place),
        f"--dhcp-boot=tag:!ipxe,tag:!efi,{BIOS_LOADER}",
        f"--dhcp-boot=tag:!ipxe,tag:efi,{boot.efi}",
    ]


def _make_http(image: SignedImage) -> list[str]:
    """Firmware that boots from HTTP is sent to the image; any other gets an address, and nothing to boot."""
    return [
        f"--dhcp-match=set:http,option:client-arch,{HTTP_ARCHITECTURE}",
        f"--dhcp-option-force=tag:http,option:vendor-class,{HTTP_CLIENT}",
        f"--dhcp-boot=tag:http,{image.url}",
    ]


def _make_proxy(place: BootNetwork, loaders: Loaders) -> list[str]:
    """Another server gives the addresses, this one names what to boot."""
    return [
        f"--dhcp-range={place.address.network.network_address},proxy,{place.address.netmask}",
        f"--pxe-service=tag:!ipxe,X86PC,Talos,{BIOS_LOADER}",
        f"--pxe-service=tag:!ipxe,X86-64_EFI,Talos,{loaders.efi}",
        f"--pxe-service=tag:!ipxe,BC_EFI,Talos,{loaders.efi}",
    ]


def _make_leases(place: BootNetwork) -> list[str]:
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
