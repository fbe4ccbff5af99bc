"""``sign`` of an image that names its owner: ``lib.image { secureBoot = …; }`` makes it.

    nix run .#sign -- iso --key ~/db.pem --out signed.iso

What it signs, and the public parts of the owner's keys, are files that its environment names. It takes the
private keys of these public parts and no others.
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from talos.secureboot.disk import sign_disk
from talos.secureboot.esp import sign_esp
from talos.secureboot.iso import sign_iso
from talos.secureboot.keys import KEY_HELP, POLICY_PUBLIC, OwnerKeys, read_keys
from talos.secureboot.netboot import sign_netboot
from talos.secureboot.release import sign_release
from talos.secureboot.sign_netboot import add_network_flags
from talos.secureboot.sign_release import add_update_flags, list_updates
from talos.secureboot.signing import run_signing


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an image consists of, unsigned, and the folder with the public parts of its owner's keys."""

    keys: Path
    uki: Path
    iso: Path
    disk: Path
    release: Path


def main(argv: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """Make one signed file or folder; show which key has signed it."""
    names = ("keys", "uki", "iso", "disk", "release")
    image = Image(**{name: Path(environment[f"TALOS_SIGN_{name.upper()}"]) for name in names})
    options = _parse(argv, image, needs_policy=(image.keys / POLICY_PUBLIC).is_file())
    sign: Callable[[Image, OwnerKeys, argparse.Namespace], x509.Certificate] = options.sign

    def run() -> x509.Certificate:
        return sign(image, read_keys(image.keys, options.key, options.pcr_key), options)

    return run_signing("sign", options.out, run)


def _parse(argv: Sequence[str] | None, image: Image, *, needs_policy: bool) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sign", description=f"Sign this image with the keys whose public parts are {image.keys}."
    )
    kinds = parser.add_subparsers(metavar="KIND", required=True)

    def add(
        name: str, about: str, sign: Callable[[Image, OwnerKeys, argparse.Namespace], x509.Certificate]
    ) -> argparse.ArgumentParser:
        kind = kinds.add_parser(name, help=about, description=f"Make {about}.")
        kind.add_argument("--key", metavar="KEY", required=True, help=f"of the certificate: {KEY_HELP}")
        if needs_policy:
            kind.add_argument("--pcr-key", metavar="KEY", required=True, help=f"of PCR policies: {KEY_HELP}")
        kind.add_argument("--out", type=Path, required=True, help="what to write")
        kind.set_defaults(sign=sign, pcr_key="")
        return kind

    add("iso", "an ISO", _sign_iso)
    add("disk", "a disk image", _sign_disk)
    add("esp", "a folder with the files of an EFI system partition", _sign_esp)
    add_network_flags(add("netboot", "a folder that `nix run .#pxe` serves", _sign_netboot))
    add_update_flags(add("release", "a release, which has no signature as such yet", _sign_release))
    return parser.parse_args(argv)


def _sign_iso(image: Image, keys: OwnerKeys, options: argparse.Namespace) -> x509.Certificate:
    return sign_iso(image.iso, image.uki, keys, options.out)


def _sign_disk(image: Image, keys: OwnerKeys, options: argparse.Namespace) -> x509.Certificate:
    return sign_disk(image.disk, image.uki, keys, options.out)


def _sign_esp(image: Image, keys: OwnerKeys, options: argparse.Namespace) -> x509.Certificate:
    return sign_esp(image.uki, keys, options.out)


def _sign_netboot(image: Image, keys: OwnerKeys, options: argparse.Namespace) -> x509.Certificate:
    return sign_netboot(image.uki, keys, options.out, options.url, options.argument)


def _sign_release(image: Image, keys: OwnerKeys, options: argparse.Namespace) -> x509.Certificate:
    return sign_release(image.release, image.uki, keys, options.out, list_updates(options))
