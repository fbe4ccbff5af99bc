"""A software TPM: swtpm, over its socket, without the kernel's resource manager."""

import hashlib
import shutil
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from talos.system.tpm.commands import MAX_RESPONSE, Tpm, Transmit

PROGRAM = "swtpm"


@dataclass
class SoftwareTpm:
    """A TPM that was started; its sealed keys are those of ``folder``."""

    transmit: Transmit

    @contextmanager
    def open(self) -> Generator[Transmit]:
        """As the device."""
        yield self.transmit

    def extend(self, pcr: int, data: bytes) -> None:
        """Measure something, as firmware does."""
        Tpm(self.transmit).extend(pcr, hashlib.sha256(data).digest())


@contextmanager
def start(folder: Path) -> Generator[SoftwareTpm]:
    """Run one with its state in a folder; skips the test where there is no such program."""
    program = shutil.which(PROGRAM)
    if program is None:
        pytest.skip(f"there is no {PROGRAM} here")
    own, its = socket.socketpair()
    argv = [program, "socket", "--tpm2", "--tpmstate", f"dir={folder}", "--fd", str(its.fileno())]
    argv += ["--flags", "not-need-init,startup-clear", "--seccomp", "action=none"]
    with own, its, subprocess.Popen(argv, pass_fds=[its.fileno()]) as process:

        def transmit(command: bytes) -> bytes:
            own.sendall(command)
            return own.recv(MAX_RESPONSE)

        try:
            yield SoftwareTpm(transmit)
        finally:
            process.terminate()
