"""Lays out a release for publication, `make dist VERSION=…`: files under stable names, notes, hashes, their signature.

The folder has what was built, SHA256SUMS, and with a release key SHA256SUMS.sig (a plain Ed25519 signature, which
`openssl pkeyutl` checks) and the public key. What is signed names the version, so a sum is of one release only.
"""

import argparse
import gzip
import hashlib
import re
import shutil
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

SUMS, SIGNATURE, PUBLIC, NOTES = "SHA256SUMS", "SHA256SUMS.sig", "release.pub", "NOTES.md"
UNRELEASED = "Unreleased"
PIECE = 1 << 20
EPOCH = 1
KEYLESS = (
    "this build has no release key: nodes that are installed from it will accept no upgrade. Make a key "
    "(`nix run .#keygen -- ~/release.key`), commit ~/release.pub to pkgs/keys, and build again"
)


class DistError(Exception):
    """What keeps a release from being laid out: one line, with the remedy."""


def check_version(requested: str, file: Path) -> str:
    """The version of the file VERSION, which is in everything that was built; DistError if another was requested."""
    version = file.read_text(encoding="utf-8").strip()
    if requested and requested != version:
        raise DistError(f"VERSION={requested}, but the file VERSION has {version}: change that file, commit it, build again")
    return version


def find_notes(changelog: str, version: str) -> str:
    """The changelog's section of a version; of a pre-release also the one of what is not released. DistError."""
    sections = dict(re.findall(r"^## \[?([^\]\s]+)\]?.*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL))
    names = [version, *([UNRELEASED] if "-" in version else [])]
    for name in names:
        if text := sections.get(name, "").strip():
            return text
    raise DistError(f'CHANGELOG.md: there is no section "## {version}" with text: rename "## {UNRELEASED}"')


def load_key(path: Path | None, keys: Path) -> Ed25519PrivateKey | None:
    """The release key; None when the image trusts none. DistError when the image does not trust this one."""
    trusted = [load_pem_public_key(file.read_bytes()) for file in sorted(keys.glob("*.pub"))]
    if path is None:
        if trusted:
            raise DistError(f"images accept releases of {len(trusted)} keys in pkgs/keys: name one, RELEASE_KEY=~/release.key")
        return None
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise DistError(f"RELEASE_KEY={path}: {error.strerror}") from None
    except (ValueError, TypeError):
        raise DistError(f"RELEASE_KEY={path}: is no private key in PEM: nix run .#keygen") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise DistError(f"RELEASE_KEY={path}: is no Ed25519 key: nix run .#keygen")
    if key.public_key() not in trusted:
        raise DistError(f"RELEASE_KEY={path}: its public half is not in pkgs/keys, so nodes would refuse the release: commit it there")
    return key


def add_file(source: Path, target: Path) -> None:
    """Copy a file; a name that ends in .gz compresses it, one in .tar packs a folder: the same bytes every time."""
    if target.suffix == ".tar":
        with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted(path for path in source.rglob("*") if path.is_file()):
                info = tarfile.TarInfo(f"{target.stem}/{path.relative_to(source)}")
                info.size, info.mtime = path.stat().st_size, EPOCH
                with path.open("rb") as content:
                    archive.addfile(info, content)
    elif target.suffix == ".gz":
        with source.open("rb") as content, target.open("wb") as out, gzip.GzipFile("", "wb", 6, out, EPOCH) as packed:
            shutil.copyfileobj(content, packed, PIECE)
    else:
        shutil.copyfile(source, target)
        if source.stat().st_mode & 0o100:
            target.chmod(0o755)


def hash_files(folder: Path) -> str:
    """What sha256sum writes of a folder's files."""
    lines: list[str] = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)


def lay_out(version: str, notes: str, key: Ed25519PrivateKey | None, files: dict[str, Path], out: Path) -> None:
    """Fill the folder, which must not be there yet; DistError."""
    if out.exists():
        raise DistError(f"{out} is there already: remove it, or publish it")
    new = out.with_name(f"{out.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for name, source in files.items():
        add_file(source, new / name)
    warning = "" if key else f"**Without a key**: {KEYLESS}.\n\n"
    (new / NOTES).write_text(f"# Talos in Python {version}\n\n{warning}{notes}\n", encoding="utf-8")
    if key:
        (new / PUBLIC).write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    sums = hash_files(new)
    (new / SUMS).write_text(sums, encoding="utf-8")
    if key:
        (new / SIGNATURE).write_bytes(key.sign(sums.encode()))
    new.rename(out)


def main(argv: Sequence[str] | None = None) -> int:
    """Read the arguments; with --check, only report whether a release could be laid out."""
    parser = argparse.ArgumentParser(prog="dist")
    parser.add_argument("--check", action="store_true", help="build nothing yet: check version, notes and key")
    parser.add_argument("--version", default="")
    parser.add_argument("--key", type=Path, help="the private release key")
    parser.add_argument("--tree", type=Path, default=Path(), help="the repository")
    parser.add_argument("--out", type=Path, default=Path("build/dist"), help="where the version's folder is made")
    parser.add_argument("file", nargs="*", metavar="NAME=PATH", help="NAME.tar packs a folder, NAME.gz compresses")
    options = parser.parse_args(argv)
    tree: Path = options.tree
    try:
        version = check_version(options.version, tree / "VERSION")
        notes = find_notes((tree / "CHANGELOG.md").read_text(encoding="utf-8"), version)
        key = load_key(options.key, tree / "pkgs/keys")
        out = options.out / version
        if options.check and out.exists():
            raise DistError(f"{out} is there already: remove it, or publish it")
        if not options.check:
            names = (word.replace("@", version).partition("=") for word in options.file)
            lay_out(version, notes, key, {name: Path(path) for name, _, path in names}, out)
            sys.stdout.write(f"{out}: {len(list(out.iterdir()))} files; sha256sum -c {SUMS} checks them\n")
    except (DistError, OSError) as error:
        sys.stderr.write(f"dist: {error}\n")
        return 1
    if key is None:
        sys.stderr.write(f"dist: WARNING: {KEYLESS}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
