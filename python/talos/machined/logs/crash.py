"""What is kept of a boot that failed: a folder each in ``/var/log/crash``, which both slots share.

``reason`` is one line, ``kernel.log`` the kernel's log as far as it was kept, every other file the end of a
service's log.
"""

import os
import shutil
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import trio

from talos.machined.logs.last_boot import MAX_LOG, LastBoot
from talos.machined.logs.store import LogStore
from talos.system.folders import opening_folder
from talos.system.kmsg import KmsgReader
from talos.system.logging import Log

NAME = "crash"
KEPT = 5
"""Folders; the oldest make room."""
REASON, KERNEL = "reason", "kernel.log"
MAX_SERVICE = 64 * 1024
"""Bytes of the end of a service's log."""
MAX_SERVICES = 64


@dataclass(slots=True, kw_only=True)
class CrashLog:
    """Keeps the logs of boots that failed.

    ``last`` is the boot before this one, None where the kernel is another machine's; ``reason`` is why that
    failed, empty when it did not.
    """

    logs: LogStore
    log: Log
    now: Callable[[], float] = time.time
    has_kernel: bool = True
    last: LastBoot | None = None
    reason: str = ""

    def keep_last(self, folder: Path) -> None:
        """Keep what the last boot left, before this one writes to its services' logs in ``folder``."""
        if self.reason:
            kernel = self.last.log if self.last else b""
            self._keep(folder, self.reason, lambda: kernel, lambda: read_ends(folder))

    async def keep_this(self, folder: Path, reason: str) -> None:
        """Keep the logs of this boot, which is about to be given up."""
        services = self.logs.read_ends(MAX_SERVICE)
        read_kernel = read_kernel_log if self.has_kernel else bytes
        await trio.to_thread.run_sync(self._keep, folder, reason, read_kernel, lambda: services)

    def _keep(
        self,
        folder: Path,
        reason: str,
        read_kernel: Callable[[], bytes],
        read_services: Callable[[], Mapping[str, bytes]],
    ) -> None:
        try:
            target = keep_crash(folder / NAME, reason, read_kernel(), read_services(), now=self.now())
        except OSError as error:
            self.log.warning("the logs of the failed boot are not kept", reason=str(error))
        else:
            self.log.info("the logs of the failed boot are kept", folder=str(target), reason=reason)


def keep_crash(
    folder: Path, reason: str, kernel: bytes, services: Mapping[str, bytes], *, now: float
) -> Path:
    """Write a folder named after the time, and remove the oldest. OSError."""
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    with (
        opening_folder(Path(folder.name), within=folder.parent) as place,
        opening_folder(Path(moment), within=place) as target,
    ):
        names = os.listdir(place)  # noqa: PTH208 - a descriptor
        for old in sorted(name for name in names if name != moment)[: 1 - KEPT]:
            _remove(place, old)
        os.fchmod(target, 0o700)
        _write(target, REASON, f"{reason}\n".encode())
        _write(target, KERNEL, kernel[-MAX_LOG:])
        for name in sorted(services)[:MAX_SERVICES]:
            _write(target, f"{name}.log", cut_log(services[name]))
    os.sync()
    return folder / moment


def _remove(place: int, name: str) -> None:
    """Remove a folder, or what a pod has put beside those that were kept."""
    if stat.S_ISDIR(os.lstat(name, dir_fd=place).st_mode):
        shutil.rmtree(name, dir_fd=place)
    else:
        os.unlink(name, dir_fd=place)


def _write(place: int, name: str, content: bytes) -> None:
    """Write a file that replaces what has its name: a pod that collects logs may have left a link."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=place), "wb") as file:
        file.write(content)


def cut_log(data: bytes) -> bytes:
    """The end of a log, in whole lines."""
    return data if len(data) <= MAX_SERVICE else data[-MAX_SERVICE:].partition(b"\n")[2]


def read_ends(folder: Path) -> dict[str, bytes]:
    """The ends of the logs in a folder, by the services' names. OSError."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.log"))[:MAX_SERVICES]:
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - MAX_SERVICE - 1))
                found[path.stem] = cut_log(file.read(MAX_SERVICE + 1))
    return found


def read_kernel_log() -> bytes:
    """The running kernel's log, as the kernel prints it. OSError."""
    reader = KmsgReader()
    try:
        return b"".join(f"[{one.seconds:12.6f}] {one.text}\n".encode() for one in reader.read())
    finally:
        reader.close()
