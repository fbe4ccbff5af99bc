"""A server that machines boot from over the network: ``nix run .#pxe -- --interface eth1 result``."""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

from talos.provision.pxe.dnsmasq import EFI_LOADER, Loaders, SignedImage, describe_line, make_arguments
from talos.provision.pxe.network import BootNetwork, find_address, parse_lease
from talos.provision.pxe.script import ASSETS, make_script
from talos.provision.pxe.server import serve
from talos.provision.pxe.tools import Tools, find_tools
from talos.provision.pxe.web import FALLBACK, SUFFIX, Site
from talos.system.errors import UserError
from talos.upgrade.slots.systemd_boot.entry import NETWORK_IMAGE, NETWORK_LOADER

FAILED = 1
MODES = ("proxy", "full", "http")
_FILES = ("boot.ipxe", "vmlinuz", "initramfs")
_SIGNED = (NETWORK_IMAGE, NETWORK_LOADER)
_PORT = 8080
_EPILOG = """\
modes:
  proxy  another server in the network gives addresses, this one names what to boot (default; needs root)
  full   we give addresses, too, those of --range (needs root)
  http   the web server alone, for machines that have iPXE or are sent to it: chain http://ADDRESS:PORT/boot.ipxe

A folder of `nix run .#sign-netboot` is for UEFI that boots from HTTP, under Secure Boot: by --mode full, or
by --mode http and the URL, which is shown, in the firmware's settings. Its kernel arguments are signed.

configs: a machine gets DIR/NAME.yaml, NAME being its MAC address, UUID, serial number or hostname, else
DIR/default.yaml. Without --configs it boots into maintenance mode, where it waits for
`talosctl apply-config --insecure`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    options = _parse(argv)
    try:
        _run(options)
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILED
    return 0


def show(line: str) -> None:
    """One line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _run(options: argparse.Namespace) -> None:
    place = _make_place(options)
    is_signed = _check_assets(options)
    own = bool(options.configs and not options.config_url)
    site = Site(
        assets=options.directory.resolve(),
        script="" if is_signed else make_script(options.argument, options.config_url),
        configs=_check_configs(options.configs),
        base=place.url if own else "",
        arguments=tuple(options.argument),
    )
    image = f"{place.url}/{ASSETS}/{NETWORK_IMAGE}"
    make_argv = None
    if options.mode != "http":
        if os.geteuid() != 0:
            raise UserError(
                "needs root for DHCP (ports 67 and 4011) and TFTP (port 69)",
                where=f"--mode {options.mode}",
                hint="run it with sudo, or --mode http without",
            )
        tools = find_tools()
        boot = SignedImage(url=image) if is_signed else Loaders(folder=tools.ipxe, efi=options.efi_loader)
        make_argv = partial(_make_argv, tools, place, boot)
    show(f"{options.mode} on {place.interface} ({place.address}); Ctrl+C ends it")
    if is_signed:
        show(f"UEFI boots from {image}")
    serve(place, site, make_argv, describe=str.rstrip if options.verbose else describe_line, show=show)


def _make_argv(tools: Tools, place: BootNetwork, boot: Loaders | SignedImage, leases: Path) -> list[str]:
    return [*tools.dnsmasq, *make_arguments(place, boot, leases)]


def _make_place(options: argparse.Namespace) -> BootNetwork:
    address = find_address(options.interface)
    if options.mode == "full" and not options.range:
        raise UserError("is missing", where="--range", hint="the addresses that may be given: FIRST,LAST")
    if options.mode != "full" and (options.range or options.gateway or options.resolver):
        raise UserError(
            "--range, --gateway and --resolver are for --mode full", where=f"--mode {options.mode}"
        )
    return BootNetwork(
        interface=options.interface,
        address=address,
        port=options.port,
        lease=parse_lease(options.range, address) if options.range else None,
        gateway=options.gateway,
        resolvers=tuple(options.resolver),
    )


def _check_assets(options: argparse.Namespace) -> bool:
    """Whether the folder is a signed one, which UEFI starts."""
    folder: Path = options.directory
    is_signed = (folder / NETWORK_IMAGE).is_file()
    missing = [name for name in (_SIGNED if is_signed else _FILES) if not (folder / name).is_file()]
    if missing:
        command = "nix run .#sign-netboot" if is_signed else "nix build .#netboot"
        raise UserError(f"has no {', '.join(missing)}", where=str(folder), hint=f"build it: {command}")
    if is_signed and (options.argument or options.config_url or options.configs):
        raise UserError(
            "--argument, --config-url and --configs are for iPXE",
            where=str(folder),
            hint="a UKI's arguments are signed: build it by lib.image { kernelArgs = [ … ]; }",
        )
    if is_signed and options.mode == "proxy":
        raise UserError(
            "UEFI that boots from HTTP takes no answer beside a DHCP server's",
            where="--mode proxy",
            hint="--mode full, or --mode http and the URL in the firmware's settings",
        )
    return is_signed


def _check_configs(configs: Path | None) -> Path | None:
    if configs is None:
        return None
    if not configs.is_dir():
        raise UserError(
            "is no folder", where=f"--configs {configs}", hint="one with a .yaml file per machine"
        )
    if not any(configs.glob(f"*{SUFFIX}")):
        raise UserError(
            f"has no {SUFFIX} file",
            where=f"--configs {configs}",
            hint=f"{FALLBACK}{SUFFIX} is for every machine",
        )
    return configs.resolve()


def _parse_address(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no IPv4 address") from None


def _parse_port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port, 1 to 65535")
    return int(text)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="pxe",
        description="Serve what `nix build .#netboot` or `nix run .#sign-netboot` has made to machines.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, help="with boot.ipxe, vmlinuz, initramfs, or signed")
    parser.add_argument("--interface", required=True, help="the network's, with an IPv4 address")
    parser.add_argument("--mode", choices=MODES, default=MODES[0], help="see below (default: %(default)s)")
    parser.add_argument(
        "--range", default="", metavar="FIRST,LAST", help="addresses to give, with --mode full"
    )
    parser.add_argument(
        "--gateway", type=_parse_address, metavar="IP", help="router to name, with --mode full"
    )
    parser.add_argument(
        "--resolver",
        type=_parse_address,
        metavar="IP",
        action="append",
        default=[],
        help="DNS server to name, with --mode full; repeatable",
    )
    parser.add_argument(
        "--port", type=_parse_port, default=_PORT, help="of the web server (default: %(default)s)"
    )
    parser.add_argument("--verbose", action="store_true", help="show every line of dnsmasq's log")
    parser.add_argument("--configs", type=Path, metavar="DIR", help="folder of machine configs")
    parser.add_argument(
        "--config-url", default="", metavar="URL", help="talos.config=URL instead of --configs"
    )
    parser.add_argument(
        "--argument",
        action="append",
        default=[],
        metavar="ARG",
        help="additional kernel argument; repeatable",
    )
    parser.add_argument(
        "--efi-loader",
        default=EFI_LOADER,
        choices=(EFI_LOADER, "ipxe.efi"),
        help="ipxe.efi has network drivers of its own (default: %(default)s)",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
