"""``talosctl gen secureboot database`` and ``update``: the firmware's databases of Secure Boot."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from talos.pki.certificate import parse_certificate
from talos.secureboot.keys import KEY_HELP, read_pair
from talos.secureboot.variables import (
    DATABASE,
    KEY_EXCHANGE_KEY,
    PLATFORM_KEY,
    REVOKED,
    make_authenticated,
    make_digest_list,
    make_owner,
    make_signature_list,
)
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.system.pe import MAGIC, Program
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.output import console
from talos.talosctl.output.files import check_absent, write_file
from talos.upgrade.release.manifest import MAX_UPDATE


def run_database(invocation: Invocation) -> int:
    """Write the variables by which firmware takes a certificate, signed."""
    flags = invocation.flags
    if flags.is_set("include-well-known-uefi-certs"):
        raise UserError(
            "this client carries no certificates of other vendors",
            where="--include-well-known-uefi-certs",
            hint="enroll theirs in the firmware's setup",
        )
    enrolled = flags.text("enrolled-certificate")
    pair = read_pair(flags.text("signing-certificate"), flags.text("signing-key"))
    certificate = parse_certificate(read_file(enrolled), where=enrolled)
    value = make_signature_list([certificate], make_owner(certificate))
    now = datetime.now(UTC)
    variables = (DATABASE, KEY_EXCHANGE_KEY, PLATFORM_KEY)
    return write_files(
        invocation,
        {f"{variable.name}.auth": make_authenticated(variable, value, pair, now) for variable in variables},
    )


def run_update(invocation: Invocation) -> int:
    """Write the signed updates of db and dbx."""
    flags = invocation.flags
    added, revoked = flags.texts("add"), flags.texts("revoke")
    if not (added or revoked):
        raise UserError(
            "nothing is added", where="gen secureboot update", hint="name --add CERTIFICATE or --revoke FILE"
        )
    pair, now = read_pair(flags.text("signing-certificate"), flags.text("signing-key")), datetime.now(UTC)
    owner = make_owner(pair.certificate)
    values = {
        DATABASE: make_signature_list([_read_certificate(name) for name in added], owner),
        REVOKED: b"".join(_revoke(name, owner) for name in revoked),
    }
    files: dict[str, bytes] = {}
    for variable, value in values.items():
        if not value:
            continue
        update = make_authenticated(variable, value, pair, now, append=True)
        if len(update) > MAX_UPDATE:
            raise UserError(
                f"has {len(update)} bytes, firmware takes {MAX_UPDATE}",
                where=f"{variable.name}-update.auth",
                hint="name fewer",
            )
        files[f"{variable.name}-update.auth"] = update
    return write_files(invocation, files)


def _read_certificate(name: str) -> x509.Certificate:
    return parse_certificate(read_file(name), where=name)


def _revoke(name: str, owner: uuid.UUID) -> bytes:
    """An entry for a certificate, whose key has signed what is refused, or for one program; UserError."""
    if read_file(name, len(MAGIC)) != MAGIC:
        return make_signature_list([_read_certificate(name)], owner)
    path = Path(name)
    try:
        with path.open("rb") as file:
            return make_digest_list([Program(file, path.stat().st_size).hash()], owner)
    except ValueError as error:
        raise UserError(str(error), where=name) from None


def write_files(invocation: Invocation, files: Mapping[str, bytes]) -> int:
    """Write them into the folder of the command; 0."""
    folder, force = Path(invocation.flags.text("output")), invocation.flags.is_set("force")
    check_absent(*(folder / name for name in files), force=force)
    for name, content in files.items():
        console.note(f"writing {folder / name}")
        write_file(folder / name, content, force=force)
    return 0


SIGNING_FLAGS = (
    Flag(
        name="signing-certificate",
        default="_out/uki-signing-cert.pem",
        help="the certificate of the key that signs the databases",
    ),
    Flag(
        name="signing-key",
        default="_out/uki-signing-key.pem",
        help=f"the key that signs the databases: {KEY_HELP}",
    ),
)
"""Whose signature the firmware's databases are changed by."""

DATABASE_COMMAND = Command(
    name="database",
    summary="Make the firmware's key databases from a certificate",
    details="Writes db.auth, KEK.auth and PK.auth, with which firmware in setup mode takes the "
    "enrolled certificate as its only one.",
    flags=(
        Flag(
            name="enrolled-certificate",
            default="_out/uki-signing-cert.pem",
            help="the certificate that firmware shall trust",
        ),
        Flag(
            name="include-well-known-uefi-certs",
            type=Type.BOOL,
            default="false",
            help="also those of the vendors of option ROMs; this client has none",
        ),
        *SIGNING_FLAGS,
    ),
    run=run_database,
)

UPDATE_COMMAND = Command(
    name="update",
    summary="Make updates of the firmware's databases, for a release",
    details="Writes db-update.auth, by which firmware trusts further certificates, and dbx-update.auth, by "
    "which it starts no more what is revoked. `nix run .#sign-release` puts them into a release.",
    flags=(
        Flag(name="add", type=Type.STRING_ARRAY, help="a certificate that firmware shall trust, too"),
        Flag(
            name="revoke",
            type=Type.STRING_ARRAY,
            help="a certificate, or an EFI program, that firmware shall start no more",
        ),
        *SIGNING_FLAGS,
    ),
    run=run_update,
)
