"""The boot server of the flake, without DHCP: QEMU's own sends machines to it."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from driver.arguments import HOST
from driver.assets import Assets
from driver.process import end_process, start_process
from driver.retry import TimeoutScale, retry

START_TIMEOUT = 60  # seconds


class BootServer:
    """It runs on the host's loopback from :meth:`start` to :meth:`stop`."""

    def __init__(self, assets: Assets, folder: Path, port: int, arguments: Sequence[str]) -> None:
        """Of the asset ``pxe``; machines boot the asset ``netboot`` with these kernel arguments."""
        self.script = f"http://{HOST}:{port}/boot.ipxe"
        """What a machine's iPXE begins with."""
        self._configs, self._log = folder / "boot-configs", folder / "pxe.log"
        self._argv = [str(assets.path("pxe") / "bin/pxe"), str(assets.path("netboot")), "--mode", "http"]
        self._argv += ["--interface", "lo", "--port", str(port), "--configs", str(self._configs)]
        self._argv += [word for argument in arguments for word in ("--argument", argument)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, configs: Mapping[str, str]) -> None:
        """Begin to answer; the configs are given by MAC address."""
        self._configs.mkdir()
        for mac, text in configs.items():
            (self._configs / f"{mac}.yaml").write_text(text)
        self._process = start_process(self._argv, log=self._log)
        retry("the boot server answers", self._check, timeout_scale=TimeoutScale(), seconds=START_TIMEOUT)

    def _check(self) -> None:
        assert any(line.startswith("web server: ") for line in self.lines()), "\n".join(self.lines())

    def lines(self) -> Sequence[str]:
        """What it has shown."""
        return self._log.read_text(errors="replace").splitlines()

    def stop(self) -> None:
        """Answer no more."""
        if self._process is not None:
            end_process(self._process)
            self._process = None
