"""The files by which firmware in setup mode takes an owner's keys: PK.auth, KEK.auth and db.auth."""

from collections.abc import Sequence
from pathlib import Path

from cryptography import x509

from talos.pki.authenticode import is_issued
from talos.system.efi_signatures import X509, parse_update
from talos.system.errors import UserError
from talos.system.files import read_file

DATABASE = "db.auth"
VARIABLES = ("PK.auth", "KEK.auth", DATABASE)
_HINT = "`talosctl gen secureboot database` writes all of them"


def find_variables(folder: Path, certificate: x509.Certificate) -> Sequence[Path]:
    """All of a folder, or none: then the firmware has its keys already.

    UserError, also where firmware with these keys would not start what ``certificate`` has signed.
    """
    there = [folder / name for name in VARIABLES if (folder / name).is_file()]
    if there and len(there) < len(VARIABLES):
        raise UserError(
            f"has only {', '.join(path.name for path in there)} of {', '.join(VARIABLES)}",
            where=str(folder),
            hint=_HINT,
        )
    for path in there:
        certificates = _read_certificates(path)
        if path.name == DATABASE and not any(is_issued(certificate, each) for each in certificates):
            raise UserError(
                f"does not have {certificate.subject.rfc4514_string()}, the certificate of what is signed",
                where=str(path),
                hint=_HINT,
            )
    return there


def _read_certificates(path: Path) -> Sequence[x509.Certificate]:
    """Those that a variable has."""
    try:
        entries = parse_update(read_file(path))
        return [x509.load_der_x509_certificate(each.data) for each in entries if each.kind == X509]
    except ValueError as error:
        raise UserError(f"is no signed variable: {error}", where=str(path), hint=_HINT) from None
