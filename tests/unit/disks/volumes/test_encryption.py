"""An encrypted volume comes to be, survives every power cut, and its key slots follow the config."""

import base64
from collections.abc import Sequence
from itertools import count

import pytest

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.config.read.loader import load
from talos.disks.volumes.encryption import VolumeEncryption
from talos.disks.volumes.encryption_keys import KeyPendingError, SlotKey, find_uuid_problem, make_keys
from talos.disks.volumes.encryption_spec import find_system_encryption, format_meta, parse_meta
from talos.disks.volumes.settle import settle
from talos.disks.volumes.volume import VolumePlace, VolumeProgress, WantedVolume
from talos.disks.volumes.whole_disk import settle_disk
from talos.system.block.blkid import Content
from talos.system.block.layout import GIB
from talos.system.errors import UserError
from talos.system.logging import Log

from .disks import DISK, MAPPED, MemoryBlocks, MemoryCrypt, PowerCutError
from .services import MemoryService

UUID = "2f1d4e0a-7c39-4b58-9d6e-81c5a3f0b742"
LOG = Log(write=lambda _: None)


def make_spec(*keys: block_pb2.EncryptionKey) -> block_pb2.EncryptionSpec:
    return block_pb2.EncryptionSpec(provider=enums.ENCRYPTION_PROVIDER_LUKS2, keys=keys)


def static(slot: int, text: str, *, locked: bool = False) -> block_pb2.EncryptionKey:
    return block_pb2.EncryptionKey(slot=slot, static_passphrase=text.encode(), lock_to_state=locked)


def node_id(slot: int) -> block_pb2.EncryptionKey:
    return block_pb2.EncryptionKey(slot=slot, type=enums.ENCRYPTION_KEY_NODE_ID)


def kms(slot: int, endpoint: str = "https://kms") -> block_pb2.EncryptionKey:
    return block_pb2.EncryptionKey(slot=slot, type=enums.ENCRYPTION_KEY_KMS, kms_endpoint=endpoint)


def tpm(slot: int, *pcrs: int) -> block_pb2.EncryptionKey:
    return block_pb2.EncryptionKey(slot=slot, type=enums.ENCRYPTION_KEY_TPM, tpmpc_rs=pcrs)


SPEC = make_spec(static(0, "one"), node_id(1))


class Volume:
    """A volume of a disk in memory."""

    def __init__(self, *, whole: bool = False) -> None:
        self.blocks = MemoryBlocks(size=10 * GIB)
        self.crypt = MemoryCrypt(self.blocks)
        self.service = MemoryService()
        self.whole = whole
        self.refused: dict[str, tuple[bytes, str]] = {}
        self.remembered: list[bytes] = []
        self.encryption = self.encrypt(SPEC)
        if whole:
            self.blocks.whole = Content()
        else:
            self.blocks.install()

    def encrypt(
        self,
        spec: block_pb2.EncryptionSpec,
        *,
        salt: bytes = b"",
        older: Sequence[SlotKey] = (),
        configured: bool = True,
    ) -> VolumeEncryption:
        async def remember(spec: block_pb2.EncryptionSpec | None) -> None:
            self.remembered.append(format_meta(spec) if spec else b"")

        return VolumeEncryption(
            devices=self.crypt,
            service=self.service,
            volume="u-data",
            spec=spec,
            keys=make_keys(spec, "u-data", UUID, salt),
            older=older,
            configured=configured,
            refused=self.refused,
            remember=remember,
            log=LOG,
        )

    async def boot(
        self, encryption: VolumeEncryption | None, *, may_create: bool = True
    ) -> VolumePlace | None:
        wanted = WantedVolume(label="u-data", minimum=GIB, may_create=may_create, encryption=encryption)
        provide = settle_disk if self.whole else settle
        return await provide(self.blocks, wanted, [DISK], LOG, VolumeProgress())

    @property
    def slots(self) -> dict[int, bytes]:
        (found,) = self.crypt.slots.values()
        return found


@pytest.mark.parametrize("whole", [False, True])
async def test_made_and_opened(*, whole: bool) -> None:
    volume = Volume(whole=whole)
    place = await volume.boot(volume.encryption)
    assert place is not None
    assert (place.source, place.content.name) == (MAPPED + place.device, "xfs")
    assert volume.slots == {0: b"one", 1: f"{UUID}u-data".encode()}
    assert volume.remembered[-1] == format_meta(SPEC)
    volume.blocks.writes.clear()
    again = volume.encrypt(SPEC)
    assert await volume.boot(again) is not None
    assert volume.blocks.writes == [], "what is complete is left alone"
    assert again.opener is not None
    assert again.opener.spec.slot == 0


