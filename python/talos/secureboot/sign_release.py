"""``nix run .#sign-release``: make a release that starts under Secure Boot."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from talos.secureboot.keys import add_key_flags, read_options
from talos.secureboot.release import sign_release
from talos.secureboot.signing import run_signing
from talos.upgrade.release.manifest import UPDATES


def main(argv: Sequence[str] | None = None) -> int:
    """Make a release with signed programs; show which key has signed them."""
    options = _parse(argv)
    out: Path = options.out
    return run_signing(
        "sign-release",
        out,
        lambda: sign_release(options.release, options.uki, read_options(options), out, list_updates(options)),
    )


def add_update_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of :func:`list_updates`."""
    for name in UPDATES:
        parser.add_argument(
            f"--{name}", type=Path, help=f"{name}-update.auth of `talosctl gen secureboot update`"
        )


def list_updates(options: argparse.Namespace) -> Mapping[str, Path]:
    """The files that add to the firmware's databases, by the databases' names."""
    return {name: path for name in UPDATES if (path := getattr(options, name))}


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sign-release",
        description="Copy a release, with a signed systemd-boot and UKI in place of kernel and initramfs.",
    )
    add_key_flags(parser)
    parser.add_argument("--uki", type=Path, required=True, help="what `nix build .#uki` has made")
    parser.add_argument("--out", type=Path, required=True, help="the copy, which `nix run .#sign` signs")
    add_update_flags(parser)
    parser.add_argument("release", type=Path, help="what `nix build .#release` has made")
    return parser.parse_args(argv)
