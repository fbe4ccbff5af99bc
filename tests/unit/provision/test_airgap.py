"""One folder for a site without a network: all files, their sums, the steps."""

import hashlib
from pathlib import Path

import pytest

from talos.provision.airgap import FILES, README, SUMS, main


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a build makes: files that can't be written to, one of them a program, and a folder of links."""
    built = tmp_path / "store"
    (built / "images").mkdir(parents=True)
    for name, mode in (("iso", 0o444), ("client", 0o555), ("etcd", 0o444), ("steps", 0o444)):
        (built / name).write_text(name)
        (built / name).chmod(mode)
    (built / "images/etcd.tar").symlink_to(built / "etcd")
    named = {"talos.iso": "iso", "talosctl": "client", "images": "images", README: "steps"}
    monkeypatch.setenv(FILES, ":".join(f"{name}={built}/{file}" for name, file in named.items()))
    return built


@pytest.mark.usefixtures("built")
def test_a_folder_has_all_files_and_their_sums(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "site"
    assert main([str(folder)]) == 0
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    assert sorted(found) == [README, SUMS, "images/etcd.tar", "talos.iso", "talosctl"]
    assert not found["images/etcd.tar"].is_symlink()
    assert {name: oct(path.stat().st_mode & 0o777) for name, path in found.items() if "talos" in name} == {
        "talos.iso": "0o644",
        "talosctl": "0o755",
    }
    lines = [line.split("  ") for line in found[SUMS].read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    assert sums == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items() if name != SUMS
    }
    assert README in capsys.readouterr().out


@pytest.mark.usefixtures("built")
def test_a_folder_that_exists_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"error: {tmp_path}: is there already (remove it, or name another folder)\n"
    )


def test_an_interrupted_copy_is_begun_anew(built: Path, tmp_path: Path) -> None:
    (built / "iso").unlink()
    folder = tmp_path / "site"
    assert main([str(folder)]) == 1
    assert not folder.exists()
    (built / "iso").write_text("iso")
    assert main([str(folder)]) == 0


def test_it_is_started_by_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(FILES, raising=False)
    assert main(["site"]) == 1
    assert "start it by `nix run .#airgap`" in capsys.readouterr().err
