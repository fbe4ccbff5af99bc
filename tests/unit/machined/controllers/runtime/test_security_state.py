"""How a machine was started, read from what the firmware and the kernel show."""

import base64
import hashlib
import struct
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.runtime_pb2 import SecurityStateSpec
from talos.machined.controllers.runtime.security_state import read_security_state
from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType, key_fingerprint
from talos.secureboot.variables import make_signature_list
from talos.testing.files import MemoryFiles

GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
SECURITY = "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
VARIABLES = "/sys/firmware/efi/efivars"


def make_variable(value: bytes) -> bytes:
    return b"\6\0\0\0" + value


def test_a_machine_without_anything() -> None:
    assert read_security_state(MemoryFiles({"/x": ""})) == SecurityStateSpec()


@pytest.mark.parametrize(("setup_mode", "is_secure"), [(b"\0", True), (b"\1", False)])
def test_a_machine_with_firmware(setup_mode: bytes, *, is_secure: bool) -> None:
    files = MemoryFiles(
        {
            f"{VARIABLES}/SecureBoot-{GLOBAL}": make_variable(b"\1"),
            f"{VARIABLES}/SetupMode-{GLOBAL}": make_variable(setup_mode),
            f"{VARIABLES}/StubInfo-{LOADER}": make_variable("systemd-stub 257\0".encode("utf-16-le")),
            "/sys/fs/selinux/enforce": "0",
            "/sys/module/module/parameters/sig_enforce": "Y\n",
        }
    )
    state = read_security_state(files)
    assert state.secure_boot is is_secure
    assert state.booted_with_uki
    assert state.se_linux_state == enums.SE_LINUX_STATE_PERMISSIVE
    assert state.module_signature_enforced


def make_started(database: bytes) -> MemoryFiles:
    """What a machine shows that has verified the image which it was started from."""
    return MemoryFiles(
        {
            f"{VARIABLES}/SecureBoot-{GLOBAL}": make_variable(b"\1"),
            f"{VARIABLES}/StubInfo-{LOADER}": make_variable(b"s\0"),
            f"{VARIABLES}/db-{SECURITY}": make_variable(database),
        }
    )


def test_the_only_key_is_the_one_that_has_signed() -> None:
    authority = CertificateAuthority.generate(KeyType.P256, common_name="Ours", ttl=timedelta(days=1))
    entry = make_signature_list([authority.certificate], UUID(int=7))
    shown = read_security_state(make_started(entry)).uki_signing_key_fingerprint
    assert shown == key_fingerprint(authority.certificate.public_key())
    assert len(shown) == 32 * 3 - 1
    digest = UUID("c1c41626-504c-4092-aca9-41f936934328").bytes_le  # EFI_CERT_SHA256_GUID
    of_image = digest + struct.pack("<III", 28 + 48, 0, 48) + bytes(48)
    for other in (b"", entry * 2, entry + of_image, of_image, entry[:-1], entry[:20], bytes(28)):
        assert not read_security_state(make_started(other)).uki_signing_key_fingerprint


def test_a_key_that_is_revoked_does_not_count() -> None:
    old, new = (
        CertificateAuthority.generate(KeyType.P256, common_name=name, ttl=timedelta(days=1)).certificate
        for name in ("Old", "New")
    )
    files = make_started(make_signature_list([old, new], UUID(int=7)))
    assert not read_security_state(files).uki_signing_key_fingerprint
    revoked = make_variable(make_signature_list([old], UUID(int=7)))
    files = MemoryFiles({**files.contents, f"{VARIABLES}/dbx-{SECURITY}": revoked})
    shown = read_security_state(files).uki_signing_key_fingerprint
    assert shown == key_fingerprint(new.public_key())


def test_the_key_that_signs_policies_is_shown() -> None:
    place = "/usr/install/.extra/tpm2-pcr-public-key.pem"
    pem = Path("tests/data/measured-boot/pcr-public-key.pem").read_text()
    der = base64.b64decode("".join(pem.splitlines()[1:-1]))
    shown = read_security_state(MemoryFiles({place: pem})).pcr_signing_key_fingerprint
    assert shown == hashlib.sha256(der).digest().hex(":").upper()
    for other in ("", "-----BEGIN PUBLIC KEY-----\n", pem.replace("M", "N")):
        assert not read_security_state(MemoryFiles({place: other})).pcr_signing_key_fingerprint
