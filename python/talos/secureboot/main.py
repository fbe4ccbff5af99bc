"""``nix run .#sign-efi``: sign an EFI program for Secure Boot."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from talos.secureboot.keys import KEY_HELP, read_pair
from talos.secureboot.signing import run_signing, sign_image


def main(argv: Sequence[str] | None = None) -> int:
    """Sign one file; show which key has signed it."""
    options = _parse(argv)
    image: Path = options.image
    out: Path = options.out or image.with_name(f"{image.stem}.signed{image.suffix}")
    return run_signing(
        "sign-efi", out, lambda: sign_image(image, out, read_pair(options.certificate, options.key))
    )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sign-efi", description="Sign an EFI program, such as those of .#uki, for Secure Boot."
    )
    parser.add_argument("--key", metavar="KEY", required=True, help=f"the private key, RSA: {KEY_HELP}")
    parser.add_argument("--certificate", type=Path, required=True, help="its certificate in PEM")
    parser.add_argument("--out", type=Path, help="the signed copy (default: NAME.signed.efi beside it)")
    parser.add_argument("image", type=Path)
    return parser.parse_args(argv)
