"""Releases made, signed, given a key; run as ``python3 -m talos.upgrade.release.main``.

The programs ``sign`` and ``keygen`` of the flake are this module under the name of its command.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from talos.system.errors import UserError
from talos.system.files import hash_file
from talos.upgrade.release.archive import (
    REPOSITORY,
    add_signature,
    read_annotations,
    read_archive,
    write_archive,
)
from talos.upgrade.release.features import list_features
from talos.upgrade.release.manifest import (
    COMMIT_TIME,
    ReleaseFile,
    ReleaseManifest,
    check_release,
    find_oldest,
    parse_release,
)
from talos.upgrade.release.signature import format_private, format_public
from talos.upgrade.release.signer import sign_manifest

ARCHITECTURE = "amd64"
COMMANDS = ("sign", "keygen")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of ``make``, ``sign`` and ``keygen``."""
    called, words = Path(sys.argv[0]).name, list(sys.argv[1:] if argv is None else argv)
    options = _parse([called, *words] if called in COMMANDS else words)
    try:
        options.run(options)
    except (UserError, OSError) as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    return 0


def make(options: argparse.Namespace) -> None:
    """Write an unsigned release of files."""
    files = {path.name: path for path in options.file}
    for word in options.named:
        name, _, path = word.partition("=")
        files[name] = Path(path)
    with TemporaryDirectory() as folder:
        if options.commit_time:
            files[COMMIT_TIME] = Path(folder, COMMIT_TIME)
            files[COMMIT_TIME].write_text(f"{options.commit_time}\n", encoding="ascii")
        _write(options, files)


def _write(options: argparse.Namespace, files: Mapping[str, Path]) -> None:
    release = ReleaseManifest(
        version=options.version,
        commit=options.commit,
        architecture=ARCHITECTURE,
        minimum_version=options.minimum_version or find_oldest(options.version),
        features=list_features(options.extension),
        files={name: describe_file(name, path) for name, path in files.items()},
    )
    reference = options.reference or f"{REPOSITORY}:{options.version}"
    write_archive(release, files, reference, options.out)


def describe_file(name: str, path: Path) -> ReleaseFile:
    """Size and digest of a file."""
    return ReleaseFile(name=name, size=path.stat().st_size, sha256=hash_file(path))


def sign_release(options: argparse.Namespace) -> None:
    """Write ``RELEASE`` with one more signature, beside it or to ``--out``, and that signature as a file."""
    source: Path = options.release
    target: Path = options.out or source.with_name(f"{source.stem.removesuffix('.signed')}.signed.tar")
    data, others = _read_signed(source)
    release = parse_release(data)
    problems = check_release(release, version=release.version, architecture=ARCHITECTURE)
    if problems:
        raise UserError(problems[0], where=str(source))
    if options.built:
        _compare(release, parse_release(_read_signed(options.built)[0]), source, options.built)
    signature = sign_manifest(data, options.key, options.public_key)
    words = [word for word in others.split() if word != signature]
    new = target.with_name(f"{target.name}.new")
    add_signature(source, new, " ".join((*words, signature)))
    new.replace(target)
    target.with_name(f"{target.name}.sig").write_text(f"{signature}\n", encoding="ascii")
    count = f", signature {len(words) + 1}" if words else ""
    sys.stdout.write(f"{target}: {release.version}, commit {release.commit}{count}\n")


def _read_signed(path: Path) -> tuple[bytes, str]:
    """The manifest of an archive and its signatures, empty without any."""
    _, manifest = read_archive(path)
    return read_annotations(manifest.get("annotations") or {}, str(path))


def _compare(release: ReleaseManifest, own: ReleaseManifest, source: Path, built: Path) -> None:
    """Raise UserError unless a build of one's own is the same release."""
    names = sorted(release.files.keys() | own.files.keys())
    differ = [name for name in names if release.files.get(name) != own.files.get(name)]
    if release != own:
        what = ", ".join(differ) or f"{own.version}, commit {own.commit}"
        raise UserError(f"is another build: {what}", where=str(built), hint=f"{source} is not signed")


def make_key(options: argparse.Namespace) -> None:
    """Write a private key and, beside it, the public one that images trust."""
    path: Path = options.path
    key = Ed25519PrivateKey.generate()
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(format_private(key))
    public = path.with_suffix(".pub")
    public.write_bytes(format_public(key.public_key()))
    sys.stdout.write(f"{path}: keep it secret\n{public}: put it into pkgs/keys\n")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="release", description="Make and sign releases.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("make", help="make an unsigned release")
    command.set_defaults(run=make)
    command.add_argument("--version", required=True)
    command.add_argument("--commit", default="unknown")
    command.add_argument(
        "--commit-time", type=int, default=0, help="the commit's, in seconds since the epoch"
    )
    command.add_argument(
        "--minimum-version",
        help="the lowest that can be upgraded from, by default of the minor version before",
    )
    command.add_argument("--extension", action="append", default=[], help="a system extension that is in it")
    command.add_argument("--reference", help="its name as an image")
    command.add_argument("--named", action="append", default=[], metavar="NAME=FILE")
    command.add_argument("--out", type=Path, required=True)
    command.add_argument("file", type=Path, nargs="*")
    command = commands.add_parser("sign", help="sign a finished release")
    command.set_defaults(run=sign_release)
    command.add_argument(
        "--key",
        metavar="KEY",
        required=True,
        help="the private key, Ed25519: a file in PEM, or, with --public-key, pkcs11:URI or "
        "command:PROGRAM ARGUMENTS",
    )
    command.add_argument("--public-key", type=Path, help="the file of its public half")
    command.add_argument("--out", type=Path, help="the signed copy (default: NAME.signed.tar beside it)")
    command.add_argument(
        "--built", type=Path, help="a build of your own: the release is signed only if it is the same"
    )
    command.add_argument("release", type=Path)
    command = commands.add_parser("keygen", help="make a key pair")
    command.set_defaults(run=make_key)
    command.add_argument("path", type=Path, help="the private key; the public one lies beside it, .pub")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
