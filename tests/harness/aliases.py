"""Images under further names, as a user's own registry has them, or with another program."""

import hashlib
import io
import json
import shutil
import tarfile
from functools import partial
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
        index = _read_json(archive, "index.json")
    (entry,) = index["manifests"]
    name = entry["annotations"][NAME_ANNOTATION].rpartition("/")[2].partition(":")[0]
    for tag in tags:
        annotations = {**entry["annotations"], NAME_ANNOTATION: f"{HOST}/{name}:{tag}"}
        index["manifests"].append({**entry, "annotations": annotations})
    # The last member of a name is the one that counts.
    with tarfile.open(target, "a") as archive:
        _add(archive, index, "index.json")


def add_program(source: Path, target: Path, reference: str, entrypoint: list[str]) -> None:
    """An archive with another one's image, whose program is another one, under a full name."""
    shutil.copyfile(source, target)
    with tarfile.open(target) as archive:
        read = partial(_read_json, archive)
        index = read("index.json")
        (entry,) = index["manifests"]
        manifest = read(_blob(entry["digest"]))
        config = read(_blob(manifest["config"]["digest"]))
    with tarfile.open(target, "a") as archive:
        config["config"]["Entrypoint"] = entrypoint
        manifest["config"] |= _add(archive, config)
        annotations = {**entry["annotations"], NAME_ANNOTATION: reference}
        index["manifests"] = [{**entry, **_add(archive, manifest), "annotations": annotations}]
        _add(archive, index, "index.json")


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _read_json(archive: tarfile.TarFile, name: str) -> dict[str, Any]:
    file = archive.extractfile(name)
    assert file is not None
    found: dict[str, Any] = json.load(file)
    return found


def _add(archive: tarfile.TarFile, value: dict[str, Any], name: str = "") -> dict[str, Any]:
    """Append a value, as a blob unless it has a name; its descriptor's digest and size."""
    content = json.dumps(value).encode()
    digest = hashlib.sha256(content).hexdigest()
    info = tarfile.TarInfo(name or _blob(digest))
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))
    return {"digest": f"sha256:{digest}", "size": len(content)}
