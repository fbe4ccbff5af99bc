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
