"""``nix run .#sign-iso``: make an ISO start under Secure Boot."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from talos.secureboot.iso import sign_iso
from talos.secureboot.keys import add_key_flags, read_options
from talos.secureboot.signing import run_signing


def main(argv: Sequence[str] | None = None) -> int:
    """Make a signed copy; show which key has signed it."""
    options = _parse(argv)
    out: Path = options.out
    return run_signing(
        "sign-iso", out, lambda: sign_iso(options.iso, options.uki, read_options(options), out)
    )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sign-iso",
        description="Copy an ISO, with a signed systemd-boot and UKI in place of GRUB, kernel and initramfs.",
    )
    add_key_flags(parser)
    parser.add_argument("--uki", type=Path, required=True, help="what `nix build .#uki` has made")
    parser.add_argument("--out", type=Path, required=True, help="the signed copy")
    parser.add_argument("iso", type=Path, help="what `nix build .#iso` has made")
    return parser.parse_args(argv)
