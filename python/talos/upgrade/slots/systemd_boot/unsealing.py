"""Whether a UKI would open the volumes whose keys the TPM has sealed, found out before it is written.

Its PCR 11 is computed, and PCR 7 with the keys of Secure Boot is forecast for each start; both are compared
with what each key slot is bound to. Other PCRs are taken to stay as they are, but for those that firmware and
kernel measure each image into.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from talos.system.block.luks_header import LuksHeader, read_header
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.system.tpm.sealing import SealedSecret, make_policy, parse_sealed
from talos.system.tpm.signed_policy import MAX_KEY, MAX_SIGNATURES, ImagePolicy, parse_image_policy
from talos.system.tpm.uki import KEY, PCR, SIGNATURES, list_profiles, measure_profiles
from talos.upgrade.slots.systemd_boot.forecast import UNCHANGED, Forecast, Start
from talos.upgrade.slots.systemd_boot.pcr7_model import PCR as OF_KEYS

OF_IMAGES = dict.fromkeys((4, 9), "another one with each image")
"""PCRs with the digest of the program that firmware starts, and of the initramfs: why they change."""
HINT = (
    "sign the release with the pcr-signing-key.pem that the slot is bound to, or give the volume a slot of "
    "another kind first"
)

UNREADABLE = "the sealed key in the header can't be read"
NO_OPENERS: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBoot:
    """What a profile of a UKI has: its value of PCR 11, and its signed policy."""

    value: bytes
    policy: ImagePolicy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The values of PCR 7 at starts to come for which a slot's key is not sealed, and could be.

    ``reason`` is why nothing would open the volume at one of them; empty where other slots do.
    """

    values: Sequence[bytes] = ()
    reason: str = ""

    def add(self, value: bytes, reason: str) -> "Gap":
        """With another start."""
        return Gap(values=list(dict.fromkeys([*self.values, value])), reason=self.reason or reason)


def check_unsealing(
    program: Program,
    devices: Mapping[str, str],
    where: str,
    forecast: Forecast,
    openers: Mapping[str, int] = NO_OPENERS,
) -> Mapping[str, Gap]:
    """UserError when a UKI would not open one of these encrypted devices, by their volumes' names.

    ``openers`` are slots whose keys can be sealed for starts to come: the volumes where that is missing.
    """
    headers: dict[str, LuksHeader] = {}
    for volume, device in devices.items():
        with suppress(UserError, OSError):  # what can't be read is no reason against it
            headers[volume] = read_header(device)
    try:
        return check_volumes(program, headers, where, forecast, openers)
    except ValueError as error:
        raise UserError(str(error), where=where) from None


def check_volumes(
    program: Program,
    headers: Mapping[str, LuksHeader],
    where: str,
    forecast: Forecast = UNCHANGED,
    openers: Mapping[str, int] = NO_OPENERS,
) -> Mapping[str, Gap]:
    """UserError for the first volume, by its name, that no slot would open at one of the starts to come.

    ValueError, OSError.
    """
    volumes = {name: _read_volume(header, openers.get(name)) for name, header in headers.items()}
    volumes = {name: each for name, each in volumes.items() if each.is_closed or each.opener is not None}
    keys = [key for each in volumes.values() for slot in each.slots.values() for key in slot]
    if not any(_depends(key, forecast) for key in keys):
        return {}
    boots, gaps = read_boots(program, where), dict[str, Gap]()
    volumes = {name: each.complete(boots, forecast) for name, each in volumes.items()}
    for start in forecast.starts or (None,):
        for name, volume in volumes.items():
            reason = volume.find_reason(boots, start, forecast)
            if start is not None and volume.lacks_key(boots, start, forecast):
                gaps[name] = gaps.get(name, Gap()).add(start.value, reason)
            elif reason:
                raise UserError(refuse_volume(name, reason), where=where, hint=HINT)
    return gaps


