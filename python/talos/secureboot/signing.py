"""EFI programs signed for Secure Boot (Authenticode), by Debian's sbsigntool."""

import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from talos.pki.certificate import has_key, parse_certificate
from talos.pki.keys import key_fingerprint, parse_key
from talos.secureboot.programs import Programs
from talos.secureboot.sections import add_signed_policy, read_policy_key
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.system.pe import MAGIC
from talos.system.process import make_pinned_argv, run_command

ROOT_VARIABLE = "TALOS_UKI_ROOT"
KEY, CERTIFICATE, POLICY_KEY = "uki-signing-key.pem", "uki-signing-cert.pem", "pcr-signing-key.pem"
"""What `talosctl gen secureboot` writes."""


def sign_image(
    image: Path, out: Path, *, key: Path, certificate: Path, environment: Mapping[str, str] = os.environ
) -> x509.Certificate:
    """Write a signed copy of an image, which firmware that has the certificate starts; the certificate.

    UserError, OSError; then there is no copy.
    """
    root = environment.get(ROOT_VARIABLE, "")
    if not root:
        raise UserError("is not set", where=ROOT_VARIABLE, hint="start it as `nix run .#sign-efi`")
    signer, _ = read_pair(certificate, key)
    if read_file(image, len(MAGIC)) != MAGIC:
        raise UserError("is no EFI program", where=str(image), hint="sign the .efi files of .#uki")
    argv = make_pinned_argv(root, "usr/bin/sbsign")
    with open_copy(out) as new:
        argv = (*argv, "--key", str(key), "--cert", str(certificate), "--output", str(new), str(image))
        # Not the host's settings of OpenSSL, which name modules of its own.
        run_command(argv, env={"OPENSSL_CONF": "/dev/null"})
    return signer


@contextmanager
def open_copy(out: Path) -> Generator[Path]:
    """The file to write, which takes the place of ``out`` at the end, and is gone after an error."""
    new = out.with_name(f".{out.name}.new")
    try:
        yield new
        new.replace(out)
    finally:
        new.unlink(missing_ok=True)


def sign_uki(
    image: Path, out: Path, keys: Path, environment: Mapping[str, str] = os.environ
) -> x509.Certificate:
    """Write a signed copy of a UKI by the keys of a folder; the certificate.

    Where there is a key of PCR policies, the copy has the signed policy of PCR 11. UserError, OSError.
    """
    sign = partial(sign_image, key=keys / KEY, certificate=keys / CERTIFICATE, environment=environment)
    if not (keys / POLICY_KEY).is_file():
        return sign(image, out)
    measured = out.with_name(f".{out.name}.measured")
    try:
        add_signed_policy(image, measured, read_policy_key(keys / POLICY_KEY))
        return sign(measured, out)
    finally:
        measured.unlink(missing_ok=True)


def sign_programs(
    programs: Programs, image: Path, loader: Path, keys: Path, environment: Mapping[str, str] = os.environ
) -> x509.Certificate:
    """Write signed copies of a UKI and of its boot loader by the keys of a folder; the certificate.

    UserError, OSError.
    """
    signer = sign_uki(programs.image, image, keys, environment)
    key, certificate = keys / KEY, keys / CERTIFICATE
    sign_image(programs.loader, loader, key=key, certificate=certificate, environment=environment)
    return signer


def read_pair(certificate: Path | str, key: Path | str) -> tuple[x509.Certificate, rsa.RSAPrivateKey]:
    """A certificate whose signatures firmware accepts, and its key. UserError."""
    signer = parse_certificate(read_file(certificate), where=str(certificate))
    private = parse_key(read_file(key), where=str(key))
    if not isinstance(private, rsa.RSAPrivateKey):
        raise UserError("firmware takes RSA keys only", where=str(key))
    if not has_key(signer, private):
        raise UserError(f"does not belong to {certificate}", where=str(key))
    return signer, private


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
