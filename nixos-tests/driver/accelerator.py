"""Which processor the machines get. A /dev/kvm may be there and run no ordinary guest: it is tried."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from driver.node import CODE_CACHE
from driver.process import end_process, start_process
from driver.programs import Programs

# A boot sector that writes to the device at port 0xf4: mov al, 0x10; out 0xf4, al; hlt
SECTOR = (b"\xb0\x10\xe6\xf4\xf4").ljust(510, b"\x00") + b"\x55\xaa"
ANSWER = (0x10 << 1) | 1
"""QEMU's exit code when a guest writes 0x10 to its isa-debug-exit device."""
KVM_TIMEOUT = 20.0  # seconds
TCG_TIMEOUT = 120.0  # seconds
TCG_USUAL = 1.5
"""Seconds that the trivial guest takes on the machines that the tests' times were found on."""
KVM_FACTOR = 0.3
"""Part of the emulated time that a test waits with KVM: most of it is still ours to wait for."""
MAX_FACTOR = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """QEMU's arguments for the processor, and by what the tests' times are multiplied."""

    name: str
    argv: tuple[str, ...]
    factor: float
    arguments: tuple[str, ...] = ()
    """For kernels that no boot loader starts."""
    is_emulated: bool = False
    """Whether a thread of QEMU plays the processor: its timers may be lost, which those of KVM are not."""

    def with_cache(self, size: int) -> tuple[str, ...]:
        """QEMU's arguments for a machine of which so many MiB of translated code are kept."""
        return tuple(word.replace(f"tb-size={CODE_CACHE}", f"tb-size={size}") for word in self.argv)


KVM_ARGUMENTS = ("-accel", "kvm", "-cpu", "host")
TCG_ARGUMENTS = ("-accel", f"tcg,thread=multi,tb-size={CODE_CACHE}", "-cpu", "max,erms=off,fsrm=off")
"""All that can be emulated, but quick string instructions: with them a kernel clears and copies pages by the
byte, which an emulator plays one by one; without them by eight bytes.

160 MiB of translated code, of which a boot makes 260: what is left of it after a reset slows down each write
to the pages that it came from. GRUB needed 32 s of processor time in a second start, 17 in the first, and
needs 13 so. A boot takes no longer; with 64 MiB, where all is translated several times, 8 s."""

TICK_ARGUMENTS = ("nohz=off", "highres=off", "no_timer_check")
"""A periodic tick: when an emulated processor loses an event of its timer, the next one comes by itself,
while a timer that is set for one event is set again only in that event. And a kernel that counts no ticks in
its first moments, while the host lets it wait, panics (`IO-APIC + timer doesn't work`) unless it leaves the
check out, as it does on KVM."""
CHEAP_ARGUMENTS = ("nopti", "init_on_free=0")
"""Against two settings that cost an emulator far more than a processor. It forgets all translations of
addresses whenever a table of pages is chosen: with a table of the kernel's own a system call takes 18 times
as long, a fork twice. And a kernel that clears what it frees clears all memory at its start, which makes the
host provide all of it. Released arguments have `pti=on`, which a machine requires, and `init_on_free=1`;
machines that start from ISO, PXE or disk image keep both."""


def scale(seconds: float) -> float:
    """The factor on emulated processors, from the seconds of the trivial guest; never less than 1."""
    return min(MAX_FACTOR, max(1.0, seconds / TCG_USUAL))


def has_flags(cpuinfo: str) -> bool:
    """Return whether a processor reports that it can run guests."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return bool({"vmx", "svm"} & set(value.split()))
    return False


def clock_arguments(cpuinfo: str) -> tuple[str, ...]:
    """Pass an emulated processor's kernel the rate of its clock, which is the host's own.

    It finds out by itself, but when the host lets it wait in that moment, its time runs 30 times too fast.
    """
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "cpu MHz":
            return (f"tsc_early_khz={round(float(value) * 1000)}",)
    return ()


def try_guest(programs: Programs, argv: tuple[str, ...], folder: Path, seconds: float) -> float | None:
    """Run a guest of one sector; the seconds until it answered."""
    disk = folder / "probe.img"
    disk.write_bytes(SECTOR.ljust(1 << 20, b"\x00"))
    began = time.monotonic()
    process = start_process(
        [*programs.qemu, "-machine", "pc", *argv, "-m", "64", "-nodefaults", "-display", "none"]
        + ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]
        + ["-drive", f"file={disk},format=raw,if=ide"],
        log=folder / "probe.log",
    )
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end_process(process, is_power_cut=True)
    return time.monotonic() - began if code == ANSWER else None


def find_accelerator(
    programs: Programs, folder: Path, *, cpuinfo: Path = Path("/proc/cpuinfo")
) -> Accelerator:
    """KVM when the processor has it and a guest answers, else emulation."""
    may_work = has_flags(cpuinfo.read_text(encoding="ascii", errors="replace")) and Path("/dev/kvm").exists()
    if may_work and try_guest(programs, KVM_ARGUMENTS, folder, KVM_TIMEOUT) is not None:
        return Accelerator(name="KVM", argv=KVM_ARGUMENTS, factor=KVM_FACTOR)
    seconds = try_guest(programs, TCG_ARGUMENTS, folder, TCG_TIMEOUT)
    return Accelerator(
        name="emulation",
        argv=TCG_ARGUMENTS,
        factor=MAX_FACTOR if seconds is None else scale(seconds),
        arguments=(
            *clock_arguments(cpuinfo.read_text(encoding="ascii", errors="replace")),
            *TICK_ARGUMENTS,
            *CHEAP_ARGUMENTS,
        ),
        is_emulated=True,
    )