def refuse_volume(name: str, reason: str) -> str:
    """That a volume would not be opened, for a person."""
    return f"it would not open the volume {name}: {reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Volume:
    """The slots of a volume that the TPM opens, each with its key as it is sealed: for now, then for later.

    ``is_closed``: it has no others. ``opener`` is one whose key can be sealed again.
    """

    slots: Mapping[int, Sequence[SealedSecret]]
    is_closed: bool
    opener: int | None

    def complete(self, boots: Sequence[NextBoot], forecast: Forecast) -> "_Volume":
        """With values of PCR 7 for keys that have none beside them."""
        slots = {slot: [_complete(key, boots, forecast) for key in keys] for slot, keys in self.slots.items()}
        return replace(self, slots=slots)

    def find_reason(self, boots: Sequence[NextBoot], start: Start | None, forecast: Forecast) -> str:
        """Why no slot would open at a start; empty where one would."""
        if not self.is_closed:
            return ""
        obstacles = {
            slot: _find_slot_obstacle(keys, boots, start, forecast) for slot, keys in self.slots.items()
        }
        if not all(obstacles.values()):
            return ""
        return "; ".join(f"slot {slot} (tpm): {reason}" for slot, reason in obstacles.items())

    def lacks_key(self, boots: Sequence[NextBoot], start: Start, forecast: Forecast) -> bool:
        """Whether the opener would open at a start if it were sealed to that value of PCR 7, and else not."""
        keys = self.slots.get(self.opener, ()) if self.opener is not None else ()
        if not keys or not all(_find_obstacle(key, boots, start, forecast) for key in keys):
            return False
        return start.is_present or not _find_other_image(keys[0], boots, forecast)


def _read_volume(header: LuksHeader, opener: int | None) -> _Volume:
    found = {
        slot: [_parse(sealed) for sealed in header.list_sealed_by_tpm(slot)]
        for slot in header.slots
        if slot in header.sealed_by_tpm
    }
    return _Volume(
        slots={slot: [key for key in keys if key is not None] for slot, keys in found.items()},
        is_closed=set(header.slots) <= header.sealed_by_tpm.keys(),
        opener=opener,
    )


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


def _complete(sealed: SealedSecret, boots: Sequence[NextBoot], forecast: Forecast) -> SealedSecret:
    """With the value that a key is bound to, as its policy shows; upstream's keys have none beside them."""
    if sealed.values or sealed.pcrs != (OF_KEYS,):
        return sealed
    policies = [boot.policy for boot in boots] if sealed.is_signed else [None]
    for value in (forecast.value, *(start.value for start in forecast.starts)):
        if any(make_policy({OF_KEYS: value}, policy) == sealed.policy for policy in policies):
            return replace(sealed, values={OF_KEYS: value})
    return sealed


def _depends(sealed: SealedSecret, forecast: Forecast) -> bool:
    """Whether a start to come may be an obstacle."""
    if sealed.is_signed or not {PCR, *OF_IMAGES, *forecast.changed}.isdisjoint(sealed.pcrs):
        return True
    return any(_find_other_keys(sealed, start, forecast) for start in forecast.starts)


def _find_slot_obstacle(
    keys: Sequence[SealedSecret], boots: Sequence[NextBoot], start: Start | None, forecast: Forecast
) -> str:
    """Why a slot would not open: that of its first key, unless another one does."""
    obstacles = [_find_obstacle(key, boots, start, forecast) for key in keys]
    return (obstacles[0] if all(obstacles) else "") if obstacles else UNREADABLE


def _find_obstacle(
    sealed: SealedSecret, boots: Sequence[NextBoot], start: Start | None, forecast: Forecast
) -> str:
    """Why a key would not open; empty where it would, as far as that is known.

    ``boots`` are those of the UKI in question; the system that runs opens what it has opened.
    """
    other_keys = _find_other_keys(sealed, start, forecast) if start is not None else ""
    if other_keys or (start is not None and start.is_present):
        return other_keys
    return _find_other_image(sealed, boots, forecast)


def _find_other_image(sealed: SealedSecret, boots: Sequence[NextBoot], forecast: Forecast) -> str:
    """How an image differs from what a key is bound to, the keys of Secure Boot apart."""
    for pcr, reason in {**OF_IMAGES, **forecast.changed}.items():
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
        if forecast.starts and not sealed.values and sealed.pcrs == (OF_KEYS,):
            return (
                f"it is bound to another key of policies of PCR {PCR}, or to another value of PCR {OF_KEYS}"
            )
    return ""


def _find_other_keys(sealed: SealedSecret, start: Start, forecast: Forecast) -> str:
    """How PCR 7 differs at a start from what a slot is bound to; empty where it does not.

    One whose policy does not show that, as upstream's of several PCRs, is taken to be bound to the present
    value.
    """
    bound = sealed.values.get(OF_KEYS, forecast.value)
    if OF_KEYS not in sealed.pcrs or bound == start.value:
        return ""
    reason = f", as {forecast.reason}" if forecast.reason else ""
    text = f"PCR {OF_KEYS} will be {start.value.hex()} {start.name}{reason}"
    return f"{text}; the slot is bound to {bound.hex()}"
