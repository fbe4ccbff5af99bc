"""What is unpacked, as an archive: one order, one owner, one time."""

import fnmatch
import gzip
import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path


def find_files(folder: Path, inside: str, left_out: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """The files of a folder by their paths in the archive, without names that match a pattern."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        is_wanted = not any(fnmatch.fnmatch(part, pattern) for part in relative.parts for pattern in left_out)
        if is_wanted and not path.is_dir():
            yield f"{inside}/{relative}", path


def pack(scripts: Mapping[str, tuple[bytes, int]], members: Mapping[str, Path]) -> bytes:
    """The archive of scripts (content, mode) and files by their paths in it, as every host can unpack it."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, (content, mode) in scripts.items():
            add(archive, name, content, mode)
        for name, path in sorted(members.items()):
            add(archive, name, path.read_bytes(), path.stat().st_mode & 0o111 | 0o644)
    return packed.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    """Append one file."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    archive.addfile(info, io.BytesIO(content))
