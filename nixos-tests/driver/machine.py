"""One machine of a test."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from re import Match

from driver.accelerator import Accelerator
from driver.arguments import API_PORT, Files, make_arguments
from driver.assets import Assets
from driver.client import Client, Document, at, check_tls
from driver.console import Console
from driver.disks import add_to_initramfs, copy_disk, flatten_disk, make_disk, parse_size, read_disk
from driver.failure import ConditionNotMetError, StalledMachineError, VmTestError
from driver.guest_agent import execute
from driver.io_uring import has_io_uring
from driver.node import Node, slow_seconds
from driver.process import Result, end_process, start_process
from driver.programs import Programs
from driver.qmp import Qmp
from driver.recorder import RecordedDisk
from driver.retry import POLL_INTERVAL, TimeoutScale, retry
from driver.tpm import start_tpm

CHUNK = 1 << 16
MENU = "GNU GRUB  version"
"""The line above GRUB's menu."""
SHOWN = 20
"""Lines of an answer that are worth printing."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineContext:
    """What the machines of a test have in common."""

    programs: Programs
    assets: Assets
    accelerator: Accelerator
    timeout_scale: TimeoutScale
    folder: Path
    talosctl: Path
    show: Callable[[str], None]


class Machine:
    """A machine that is off, or runs in a QEMU; its disks outlive that."""

    def __init__(
        self, name: str, node: Node, around: MachineContext, *, index: int, ports: Mapping[int, int]
    ) -> None:
        """Make its disks; it stays off. ``ports`` are those on loopback that lead to ports of the machine."""
        self.name, self.node, self._around, self._index = name, node, around, index
        self.folder = around.folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.console = Console(self._take_line, is_emulated=around.accelerator.is_emulated)
        self.ports = ports
        self.client = Client(around.talosctl, ports[API_PORT], self.folder)
        self.lan: Path | None = None
        self.cdrom: Path | None = around.assets.path(node.cdrom) if node.cdrom else None
        self.initramfs: Path | None = None
        """Another initramfs than the asset."""
        self.skips_menu = True
        """Whether Enter is typed at GRUB's menu, which is three seconds of an emulated processor sooner."""
        self.started_at = 0.0
        self.qmp: Qmp | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._events_seen = 0
        self.recorded = {
            disk: RecordedDisk(self.folder / f"{disk}.raw", parse_size(node.disks[disk].size))
            for disk in node.disks
            if node.disks[disk].recorded
        }
        """The disks that the test serves itself."""
        self.started_anew = ""
        """The stall for which it was switched off and on again."""
        self._starts = 0
        self._saved: Path | None = None
        self._make_disks()

    def _make_disks(self) -> None:
        for name, disk in self.node.disks.items():
            if name in self.recorded or self.disk(name).exists():
                continue
            if saved := self._find_saved(name):
                copy = read_disk if disk.raw else copy_disk
                copy(self._around.programs, saved, self.disk(name))
            else:
                make_disk(self._around.programs, self._around.assets, disk, self.disk(name))

    def save(self, folder: Path) -> None:
        """Save the disks of this machine, which is off, for :meth:`restore`."""
        assert not self.is_on, f"{self.name} is on"
        folder.mkdir()
        for name in self.node.disks:
            flatten_disk(self._around.programs, self.disk(name), folder / f"{name}.qcow2")

    def restore(self, folder: Path) -> None:
        """Begin with disks that were saved, instead of its own of these names; it was never on."""
        assert not self._starts, f"{self.name} was on"
        self._saved = folder
        for name in self.node.disks:
            saved = self._find_saved(name)
            if saved and name in self.recorded:
                raw = read_disk(self._around.programs, saved, self.folder / f"{name}.saved")
                self.recorded[name].replace(raw)
                raw.unlink()
            elif saved:
                self.disk(name).unlink()
        self._make_disks()

    def replace_disk(self, name: str) -> None:
        """Put an empty disk in the place of one; the machine is off."""
        assert not self.is_on, f"{self.name} is on"
        self.disk(name).unlink()
        make_disk(self._around.programs, self._around.assets, self.node.disks[name], self.disk(name))

    def _find_saved(self, name: str) -> Path | None:
        path = self._saved / f"{name}.qcow2" if self._saved else None
        return path if path and path.exists() else None

    # Power

    def disk(self, name: str) -> Path:
        """The file of a disk."""
        disk = self.node.disks[name]
        return self.folder / f"{name}.{'raw' if disk.raw or disk.recorded else 'qcow2'}"

    @property
    def is_on(self) -> bool:
        """Whether it has power."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, node: Node | None = None) -> None:
        """Switch it on; ``node`` replaces what it is made of from now on."""
        assert not self.is_on, f"{self.name} is on"
        self.node = node or self.node
        argv = make_arguments(
            self.node,
            self._files(),
            name=self.name,
            index=self._index,
            port=self.client.port,
            has_io_uring=has_io_uring(),
        )
        self._log("start")
        self._starts += 1
        self.console.restart()
        self.started_at = time.monotonic()
        self._process = start_process(
            [*self._around.programs.qemu, *self._around.accelerator.with_cache(self.node.code_cache), *argv]
            + ["-chardev", "stdio,id=serial,signal=off", "-serial", "chardev:serial"],
            log=self.folder / "qemu.log",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        try:
            self.qmp = Qmp(self._qmp_path)
        except VmTestError as error:
            log = (self.folder / "qemu.log").read_text(errors="replace")
            raise VmTestError(f"{self.name}: QEMU does not start: {error}\n{log}") from error
        self._events_seen = 0

    @property
    def _qmp_path(self) -> Path:
        return self.folder / "qmp"

    def _files(self) -> Files:
        node, assets, programs = self.node, self._around.assets, self._around.programs
        self._qmp_path.unlink(missing_ok=True)
        kernel = initramfs = code = variables = None
        cmdline = ""
        if node.boot == "pvh":
            kernel = assets.path("kernel") / "vmlinux"
            initramfs = self.initramfs or assets.path("initramfs")
            cmdline = " ".join([assets.path("cmdline").read_text(), *self._around.accelerator.arguments])
            if node.hands_over_kernel:
                vmlinuz = (assets.path("kernel") / "vmlinuz").read_bytes()
                initramfs = add_to_initramfs(initramfs, self.folder / "initramfs", "vmlinuz", vmlinuz)
        if node.boot == "uefi":
            kind = ".secboot" if node.secure_boot else ""
            if node.secure_boot:
                cmdline = " ".join(self._around.accelerator.arguments)
            code = programs.file(f"usr/share/OVMF/OVMF_CODE_4M{kind}.fd")
            variables = self.folder / "variables.fd"
            if not variables.exists():
                variables.write_bytes(programs.file("usr/share/OVMF/OVMF_VARS_4M.fd").read_bytes())
        return Files(
            kernel=kernel,
            initramfs=initramfs,
            cmdline=cmdline,
            disks={
                name: self.recorded[name].socket if disk.recorded else self.disk(name)
                for name, disk in node.disks.items()
            },
            cdrom=self.cdrom,
            code=code,
            variables=variables,
            qmp=self._qmp_path,
            lan=self.lan,
            agent=self.folder / "agent" if node.guest_agent else None,
            tpm=start_tpm(programs, self.folder) if node.tpm else None,
        )

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with (self.folder / "serial.log").open("ab") as log:
            while data := os.read(process.stdout.fileno(), CHUNK):
                log.write(data)
                log.flush()
                self.console.feed(data)
        self.console.close()

    def _take_line(self, line: str) -> None:
        self._around.show(f"{self.name} | {line}")
        if self.skips_menu and MENU in line:
            self.send_console("\r")

    def crash(self) -> None:
        """Cut the power."""
        self._log("power cut")
        self._end(is_power_cut=True)

    def close(self) -> None:
        """Switch it off for good."""
        self._end(is_power_cut=True)
        for disk in self.recorded.values():
            disk.close()

    def _end(self, *, is_power_cut: bool) -> None:
        if self.qmp is not None:
            self.qmp.close()
            self.qmp = None
        if self._process is not None:
            end_process(self._process, is_power_cut=is_power_cut)
            assert self._process.stdin is not None
            with suppress(OSError):
                self._process.stdin.close()
            if self._reader is not None:
                self._reader.join()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def wait_for_off(self, seconds: float = 120) -> None:
        """Wait until the machine has switched itself off."""
        process = self._process
        assert process is not None, f"{self.name} was not started"
        self._wait(f"{self.name} switches itself off", lambda: self._assert_off(process), seconds)
        self._end(is_power_cut=True)

    def _assert_off(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            raise ConditionNotMetError("it is on")

    def wait_for_reset(self, seconds: float = 240) -> None:
        """Wait until the machine restarts by itself; what is waited for later comes after that.

        It may have restarted already, and have written to its console since.
        """
        qmp = self.monitor
        event = qmp.wait_for_event(
            "RESET", self.timeout_scale.seconds(seconds), after=self._events_seen, check=self.console.check
        )
        self._events_seen = len(qmp.events)
        self.console.mark(event.at)
        self._log("restarts")

    # Outside

    @property
    def monitor(self) -> Qmp:
        """QEMU's protocol."""
        assert self.qmp is not None, f"{self.name} is off"
        return self.qmp

    def screenshot(self, name: str = "screen") -> Path:
        """A picture of the screen, as PPM."""
        path = self.folder / f"{name}.ppm"
        self.monitor.execute("screendump", filename=str(path))
        return path

    def block(self) -> None:
        """Pull its network cables."""
        self._set_link(up=False)

    def unblock(self) -> None:
        """Plug them in again."""
        self._set_link(up=True)

    def _set_link(self, *, up: bool) -> None:
        for card in ("card0", "card1") if self.node.lan else ("card0",):
            self.monitor.execute("set_link", name=card, up=up)

    def send_console(self, text: str) -> None:
        """Type on the serial line."""
        assert self._process is not None, f"{self.name} is off"
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    # Waiting

    @property
    def timeout_scale(self) -> TimeoutScale:
        """How long is long here."""
        return self._around.timeout_scale

    @property
    def accelerator(self) -> Accelerator:
        """Its processor."""
        return self._around.accelerator

    def _log(self, what: str) -> None:
        self._around.show(f"{self.name} : {what}")

    def _wait[T](
        self, what: str, attempt: Callable[[], T], seconds: float, pause: float = POLL_INTERVAL
    ) -> T:
        def checked() -> T:
            self.console.check()
            return attempt()

        self._log(f"wait: {what}")
        return retry(
            what,
            checked,
            timeout_scale=self.timeout_scale,
            seconds=seconds,
            diagnose=self.diagnose,
            pause=pause,
        )

    def wait_for_console_text(self, pattern: str, seconds: float = 120) -> Match[str]:
        """Wait for a line on the console, since it was switched on or restarted."""
        self._log(f"wait: console /{pattern}/")
        try:
            return self.console.wait_for(pattern, self.timeout_scale.seconds(seconds))
        except VmTestError as error:
            raise VmTestError(f"{self.name}: {error}\n{self.diagnose()}") from error

    def wait_for_port(self, seconds: float | None = None) -> float:
        """Wait until something speaks TLS at the API's port; the seconds since it was switched on."""
        limit = slow_seconds(self.node) if seconds is None else seconds

        def check() -> None:
            if not self.is_on:
                raise VmTestError(f"{self.name} went off\n{self.diagnose()}")
            check_tls(self.client.port)

        try:
            self._wait(f"{self.name}'s API listens", check, limit)
        except StalledMachineError as error:
            if not self._is_untouched():
                raise
            self._start_anew(error)
            self._wait(f"{self.name}'s API listens", check, limit)
        return time.monotonic() - self.started_at

    def _is_untouched(self) -> bool:
        """Whether it was switched on once, with disks that can be made anew, and its API was not called."""
        has_files = any(disk.raw or disk.recorded for disk in self.node.disks.values())
        return self._starts == 1 and not has_files and not self.client.calls

    def _start_anew(self, error: StalledMachineError) -> None:
        self.started_anew = str(error)
        self._log(f"STARTED ANEW, with new disks: {error}")
        self._end(is_power_cut=True)
        for name in self.node.disks:
            self.disk(name).unlink()
        self._make_disks()
        self.start()

    def wait_for_api(self, *, insecure: bool = False, seconds: float | None = None) -> float:
        """Wait until the API answers; the seconds since the machine was switched on."""
        limit = slow_seconds(self.node) if seconds is None else seconds
        self.wait_for_port(limit)
        self.wait_until_succeeds("version", insecure=insecure, seconds=limit)
        took = time.monotonic() - self.started_at
        self._log(f"the API answers after {took:.1f} s")
        return took

    def wait_until_succeeds(self, *argv: str, insecure: bool = False, seconds: float = 120) -> Result:
        """Repeat a talosctl command until it succeeds."""
        return self._wait(
            f"talosctl {' '.join(argv)}", lambda: self._attempt(*argv, insecure=insecure), seconds
        )

    def _attempt(self, *argv: str, insecure: bool) -> Result:
        result = self.client.run(*argv, insecure=insecure, check=False)
        if result.code:
            raise ConditionNotMetError((result.stderr or result.stdout).strip())
        return result

    def wait_until[T](
        self, what: str, check: Callable[[], T], seconds: float = 120, *, pause: float = POLL_INTERVAL
    ) -> T:
        """Repeat a check until it raises no AssertionError; a failed talosctl is one."""

        def attempt() -> T:
            try:
                return check()
            except VmTestError as error:
                raise ConditionNotMetError(str(error)) from error

        return self._wait(what, attempt, seconds, pause)

    def wait_for_stage(self, stage: str, *, insecure: bool = False, seconds: float = 150) -> Document:
        """Wait for a stage of MachineStatus, such as ``running``."""

        def check() -> Document:
            found = self.get("machinestatus", insecure=insecure)
            assert found, "there is no machine status"
            assert at(found[0], "spec.stage") == stage, f"the stage is {at(found[0], 'spec.stage')}"
            return found[0]

        return self.wait_until(f"stage {stage}", check, seconds)

    # API

    def talosctl(self, *argv: str, insecure: bool = False, check: bool = True, seconds: float = 60) -> Result:
        """Run talosctl against this machine."""
        self._log(f"talosctl {' '.join(argv)}")
        limit = self.timeout_scale.seconds(seconds)
        result = self.client.run(*argv, insecure=insecure, check=check, seconds=limit)
        for line in (result.stdout + result.stderr).splitlines()[:SHOWN]:
            self._log(f"  {line}")
        return result

    def get(self, *argv: str, insecure: bool = False) -> list[Document]:
        """Resources as documents."""
        return self.client.get(*argv, insecure=insecure)

    def call_agent(self, command: str) -> object:
        """The answer of the guest agent, which comes as soon as it runs."""
        path = self.folder / "agent"
        return self._wait(f"the guest agent answers to {command}", lambda: execute(path, command), 60)

    def boot_id(self) -> str:
        """What changes with every boot."""
        return self.client.run("read", BOOT_ID).stdout.strip()

    def diagnose(self) -> str:
        """The machine's state, logs and output, for the report of a failure."""
        parts: list[str] = []
        if self.is_on:
            with suppress(AssertionError):
                check_tls(self.client.port)
                for insecure in (True, False) if self.client.talosconfig else (True,):
                    for argv in (("get", "machinestatus", "-o", "yaml"), ("service",)):
                        result = self.client.run(*argv, insecure=insecure, check=False, seconds=20)
                        if not result.code:
                            parts.append(f"--- {self.name}: {' '.join(argv)}\n{result.stdout.rstrip()}")
        else:
            code = f", QEMU ended with code {self._process.returncode}" if self._process else ""
            parts.append(f"--- {self.name} is off{code}")
        log = self.folder / "qemu.log"
        if log.exists() and (output := log.read_text(errors="replace").strip()):
            parts.append(f"--- {self.name}: QEMU\n{output}")
        parts.append(f"--- {self.name}: console\n{self.console.tail()}")
        return "\n".join(parts)
