"""The folders below EPHEMERAL."""

from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.folders import FOLDERS, find_path, find_volume, make_folders


def test_paths_are_those_of_the_parents() -> None:
    paths = {folder.id: find_path(folder) for folder in FOLDERS}
    assert paths["KUBELET"] == "/var/lib/kubelet"
    assert (paths["LOG"], paths["ETCD"]) == ("/var/log", "/var/lib/etcd")
    assert all(path == name for name, path in paths.items() if name.startswith("/"))


def test_specs() -> None:
    specs = {name: spec for name, (spec, _) in make_folders().items()}
    assert specs["/var/run"].symlink.symlink_target_path == "/run"
    assert (specs["CRI"].type, specs["CRI"].mount.parent_id) == (enums.VOLUME_TYPE_DIRECTORY, "/var/lib")


def test_which_volume_a_folder_is_in() -> None:
    found = {folder.id: find_volume(folder, ["LOG", "KUBELET"]) for folder in FOLDERS}
    assert found["/var/lib/kubelet/seccomp/profiles"] == "KUBELET"
    assert (found["LOG"], found["/var/log/audit/kube"]) == ("LOG", "LOG")
    assert not any((found["ETCD"], found["/var/lib"], found["/run/lock"]))
