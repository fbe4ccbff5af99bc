"""How a boot ended, by what it left."""

from pathlib import Path

import pytest

from talos.machined.logs.last_boot import MAX_CAUSE, MAX_LOG, LastBoot, make_last_boot, read_last_boot

TRIAL = b"[    0.011111] Kernel command line: BOOT_IMAGE=/B/vmlinuz pti=on ramoops.mem_size=1 talos.trial\n"
NORMAL = TRIAL.replace(b" talos.trial", b"")
PANIC = b"[    2.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\n"
EARLY = b"[    1.9] [talos] [initramfs] the image is corrupt: refused\n"
OPENED = b'[    1.8] device-mapper: verity: sha256 using shash "sha256-ni"\n'
"""Of every start: no reason for anything."""
CORRUPT = b"[    1.9] device-mapper: verity: 7:0: data block 42 is corrupted\n"
FATAL = (
    b"[    7.0] [talos] fatal: Traceback (most recent call last):\n"
    b'[    7.0]   File "main.py", line 1\n'
    b"[    7.0] ValueError: no such thing\n"
    b"[    7.0] [talos] rebooting in 10 s\n"
    b"[   17.0] reboot: Restarting system\n"
)
ORDERLY = b"[   90.1] reboot: Restarting system\n"


@pytest.mark.parametrize(
    ("console", "dump", "was_reset", "cause"),
    [
        (b"", b"", False, ""),
        (TRIAL, b"", False, ""),
        (TRIAL + ORDERLY, b"", False, ""),
        (TRIAL, b"", True, "it hung, and the watchdog reset the machine"),
        (b"", b"", True, "it hung, and the watchdog reset the machine"),
        (
            TRIAL + b"[   99.0] softdog: Initiating system reboot\n",
            b"",
            False,
            "it hung, and the watchdog reset the machine",
        ),
        (TRIAL + OPENED + PANIC, b"", False, "kernel panic: Attempted to kill init! exitcode=0x00000100"),
        (TRIAL + PANIC, b"", True, "kernel panic: Attempted to kill init! exitcode=0x00000100"),
        (
            TRIAL + EARLY + PANIC,
            b"",
            False,
            "kernel panic: Attempted to kill init! exitcode=0x00000100, after: the image is corrupt: refused",
        ),
        (
            TRIAL
            + CORRUPT
            + PANIC.replace(b"Attempted to kill init! exitcode=0x00000100", b"dm-verity device corrupted"),
            b"",
            False,
            "kernel panic: dm-verity device corrupted, after: verity: 7:0: data block 42 is corrupted",
        ),
        (b"", b"<0>" + PANIC, False, "kernel panic: Attempted to kill init! exitcode=0x00000100"),
        (TRIAL + FATAL, b"", False, "PID 1 failed: ValueError: no such thing"),
    ],
)
def test_the_cause(console: bytes, dump: bytes, was_reset: bool, cause: str) -> None:
    found = make_last_boot(console, dump, was_reset=was_reset)
    assert found.cause == cause
    assert found.was_trial is bool(console)
    assert found.log == (console or dump)


def test_an_old_panic_is_not_taken_for_the_last_boots() -> None:
    assert make_last_boot(NORMAL + ORDERLY, PANIC, was_reset=False) == LastBoot(
        log=NORMAL + ORDERLY, is_orderly=True
    )


def test_a_hostile_log_gives_one_short_printable_line() -> None:
    line = b"\x1b]0;x\x07\xff\r\x00 " + b"A" * (1 << 18)
    found = make_last_boot(b"[    1.0] Kernel panic - not syncing: " + line + b"\n", b"", was_reset=False)
    assert found.cause.startswith("kernel panic: ?]0;x???? AAA")
    assert len(found.cause) <= MAX_CAUSE + len("kernel panic: ")
    assert found.cause.isprintable()
    assert len(make_last_boot(b"x" * (2 * MAX_LOG), b"", was_reset=False).log) == MAX_LOG


def test_what_the_kernel_shows_is_read(tmp_path: Path) -> None:
    assert read_last_boot(tmp_path / "none", tmp_path / "none") == LastBoot()
    (tmp_path / "watchdog0").mkdir()
    (tmp_path / "watchdog0/bootstatus").write_text("32\n")
    (tmp_path / "pstore").mkdir()
    (tmp_path / "pstore/console-ramoops-0").write_bytes(TRIAL)
    assert read_last_boot(tmp_path / "pstore", tmp_path) == LastBoot(
        log=TRIAL, cause="it hung, and the watchdog reset the machine", was_trial=True
    )
