"""Secrets bound to the signed policy of PCR 11, by a real TPM in software over boots of several images."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.unit.system.tpm.software import SoftwareTpm, start

from talos.pki.keys import public_key_to_pem
from talos.pki.signer import FileSigner
from talos.system.errors import UserError
from talos.system.tpm.commands import Tpm
from talos.system.tpm.sealing import parse_sealed, seal, seal_for_values, unseal
from talos.system.tpm.signed_policy import ImagePolicy, parse_image_policy, sign_values
from talos.system.tpm.uki import LAST_PHASE, PCR, PHASES, extend, hash_text, measure_phases

SECRET = bytes(range(32))
OWNER, OTHER = (rsa.generate_private_key(65537, 2048) for _ in range(2))


def make_image(name: str, key: rsa.RSAPrivateKey = OWNER) -> ImagePolicy:
    """What an image has whose stub measures its name; that of the trial comes first."""
    values = [measure_phases(extend(bytes(32), hash_text(text))) for text in (f"{name} trial", name)]
    return parse_image_policy(public_key_to_pem(key), sign_values(FileSigner(key), values), name)


@contextmanager
def boot(folder: Path, name: str, *, secure_boot: str = "on") -> Generator[SoftwareTpm]:
    """Firmware, stub, and the phases."""
    with start(folder) as software:
        software.extend(7, secure_boot.encode())
        tpm = Tpm(software.transmit)
        for text in (name, *PHASES):
            tpm.extend(PCR, hash_text(text))
        yield software


@pytest.mark.parametrize("pcrs", [(), (7,)])
def test_any_image_that_the_key_has_signed_opens_it(tmp_path: Path, pcrs: tuple[int, ...]) -> None:
    with boot(tmp_path, "one") as tpm:
        sealed = seal(tpm.open(), SECRET, pcrs, make_image("one"))
        assert unseal(tpm.open(), sealed, make_image("one")) == SECRET
    assert json.loads(sealed)["pubkey_pcrs"] == [11]
    assert json.loads(sealed).get("pcrs", []) == list(pcrs)
    assert parse_sealed(sealed).is_signed
    for name in ("two trial", "two"):
        with boot(tmp_path, name) as tpm:
            for _ in range(4):  # nothing stays in the TPM, which has room for three objects and sessions
                assert unseal(tpm.open(), sealed, make_image("two")) == SECRET


def test_what_upstream_has_sealed_before_its_tokens_had_a_version(tmp_path: Path) -> None:
    with boot(tmp_path, "one") as tpm:
        found = json.loads(seal(tpm.open(), SECRET, [7], make_image("one")))
        for name in ("encryption_version", "pubkey_pcrs", "pcr_values"):
            del found[name]
        before = json.dumps({**found, "pcrs": [11]}).encode()
        assert unseal(tpm.open(), before, make_image("one")) == SECRET
    sealed = parse_sealed(before)
    assert (sealed.is_signed, sealed.pcrs) == (True, (7,))


def test_it_is_sealed_for_a_start_to_come(tmp_path: Path) -> None:
    """Also once PCR 11 is locked: what is sealed then opens in the next start."""
    with boot(tmp_path, "one", secure_boot="with other keys") as tpm:
        (value,) = Tpm(tpm.transmit).read_pcrs([7]).values()
    with boot(tmp_path, "one") as tpm:
        sealed = seal(tpm.open(), SECRET, [7], make_image("one"))
        Tpm(tpm.transmit).extend(PCR, hash_text(LAST_PHASE))
        (later,) = seal_for_values(tpm.open(), SECRET, sealed, 7, [value], make_image("one"))
    assert parse_sealed(later).is_signed
    with boot(tmp_path, "two", secure_boot="with other keys") as tpm:
        assert unseal(tpm.open(), later, make_image("two")) == SECRET
        with pytest.raises(UserError, match="PCR 7 has changed since the key was sealed"):
            unseal(tpm.open(), sealed, make_image("two"))


def test_what_opens_nothing(tmp_path: Path) -> None:
    with boot(tmp_path, "one") as tpm:
        sealed = seal(tpm.open(), SECRET, [7], make_image("one"))
        Tpm(tpm.transmit).extend(PCR, hash_text(LAST_PHASE))
        with pytest.raises(UserError, match="PCR 11 has a value that the image's key has not signed"):
            unseal(tpm.open(), sealed, make_image("one"))
    with boot(tmp_path, "two") as tpm:
        for image, reason in (
            (make_image("two", OTHER), "bound to another key of signed policies of PCR 11 than that of"),
            (make_image("one"), "PCR 11 has a value that the image's key has not signed"),
            (None, "it is bound to a signed policy of PCR 11, and this image has none"),
        ):
            with pytest.raises(UserError, match=reason):
                unseal(tpm.open(), sealed, image)
    with (
        boot(tmp_path, "two", secure_boot="off") as tpm,
        pytest.raises(UserError, match="PCR 7 has changed since the key was sealed"),
    ):
        unseal(tpm.open(), sealed, make_image("two"))


def test_the_tpm_itself_refuses_another_key(tmp_path: Path) -> None:
    """The policy in the header may be another's: that which the TPM holds decides."""
    with boot(tmp_path, "one") as tpm:
        sealed = json.loads(seal(tpm.open(), SECRET, [], make_image("one")))
        theirs = make_image("one", OTHER)
        lying = {**sealed, "policy_hash": json.loads(seal(tpm.open(), b"x", [], theirs))["policy_hash"]}
        with pytest.raises(UserError):
            unseal(tpm.open(), json.dumps(lying).encode(), theirs)
        assert unseal(tpm.open(), json.dumps(sealed).encode(), make_image("one")) == SECRET


def test_what_was_sealed_to_pcrs_alone_goes_on(tmp_path: Path) -> None:
    with boot(tmp_path, "one") as tpm:
        sealed = seal(tpm.open(), SECRET, [7])
        assert json.loads(sealed)["pubkey_pcrs"] == []
        assert unseal(tpm.open(), sealed, make_image("one")) == SECRET
