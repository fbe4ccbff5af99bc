"""Whether a UKI would open the volumes whose keys the TPM has sealed, found out before it is written.

Its PCR 11 is computed, and compared with what each key slot is bound to. Other PCRs are taken to stay as they
are, but for those that firmware and kernel measure each image into.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from talos.system.block.luks_header import LuksHeader
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.system.tpm.sealing import SealedSecret, make_policy, parse_sealed
from talos.system.tpm.signed_policy import MAX_KEY, MAX_SIGNATURES, ImagePolicy, parse_image_policy
from talos.system.tpm.uki import KEY, PCR, SIGNATURES, list_profiles, measure_profiles

OF_IMAGES = (4, 9)
"""PCRs with the digest of the program that firmware starts, and of the initramfs."""
HINT = (
    "sign the release with the pcr-signing-key.pem that the slot is bound to, or give the volume a slot of "
    "another kind first"
)

UNREADABLE = "the sealed key in the header can't be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBoot:
    """What a profile of a UKI has: its value of PCR 11, and its signed policy."""

    value: bytes
    policy: ImagePolicy | None


def check_volumes(program: Program, headers: Mapping[str, LuksHeader], where: str) -> None:
    """UserError for the first volume, by its name, that no slot of would open. ValueError, OSError."""
    closed = {
        name: [_parse(header.sealed_by_tpm[slot]) for slot in header.slots]
        for name, header in headers.items()
        if set(header.slots) <= header.sealed_by_tpm.keys()
    }
    if not any(sealed and _depends(sealed) for slots in closed.values() for sealed in slots):
        return
    boots = read_boots(program, where)
    for name, slots in closed.items():
        obstacles = [_find_obstacle(sealed, boots) if sealed else UNREADABLE for sealed in slots]
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


def _depends(sealed: SealedSecret) -> bool:
    """Whether another image may be an obstacle."""
    return sealed.is_signed or not {PCR, *OF_IMAGES}.isdisjoint(sealed.pcrs)


def _find_obstacle(sealed: SealedSecret, boots: Sequence[NextBoot]) -> str:
    """Why a slot would not open; empty where it would, as far as that is known."""
    for pcr in OF_IMAGES:
        if pcr in sealed.pcrs:
            return f"PCR {pcr} is another one with each image"
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
