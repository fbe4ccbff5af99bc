"""A small archive of packages made here, for tests of what a fetch does when it changes."""

import hashlib
import io
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path


def make_tar(files: Mapping[str, bytes]) -> bytes:
    """An archive as in a package."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    return lzma.compress(buffer.getvalue())


def make_deb(control: str, files: Mapping[str, bytes]) -> bytes:
    """A package: an ar archive of three members."""
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": make_tar({"control": control.encode()}),
        "data.tar.xz": make_tar(files),
    }
    packed = b"!<arch>\n"
    for name, content in members.items():
        packed += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        packed += content + b"\n" * (len(content) % 2)
    return packed


def publish(archive: Path, suite: str, packages: Mapping[str, tuple[str, str]]) -> None:
    """Make `archive` have these packages and no others: name to (version, dependencies)."""
    index = ""
    for name, (version, depends) in packages.items():
        control = (
            f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: Test <test@localhost>\n"
        )
        control += f"Depends: {depends}\n" if depends else ""
        control += "Description: made by a test\n"
        content = make_deb(control, {f"usr/bin/{name.removesuffix('-static')}": f"{name} {version}".encode()})
        path = f"pool/{name}_{version}_amd64.deb"
        (archive / "pool").mkdir(parents=True, exist_ok=True)
        (archive / path).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        index += f"{control}Filename: {path}\nSize: {len(content)}\nSHA256: {digest}\n\n"
    for old in (archive / "pool").iterdir():
        if f"pool/{old.name}\n" not in index:
            old.unlink()
    folder = archive / "dists" / suite
    (folder / "main/binary-amd64").mkdir(parents=True, exist_ok=True)
    (folder / "main/binary-amd64/Packages").write_text(index)
    digest = hashlib.sha256(index.encode()).hexdigest()
    (folder / "Release").write_text(
        f"Origin: Debian\nLabel: Debian\nSuite: {suite}\nCodename: {suite}\n"
        "Date: Thu, 01 Jan 2026 00:00:00 UTC\n"
        f"Valid-Until: Fri, 02 Jan 2026 00:00:00 UTC\nArchitectures: amd64\nComponents: main\n"
        f"SHA256:\n {digest} {len(index)} main/binary-amd64/Packages\n"
    )