@pytest.mark.parametrize("whole", [False, True])
async def test_a_power_cut_anywhere_is_repaired_by_the_next_boot(*, whole: bool) -> None:
    for cut in count():
        volume = Volume(whole=whole)
        volume.blocks.cut = cut
        try:
            await volume.boot(volume.encryption)
        except PowerCutError:
            volume.blocks.cut = -1
            volume.crypt.opened.clear()
            place = await volume.boot(volume.encrypt(SPEC))
            assert place is not None
            assert place.content.name == "xfs"
            assert volume.slots.keys() == {0, 1}
            assert not any(row.flags for row in volume.blocks.partitions.values())
        else:
            assert cut > 5
            return


@pytest.mark.parametrize("whole", [False, True])
async def test_what_is_there_is_neither_formatted_nor_opened_otherwise(*, whole: bool) -> None:
    volume = Volume(whole=whole)
    await volume.boot(None)
    volume.blocks.writes.clear()
    with pytest.raises(UserError, match="holds xfs, which is not encrypted: it is neither formatted"):
        await volume.boot(volume.encryption)
    assert volume.blocks.writes == []
    assert volume.remembered == []

    volume = Volume(whole=whole)
    await volume.boot(volume.encryption)
    volume.blocks.writes.clear()
    with pytest.raises(UserError, match="is encrypted, and the config has no encryption for it"):
        await volume.boot(None)
    volume.blocks.inside.clear()
    with pytest.raises(UserError, match="holds unrecognised data"):
        await volume.boot(volume.encrypt(SPEC))
    assert volume.blocks.writes == []


async def test_a_failure_names_every_slot_and_is_not_tried_again_without_a_change() -> None:
    volume = Volume()
    await volume.boot(volume.encryption)
    other = make_spec(static(0, "other"), static(3, "x"), static(1, "y", locked=True))
    text = (
        r"^u-data: /dev/vda5 can't be unlocked: slot 0 \(static\): encryption key rejected; "
        r"slot 3 \(static\): the volume has no key in this slot; "
        r"slot 1 \(static\): the salt of STATE, .* is not there$"
    )
    for _ in range(3):
        with pytest.raises(UserError, match=text):
            await volume.boot(volume.encrypt(other))
    assert volume.crypt.tries == 1
    assert await volume.boot(volume.encrypt(SPEC)) is not None


@pytest.mark.parametrize(
    "wanted",
    [
        make_spec(static(0, "one")),
        make_spec(node_id(1)),
        make_spec(node_id(1), static(2, "new")),
        make_spec(static(0, "new"), node_id(1)),
        make_spec(static(0, "one"), static(1, "two"), static(2, "three")),
        make_spec(static(4, "new"), node_id(1)),
    ],
)
async def test_slots_follow_the_config_of_the_next_boot(wanted: block_pb2.EncryptionSpec) -> None:
    volume = Volume()
    await volume.boot(volume.encryption)
    encryption = volume.encrypt(wanted)
    assert await volume.boot(encryption) is not None
    assert encryption.failed == ()
    assert volume.slots == {key.spec.slot: key.passphrase for key in encryption.keys}
    assert encryption.opener is not None
    assert await volume.crypt.test("/dev/vda5", encryption.opener)


async def test_the_only_key_is_replaced_while_the_volume_is_open() -> None:
    volume = Volume()
    only, new = make_spec(static(0, "one")), make_spec(static(0, "two"))
    encryption = volume.encrypt(only)
    await volume.boot(encryption)
    volume.remembered.clear()
    await encryption.rekey("/dev/vda5", new, make_keys(new, "u-data", UUID, b""))
    assert volume.slots == {0: b"two"}
    both = make_spec(static(0, "two"), static(0, "one"))
    assert volume.remembered == [format_meta(both), format_meta(new)], "either key opens it after a power cut"


async def test_a_volume_keeps_a_key_that_works() -> None:
    volume = Volume()
    await volume.boot(volume.encrypt(make_spec(static(0, "one"))))
    older = [SlotKey(static(0, "one"), b"one")]
    encryption = volume.encrypt(make_spec(static(1, "x", locked=True)), older=older)
    await volume.boot(encryption)
    assert volume.slots == {0: b"one"}
    assert encryption.failed == (
        "error adding key slot 1: the salt of STATE, which the key is locked to, is not there",
        "error removing key slot 0: no configured key works yet",
    )


