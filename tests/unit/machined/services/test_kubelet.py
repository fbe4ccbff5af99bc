"""The mounts that users add to the kubelet's container."""

import tomllib
from pathlib import Path

import pytest

from talos.config.read.loader import load
from talos.machined.containerd.spec import make_mounts
from talos.machined.controllers.k8s.kubelet import make_kubelet_config
from talos.machined.services.kubelet import MOUNTS, make_extra_mounts, make_sources
from talos.system.errors import UserError

CONFIG = """version: v1alpha1
machine:
  kubelet:
    extraMounts:
      - destination: /var/mnt/data
        type: bind
        source: %s
        options: [bind, rw]
        uidMappings: [{containerID: 0, hostID: 100000, size: 65536}]
        gidMappings: [{containerID: 1, hostID: 100001, size: 10}]
"""


def test_a_mount_is_as_it_is_given_and_its_source_is_made(tmp_path: Path) -> None:
    source = tmp_path / "made" / "here"
    mounts = make_extra_mounts(make_kubelet_config(load(CONFIG % source), "").extra_mounts)
    assert make_mounts(mounts) == [
        {
            "destination": "/var/mnt/data",
            "type": "bind",
            "source": str(source),
            "options": ["bind", "rw"],
            "uidMappings": [{"containerID": 0, "hostID": 100000, "size": 65536}],
            "gidMappings": [{"containerID": 1, "hostID": 100001, "size": 10}],
        }
    ]
    make_sources(mounts)
    make_sources(mounts)
    assert source.stat().st_mode & 0o777 == 0o700


def test_a_source_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    mounts = make_extra_mounts(make_kubelet_config(load(CONFIG % (tmp_path / "file/below")), "").extra_mounts)
    with pytest.raises(UserError, match=r"machine.kubelet.extraMounts: .*/file/below can't be made"):
        make_sources(mounts)


def test_what_the_kubelet_has_of_etc_is_in_the_image() -> None:
    rootfs = Path(__file__).parents[4] / "modules/rootfs"
    contents = tomllib.loads((rootfs / "contents.toml").read_text())
    points = contents["mount_points"]
    generated = {*points["files"], *points["folders"], *contents["links"]}
    sources = {mount.source.removeprefix("/") for mount in MOUNTS if mount.source.startswith("/etc/")}
    assert "etc/nfsmount.conf" in sources
    assert [name for name in sources - generated if not (rootfs / "files" / name).is_file()] == []
