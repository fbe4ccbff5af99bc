"""What an EFI system partition has for Secure Boot: signed systemd-boot and UKI, and the owner's keys."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509

from talos.secureboot.enrolment import find_variables
from talos.secureboot.keys import OwnerKeys
from talos.secureboot.programs import find_programs
from talos.secureboot.signing import sign_programs
from talos.system.errors import UserError
from talos.system.process import make_pinned_argv, run_command
from talos.upgrade.slots.systemd_boot.entry import FOLDER, LOADER_PATH, name_slot
from talos.upgrade.slots.systemd_boot.settings import INITIAL, PATH, make_settings

ROOT_VARIABLE = "TALOS_MEDIA_ROOT"
_ENROLL = "secure-boot-enroll if-safe\n"


def make_tree(tree: Path, uki: Path, keys: OwnerKeys, slot: str = "") -> x509.Certificate:
    """Lay out the files below a folder, the UKI as a slot's or by its own name; the certificate.

    UserError, OSError.
    """
    programs, variables = find_programs(uki), find_variables(keys.folder, keys.programs.certificate)
    image = tree / FOLDER / (name_slot(slot) if slot else programs.image.name)
    for path in (image, tree / LOADER_PATH):
        path.parent.mkdir(parents=True)
    signer = sign_programs(programs, image, tree / LOADER_PATH, keys)
    folder = tree / "loader/keys/auto"
    folder.mkdir(parents=True)
    for path in variables:
        (folder / path.name).write_bytes(path.read_bytes())
    settings = INITIAL + (_ENROLL if variables else "")
    (tree / PATH).write_text(make_settings(settings, slot) if slot else settings)
    return signer


def sign_esp(uki: Path, keys: OwnerKeys, out: Path) -> x509.Certificate:
    """Write the files into a new folder; the certificate. UserError, OSError; then there is no folder."""
    if out.exists():
        raise UserError("is there already", where=str(out))
    with TemporaryDirectory(dir=out.parent, prefix=".") as folder:
        tree = Path(folder, out.name)
        signer = make_tree(tree, uki, keys)
        tree.rename(out)
    return signer


def measure_tree(tree: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())


def find_root(program: str, environment: Mapping[str, str]) -> str:
    """Where the tools are that make file systems; UserError without them."""
    root = environment.get(ROOT_VARIABLE, "")
    if not root:
        raise UserError("is not set", where=ROOT_VARIABLE, hint=f"start it as `nix run .#{program}`")
    return root


def copy_tree(root: str, tree: Path, volume: str) -> None:
    """Copy the files into a file system, which is named as mtools does."""
    argv = (*make_pinned_argv(root, "usr/bin/mcopy"), "-s", "-i", volume)
    # Not the user's own settings of mtools, which name other drives.
    run_command([*argv, *map(str, sorted(tree.iterdir())), "::"], env={"MTOOLSRC": "/dev/null"})
