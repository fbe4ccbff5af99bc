"""A program that makes a signed copy of a medium: an ISO or a disk image."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography import x509

from talos.secureboot.keys import OwnerKeys, add_key_flags, read_options
from talos.secureboot.signing import run_signing


def run_media_signing(
    sign: Callable[[Path, Path, OwnerKeys, Path], x509.Certificate],
    argv: Sequence[str] | None,
    *,
    program: str,
    description: str,
    medium: tuple[str, str],
) -> int:
    """Make a signed copy; show which key has signed it. ``medium`` is the argument's name and its help."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    add_key_flags(parser)
    parser.add_argument("--uki", type=Path, required=True, help="what `nix build .#uki` has made")
    parser.add_argument("--out", type=Path, required=True, help="the signed copy")
    name, about = medium
    parser.add_argument("medium", type=Path, metavar=name, help=about)
    options = parser.parse_args(argv)
    out: Path = options.out
    return run_signing(program, out, lambda: sign(options.medium, options.uki, read_options(options), out))
