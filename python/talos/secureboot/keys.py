"""The keys of an owner: a folder of `talosctl gen secureboot`, whose private keys may be elsewhere."""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from talos.pki.authority import Usage, make_root_builder
from talos.pki.certificate import parse_certificate
from talos.pki.keys import PublicKey, parse_public_key
from talos.pki.names import make_subject
from talos.pki.signer import Signer, is_remote, open_signer, read_signer
from talos.secureboot.signed_data import SigningPair, sign_certificate
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.system.tpm.signed_policy import check_key

KEY, CERTIFICATE = "uki-signing-key.pem", "uki-signing-cert.pem"
POLICY_KEY, POLICY_PUBLIC = "pcr-signing-key.pem", "pcr-signing-public-key.pem"
"""Files of the folder. Where it has the last one, the private key has to be that one's, wherever it is."""
KEY_HELP = "a file in PEM, pkcs11:URI, or command:PROGRAM ARGUMENTS"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerKeys:
    """Who signs programs, and policies of PCR 11 if there is a key for them.

    ``folder`` has the firmware's variables.
    """

    folder: Path
    programs: SigningPair
    policies: Signer | None


def read_keys(
    folder: Path, key: str = "", pcr_key: str = "", environment: Mapping[str, str] = os.environ
) -> OwnerKeys:
    """The keys of a folder, or others in place of its private ones. UserError."""
    policy = pcr_key or (str(folder / POLICY_KEY) if (folder / POLICY_KEY).is_file() else "")
    return OwnerKeys(
        folder=folder,
        programs=read_pair(folder / CERTIFICATE, key or str(folder / KEY), environment),
        policies=_read_policy_key(policy, folder / POLICY_PUBLIC, environment),
    )


def read_pair(certificate: Path | str, key: str, environment: Mapping[str, str] = os.environ) -> SigningPair:
    """A certificate whose signatures firmware accepts, and who signs with its key. UserError."""
    owner, public = read_certificate(certificate)
    return SigningPair(certificate=owner, signer=open_signer(key, public, str(certificate), environment))


def read_certificate(path: Path | str) -> tuple[x509.Certificate, RSAPublicKey]:
    """A certificate whose signatures firmware accepts, and its key. UserError."""
    found = parse_certificate(read_file(path), where=str(path))
    public = found.public_key()
    if not isinstance(public, RSAPublicKey):
        raise UserError("firmware takes RSA keys only", where=str(path))
    return found, public


def read_policy_public(path: Path) -> RSAPublicKey:
    """The public half of a key of PCR policies. UserError."""
    return _check_policy_key(parse_public_key(read_file(path), where=str(path)), str(path))


def make_certificate(key: str, public: Path | str, common_name: str, ttl: timedelta) -> x509.Certificate:
    """A certificate for signatures of programs, of a key that may be in no file, signed by it. UserError."""
    found = parse_public_key(read_file(public), where=str(public))
    if not isinstance(found, RSAPublicKey):
        raise UserError("firmware takes RSA keys only", where=str(public))
    builder = make_root_builder(found, make_subject(common_name, ()), ttl, Usage.CODE_SIGNING)
    return sign_certificate(builder, open_signer(key, found, str(public)))


def add_key_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of :func:`read_options`."""
    parser.add_argument("--keys", type=Path, required=True, help="folder of `talosctl gen secureboot`")
    parser.add_argument(
        "--key", metavar="KEY", default="", help=f"in place of the folder's {KEY}: {KEY_HELP}"
    )
    parser.add_argument(
        "--pcr-key",
        metavar="KEY",
        default="",
        help=f"in place of the folder's {POLICY_KEY}; the folder has {POLICY_PUBLIC} then",
    )


def read_options(options: argparse.Namespace) -> OwnerKeys:
    """The keys of these flags. UserError."""
    return read_keys(options.keys, options.key, options.pcr_key)


def _read_policy_key(key: str, public: Path, environment: Mapping[str, str]) -> Signer | None:
    """Who signs policies; None where there is neither half of a key."""
    has_public = public.is_file()
    if not key and not has_public:
        return None
    if not key:
        raise UserError("its private key is missing", where=str(public), hint="--pcr-key names it")
    if is_remote(key):
        return open_signer(key, read_policy_public(public), str(public), environment)
    signer = read_signer(key)
    _check_policy_key(signer.public, key)
    if has_public and signer.public != read_policy_public(public):
        raise UserError(f"does not belong to {public}", where=key)
    return signer


def _check_policy_key(public: PublicKey, where: str) -> RSAPublicKey:
    try:
        return check_key(public)
    except ValueError as error:
        raise UserError(str(error), where=where, hint="`talosctl gen secureboot pcr` makes one") from None
