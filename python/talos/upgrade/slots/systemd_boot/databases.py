"""The databases by which firmware with Secure Boot starts programs, and what a release adds to them.

``db`` has whom firmware trusts, ``dbx`` what it starts no more. Both are added to by files that a key of the
firmware's KEK has signed; that signature is compared by the firmware itself.
"""

from collections.abc import Mapping, Sequence

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from talos.pki.authenticode import Trust
from talos.system.efi_signatures import SHA256, X509, X509_SHA256, Signature, parse_signatures, parse_update
from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.upgrade.release.layer import Release
from talos.upgrade.release.manifest import MAX_UPDATE, UPDATES

DB, DBX = "db", "dbx"
_DIGEST = 32
"""Bytes of a SHA-256, which a time follows where it is a certificate's."""


type Updates = Mapping[str, bytes]
"""Signed updates by the databases' names."""
NO_UPDATES: Updates = {}


def read_updates(release: Release) -> Updates:
    """Those of a release. UserError for what is none."""
    layer, found = release.layer, dict[str, bytes]()
    for name, file in UPDATES.items():
        if file in layer.files:
            where = f"image {release.name}: {file}"
            check_size(layer.files[file].size, where)
            found[name] = b"".join(layer.read(file))
            check_update(name, found[name], where)
    return found


def check_size(size: int, where: str) -> None:
    """UserError for an update of more bytes than firmware takes."""
    if size > MAX_UPDATE:
        raise UserError(f"has more than {MAX_UPDATE} bytes", where=where)


def check_update(name: str, update: bytes, where: str) -> None:
    """UserError for what is no update of a database."""
    try:
        parse_update(update)
    except ValueError as error:
        raise UserError(
            f"is no signed update of {name}: {error}",
            where=where,
            hint="talosctl gen secureboot update writes one",
        ) from None


def find_changed(variables: EfiVariables, updates: Updates) -> Sequence[str]:
    """The databases that do not have all of these updates. OSError, ValueError for damaged databases."""
    return [
        name
        for name, update in updates.items()
        if not set(parse_update(update)) <= set(_read(variables, name))
    ]


def read_trust(variables: EfiVariables, updates: Updates) -> Trust:
    """Whose programs firmware starts once it has these updates. OSError, ValueError for damaged databases."""
    trusted, revoked = ([*_read(variables, name), *_list_added(updates, name)] for name in (DB, DBX))
    digests = {entry.data for entry in revoked if entry.kind == SHA256}
    digests |= {entry.data[:_DIGEST] for entry in revoked if entry.kind == X509_SHA256}
    return Trust(
        trusted=_list_certificates(trusted), revoked=_list_certificates(revoked), digests=frozenset(digests)
    )


def _read(variables: EfiVariables, name: str) -> Sequence[Signature]:
    return parse_signatures(variables.read(name) or b"")


def _list_added(updates: Updates, name: str) -> Sequence[Signature]:
    return parse_update(updates[name]) if name in updates else ()


def _list_certificates(entries: Sequence[Signature]) -> Sequence[x509.Certificate]:
    """The certificates among them that can be read; programs that ``db`` names by digest are none of ours."""
    found: list[x509.Certificate] = []
    for entry in entries:
        if entry.kind == X509:
            try:
                found.append(x509.load_der_x509_certificate(entry.data))
            except (ValueError, UnsupportedAlgorithm):
                continue
    return found
