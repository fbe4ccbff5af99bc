"""``nix run .#siderolink``: a management service that machines connect to, to try SideroLink with."""

import argparse
from collections.abc import Sequence
from ipaddress import IPv6Address, IPv6Network

from talos.pki.wireguard import is_key
from talos.serving.address import parse_address
from talos.serving.program import make_parser, read_endpoint, run_server
from talos.siderolink.registry import SERVER, Admit, Registry
from talos.siderolink.server import PORT, LinkServer, Settings
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.net.wireguard import (
    WireguardChange,
    WireguardPeer,
    change_wireguard,
    read_wireguard,
)

_EXAMPLE = "192.0.2.1:51820"
_EPILOG = f"""\
The server's own end is a WireGuard link of this machine, whose peers the server sets, as root:

  ip link add siderolink type wireguard
  wg genkey | wg set siderolink listen-port 51820 private-key /dev/stdin
  ip address add {SERVER} dev siderolink && ip link set siderolink mtu 1280 up
  nix run .#siderolink -- --link siderolink --endpoint {_EXAMPLE} --join-token TOKEN

A machine connects with this document, or with the kernel argument siderolink.api=URL:

  apiVersion: v1alpha1
  kind: SideroLinkConfig
  apiUrl: grpc://192.0.2.1:{PORT}?jointoken=TOKEN

With &grpc_tunnel=true at the end of the URL its packets come to this server over gRPC, which passes them on
to the link, or to the first --endpoint: for networks that let no UDP through.

With --public-key instead of --link WireGuard is elsewhere, and the peers are lines of the log. Without --cert
it serves plain HTTP/2 (grpc://), in which the token can be read; Ed25519 certificates don't work here: take
ECDSA or RSA. It also is a sink of events (EventSinkConfig), which it logs.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    options = _parse(argv)

    def make(log: Log) -> LinkServer:
        settings = make_settings(options)
        admit = make_admit(options.link) if options.link else admit_elsewhere
        return LinkServer(settings, Registry(options.join_token, admit), log)

    return run_server("siderolink", make)


def make_settings(options: argparse.Namespace) -> Settings:
    """The settings of the flags, with the files and the link's key read. UserError."""
    for text in options.endpoint:
        if not parse_address(text, "--endpoint", _EXAMPLE)[0]:
            raise UserError(f'"{text}" has no host', where="--endpoint", hint=f"write it like {_EXAMPLE}")
    if bool(options.link) == bool(options.public_key):
        raise UserError("exclude each other", where="--link, --public-key", hint="give one of them")
    if options.link:
        key, link_port = _read_link(options.link)
        relayed = "127.0.0.1", link_port
    else:
        key, relayed = options.public_key, parse_address(options.endpoint[0], "--endpoint", _EXAMPLE)
    if not is_key(key):
        where = options.link or "--public-key"
        raise UserError("is no key of WireGuard", where=where, hint="`wg genkey | wg pubkey` makes one")
    return Settings(
        endpoint=read_endpoint(options, PORT),
        public_key=key,
        wireguard=options.endpoint,
        relayed=relayed,
    )


def make_admit(link: str) -> Admit:
    """Machines become peers of the link."""

    def admit(key: str, address: IPv6Address, old: str) -> None:
        peer = WireguardPeer(public_key=key, networks=frozenset({IPv6Network(address)}))
        change_wireguard(link, WireguardChange(peers=[peer], removed=[old] if old else []))

    return admit


def admit_elsewhere(key: str, address: IPv6Address, old: str) -> None:
    """The log has what an administrator of that WireGuard needs."""
    del key, address, old


def _read_link(link: str) -> tuple[str, int]:
    """Its public key, and the port on which it listens. UserError."""
    try:
        state = read_wireguard(link)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "it is a WireGuard link of this machine, and root is needed"
        raise UserError(reason, where=f"link {link}", hint=hint) from None
    return state.public_key, state.listen_port


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    description = "Give machines their end of a WireGuard link, through which they are managed."
    parser = make_parser("siderolink", description, _EPILOG, PORT)
    parser.add_argument("--link", default="", help="the WireGuard link of this machine that has the peers")
    parser.add_argument("--public-key", default="", help="the public key of a WireGuard elsewhere")
    parser.add_argument(
        "--endpoint",
        action="append",
        required=True,
        help="host and port where machines reach WireGuard; several are tried in turn",
    )
    parser.add_argument("--join-token", default="", help="what machines must show (default: all may join)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
