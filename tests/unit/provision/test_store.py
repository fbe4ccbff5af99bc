"""The state folder."""

from dataclasses import replace
from pathlib import Path

import pytest

from talos.provision.cluster import Disk, Provider, Role
from talos.provision.plan import ClusterOptions, make_request, with_configs
from talos.provision.store import (
    ClusterFolder,
    folders,
    read_record,
    read_request,
    write_record,
    write_request,
)
from talos.system.errors import UserError

REQUEST = with_configs(
    make_request(
        ClusterOptions(image=Path("/image"), nameservers=["10.5.0.1"], memory={Role.WORKER: 1 << 30})
    ),
    {Role.CONTROL_PLANE: "cp: 1\n", Role.WORKER: "worker: 1\n"},
)


def test_a_request_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path / "clusters" / REQUEST.name)
    write_request(folder, REQUEST)
    assert read_request(folder) == REQUEST
    assert [found.path for found in folders(tmp_path / "clusters")] == [folder.path]


def test_a_cache_of_images_comes_back(tmp_path: Path) -> None:
    request = make_request(ClusterOptions(image=Path("/image"), image_cache=Path("/cache")))
    folder = ClusterFolder(tmp_path / request.name)
    write_request(folder, request)
    assert read_request(folder) == request


def test_machines_come_back_with_their_disks(tmp_path: Path) -> None:
    chosen = ClusterOptions(
        image=Path("/iso"), provider=Provider.QEMU, disks=[Disk("virtio", 10 << 30), Disk("nvme", 6 << 30)]
    )
    request = make_request(chosen)
    folder = ClusterFolder(tmp_path / request.name)
    write_request(folder, request)
    assert read_request(folder) == request
    assert request.nodes[0].disk == 10 << 30


def test_secrets_are_for_the_owner_only(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path / REQUEST.name)
    write_request(folder, REQUEST)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert folder.config(REQUEST.nodes[0].name).stat().st_mode & 0o777 == 0o600


def test_a_second_cluster_of_the_name_is_refused(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path / REQUEST.name)
    write_request(folder, REQUEST)
    with pytest.raises(UserError, match="already there"):
        write_request(folder, replace(REQUEST, mtu=1400))
    assert read_request(folder) == REQUEST


def test_a_damaged_state_names_its_file(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path / REQUEST.name)
    write_request(folder, REQUEST)
    folder.state.write_text("nodes: 3\n")
    with pytest.raises(UserError, match=r"state\.yaml"):
        read_request(folder)


def test_records_come_back_and_damaged_ones_are_empty(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    assert read_record(folder) == {}
    write_record(folder, {"launcher": {"pid": 1, "started": 2}})
    assert read_record(folder) == {"launcher": {"pid": 1, "started": 2}}
    folder.record.write_text("}{")
    assert read_record(folder) == {}
