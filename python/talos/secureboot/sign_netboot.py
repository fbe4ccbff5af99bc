"""``nix run .#sign-netboot``: make the files that firmware starts over the network under Secure Boot."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from talos.secureboot.keys import add_key_flags, read_options
from talos.secureboot.netboot import sign_netboot
from talos.secureboot.signing import run_signing

_URL = re.compile(r"https?://[^/\s]+(?:/\S*)?")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the folder; show which key has signed it."""
    options = _parse(argv)
    out: Path = options.out
    return run_signing(
        "sign-netboot",
        out,
        lambda: sign_netboot(options.uki, read_options(options), out, options.url, options.argument),
    )


def _parse_url(text: str) -> str:
    if not _URL.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL, such as http://10.0.0.2:8080/assets")
    return text


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sign-netboot",
        description="Make a folder with a signed UKI and systemd-boot, which `nix run .#pxe` serves.",
    )
    add_key_flags(parser)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    add_network_flags(parser)
    parser.add_argument("uki", type=Path, help="what `nix build .#uki` has made")
    return parser.parse_args(argv)


def add_network_flags(parser: argparse.ArgumentParser) -> None:
    """The flags ``--url`` and ``--argument``."""
    parser.add_argument(
        "--url",
        type=_parse_url,
        required=True,
        help="where it is served, such as http://10.0.0.2:8080/assets",
    )
    parser.add_argument(
        "--argument",
        action="append",
        default=[],
        metavar="ARG",
        help="additional kernel argument; repeatable",
    )
