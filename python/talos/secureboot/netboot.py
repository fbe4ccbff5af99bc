"""What UEFI boots from HTTP under Secure Boot: the signed UKI, and systemd-boot to install with it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509

from talos.secureboot.keys import OwnerKeys
from talos.secureboot.programs import find_programs
from talos.secureboot.sections import add_arguments
from talos.secureboot.signing import sign_programs
from talos.system.errors import UserError
from talos.upgrade.slots.systemd_boot.entry import NETWORK_IMAGE, NETWORK_LOADER, NETWORK_URL


def sign_netboot(
    uki: Path, keys: OwnerKeys, out: Path, url: str, arguments: Sequence[str] = ()
) -> x509.Certificate:
    """Write the folder that is to be served at ``url``, or its files anew; the certificate.

    ``arguments`` are the kernel's, added to those of the image.
    UserError, OSError.
    """
    programs = find_programs(uki)
    if out.exists() and not out.is_dir():
        raise UserError("is no folder", where=str(out))
    for word in arguments:
        if not word.isprintable() or " " in word:
            raise UserError(
                f"{word!r} can't be a kernel argument", where="--argument", hint="no blanks in it"
            )
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out, prefix=".") as folder:
        image = Path(folder, NETWORK_IMAGE)
        place = f"{url.rstrip('/')}/{NETWORK_IMAGE}"
        add_arguments(programs.image, image, [f"{NETWORK_URL}={place}", *arguments])
        changed = replace(programs, image=image)
        return sign_programs(changed, out / NETWORK_IMAGE, out / NETWORK_LOADER, keys)
