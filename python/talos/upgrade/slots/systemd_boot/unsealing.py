"""Whether a UKI would open the volumes whose keys the TPM has sealed, found out before it is written.

Its PCR 11 is computed, and compared with what each key slot is bound to. Other PCRs are taken to stay as they
are, but for those that firmware and kernel measure each image into, and the one with the keys of Secure Boot
where these change.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from cryptography import x509

from talos.system.block.luks_header import LuksHeader, read_header
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.system.tpm.sealing import SealedSecret, make_policy, parse_sealed
from talos.system.tpm.signed_policy import MAX_KEY, MAX_SIGNATURES, ImagePolicy, parse_image_policy
from talos.system.tpm.uki import KEY, PCR, SIGNATURES, list_profiles, measure_profiles
from talos.upgrade.slots.systemd_boot.databases import Updates
from talos.upgrade.slots.systemd_boot.firmware import Firmware

OF_IMAGES = dict.fromkeys((4, 9), "another one with each image")
"""PCRs with the digest of the program that firmware starts, and of the initramfs: why they change."""
OF_KEYS = 7
"""The PCR with the databases of Secure Boot, and with the certificates that programs were started by."""
HINT = (
    "sign the release with the pcr-signing-key.pem that the slot is bound to, or give the volume a slot of "
    "another kind first"
)

UNREADABLE = "the sealed key in the header can't be read"
NONE: Mapping[int, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBoot:
    """What a profile of a UKI has: its value of PCR 11, and its signed policy."""

    value: bytes
    policy: ImagePolicy | None


def find_changed_pcrs(
    firmware: Firmware,
    updates: Updates,
    new: x509.Certificate | None = None,
    running: x509.Certificate | None = None,
) -> Mapping[int, str]:
    """Why PCRs have other values at the next start, beside those of each image.

    ``new`` and ``running`` are the certificates of the firmware by which it starts the two systems.
    """
    if changed := firmware.find_changed(updates) if firmware.is_secure else ():
        return {OF_KEYS: f"another one, as the release adds to {' and '.join(changed)}"}
    if new != running:
        return {OF_KEYS: "another one, as another certificate has signed the system that runs"}
    return {}


def check_unsealing(
    program: Program, devices: Mapping[str, str], where: str, changed: Mapping[int, str]
) -> None:
    """UserError when a UKI would not open one of these encrypted devices, by their volumes' names.

    ``changed`` are the PCRs that have other values then, beside those of each image, and why.
    """
    headers: dict[str, LuksHeader] = {}
    for volume, device in devices.items():
        with suppress(UserError, OSError):  # what can't be read is no reason against it
            headers[volume] = read_header(device)
    try:
        check_volumes(program, headers, where, changed)
    except ValueError as error:
        raise UserError(str(error), where=where) from None


def check_volumes(
    program: Program, headers: Mapping[str, LuksHeader], where: str, changed: Mapping[int, str] = NONE
) -> None:
    """UserError for the first volume, by its name, that no slot of would open. ValueError, OSError."""
    changed = {**OF_IMAGES, **changed}
    closed = {
        name: [_parse(header.sealed_by_tpm[slot]) for slot in header.slots]
        for name, header in headers.items()
        if set(header.slots) <= header.sealed_by_tpm.keys()
    }
    if not any(sealed and _depends(sealed, changed) for slots in closed.values() for sealed in slots):
        return
    boots = read_boots(program, where)
    for name, slots in closed.items():
        obstacles = [_find_obstacle(sealed, boots, changed) if sealed else UNREADABLE for sealed in slots]
        if all(obstacles):
            reasons = "; ".join(
                f"slot {slot} (tpm): {reason}"
                for slot, reason in zip(headers[name].slots, obstacles, strict=True)
            )
            raise UserError(f"it would not open the volume {name}: {reasons}", where=where, hint=HINT)


def read_boots(program: Program, where: str) -> Sequence[NextBoot]:
    """Each profile of a UKI. UserError for a policy that can't be read, ValueError, OSError."""
    boots: list[NextBoot] = []
    for profile, value in zip(list_profiles(program), measure_profiles(program), strict=True):
        policy = None
        if KEY in profile and SIGNATURES in profile:
            parts = (profile[KEY], MAX_KEY), (profile[SIGNATURES], MAX_SIGNATURES)
            key, signatures = (
                program.read(section.offset, min(section.size, maximum)) for section, maximum in parts
            )
            policy = parse_image_policy(key, signatures, where)
        boots.append(NextBoot(value=value, policy=policy))
    return boots


def _parse(data: bytes) -> SealedSecret | None:
    """What a slot has; None for what opens with no image."""
    try:
        return parse_sealed(data)
    except UserError:
        return None


def _depends(sealed: SealedSecret, changed: Mapping[int, str]) -> bool:
    """Whether another image may be an obstacle."""
    return sealed.is_signed or not {PCR, *changed}.isdisjoint(sealed.pcrs)


def _find_obstacle(sealed: SealedSecret, boots: Sequence[NextBoot], changed: Mapping[int, str]) -> str:
    """Why a slot would not open; empty where it would, as far as that is known."""
    for pcr, reason in changed.items():
        if pcr in sealed.pcrs:
            return f"PCR {pcr} is {reason}"
    for boot in boots:
        if sealed.values.get(PCR, boot.value) != boot.value:
            return f"PCR {PCR} will not have the value that the slot is bound to"
        if not sealed.is_signed:
            continue
        if boot.policy is None:
            return f"the image has no signed policy of PCR {PCR}"
        if boot.policy.find(boot.value) is None:
            return f"PCR {PCR} will have a value that the image's key has not signed"
        is_known = set(sealed.values) == set(sealed.pcrs)
        if is_known and make_policy(sealed.values, boot.policy) != sealed.policy:
            return f"the image's policy of PCR {PCR} is signed by another key"
    return ""
