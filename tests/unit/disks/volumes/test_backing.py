"""A volume that is a folder stays one, and a partition a partition, once they are in use."""

import pytest

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.config.read.loader import load
from talos.disks.volumes.backing import check_backing
from talos.resource.kinds import VOLUME_STATUS
from talos.resource.resource import make_resource
from talos.system.errors import UserError

NOTHING, FOLDER, PARTITION = "", "provisioning: {}", "provisioning: {minSize: 2GiB}"
IS_FOLDER, IS_PARTITION = enums.VOLUME_TYPE_DIRECTORY, enums.VOLUME_TYPE_PARTITION
READY, WAITING = enums.VOLUME_PHASE_READY, enums.VOLUME_PHASE_WAITING


def check(document: str, type: enums.BlockVolumeType, *phases: enums.BlockVolumePhase) -> None:
    """With the phases of EPHEMERAL and ETCD."""
    name = "ETCD" if document else "EPHEMERAL"
    config = load(f"apiVersion: v1alpha1\nkind: VolumeConfig\nname: {name}\n{document}\n".encode())
    specs = [block_pb2.VolumeStatusSpec(phase=phase, type=type) for phase in phases]
    names = ("EPHEMERAL", "ETCD")
    check_backing(config, [make_resource(VOLUME_STATUS, *row) for row in zip(names, specs, strict=True)])


@pytest.mark.parametrize(
    ("document", "type", "ephemeral", "etcd"),
    [
        (NOTHING, IS_FOLDER, READY, READY),
        (FOLDER, IS_FOLDER, READY, READY),
        (PARTITION, IS_PARTITION, READY, READY),
        (PARTITION, IS_FOLDER, WAITING, READY),
        (FOLDER, IS_PARTITION, READY, WAITING),
    ],
)
def test_what_can_be(
    document: str,
    type: enums.BlockVolumeType,
    ephemeral: enums.BlockVolumePhase,
    etcd: enums.BlockVolumePhase,
) -> None:
    check(document, type, ephemeral, etcd)


@pytest.mark.parametrize(
    ("document", "type", "reason"),
    [
        (PARTITION, IS_FOLDER, "(current: directory, requested: partition)"),
        (FOLDER, IS_PARTITION, "(current: partition, requested: directory)"),
    ],
)
def test_what_can_not_be(document: str, type: enums.BlockVolumeType, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        check(document, type, READY, READY)
    assert caught.value.message == (
        f'the backing of the "ETCD" system volume cannot be changed after creation {reason}; migrating an '
        "existing system volume to or from a dedicated partition is not supported"
    )


def test_the_document_of_a_partition_stays() -> None:
    with pytest.raises(UserError) as caught:
        check(NOTHING, IS_PARTITION, READY, READY)
    assert caught.value.message == (
        'the "ETCD" system volume is backed by a dedicated partition and its VolumeConfig cannot be removed; '
        "migrating a system volume off a dedicated partition is not supported"
    )