@pytest.mark.parametrize("spec", [make_spec(kms(0)), make_spec(node_id(0), kms(1), kms(3))])
async def test_a_key_that_a_service_seals(spec: block_pb2.EncryptionSpec) -> None:
    volume = Volume()
    await volume.boot(volume.encrypt(spec))
    sealed = {slot for slots in volume.crypt.tokens.values() for slot in slots}
    assert sealed == {key.slot for key in spec.keys if key.type == enums.ENCRYPTION_KEY_KMS}
    slots = dict(volume.slots)
    again = volume.encrypt(make_spec(*reversed(spec.keys)))
    assert await volume.boot(again) is not None
    assert (volume.slots, again.failed, again.unsettled) == (slots, (), frozenset())
    assert again.opener is not None
    assert again.opener.spec.slot == max(slots)
    assert base64.b64decode(slots[max(slots)]).startswith(b"random ")


async def test_without_its_service_a_volume_is_neither_made_nor_opened() -> None:
    volume = Volume(whole=True)
    spec = make_spec(kms(2))
    volume.service.is_slow = True
    with pytest.raises(KeyPendingError, match="waiting for https://kms"):
        await volume.boot(volume.encrypt(spec))
    volume.service.is_slow, volume.service.reason = False, "connection refused"
    with pytest.raises(
        UserError, match=r"can't be encrypted: slot 2 \(kms\): https://kms: connection refused"
    ):
        await volume.boot(volume.encrypt(spec))
    assert (volume.blocks.writes, volume.remembered) == ([], [])
    volume.service.reason = ""
    await volume.boot(volume.encrypt(spec))
    volume.service.reason = "connection refused"
    text = r"can't be unlocked: slot 2 \(kms\): https://kms: connection refused$"
    with pytest.raises(UserError, match=text):
        await volume.boot(volume.encrypt(spec))
    volume.service.reason = ""
    assert await volume.boot(volume.encrypt(spec)) is not None, "it is not taken for refused for good"


async def test_a_service_that_has_lost_its_keys() -> None:
    volume = Volume()
    await volume.boot(volume.encrypt(make_spec(kms(0), static(1, "x"))))
    (tokens,) = volume.crypt.tokens.values()
    tokens[0] = b"sealed otherwise"
    encryption = volume.encrypt(make_spec(kms(0), static(1, "x")))
    assert await volume.boot(encryption) is not None
    assert volume.service.rejected == 1
    assert encryption.failed == ()
    assert tokens[0].startswith(b"sealed random"), "it has a new key"
    assert volume.slots[0] == base64.b64encode(tokens[0].removeprefix(b"sealed "))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (make_spec(static(0, "one")), make_spec(kms(0))),
        (make_spec(kms(0)), make_spec(static(0, "one"))),
        (make_spec(static(0, "one")), make_spec(kms(1))),
        (make_spec(kms(0)), make_spec(kms(0, "https://other"), kms(1))),
        (make_spec(kms(0), static(1, "one")), make_spec(static(1, "two"))),
    ],
)
async def test_keys_are_changed_when_the_service_answers(
    before: block_pb2.EncryptionSpec, after: block_pb2.EncryptionSpec
) -> None:
    volume = Volume()
    encryption = volume.encrypt(before)
    await volume.boot(encryption)
    volume.service.is_slow = True
    await encryption.rekey("/dev/vda5", after, make_keys(after, "u-data", UUID, b""))
    assert encryption.failed == ()
    assert volume.slots, "one key works at any time"
    volume.service.is_slow = False
    if encryption.unsettled:
        await encryption.keep_slots("/dev/vda5", only=encryption.unsettled)
    assert (encryption.failed, encryption.unsettled) == ((), frozenset())
    assert volume.slots.keys() == {key.slot for key in after.keys}
    (tokens,) = volume.crypt.tokens.values()
    assert tokens.keys() == {key.slot for key in after.keys if key.type == enums.ENCRYPTION_KEY_KMS}
    assert await volume.boot(volume.encrypt(after)) is not None


async def test_a_service_that_fails_while_keys_change_is_named() -> None:
    volume = Volume()
    encryption = volume.encrypt(make_spec(static(0, "one")))
    await volume.boot(encryption)
    volume.service.reason = "no answer"
    after = make_spec(static(0, "one"), kms(1))
    await encryption.rekey("/dev/vda5", after, make_keys(after, "u-data", UUID, b""))
    assert encryption.failed == ("error adding key slot 1: https://kms: no answer",)
    assert encryption.unsettled == {1}
    volume.service.reason = ""
    await encryption.keep_slots("/dev/vda5", only=encryption.unsettled)
    assert (encryption.failed, encryption.unsettled) == ((), frozenset())


