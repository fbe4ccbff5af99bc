"""The twin of the kernel's files."""

import pytest

from talos.testing.files import MemoryFiles


def test_memory_files() -> None:
    files = MemoryFiles({"/proc/1/stat": "x", "/proc/meminfo": b"y\xff"}, {"/proc/self": "/proc/1"})
    assert files.list("/proc") == ["1", "meminfo", "self"]
    assert files.read("/proc/meminfo") == "y\ufffd"
    assert files.exists("/proc/1")
    assert not files.exists("/proc/2")
    with pytest.raises(FileNotFoundError):
        files.read("/proc/2/stat")
