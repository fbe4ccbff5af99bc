"""SecurityState: how the machine was started, and what of the kernel's protection is switched on."""

from collections.abc import Sequence

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509 import load_der_x509_certificate

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.runtime_pb2 import SecurityStateSpec
from talos.machined.node.tpm_keys import EXTRA, KEY_NAME
from talos.pki.keys import key_fingerprint, parse_public_key
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Output
from talos.system.efi_signatures import X509, parse_signatures
from talos.system.efi_variables import ATTRIBUTES, FOLDER, GLOBAL, IMAGE_SECURITY, LOADER
from talos.system.errors import UserError
from talos.system.files import Files

PCR_KEY = f"{EXTRA}/{KEY_NAME}"
_SIGNATURES_ENFORCED = "/sys/module/module/parameters/sig_enforce"
_SELINUX_ENFORCES = "/sys/fs/selinux/enforce"


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
    secure_boot = _read_flag(files, "SecureBoot") and not _read_flag(files, "SetupMode")
    # The stub's variable, which lasts until the next start. A boot loader's may be of an earlier one.
    booted_with_uki = bool(read_variable(files, "StubInfo", LOADER))
    return SecurityStateSpec(
        secure_boot=secure_boot,
        booted_with_uki=booted_with_uki,
        uki_signing_key_fingerprint=_find_signing_key(files) if secure_boot and booted_with_uki else "",
        pcr_signing_key_fingerprint=_read_pcr_key(files),
        se_linux_state=_read_selinux(files),
        module_signature_enforced=_read(files, _SIGNATURES_ENFORCED).strip() in {"Y", "1"},
    )


def _read_selinux(files: Files) -> enums.RuntimeSELinuxState:
    match _read(files, _SELINUX_ENFORCES).strip():
        case "1":
            return enums.SE_LINUX_STATE_ENFORCING
        case "0":
            return enums.SE_LINUX_STATE_PERMISSIVE
        case _:
            return enums.SE_LINUX_STATE_DISABLED


def _find_signing_key(files: Files) -> str:
    """The fingerprint of the one key that the firmware accepts images of, and has not revoked.

    Empty where it accepts others too, by further certificates or digests: which has signed the image that was
    started, is not known here.
    """
    try:
        trusted, revoked = (
            parse_signatures(bytes(read_variable(files, name, IMAGE_SECURITY))) for name in ("db", "dbx")
        )
        (entry,) = (entry for entry in trusted if entry not in revoked)
        if entry.kind == X509:
            return key_fingerprint(load_der_x509_certificate(entry.data).public_key())
    except (ValueError, UnsupportedAlgorithm):
        pass
    return ""


def _read_pcr_key(files: Files) -> str:
    """The fingerprint of the key that signs PCR policies; empty for what is no key, which sealing refuses."""
    try:
        return key_fingerprint(parse_public_key(_read(files, PCR_KEY).encode()))
    except UserError:
        return ""


def _read_flag(files: Files, name: str) -> bool:
    return read_variable(files, name, GLOBAL) == b"\1"


def read_variable(files: Files, name: str, vendor: str) -> Sequence[int] | bytes:
    """The value of a variable of the firmware's, empty where there is none."""
    try:
        return files.read_bytes(f"{FOLDER}/{name}-{vendor}")[ATTRIBUTES.size :]
    except OSError:
        return b""


def _read(files: Files, path: str) -> str:
    try:
        return files.read(path)
    except OSError:
        return ""
