"""The images of Kubernetes under further names, as a registry of somebody's own has them."""

import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

from talos.provision.mirror.archives import NAME_ANNOTATION

HOST = "registry.example.org"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet")


def add_aliases(source: Path, folder: Path, *tags: str) -> Path:
    """A folder with another one's archives, the programs also under :data:`HOST` with each of the tags."""
    folder.mkdir()
    for path in source.iterdir():
        if path.name.startswith(PROGRAMS):
            _copy(path, folder / path.name, tags)
        else:
            (folder / path.name).symlink_to(path)
    return folder


def _copy(source: Path, target: Path, tags: tuple[str, ...]) -> None:
    shutil.copyfile(source, target)
    with tarfile.open(target) as archive:
        file = archive.extractfile("index.json")
        assert file is not None
        index: dict[str, Any] = json.load(file)
    (entry,) = index["manifests"]
    name = entry["annotations"][NAME_ANNOTATION].rpartition("/")[2].partition(":")[0]
    for tag in tags:
        annotations = {**entry["annotations"], NAME_ANNOTATION: f"{HOST}/{name}:{tag}"}
        index["manifests"].append({**entry, "annotations": annotations})
    content = json.dumps(index).encode()
    info = tarfile.TarInfo("index.json")
    info.size = len(content)
    # The last member of a name is the one that counts.
    with tarfile.open(target, "a") as archive:
        archive.addfile(info, io.BytesIO(content))
