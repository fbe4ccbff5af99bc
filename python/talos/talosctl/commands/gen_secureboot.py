"""``talosctl gen secureboot``: the keys that boot images and disk encryption policies are signed with."""

import hashlib
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import parse_certificate
from talos.pki.keys import KeyType, key_to_pem
from talos.secureboot.signing import read_pair
from talos.secureboot.variables import (
    DATABASE,
    KEY_EXCHANGE_KEY,
    PLATFORM_KEY,
    Signer,
    make_authenticated,
    make_signature_list,
)
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.output import console
from talos.talosctl.output.files import check_absent, write_file

LIFETIME = timedelta(days=3650)
PCR_BITS = 2048
"""TPMs need not have more (TCG PC Client Platform TPM Profile)."""


def run_uki(invocation: Invocation) -> int:
    """Write the key that boot images are signed with, and its certificate as PEM and DER."""
    authority = CertificateAuthority.generate(
        KeyType.RSA4096,
        common_name=invocation.flags.text("common-name"),
        ttl=LIFETIME,
        usages=Usage.CODE_SIGNING,
    )
    der = authority.certificate.public_bytes(serialization.Encoding.DER)
    files = {
        "uki-signing-cert.pem": authority.pem.crt,
        "uki-signing-cert.der": der,
        "uki-signing-key.pem": authority.pem.key,
    }
    return _write(invocation, files)


def run_pcr(invocation: Invocation) -> int:
    """Write the key that the expected values of PCRs are signed with."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=PCR_BITS)
    return _write(invocation, {"pcr-signing-key.pem": key_to_pem(key)})


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
    signing, key = read_pair(flags.text("signing-certificate"), flags.text("signing-key"))
    signer = Signer(certificate=signing, key=key)
    certificate = parse_certificate(read_file(enrolled), where=enrolled)
    # Any id will do; one that follows from the certificate makes the same database again.
    digest = hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).digest()
    value = make_signature_list([certificate], uuid.UUID(bytes=digest[:16], version=4))
    now = datetime.now(UTC)
    variables = (DATABASE, KEY_EXCHANGE_KEY, PLATFORM_KEY)
    return _write(
        invocation,
        {f"{variable.name}.auth": make_authenticated(variable, value, signer, now) for variable in variables},
    )


def _write(invocation: Invocation, files: Mapping[str, bytes]) -> int:
    folder, force = Path(invocation.flags.text("output")), invocation.flags.is_set("force")
    check_absent(*(folder / name for name in files), force=force)
    for name, content in files.items():
        console.note(f"writing {folder / name}")
        write_file(folder / name, content, force=force)
    return 0


COMMAND = Command(
    name="secureboot",
    summary="Make keys for Secure Boot and encrypted disks",
    inherited=(Flag(name="output", short="o", default="_out", help="the folder to write into"),),
    commands=(
        Command(
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
                Flag(
                    name="signing-certificate",
                    default="_out/uki-signing-cert.pem",
                    help="the certificate of the key that signs the databases",
                ),
                Flag(
                    name="signing-key",
                    default="_out/uki-signing-key.pem",
                    help="the key that signs the databases",
                ),
            ),
            run=run_database,
        ),
        Command(name="pcr", summary="Make the key that PCR values are signed with", run=run_pcr),
        Command(
            name="uki",
            summary="Make the key and certificate that boot images are signed with",
            flags=(
                Flag(
                    name="common-name",
                    default="Test UKI Signing Key",
                    help="the certificate's common name",
                ),
            ),
            run=run_uki,
        ),
    ),
)
