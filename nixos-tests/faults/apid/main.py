"""An apid that starts and never listens."""

from talos.process.run import Daemon, run


def main() -> None:
    """Run it."""
    run(serve, name="apid")


async def serve(daemon: Daemon) -> None:
    """Wait to be stopped."""
    daemon.log.info("no port is opened: this apid is for tests")
    await daemon.stopping.wait()
