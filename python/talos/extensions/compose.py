"""The layers of an image from its extensions, checked: ``python3 -m talos.extensions.compose``.

An extension is a folder as upstream has them: ``manifest.yaml``, and its files in ``rootfs/``.
"""

import argparse
import os
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from talos.extensions.cri import PART, PARTS
from talos.extensions.manifest import (
    MANIFEST,
    MAX_EXTENSIONS,
    Extension,
    Layer,
    format_layers,
    is_compatible,
    parse_manifest,
)
from talos.extensions.service import DEFINITIONS, ROOTS, SUFFIX, parse_service
from talos.system.block.verity import find_tree, make_tree
from talos.system.errors import UserError
from talos.system.files import hash_file
from talos.system.process import run_command
from talos.upgrade.release.initramfs import DIGESTS, LAYERS, ROOT_HASHES

ROOTFS = "rootfs"
SYSTEM = "the system"
_CRI_PARTS = PurePosixPath(PARTS.removeprefix("/"))
ALLOWED = ("usr/local", "usr/lib/firmware", str(_CRI_PARTS))
"""Where extensions may have files; upstream's other places have no reader here."""
LINKS = {"lib": "usr/lib"}
"""Links of the system's root: what is below them belongs to their target."""
type Pack = Callable[[Path, Path], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """An extension as it is on the build's disk. ``files`` by their paths in the root of a node."""

    path: Path
    extension: Extension
    files: Mapping[str, Path]
    folders: frozenset[str]


def read_folder(path: Path) -> Folder:
    """Read an extension; UserError with its name when it is none."""
    where = path.name
    try:
        extension = parse_manifest((path / MANIFEST).read_text(encoding="utf-8"), f"{where}/{MANIFEST}")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"its {MANIFEST} can't be read: {error}", where=where) from None
    if not (path / ROOTFS).is_dir():
        raise UserError(f"has no folder {ROOTFS}", where=f"extension {extension.name}")
    files: dict[str, Path] = {}
    folders: set[str] = set()
    for found in sorted((path / ROOTFS).rglob("*")):
        name = _place(found.relative_to(path / ROOTFS))
        _check_path(found, name, extension.name)
        if found.is_dir() and not found.is_symlink():
            folders.add(name)
        else:
            files[name] = found
    _check_services(extension.name, files, folders)
    _check_cri_parts(extension.name, files)
    return Folder(path=path, extension=extension, files=files, folders=frozenset(folders))


def check_folders(folders: Sequence[Folder], base: Folder, version: str) -> None:
    """UserError when extensions don't go together, or not with the system that ``base`` is."""
    if len(folders) > MAX_EXTENSIONS:
        raise UserError(f"{len(folders)} extensions, an image has at most {MAX_EXTENSIONS}")
    names: set[str] = set()
    owners = dict.fromkeys((*base.files, *base.folders), SYSTEM)
    owned_files = dict.fromkeys(base.files, SYSTEM)
    for folder in folders:
        where = f"extension {folder.extension.name}"
        if folder.extension.name in names:
            raise UserError("is there twice", where=where)
        if not is_compatible(folder.extension, version):
            raise UserError(f"is for {folder.extension.talos}, the system is {version}", where=where)
        for path in (*(owners.keys() & folder.files.keys()), *(owned_files.keys() & folder.folders)):
            raise UserError(f"{owners[path]} and {where} both have /{path}")
        names.add(folder.extension.name)
        owners |= dict.fromkeys((*folder.files, *folder.folders), where)
        owned_files |= dict.fromkeys(folder.files, where)


def read_base(root: Path) -> Folder:
    """What a system's root has."""
    paths = {str(path.relative_to(root)): path for path in root.rglob("*")}
    folders = frozenset(name for name, path in paths.items() if path.is_dir() and not path.is_symlink())
    files = {name: path for name, path in paths.items() if name not in folders}
    extension = Extension(name="system", version="", author="", description="")
    return Folder(path=root, extension=extension, files=files, folders=folders)


def make_squashfs(tree: Path, out: Path) -> None:
    """Write a squashfs of a tree: root's, without times of the build."""
    options = ["-comp", "zstd", "-Xcompression-level", "19", "-b", "256K", "-all-root", "-no-xattrs"]
    run_command(["mksquashfs", str(tree), str(out), *options, "-no-exports", "-quiet"])


