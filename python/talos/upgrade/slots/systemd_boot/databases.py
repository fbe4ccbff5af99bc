"""The databases by which firmware with Secure Boot starts programs, and what a release adds to them.

``db`` has whom firmware trusts, ``dbx`` what it starts no more. Both are added to by files that a key of the
firmware's KEK has signed; that signature is compared by the firmware itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """The signed updates of the two databases; empty where there is none. ValueError for damaged ones."""

    db: bytes = b""
    dbx: bytes = b""

    def list(self, name: str) -> Sequence[Signature]:
        """What is added to a database."""
        update = {DB: self.db, DBX: self.dbx}[name]
        return parse_update(update) if update else ()


NO_UPDATES = Updates()


def read_updates(release: Release) -> Updates:
    """Those of a release. UserError for what is none."""
    layer, found = release.layer, dict[str, bytes]()
    for name, file in UPDATES.items():
        if file not in layer.files:
            continue
        where = f"image {release.name}: {file}"
        if layer.files[file].size > MAX_UPDATE:
            raise UserError(f"has more than {MAX_UPDATE} bytes", where=where)
        found[name] = b"".join(layer.read(file))
        try:
            parse_update(found[name])
        except ValueError as error:
            raise UserError(
                f"is no signed update of {name}: {error}",
                where=where,
                hint="talosctl gen secureboot update writes one",
            ) from None
    return Updates(db=found.get(DB, b""), dbx=found.get(DBX, b""))


def find_changed(variables: EfiVariables, updates: Updates) -> Sequence[str]:
    """The databases that do not have all of these updates. OSError, ValueError for damaged databases."""
    return [name for name in (DB, DBX) if not set(updates.list(name)) <= set(_read(variables, name))]


def read_trust(variables: EfiVariables, updates: Updates) -> Trust:
    """Whose programs firmware starts once it has these updates. OSError, ValueError for damaged databases."""
    trusted, revoked = ((*_read(variables, name), *updates.list(name)) for name in (DB, DBX))
    digests = {entry.data for entry in revoked if entry.kind == SHA256}
    digests |= {entry.data[:_DIGEST] for entry in revoked if entry.kind == X509_SHA256}
    return Trust(
        trusted=_list_certificates(trusted), revoked=_list_certificates(revoked), digests=frozenset(digests)
    )


def _read(variables: EfiVariables, name: str) -> Sequence[Signature]:
    return parse_signatures(variables.read(name) or b"")


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
