"""Releases made, signed and read: the bytes, the keys, and archives that lie."""

import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from talos.system.errors import UserError
from talos.upgrade.release.archive import MANIFEST, read_annotations, read_archive
from talos.upgrade.release.layer import check_layer
from talos.upgrade.release.main import main
from talos.upgrade.release.manifest import FOLDER, ReleaseManifest, check_release, parse_release
from talos.upgrade.release.signature import load_keys, load_needed, verify

from .releases import CONTENT, Tar, make_document, make_release


def read(archive: Path) -> tuple[bytes, str]:
    """The manifest and the signature of an archive."""
    return read_annotations(read_archive(archive)[1]["annotations"], "archive")


def find_layer(archive: Path, folder: Path) -> Path:
    """The layer of an archive as a file."""
    digest = read_archive(archive)[1]["layers"][0]["digest"].removeprefix("sha256:")
    with tarfile.open(archive) as tar:
        content = tar.extractfile(f"blobs/sha256/{digest}")
        assert content is not None
        path = folder / "layer.tar"
        path.write_bytes(content.read())
    return path


def test_a_release_is_made_signed_and_accepted(tmp_path: Path) -> None:
    archive, key = make_release(tmp_path, "--commit", "abc"), tmp_path / "keys/one.key"
    again = make_release(tmp_path / "again", "--commit", "abc")
    assert archive.read_bytes() == again.read_bytes()
    assert main(["keygen", str(key)]) == 0
    assert key.stat().st_mode & 0o777 == 0o600
    signed = tmp_path / "signed.tar"
    argv = ["sign", "--key", str(key), "--out", str(signed), str(archive)]
    assert main(argv) == 0
    first = signed.read_bytes()
    assert main(argv) == 0
    assert signed.read_bytes() == first
    data, signature = read(signed)
    assert (tmp_path / "signed.tar.sig").read_text(encoding="ascii").strip() == signature
    verify(data, signature, load_keys(key.parent))
    layer = check_layer(find_layer(signed, tmp_path), parse_release(data))
    assert {name: b"".join(layer.read(name)) for name in CONTENT} == CONTENT
    with tarfile.open(signed) as tar:
        entry = json.loads(tar.extractfile("index.json").read())["manifests"][0]  # pyright: ignore[reportOptionalMemberAccess]
        blob = tar.getmember("blobs/" + entry["digest"].replace(":", "/"))
    assert blob.size == entry["size"]


@pytest.mark.parametrize(
    ("running", "problem"),
    [
        ("v1.14.0", ""),
        ("v1.14.7", ""),
        ("v1.15.0-alpha.0", ""),
        ("v1.15.0", ""),
        ("v1.15.1", ""),
        ("v1.14.0-beta.1", "the release v1.15.1 can replace v1.14.0 or newer, not v1.14.0-beta.1"),
        ("v1.15.2", "the release v1.15.1 is older than the running v1.15.2; force allows it"),
    ],
)
def test_a_release_replaces_what_is_older(tmp_path: Path, running: str, problem: str) -> None:
    """One that names no lowest version replaces those of the minor version before, too."""
    release = parse_release(read(make_release(tmp_path, version="v1.15.1"))[0])
    assert check_release(release, version=running, architecture="amd64") == ([problem] if problem else [])


def test_a_key_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "one.key"
    assert main(["keygen", str(path)]) == 0
    before = path.read_bytes()
    assert main(["keygen", str(path)]) == 1
    assert path.read_bytes() == before
    assert "File exists" in capsys.readouterr().err


def test_two_builders_have_to_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "keys"
    for name in ("one", "two", "foreign"):
        main(["keygen", str(folder / f"{name}.key")])
    (folder / "foreign.pub").unlink()
    (folder / "again.pub").write_bytes((folder / "one.pub").read_bytes())
    (folder / "signatures").write_text("2\n", encoding="ascii")
    keys, needed = load_keys(folder), load_needed(folder)
    archive, signed = make_release(tmp_path), tmp_path / "release.signed.tar"

    def refusal(*words: str) -> str:
        assert main(["sign", *words]) == 0
        data, signatures = read(signed)
        with pytest.raises(UserError) as caught:
            verify(data, signatures, keys, needed)
        return str(caught.value)

    text = "1 of the 2 keys that this system trusts have signed the release, 2 must"
    assert text in refusal("--key", str(folder / "one.key"), str(archive))
    assert text in refusal("--key", str(folder / "one.key"), str(signed))
    assert text in refusal("--key", str(folder / "foreign.key"), str(signed))
    other = make_release(tmp_path / "other", "--commit", "other")
    second = ["sign", "--key", str(folder / "two.key"), "--built"]
    before = signed.read_bytes()
    capsys.readouterr()
    assert main([*second, str(other), str(signed)]) == 1
    assert "is another build: v1.15.0, commit other" in capsys.readouterr().err
    assert signed.read_bytes() == before
    own = make_release(tmp_path / "own")
    assert main([*second, str(own), str(signed)]) == 0
    assert "signature 3" in capsys.readouterr().out
    verify(*read(signed), keys, needed)


