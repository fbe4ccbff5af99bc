"""Early init's count of starts, compiled and run on a folder of variables: it does what its twin does."""

import errno
import os
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest
from tests.unit.upgrade.slots.systemd_boot.loader import count_start

from talos.system.efi_variables import LOADER, EfiVariables
from talos.upgrade.slots.systemd_boot.starts import NAME, VENDOR

SOURCES = Path("kernel/init")
ONCE, SELECTED, ENTRIES = "LoaderEntryOneShot", "LoaderEntrySelected", "LoaderEntries"
MAIN = """\
#include "console.h"
#include "starts.h"
#include <stdarg.h>
#include <stdio.h>

/* In the place of the kernel's log. */
void report(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
}

int main(int count, char **words)
{
	return count == 2 ? count_start(words[1]) : 99;
}
"""
BOTH = ("talos-b.efi", "talos-b.efi@trial", "talos-a.efi", "talos-a.efi@trial", "auto-reboot")
ONE = ("talos-a.efi", "talos-a.efi@trial", "xtalos-b.efi", "auto-reboot")
STARTED = ("talos-a.efi", "talos-b.efi", "talos-a.efi@trial", "talos-v1.15.0.efi", "")
COUNTS = ("", *(f"{slot}{count}" for slot in "AB" for count in range(1, 7)), "A0", "C1", "B7", "B")

pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") and SOURCES.is_dir()), reason="needs a compiler and the kernel's part of the tree"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("early-init")
    main = folder / "main.c"
    main.write_text(MAIN)
    argv = ["cc", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}", str(main), str(SOURCES / "starts.c")]
    subprocess.run([*argv, "-o", str(folder / "count")], check=True, timeout=120)
    return folder / "count"


def make_text(*texts: str) -> bytes:
    return "".join(f"{text}\0" for text in texts).encode("utf-16-le")


def make_firmware(folder: Path, started: str, entries: tuple[str, ...], count: str) -> Path:
    """Its variables as systemd-boot has left them; it leaves none for what it did not start."""
    folder.mkdir()
    loader, starts = EfiVariables(folder, LOADER), EfiVariables(folder, VENDOR)
    if started:
        loader.make(SELECTED, make_text(started))
        loader.make(ENTRIES, make_text(*entries))
    if count:
        starts.make(NAME, count.encode())
    return folder


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def run_count(program: Path, folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([program, folder], check=False, capture_output=True, timeout=60)


def test_every_state(program: Path, tmp_path: Path) -> None:
    for number, state in enumerate(product(STARTED, (BOTH, ONE), COUNTS)):
        real, twin = (make_firmware(tmp_path / f"{name}{number}", *state) for name in ("real", "twin"))
        done = run_count(program, real)
        count = count_start(EfiVariables(twin, LOADER), EfiVariables(twin, VENDOR))
        assert (done.returncode, done.stderr, read_files(real)) == (count, b"", read_files(twin)), state


def test_the_values_that_the_firmware_gets(program: Path, tmp_path: Path) -> None:
    folder = make_firmware(tmp_path / "efivars", "talos-b.efi", BOTH, "B2")
    assert run_count(program, folder).returncode == 3
    files = read_files(folder)
    assert files[f"{NAME}-{VENDOR}"] == b"\7\0\0\0B3"
    assert files[f"{ONCE}-{LOADER}"] == b"\7\0\0\0" + make_text("talos-a.efi")


def test_a_longer_value_is_no_count(program: Path, tmp_path: Path) -> None:
    """The kernel replaces it whole; here its end stays."""
    assert run_count(program, make_firmware(tmp_path / "efivars", "talos-b.efi", BOTH, "B23")).returncode == 1


def test_firmware_that_keeps_nothing(program: Path, tmp_path: Path) -> None:
    """What can't be written is no count, and no end of the boot."""
    folder = make_firmware(tmp_path / "efivars", "talos-a.efi", BOTH, "")
    (folder / f"{NAME}-{VENDOR}").mkdir()
    done, reason = run_count(program, folder), os.strerror(errno.EISDIR)
    assert (done.returncode, done.stderr.decode()) == (
        0,
        f"the firmware does not keep {NAME}-{VENDOR}: {reason}",
    )
    assert run_count(program, tmp_path / "none").returncode == 0
