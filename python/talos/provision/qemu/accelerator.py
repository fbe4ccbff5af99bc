"""Which processor machines get. A /dev/kvm may be there and run no ordinary guest: it is tried."""

import os
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from talos.system.process import spawn

KVM = ("-accel", "kvm", "-cpu", "host")
EMULATION = ("-accel", "tcg,thread=multi,tb-size=160", "-cpu", "max,erms=off,fsrm=off")
"""Without quick string instructions: with them a kernel clears pages by the byte, which an emulator plays
one by one. With 160 MiB of translated code instead of 1024: what is left of it after a reset makes GRUB take
twice as long."""
# A boot sector that writes to the device at port 0xf4: mov al, 0x10; out 0xf4, al; hlt
_SECTOR = (b"\xb0\x10\xe6\xf4\xf4").ljust(510, b"\x00") + b"\x55\xaa"
_ANSWER = (0x10 << 1) | 1
"""QEMU's exit code when a guest writes 0x10 to its isa-debug-exit device."""
_PROBE_TIMEOUT, _POLL_INTERVAL = 20.0, 0.05  # seconds


def find_accelerator(qemu: Sequence[str]) -> tuple[str, ...]:
    """QEMU's arguments for the processor: KVM when the processor has it and a guest answers."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    is_likely = has_flags(cpuinfo) and Path("/dev/kvm").exists()
    return KVM if is_likely and _runs_guest(qemu) else EMULATION


def has_flags(cpuinfo: str) -> bool:
    """Whether a processor reports that it can run guests."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return bool({"vmx", "svm"} & set(value.split()))
    return False


def _runs_guest(qemu: Sequence[str]) -> bool:
    with tempfile.NamedTemporaryFile() as disk:
        disk.write(_SECTOR.ljust(1 << 20, b"\x00"))
        disk.flush()
        argv = [*qemu, "-machine", "pc", *KVM, "-m", "64", "-nodefaults", "-display", "none"]
        argv += ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]
        argv += ["-drive", f"file={disk.name},format=raw,if=ide"]
        pid = spawn(argv, env=dict(os.environ))
        end = time.monotonic() + _PROBE_TIMEOUT
        while time.monotonic() < end:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status) == _ANSWER
            time.sleep(_POLL_INTERVAL)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return False
