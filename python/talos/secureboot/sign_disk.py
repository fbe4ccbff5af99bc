"""``nix run .#sign-disk``: make a disk image start under Secure Boot."""

from collections.abc import Sequence

from talos.secureboot.disk import sign_disk
from talos.secureboot.sign_media import run_media_signing


def main(argv: Sequence[str] | None = None) -> int:
    """Make a signed copy; show which key has signed it."""
    return run_media_signing(
        sign_disk,
        argv,
        program="sign-disk",
        description="Make a disk image that starts by a signed systemd-boot and UKI, not by GRUB.",
        medium=("disk", "disk.raw of `nix build .#disk-image`"),
    )
