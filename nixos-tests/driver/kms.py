"""The key management service of the flake, which opens volumes of machines while it runs."""

import os
import subprocess
from pathlib import Path

from driver.arguments import HOST
from driver.assets import Assets
from driver.process import end_process, start_process

KEY_SIZE = 32


class KeyService:
    """It runs on the host's loopback from :meth:`start` to :meth:`stop`, each time with the same key."""

    def __init__(self, assets: Assets, folder: Path, port: int) -> None:
        """Of the asset ``kms``."""
        self.url = f"grpc://{HOST}:{port}"
        self._key, self._log = folder / "kms.key", folder / "kms.log"
        self._key.write_bytes(os.urandom(KEY_SIZE))
        program = str(assets.path("kms") / "bin/kms")
        self._argv = [program, "--addr", f"127.0.0.1:{port}", "--key", str(self._key)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin to answer."""
        self._process = start_process(self._argv, log=self._log)

    def stop(self) -> None:
        """Answer no more."""
        if self._process is not None:
            end_process(self._process)
            self._process = None
