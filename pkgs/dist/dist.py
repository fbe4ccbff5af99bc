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

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from talos.pki.signer import is_remote
from talos.system.errors import UserError
from talos.upgrade.release.signature import ReleaseKey, format_public
from talos.upgrade.release.signer import open_key

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


def load_key(key: str, public: Path | None, keys: Path) -> tuple[ReleaseKey, Ed25519PublicKey] | None:
    """The release key and its public half; None when the image trusts none. DistError when it does not trust this one."""
    trusted = [load_pem_public_key(file.read_bytes()) for file in sorted(keys.glob("*.pub"))]
    if not key:
        if trusted:
            raise DistError(f"images accept releases of {len(trusted)} keys in pkgs/keys: name one, RELEASE_KEY=~/release.key")
        return None
    if is_remote(key) and public is None:
        raise DistError("RELEASE_KEY is in no file: name its public half, RELEASE_PUBLIC=pkgs/keys/2027.pub")
    try:
        found, half = open_key(key, public)
    except UserError as error:
        raise DistError(f"RELEASE_KEY: {error}") from None
    if half not in trusted:
        raise DistError("RELEASE_KEY: its public half is not in pkgs/keys, so nodes would refuse the release: commit it there")
    return found, half


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


def lay_out(
    version: str, notes: str, key: tuple[ReleaseKey, Ed25519PublicKey] | None, files: dict[str, Path], out: Path
) -> None:
    """Fill the folder, which must not be there yet; DistError, UserError."""
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
        (new / PUBLIC).write_bytes(format_public(key[1]))
    sums = hash_files(new)
    (new / SUMS).write_text(sums, encoding="utf-8")
    if key:
        (new / SIGNATURE).write_bytes(key[0].sign(sums.encode()))
    new.rename(out)


def main(argv: Sequence[str] | None = None) -> int:
    """Read the arguments; with --check, only report whether a release could be laid out."""
    parser = argparse.ArgumentParser(prog="dist")
    parser.add_argument("--check", action="store_true", help="build nothing yet: check version, notes and key")
    parser.add_argument("--version", default="")
    parser.add_argument("--key", default="", help="the private release key, as `nix run .#sign` takes it")
    parser.add_argument("--public-key", type=Path, help="the file of its public half")
    parser.add_argument("--tree", type=Path, default=Path(), help="the repository")
    parser.add_argument("--out", type=Path, default=Path("build/dist"), help="where the version's folder is made")
    parser.add_argument("file", nargs="*", metavar="NAME=PATH", help="NAME.tar packs a folder, NAME.gz compresses")
    options = parser.parse_args(argv)
    tree: Path = options.tree
    try:
        version = check_version(options.version, tree / "VERSION")
        notes = find_notes((tree / "CHANGELOG.md").read_text(encoding="utf-8"), version)
        key = load_key(options.key, options.public_key, tree / "pkgs/keys")
        out = options.out / version
        if options.check and out.exists():
            raise DistError(f"{out} is there already: remove it, or publish it")
        if not options.check:
            names = (word.replace("@", version).partition("=") for word in options.file)
            lay_out(version, notes, key, {name: Path(path) for name, _, path in names}, out)
            sys.stdout.write(f"{out}: {len(list(out.iterdir()))} files; sha256sum -c {SUMS} checks them\n")
    except (DistError, UserError, OSError) as error:
        sys.stderr.write(f"dist: {error}\n")
        return 1
    if key is None:
        sys.stderr.write(f"dist: WARNING: {KEYLESS}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
