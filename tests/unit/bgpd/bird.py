"""BIRD as the other side: on another machine of a test's network, with what it shows."""

import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import trio
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.peer import Peer
from tests.harness.peers import find_peer

HEAD = """\
router id 10.7.0.254;
log stderr all;
protocol device {}
"""
POLL_INTERVAL = 0.1
"""Seconds between queries: BIRD has no notifications."""


@dataclass(slots=True)
class Bird:
    """One that runs."""

    peer: Peer
    socket: Path
    log: Path
    process: "subprocess.Popen[bytes]"

    def query(self, command: str) -> str:
        """What the command line shows."""
        argv = [*find_peer("birdc"), "-s", str(self.socket), *command.split()]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=REAL_TIMEOUT, check=False)
        return done.stdout

    async def wait(self, command: str, check: Callable[[str], bool]) -> str:
        """Query until the answer is as it should be."""
        shown = ""
        with trio.move_on_after(REAL_TIMEOUT):
            while True:
                shown = await trio.to_thread.run_sync(self.query, command)
                if check(shown):
                    return shown
                await trio.sleep(POLL_INTERVAL)
        raise AssertionError(f"{command}: {shown}\n{self.log.read_text()}")


ADVERTISEMENTS = """\
interface far { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; IgnoreIfMissing on; };
"""


@contextmanager
def router_advertisements(peer: Peer) -> Generator[None]:
    """The peer shows itself as a router, with its hardware address, which those of BIRD lack."""
    with TemporaryDirectory() as folder:
        config = Path(folder) / "radvd.conf"
        config.write_text(ADVERTISEMENTS)
        config.chmod(0o644)
        argv = [*find_peer("radvd"), "-n", "-C", str(config), "-p", f"{folder}/pid", "-m", "stderr"]
        with (Path(folder) / "log").open("wb") as output:
            process = peer.run(subprocess.Popen, argv, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.kill()
            process.wait()


@asynccontextmanager
async def bird(peer: Peer, config: str) -> AsyncGenerator[Bird]:
    """BIRD on the peer, ended with the test."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "bird.conf").write_text(HEAD + config)
        argv = [
            *find_peer("bird"),
            "-f",
            "-c",
            f"{folder}/bird.conf",
            "-s",
            f"{folder}/ctl",
            "-P",
            f"{folder}/pid",
        ]
        with (place / "log").open("wb") as output:
            process = peer.run(subprocess.Popen, argv, stdout=output, stderr=output)
        try:
            yield Bird(peer, place / "ctl", place / "log", process)
        finally:
            process.kill()
            process.wait()
