"""dnsmasq on another machine of a test's network."""

import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.harness.peer import Peer
from tests.harness.peers import find_peer

ALWAYS = (
    "--keep-in-foreground", "--log-facility=-", "--log-dhcp", "--log-queries", "--conf-file=/dev/null",
    "--no-resolv", "--no-hosts", "--dhcp-authoritative", "--user=root", "--group=root", "--pid-file",
)  # fmt: skip


@contextmanager
def run_dnsmasq(peer: Peer, *arguments: str) -> Generator[Path]:
    """The server as the peer runs it; yields its log."""
    argv: Sequence[str] = [*find_peer("dnsmasq"), *ALWAYS, *arguments]
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = peer.run(
                subprocess.Popen, [*argv, f"--dhcp-leasefile={folder}/leases"], stdout=output, stderr=output
            )
        try:
            yield log
        finally:
            process.kill()
            process.wait()
