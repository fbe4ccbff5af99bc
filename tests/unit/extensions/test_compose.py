"""Extensions put together: where they may have files, and what they may not have in common."""

import hashlib
from pathlib import Path

import pytest

from talos.extensions.compose import Folder, check_folders, copy_files, make_layers, read_base, read_folder
from talos.extensions.manifest import parse_layers
from talos.system.block.verity import BLOCK, make_tree
from talos.system.errors import UserError

MANIFEST = 'version: v1alpha1\nmetadata: {{name: {name}, version: "1", author: me, description: it{more}}}\n'
SERVICE = "name: {name}\ncontainer: {{entrypoint: /agent}}\n"
LOCAL = "usr/local"


def make(folder: Path, name: str, *files: str, more: str = "") -> Path:
    """An extension with these files; a name that ends with ``/`` is a folder."""
    path = folder / name
    for file in files:
        target = path / "rootfs" / file
        if file.endswith("/"):
            target.mkdir(parents=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(SERVICE.format(name=target.stem) if file.endswith(".yaml") else file)
    (path / "rootfs").mkdir(parents=True, exist_ok=True)
    (path / "manifest.yaml").write_text(MANIFEST.format(name=name, more=more))
    return path


def write_list(tree: Path, out: Path) -> None:
    """In the place of a squashfs."""
    text = " ".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    out.write_text(text.ljust(BLOCK))


@pytest.fixture
def base(tmp_path: Path) -> Folder:
    for name in ("base/usr/local/etc/containers", "base/usr/local/lib", "base/usr/lib/firmware"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "base/usr/local/etc/taken").touch()
    return read_base(tmp_path / "base")


def test_layers_have_their_hashes_and_files(tmp_path: Path, base: Folder) -> None:
    one = make(
        tmp_path,
        "one",
        f"{LOCAL}/bin/a",
        "lib/firmware/f",
        f"{LOCAL}/etc/containers/one.yaml",
        f"{LOCAL}/lib/containers/one/",
    )
    two = make(tmp_path, "two", f"{LOCAL}/bin/b")
    (one / "rootfs/usr/local/bin/a").chmod(0o700)
    folders = [read_folder(one), read_folder(two)]
    check_folders(folders, base, "v1.15.0")
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    out.mkdir()
    scratch.mkdir()
    make_layers(folders, out, scratch, write_list)
    layers = parse_layers((out / "extensions.yaml").read_text())
    assert [layer.image for layer in layers] == ["000.one.sqsh", "001.two.sqsh"]
    assert (out / "001.two.sqsh").read_text().rstrip() == "usr usr/local usr/local/bin usr/local/bin/b"
    lines = [
        f"{hashlib.sha256((out / layer.image).read_bytes()).hexdigest()}  {layer.image}" for layer in layers
    ]
    assert (out / "sha256sums").read_text().splitlines() == lines
    trees = [make_tree(out / layer.image) for layer in layers]
    assert [(out / name).read_bytes() for name in ("000.one.verity", "001.two.verity")] == [
        tree.data for tree in trees
    ]
    lines = [f"{tree.root}  {layer.image}" for tree, layer in zip(trees, layers, strict=True)]
    assert (out / "roothashes").read_text().splitlines() == lines
    copy_files(folders[0], tmp_path / "tree")
    assert (tmp_path / "tree/usr/lib/firmware/f").is_file()  # /lib is a link on nodes
    assert (tmp_path / "tree/usr/local/bin/a").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("one", "two", "reason"),
    [
        ("bin/a", "bin/a", "extension one and extension two both have /usr/local/bin/a"),
        ("bin/a", "bin/a/b", "extension one and extension two both have /usr/local/bin/a"),
        ("bin/a/b", "bin/a", "extension one and extension two both have /usr/local/bin/a"),
        ("bin/a", "etc/taken", "the system and extension two both have /usr/local/etc/taken"),
        ("bin/a", "etc/taken/x", "the system and extension two both have /usr/local/etc/taken"),
        ("bin/a", "lib", "the system and extension two both have /usr/local/lib"),
    ],
)
def test_what_two_have_in_common(tmp_path: Path, base: Folder, one: str, two: str, reason: str) -> None:
    folders = [
        read_folder(make(tmp_path, name, f"{LOCAL}/{file}")) for name, file in (("one", one), ("two", two))
    ]
    with pytest.raises(UserError) as caught:
        check_folders(folders, base, "v1.15.0")
    assert str(caught.value) == reason


def test_what_an_image_does_not_take(tmp_path: Path, base: Folder) -> None:
    one = read_folder(make(tmp_path, "one", f"{LOCAL}/bin/a"))
    with pytest.raises(UserError, match="extension one: is there twice"):
        check_folders([one, one], base, "v1.15.0")
    with pytest.raises(UserError, match="33 extensions, an image has at most 32"):
        check_folders([one] * 33, base, "v1.15.0")
    old = read_folder(make(tmp_path, "old", more=', compatibility: {talos: {version: "< v1.15.0"}}'))
    with pytest.raises(
        UserError, match=r"extension old: is for < v1\.15\.0, the system is v1\.15\.0-alpha\.0"
    ):
        check_folders([old], base, "v1.15.0-alpha.0")


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("usr/bin/sh", "extension bad: /usr/bin is not below /usr/local, /usr/lib/firmware, /etc/cri"),
        ("etc/passwd", "extension bad: /etc/passwd is not below"),
        ("etc/cri/conf.d/x.toml", "/etc/cri/conf.d/x.toml: only files /etc/cri/conf.d/*.part are read"),
        ("etc/cri/conf.d/a/x.part", "/etc/cri/conf.d/a/x.part: only files /etc/cri/conf.d/*.part are read"),
        ("etc/cri/conf.d/x.part", "/etc/cri/conf.d/x.part: it is no TOML: "),
        ("lib/modules/x.ko", "extension bad: /usr/lib/modules is not below"),
        (f"{LOCAL}/etc/containers/bad.yaml", "its root, /usr/local/lib/containers/bad, is missing"),
    ],
)
def test_files_in_other_places(tmp_path: Path, file: str, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        read_folder(make(tmp_path, "bad", file))
    assert reason in str(caught.value)


@pytest.mark.root
def test_a_program_with_the_rights_of_others(tmp_path: Path) -> None:
    """Builds may not make one, so that this is no test of theirs."""
    path = make(tmp_path, "bad", f"{LOCAL}/bin/a")
    (path / "rootfs/usr/local/bin/a").chmod(0o4755)
    with pytest.raises(UserError, match="extension bad: /usr/local/bin/a is setuid or setgid"):
        read_folder(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = make(tmp_path, "bad", f"{LOCAL}/bin/a")
    (path / "manifest.yaml").unlink()
    with pytest.raises(UserError, match=r"bad: its manifest\.yaml can't be read"):
        read_folder(path)
