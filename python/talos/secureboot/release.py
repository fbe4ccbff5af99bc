"""Releases for machines that start from UKIs: the two signed programs in place of kernel and initramfs."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cryptography import x509

from talos.secureboot.keys import OwnerKeys
from talos.secureboot.programs import find_programs
from talos.secureboot.signing import open_copy, sign_programs
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.upgrade.release.archive import (
    read_annotations,
    read_archive,
    read_name,
    read_small_file,
    write_archive,
)
from talos.upgrade.release.main import describe_file
from talos.upgrade.release.manifest import (
    COMMIT_TIME,
    MAX_UPDATE,
    UKI,
    UKI_LOADER,
    UPDATES,
    parse_release,
)
from talos.upgrade.slots.systemd_boot.databases import check_size, check_update
from talos.upgrade.slots.systemd_boot.entry import read_version

NO_FILES: Mapping[str, Path] = {}


def sign_release(
    release: Path,
    uki: Path,
    keys: OwnerKeys,
    out: Path,
    updates: Mapping[str, Path] = NO_FILES,
) -> x509.Certificate:
    """Write a release whose system is a signed UKI; the certificate.

    ``release`` is the one with kernel and initramfs: version, commit and features are taken from it. The copy
    has no signature as a release yet. ``updates`` are files that add to the firmware's databases, by the
    databases' names. UserError, OSError; then there is no copy.
    """
    for name, path in updates.items():
        update = read_file(path, MAX_UPDATE + 1)
        check_size(len(update), str(path))
        check_update(name, update, str(path))
    programs = find_programs(uki)
    index, image = read_archive(release)
    manifest = parse_release(read_annotations(image.get("annotations") or {}, str(release))[0])
    version = read_version(programs.image)
    if version != manifest.version:
        raise UserError(
            f"is {version or 'no UKI'}, the release is {manifest.version}",
            where=str(programs.image),
            hint="build both of one commit",
        )
    with open_copy(out) as new, tempfile.TemporaryDirectory(prefix="release-") as folder:
        files = {name: Path(folder, name) for name in (UKI, UKI_LOADER)}
        signer = sign_programs(programs, files[UKI], files[UKI_LOADER], keys)
        if COMMIT_TIME in manifest.files:
            files[COMMIT_TIME] = Path(folder, COMMIT_TIME)
            files[COMMIT_TIME].write_bytes(read_small_file(release, image, COMMIT_TIME))
        files |= {UPDATES[name]: path for name, path in updates.items()}
        described = {name: describe_file(name, path) for name, path in files.items()}
        write_archive(replace(manifest, files=described), files, read_name(index), new)
    return signer
