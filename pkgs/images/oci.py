"""Write one container image of one layer as an OCI archive, without any trace of when and where.

`files` is a JSON object: a path in the image to the file whose content it has, or to {"link": target},
{"text": content}, {"folder": mode}, {"tree": folder} or {"setuid": file}. The layout is that of the OCI image
specification; the annotation is where containerd's import looks for the name.
"""

import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import IO, Any

from elf import needed

KIND = "application/vnd.oci.image"
LEVEL = "-10"  # a fifth smaller than -3; from here on each percent costs twice the time
LIBRARIES = "usr/lib/x86_64-linux-gnu"
type Blob = dict[str, Any]


def add(tar: tarfile.TarFile, name: str, mode: int, content: IO[bytes] | None = None, **more: Any) -> None:
    """Add a member that belongs to root and has no time."""
    info = tarfile.TarInfo(name)
    info.mode = mode
    for key, value in more.items():
        setattr(info, key, value)
    if content is not None:
        info.size = content.seek(0, os.SEEK_END)
        content.seek(0)
    tar.addfile(info, content)


def expand_trees(files: dict[str, Any]) -> dict[str, Any]:
    """Replace whole folders by what is in them."""
    found: dict[str, Any] = {}
    for path, source in files.items():
        match source:
            case {"tree": str(folder)}:
                for below in Path(folder).rglob("*"):
                    if below.is_symlink():
                        content: Any = {"link": str(below.readlink())}
                    elif below.is_file():
                        content = str(below)
                    else:
                        continue
                    found[f"{path}/{below.relative_to(folder)}"] = content
            case _:
                found[path] = source
    return found


def find_programs(root: Path, programs: list[str], modules: list[Path]) -> dict[str, Any]:
    """Find Debian's programs, and the libraries that they and ``modules`` need, where the loader looks."""
    found: dict[str, Any] = {}
    if programs:
        found |= {f"/{name}": {"link": f"usr/{name}"} for name in ("bin", "lib", "lib64", "sbin")}
        programs = [*programs, "usr/lib64/ld-linux-x86-64.so.2"]
    libraries = {library for module in modules for library in needed(module)}
    waiting = [
        *programs,
        *(f"{LIBRARIES}/{name}" for name in sorted(libraries) if not name.startswith("ld-")),
    ]
    while waiting:
        name = waiting.pop()
        if f"/{name}" not in found:
            path = root / name
            found[f"/{name}"] = str(path.resolve())
            waiting += [f"{LIBRARIES}/{library}" for library in needed(path) if not library.startswith("ld-")]
    return found


def write_layer(files: dict[str, Any], target: IO[bytes]) -> None:
    """Write the layer's uncompressed tar, sorted, with the folders above each file."""
    with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT) as tar:
        folders: set[str] = set()
        for path, source in sorted(files.items()):
            name = path.strip("/")
            for parent in reversed(Path(name).parents[:-1]):
                if str(parent) not in folders:
                    folders.add(str(parent))
                    add(tar, str(parent), 0o755, type=tarfile.DIRTYPE)
            match source:
                case {"link": str(linkname)}:
                    add(tar, name, 0o777, type=tarfile.SYMTYPE, linkname=linkname)
                case {"text": str(text)}:
                    add(tar, name, 0o644, io.BytesIO(text.encode()))
                case {"folder": str(mode)}:
                    folders.add(name)
                    add(tar, name, int(mode, 8), type=tarfile.DIRTYPE)
                case {"setuid": str(program)}:
                    with Path(program).open("rb") as content:
                        add(tar, name, 0o4755, content)
                case _:
                    with Path(source).open("rb") as content:
                        executable = os.fstat(content.fileno()).st_mode & 0o111
                        add(tar, name, 0o755 if executable else 0o644, content)


def describe(content: IO[bytes], media_type: str) -> Blob:
    """Make the descriptor by which other blobs name this one."""
    size = content.seek(0, os.SEEK_END)
    content.seek(0)
    digest = hashlib.file_digest(content, "sha256").hexdigest()
    return {"mediaType": f"{KIND}.{media_type}", "digest": f"sha256:{digest}", "size": size}


def encode(value: Any) -> IO[bytes]:
    """Encode JSON the one way that gives the same digest each time."""
    return io.BytesIO(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def main() -> None:
    """Write $out."""
    reference = os.environ["reference"]
    raw, packed = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
    files = expand_trees(json.loads(os.environ["files"]))
    modules = [Path(source) for path, source in files.items() if path.endswith(".so")]
    programs = find_programs(Path(os.environ["packages"]), os.environ["debian"].split(), modules)
    write_layer(files | programs, raw)
    difference = describe(raw, "layer.v1.tar")["digest"]
    raw.seek(0)
    subprocess.run(["zstd", "-q", LEVEL, "-T2", "-c"], stdin=raw, stdout=packed, check=True)
    layer = describe(packed, "layer.v1.tar+zstd")
    platform = {"architecture": "amd64", "os": "linux"}
    config = encode(
        {
            **platform,
            "created": "1970-01-01T00:00:00Z",
            "config": json.loads(os.environ["config"]),
            "rootfs": {"type": "layers", "diff_ids": [difference]},
        }
    )
    config_blob = describe(config, "config.v1+json")
    manifest = encode(
        {
            "schemaVersion": 2,
            "mediaType": f"{KIND}.manifest.v1+json",
            "config": config_blob,
            "layers": [layer],
        }
    )
    manifest_blob = describe(manifest, "manifest.v1+json")
    annotations = {
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference.rsplit(":", 1)[1],
    }
    index = {
        "schemaVersion": 2,
        "mediaType": f"{KIND}.index.v1+json",
        "manifests": [{**manifest_blob, "platform": platform, "annotations": annotations}],
    }
    with tarfile.open(os.environ["out"], "w", format=tarfile.GNU_FORMAT) as tar:
        add(tar, "oci-layout", 0o644, encode({"imageLayoutVersion": "1.0.0"}))
        add(tar, "index.json", 0o644, encode(index))
        for folder in ("blobs", "blobs/sha256"):
            add(tar, folder, 0o755, type=tarfile.DIRTYPE)
        for blob, content in ((config_blob, config), (manifest_blob, manifest), (layer, packed)):
            add(tar, "blobs/sha256/" + blob["digest"].removeprefix("sha256:"), 0o644, content)
    print(f"{reference}: {layer['size'] / 1e6:.1f} MB")


main()
