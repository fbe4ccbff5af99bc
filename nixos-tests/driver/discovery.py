"""The discovery server of the flake, through which the machines of a cluster find each other."""

from pathlib import Path

from driver.arguments import HOST
from driver.assets import Assets
from driver.process import end_process, start_process


class Discovery:
    """It runs on the host's loopback and keeps everything in memory: machines send it anew."""

    def __init__(self, assets: Assets, folder: Path, port: int) -> None:
        """Start the asset ``discovery``."""
        self.url = f"http://{HOST}:{port}/"
        program = str(assets.path("discovery") / "bin/discovery")
        argv = [program, "--addr", f"127.0.0.1:{port}", "--metrics-addr", ""]
        self._process = start_process(argv, log=folder / "discovery.log")

    def close(self) -> None:
        """End it."""
        end_process(self._process)
