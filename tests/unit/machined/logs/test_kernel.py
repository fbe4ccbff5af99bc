"""Lines that PID 1 writes into the kernel's log."""

import os
from pathlib import Path

from talos.machined.logs.kernel import KernelLogWriter
from talos.system.kmsg import LINE_SIZE


def test_each_line_is_one_write_and_ends_so_that_the_kernel_shows_it(tmp_path: Path) -> None:
    device = tmp_path / "kmsg"
    os.mkfifo(device)
    reading = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    try:
        writer = KernelLogWriter(str(device))
        writer.write("first")
        assert os.read(reading, 4096) == b"<30>[talos] first\n"
        writer.write("x" * 2 * LINE_SIZE)
        data = os.read(reading, 4096)
        assert (len(data), data[-1:]) == (LINE_SIZE + 1, b"\n")
    finally:
        os.close(reading)
