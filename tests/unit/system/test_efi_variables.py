"""Firmware's variables as files: what is written, in one piece, and what is left of one that is refused."""

import os
from pathlib import Path

import pytest

from talos.system.efi_variables import GLOBAL, EfiVariables

PATH = f"BootNext-{GLOBAL}"


def test_a_variable_is_made_read_and_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables, written = EfiVariables(tmp_path), list[bytes]()
    write = os.write

    def record(descriptor: int, data: bytes) -> int:
        written.append(data)
        return write(descriptor, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", record)
        variables.make("BootNext", b"\3\0")
    assert written == [b"\7\0\0\0\3\0"], "the kernel takes attributes and value in one piece"
    (tmp_path / "Lang-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f").write_bytes(b"another vendor's")
    assert (variables.list(), variables.read("BootNext")) == (["BootNext"], b"\3\0")
    variables.delete("BootNext")
    variables.delete("BootNext")
    assert (variables.list(), variables.read("BootNext")) == ([], None)


def test_one_that_is_there_is_not_changed(tmp_path: Path) -> None:
    variables = EfiVariables(tmp_path)
    variables.make("BootNext", b"\3\0")
    with pytest.raises(FileExistsError):
        variables.make("BootNext", b"\4\0")
    assert variables.read("BootNext") == b"\3\0"


def test_a_refused_one_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(OSError, match="No space left"):
        EfiVariables(tmp_path).make("BootNext", b"\3\0")
    assert not (tmp_path / PATH).exists()


def test_without_uefi_there_are_none(tmp_path: Path) -> None:
    assert EfiVariables(tmp_path / "none").list() == ()
    assert EfiVariables(tmp_path / "none").read("BootNext") is None


@pytest.mark.parametrize("is_there", [True, False])
def test_what_is_signed_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool) -> None:
    variables, written = EfiVariables(tmp_path), list[bytes]()
    if is_there:
        variables.make("db", b"before")
    write = os.write

    def record(descriptor: int, data: bytes) -> int:
        written.append(data)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", record)
    variables.append("db", b"signed")
    assert written == [b"\x67\0\0\0signed"], "the kernel takes attributes and value in one piece"


@pytest.mark.parametrize("is_there", [True, False])
def test_an_update_that_firmware_refuses_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    variables = EfiVariables(tmp_path)
    if is_there:
        variables.make("db", b"before")

    def refuse(descriptor: int, data: bytes) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(PermissionError):
        variables.append("db", b"signed")
    assert variables.read("db") == (b"before" if is_there else None)
