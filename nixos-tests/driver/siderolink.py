"""The management service of the flake, whose WireGuard is elsewhere."""

import json
import subprocess
from pathlib import Path

from driver.arguments import HOST
from driver.assets import Assets
from driver.process import end_process, start_process

TOKEN = "join"


class LinkService:
    """It runs on the host's loopback from :meth:`start` to :meth:`stop`."""

    def __init__(self, assets: Assets, folder: Path, port: int) -> None:
        """Of the asset ``siderolink``."""
        self.url = f"grpc://{HOST}:{port}?jointoken={TOKEN}"
        self._log = folder / "siderolink.log"
        program = str(assets.path("siderolink") / "bin/siderolink")
        self._argv = [program, "--addr", f"127.0.0.1:{port}", "--join-token", TOKEN]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, public_key: str, endpoint: str) -> None:
        """Begin to answer, for a WireGuard with this key, at an address with a port."""
        argv = [*self._argv, "--public-key", public_key, "--endpoint", endpoint]
        self._process = start_process(argv, log=self._log)

    def read_addresses(self) -> dict[str, str]:
        """Of the machines that have joined, by their UUID."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if "provisioned" in line]
        return {str(line["uuid"]): str(line["address"]) for line in lines}

    def stop(self) -> None:
        """Answer no more."""
        if self._process is not None:
            end_process(self._process)
            self._process = None