async def test_one_that_is_known_from_meta_only_is_opened_but_not_made() -> None:
    volume = Volume()
    await volume.boot(volume.encryption)
    assert await volume.boot(volume.encrypt(SPEC, configured=False), may_create=False) is not None
    empty = Volume()
    await empty.boot(empty.encrypt(SPEC, configured=False))
    assert empty.crypt.slots == {}
    assert empty.remembered == [b""]


async def test_nothing_is_written_when_a_key_can_not_be_made() -> None:
    volume = Volume(whole=True)
    for spec in (
        make_spec(static(0, "x"), static(1, "y", locked=True)),
        make_spec(static(0, "")),
    ):
        with pytest.raises(UserError, match="can't be encrypted: slot"):
            await volume.boot(volume.encrypt(spec))
    assert volume.blocks.writes == []


def test_what_documents_bind_keys_of_the_tpm_to() -> None:
    for text, pcrs in (
        ("{}", [7]),
        ("{options: {}}", []),
        ("{options: {pcrs: []}}", []),
        ("{options: {pcrs: [4, 7]}, checkSecurebootStatusOnEnroll: true}", [4, 7]),
    ):
        document = (
            "apiVersion: v1alpha1\nkind: VolumeConfig\nname: EPHEMERAL\n"
            f"encryption: {{provider: luks2, keys: [{{slot: 2, tpm: {text}}}]}}\n"
        )
        spec = find_system_encryption(load(document.encode()), "EPHEMERAL")
        assert spec is not None
        (key,) = spec.keys
        assert (key.slot, key.type, list(key.tpmpc_rs)) == (2, enums.ENCRYPTION_KEY_TPM, pcrs)
        assert key.tpm_check_secureboot_status_on_enroll == ("true" in text)
    keys = "{state: {provider: luks2, keys: [{slot: 0, tpm: {}}]}}"
    old = f"version: v1alpha1\nmachine: {{systemDiskEncryption: {keys}}}"
    assert find_system_encryption(load(old.encode()), "STATE") == make_spec(tpm(0, 7))


def test_a_key_that_is_locked_to_state_ends_with_its_salt() -> None:
    (key,) = make_keys(make_spec(static(0, "x", locked=True)), "u-data", UUID, b"salt")
    assert key.passphrase == b"xsalt"


@pytest.mark.parametrize("uuid", ["", "00000000-0000-0000-0000-000000000000", "ffffffff" * 4])
def test_an_uuid_that_is_no_key(uuid: str) -> None:
    assert find_uuid_problem(uuid)
    assert not find_uuid_problem(UUID)


def test_meta_keeps_the_encryption_in_upstreams_form() -> None:
    assert parse_meta(format_meta(SPEC)) == SPEC
    assert parse_meta(b"null") is None
    text = (
        b'{"EncryptionProvider":"luks2","EncryptionKeys":[{"KeySlot":1,"KeyStatic":null,"KeyNodeID":{},'
        b'"KeyKMS":null,"KeyTPM":null,"KeyLockToSTATE":null}],"EncryptionCipher":"","EncryptionKeySize":0,'
        b'"EncryptionBlockSize":0,"EncryptionPerfOptions":null,"EncryptionAllowDiscards":null}'
    )
    assert parse_meta(text) == make_spec(node_id(1))
    for options, pcrs in ((b'{"PCRs":[0,7]}', [0, 7]), (b'{"PCRs":null}', []), (b"null", [7])):
        by_tpm = b'{"EncryptionKeys":[{"KeyTPM":{"TPMOptions":%s}}]}' % options
        assert parse_meta(by_tpm) == make_spec(tpm(0, *pcrs))
    assert parse_meta(format_meta(make_spec(tpm(3, 7, 4)))) == make_spec(tpm(3, 7, 4))
    lists = (b"[]", b"[1]", b"null", b'[{"KeyStatic": 5}]', b'[{"KeyStatic": {"KeyData": 5}}]')
    lists += (b'[{"KeyTPM": {"TPMOptions": {"PCRs": [24]}}}]', b'[{"KeyTPM": 5}]')
    lists += (b'[{"KeySlot": "0", "KeyNodeID": {}}]', b'[{"KeySlot": -1, "KeyNodeID": {}}]')
    for broken in (b"", b"[]", b"{}", b"\xff", *(b'{"EncryptionKeys": %s}' % one for one in lists)):
        with pytest.raises(UserError, match="META's key 0x09: the encryption of STATE can't be read"):
            parse_meta(broken)
