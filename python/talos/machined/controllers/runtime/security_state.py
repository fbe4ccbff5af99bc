"""SecurityState: how the machine was started, and what of the kernel's protection is switched on."""

import hashlib
from collections.abc import Sequence

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.runtime_pb2 import SecurityStateSpec
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Output
from talos.system.efi_variables import ATTRIBUTES, FOLDER, GLOBAL
from talos.system.files import Files

PCR_KEY = "/.extra/tpm2-pcr-public-key.pem"
_LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_SIGNATURES_ENFORCED = "/sys/module/module/parameters/sig_enforce"
_SELINUX_ENFORCES = "/sys/fs/selinux/enforce"
_ENTRY_PREFIX = "Talos-"


class SecurityStateController(Controller):
    """Writes the one resource; nothing of it changes while the machine runs.

    Of a container only the state of its own programs is known: the rest is its host's.
    """

    name = "runtime.SecurityStateController"
    outputs = (Output(kinds.SECURITY_STATE),)

    def __init__(self, files: Files, *, is_container: bool) -> None:
        self._files = files
        self._is_container = is_container

    async def run(self, runtime: ControllerRuntime) -> None:
        """Write it once."""
        spec = SecurityStateSpec() if self._is_container else read_security_state(self._files)
        await runtime.put(*ids.SECURITY_STATE, spec)


def read_security_state(files: Files) -> SecurityStateSpec:
    """Read the state from firmware and kernel."""
    return SecurityStateSpec(
        secure_boot=_read_flag(files, "SecureBoot") and not _read_flag(files, "SetupMode"),
        booted_with_uki=_is_booted_with_uki(files),
        pcr_signing_key_fingerprint=_read_fingerprint(files),
        se_linux_state=_read_selinux(files),
        module_signature_enforced=_read(files, _SIGNATURES_ENFORCED).strip() in {"Y", "1"},
    )


def _is_booted_with_uki(files: Files) -> bool:
    entry = _read_text(files, "LoaderEntryDefault") or _read_text(files, "StubImageIdentifier")
    return entry.replace("\\", "/").rpartition("/")[2].startswith(_ENTRY_PREFIX)


def _read_selinux(files: Files) -> enums.RuntimeSELinuxState:
    match _read(files, _SELINUX_ENFORCES).strip():
        case "1":
            return enums.SE_LINUX_STATE_ENFORCING
        case "0":
            return enums.SE_LINUX_STATE_PERMISSIVE
        case _:
            return enums.SE_LINUX_STATE_DISABLED


def _read_fingerprint(files: Files) -> str:
    """SHA-256 of the key that signs PCR policies, in pairs of hexadecimal digits."""
    text = _read(files, PCR_KEY)
    if not text:
        return ""
    key = load_pem_public_key(text.encode())
    data = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(data).digest().hex(":").upper()


def _read_flag(files: Files, name: str) -> bool:
    return _read_variable(files, name, GLOBAL) == b"\1"


def _read_text(files: Files, name: str) -> str:
    return bytes(_read_variable(files, name, _LOADER)).decode("utf-16-le", errors="replace").rstrip("\0")


def _read_variable(files: Files, name: str, vendor: str) -> Sequence[int] | bytes:
    try:
        return files.read_bytes(f"{FOLDER}/{name}-{vendor}")[ATTRIBUTES.size :]
    except OSError:
        return b""


def _read(files: Files, path: str) -> str:
    try:
        return files.read(path)
    except OSError:
        return ""