def make_layers(folders: Sequence[Folder], out: Path, scratch: Path, pack: Pack = make_squashfs) -> None:
    """Write the layer of each extension with its hash tree, their hashes and ``extensions.yaml``."""
    layers: list[Layer] = []
    roots = ""
    for number, folder in enumerate(folders):
        layer = Layer(image=f"{number:03}.{folder.extension.name}.sqsh", extension=folder.extension)
        tree = scratch / layer.image
        copy_files(folder, tree)
        pack(tree, out / layer.image)
        hashes = make_tree(out / layer.image)
        find_tree(out / layer.image).write_bytes(hashes.data)
        roots += f"{hashes.root}  {layer.image}\n"
        layers.append(layer)
    digests = [f"{hash_file(out / layer.image)}  {layer.image}\n" for layer in layers]
    (out / ROOT_HASHES).write_text(roots, encoding="ascii")
    (out / DIGESTS).write_text("".join(digests), encoding="ascii")
    (out / LAYERS).write_text(format_layers(layers), encoding="utf-8")


def copy_files(folder: Folder, tree: Path) -> None:
    """Copy an extension's files to where they belong below ``tree``."""
    tree.mkdir(exist_ok=True)
    for name in sorted(folder.folders):
        (tree / name).mkdir(parents=True, exist_ok=True)
    for name, source in folder.files.items():
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        else:
            target.write_bytes(source.read_bytes())
            target.chmod(0o755 if source.stat().st_mode & 0o111 else 0o644)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of the build: check the extensions, then write the layers, or the files for a system's tree."""
    parser = argparse.ArgumentParser(prog="compose", description="Compose the extensions of an image.")
    parser.add_argument("--base", type=Path, required=True, help="the root of the system")
    parser.add_argument("--version", required=True, help="the system's")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the layers")
    parser.add_argument("--tree", action="store_true", help="write their files as one tree instead")
    parser.add_argument("extension", type=Path, nargs="*")
    options = parser.parse_args(argv)
    try:
        folders = [read_folder(path) for path in options.extension]
        check_folders(folders, read_base(options.base), options.version)
        options.out.mkdir(parents=True, exist_ok=True)
        if options.tree:
            for folder in folders:
                copy_files(folder, options.out)
        else:
            make_layers(folders, options.out, Path.cwd())
    except UserError as error:
        sys.stderr.write(f"extensions: {error}\n")
        return 1
    return 0


def _place(relative: Path) -> str:
    """The path in a node's root: one folder has one name."""
    top = relative.parts[0]
    return str(Path(LINKS.get(top, top), *relative.parts[1:]))


def _check_path(path: Path, name: str, extension: str) -> None:
    where, pure = f"extension {extension}", PurePosixPath(name)
    mode = path.lstat().st_mode
    above = any(PurePosixPath(allowed).is_relative_to(pure) for allowed in ALLOWED)
    if not any(pure.is_relative_to(allowed) for allowed in ALLOWED) and not (above and stat.S_ISDIR(mode)):
        raise UserError(f"/{name} is not below {', '.join(f'/{folder}' for folder in ALLOWED)}", where=where)
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        raise UserError(f"/{name} is neither a file nor a folder nor a link", where=where)
    if mode & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISDIR(mode):
        raise UserError(f"/{name} is setuid or setgid", where=where)


def _check_services(extension: str, files: Mapping[str, Path], folders: Set[str]) -> None:
    for name, path in _list_definitions(files):
        where = f"extension {extension}: /{name}"
        definition = parse_service(path.read_text(encoding="utf-8"), where)
        if f"{definition.name}{SUFFIX}" != PurePosixPath(name).name:
            raise UserError(f"its service is {definition.name!r}, the file needs that name", where=where)
        if definition.root.removeprefix("/") not in folders:
            raise UserError(f"its root, {ROOTS}/{definition.name}, is missing", where=where)


def _check_cri_parts(extension: str, files: Mapping[str, Path]) -> None:
    for name, path in files.items():
        place, where = PurePosixPath(name), f"extension {extension}: /{name}"
        if not place.is_relative_to(_CRI_PARTS):
            continue
        if place.parent != _CRI_PARTS or place.suffix != PART or path.is_symlink():
            raise UserError(f"only files {PARTS}/*{PART} are read", where=where)
        try:
            tomllib.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise UserError(f"it is no TOML: {error}", where=where) from None


def _list_definitions(files: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
    folder = DEFINITIONS.removeprefix("/")
    for name, path in files.items():
        if PurePosixPath(name).parent == PurePosixPath(folder) and name.endswith(SUFFIX):
            yield name, path


if __name__ == "__main__":
    os.umask(0o022)
    raise SystemExit(main())