def test_what_is_no_release_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, archive = tmp_path / "one.key", tmp_path / "archive.tar"
    main(["keygen", str(key)])
    archive.write_bytes(b"hello")
    assert main(["sign", "--key", str(key), str(archive)]) == 1
    assert "is no release archive" in capsys.readouterr().err
    for annotations, text in (
        ({}, "is no release of this system"),
        ({MANIFEST: "?"}, "its release manifest is no base64"),
        ({MANIFEST: "A" * 131_073}, "its release manifest has 131073 characters"),
    ):
        with pytest.raises(UserError, match=f"image x: {text}"):
            read_annotations(annotations, "image x")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("other.json", b"{}", r"has no valid index\.json"),
        ("index.json", b"[]", r"has no valid index\.json"),
        ("index.json", b"{}".ljust((1 << 20) + 1), r"has no valid index\.json"),
        ("index.json", b'{"manifests": []}', r"its index\.json names no image"),
        ("index.json", b'{"manifests": [{"digest": "sha256:0"}]}', "has no valid blobs/sha256/0"),
    ],
)
def test_an_archive_without_a_release_is_refused(
    name: str, content: bytes, text: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=text):
        read_archive(Tar().add(name, content).write(tmp_path / "archive.tar"))


@pytest.fixture
def release(tmp_path: Path) -> ReleaseManifest:
    return parse_release(read(make_release(tmp_path))[0])


LAYERS: dict[str, tuple[Callable[[], Tar], str]] = {
    "a file is missing": (
        lambda: Tar().add(f"{FOLDER}/vmlinuz", CONTENT["vmlinuz"]),
        "lacks cmdline, initramfs",
    ),
    "a file twice": (
        lambda: Tar().add_all().add(f"{FOLDER}/cmdline", CONTENT["cmdline"]),
        "cmdline is there twice",
    ),
    "one more file": (lambda: Tar().add_all().add(f"{FOLDER}/more", b"x"), "is not in the manifest"),
    "a path outside": (lambda: Tar().add_all().add("../etc/passwd", b"x"), "is not in the manifest"),
    "an absolute path": (lambda: Tar().add_all().add(f"/{FOLDER}/vmlinuz", b"x"), "is not in the manifest"),
    "another size": (
        lambda: Tar().add(f"{FOLDER}/cmdline", b"x"),
        "cmdline has 1 bytes, in the manifest it has 7",
    ),
    "another content": (
        lambda: _altered(),
        "vmlinuz has the digest .*, in the manifest it is ",
    ),
    "a link": (
        lambda: Tar().add(f"{FOLDER}/vmlinuz", b"", type=tarfile.SYMTYPE, linkname="/etc/shadow"),
        "neither a plain file nor a folder",
    ),
    "a device": (
        lambda: Tar().add(f"{FOLDER}/vmlinuz", b"", type=tarfile.CHRTYPE),
        "neither a plain file nor",
    ),
    "a sparse file": (
        lambda: Tar().add(f"{FOLDER}/vmlinuz", b"", type=tarfile.GNUTYPE_SPARSE),
        "neither a plain",
    ),
    "an extended header": (
        lambda: Tar().add("x", b"9 path=a\n", type=tarfile.XHDTYPE),
        "neither a plain file",
    ),
    "many entries": (lambda: _many(), "more than 80 entries"),
}


def _altered() -> Tar:
    tar = Tar().add_all()
    view = tar.data.getbuffer()
    view[600] ^= 1
    view.release()
    return tar


def _many() -> Tar:
    tar = Tar()
    for _ in range(100):
        tar.add("usr/install", b"", type=tarfile.DIRTYPE)
    return tar


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_that_is_not_the_manifests_is_refused(
    name: str, release: ReleaseManifest, tmp_path: Path
) -> None:
    make, text = LAYERS[name]
    with pytest.raises(UserError, match=text):
        check_layer(make().write(tmp_path / "layer.tar"), release)


def test_truncated_and_compressed_layers_are_refused(release: ReleaseManifest, tmp_path: Path) -> None:
    path = Tar().add_all().write(tmp_path / "layer.tar")
    whole = path.read_bytes()
    check_layer(path, release)
    for size in (0, 100, 512, 600, 20_000, 60_000):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match="release layer: "):
            check_layer(path, release)
    path.write_bytes(whole[: -1024 - 512 + 3])  # within the last file
    with pytest.raises(UserError, match="release layer: ends too early"):
        check_layer(path, release)
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(range(1, 256)) * 4)
    with pytest.raises(UserError, match="is no uncompressed tar"):
        check_layer(path, release)


@pytest.mark.parametrize("name", CONTENT)
def test_what_is_read_again_is_compared_again(tmp_path: Path, name: str) -> None:
    """Between the check and the write a disk may fail, or another process write to it."""
    files = [
        {"name": file, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for file, data in CONTENT.items()
    ]
    path = Tar().add_all().write(tmp_path / "layer.tar")
    layer = check_layer(path, parse_release(json.dumps(make_document(files=files)).encode()))
    with path.open("r+b") as file:
        file.seek(layer.offsets[name] + len(CONTENT[name]) - 1)
        file.write(b"!")
    read: list[bytes] = []
    with pytest.raises(UserError, match=f"{name} has the digest"):
        read.extend(layer.read(name))
    assert len(b"".join(read)) < len(CONTENT[name]), "nobody gets all of it"


@pytest.mark.parametrize(("arguments", "time"), [((), 0), (("--commit-time", "1763900000"), 1_763_900_000)])
def test_a_release_has_the_time_of_its_commit(tmp_path: Path, arguments: tuple[str, ...], time: int) -> None:
    archive = make_release(tmp_path, *arguments)
    layer = check_layer(find_layer(archive, tmp_path), parse_release(read(archive)[0]))
    assert layer.read_commit_time() == time
