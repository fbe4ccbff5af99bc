"""Copies of EFI programs that are signed for Secure Boot."""

import shutil
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509

from talos.pki.keys import key_fingerprint
from talos.secureboot.authenticode import add_signature
from talos.secureboot.keys import OwnerKeys
from talos.secureboot.programs import Programs
from talos.secureboot.sections import add_signed_policy
from talos.secureboot.signed_data import SigningPair
from talos.system.errors import UserError


def sign_image(image: Path, out: Path, pair: SigningPair) -> x509.Certificate:
    """Write a signed copy of an image, which firmware that has the certificate starts; the certificate.

    UserError, OSError; then there is no copy.
    """
    with open_copy(out) as new:
        shutil.copyfile(image, new)
        try:
            add_signature(new, pair)
        except ValueError as error:
            raise UserError(str(error), where=str(image), hint="sign the .efi files of .#uki") from None
    return pair.certificate


@contextmanager
def open_copy(out: Path) -> Generator[Path]:
    """The file to write, which takes the place of ``out`` at the end, and is gone after an error."""
    new = out.with_name(f".{out.name}.new")
    try:
        yield new
        new.replace(out)
    finally:
        new.unlink(missing_ok=True)


def sign_programs(programs: Programs, image: Path, loader: Path, keys: OwnerKeys) -> x509.Certificate:
    """Write signed copies of a UKI and of its boot loader; the certificate.

    Where there is a key of PCR policies, the UKI has the signed policy of PCR 11. UserError, OSError.
    """
    _sign_uki(programs.image, image, keys)
    return sign_image(programs.loader, loader, keys.programs)


def _sign_uki(image: Path, out: Path, keys: OwnerKeys) -> None:
    if keys.policies is None:
        sign_image(image, out, keys.programs)
        return
    measured = out.with_name(f".{out.name}.measured")
    try:
        add_signed_policy(image, measured, keys.policies)
        sign_image(measured, out, keys.programs)
    finally:
        measured.unlink(missing_ok=True)


def run_signing(program: str, out: Path, sign: Callable[[], x509.Certificate]) -> int:
    """Sign, and show which key has signed ``out``, or why nothing has; the exit code."""
    try:
        signer = sign()
    except (UserError, OSError) as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 1
    key = key_fingerprint(signer.public_key())
    sys.stdout.write(f"{out}: {signer.subject.rfc4514_string()}, key {key}\n")
    return 0
