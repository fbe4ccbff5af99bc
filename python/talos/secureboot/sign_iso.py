"""``nix run .#sign-iso``: make an ISO start under Secure Boot."""

from collections.abc import Sequence

from talos.secureboot.iso import sign_iso
from talos.secureboot.sign_media import run_media_signing


def main(argv: Sequence[str] | None = None) -> int:
    """Make a signed copy; show which key has signed it."""
    return run_media_signing(
        sign_iso,
        argv,
        program="sign-iso",
        description="Copy an ISO, with a signed systemd-boot and UKI in place of GRUB, kernel and initramfs.",
        medium=("iso", "what `nix build .#iso` has made"),
    )
