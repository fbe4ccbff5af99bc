"""``nix run .#sign-disk``: make a disk image start under Secure Boot."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from talos.secureboot.disk import sign_disk
from talos.secureboot.keys import add_key_flags, read_options
from talos.secureboot.signing import run_signing


def main(argv: Sequence[str] | None = None) -> int:
    """Make a signed copy; show which key has signed it."""
    options = _parse(argv)
    out: Path = options.out
    return run_signing(
        "sign-disk", out, lambda: sign_disk(options.disk, options.uki, read_options(options), out)
    )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sign-disk",
        description="Make a disk image that starts by a signed systemd-boot and UKI, not by GRUB.",
    )
    add_key_flags(parser)
    parser.add_argument("--uki", type=Path, required=True, help="what `nix build .#uki` has made")
    parser.add_argument("--out", type=Path, required=True, help="the signed copy")
    parser.add_argument("disk", type=Path, help="disk.raw of `nix build .#disk-image`")
    return parser.parse_args(argv)
