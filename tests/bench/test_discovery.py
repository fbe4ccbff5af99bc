"""Traffic of discovery while nothing happens, and until a new cluster's nodes have each other."""

import os
import socket
import struct
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.machine import Measured, run_nodes
from tests.bench.report import Table
from tests.harness.cluster import eventually

from talos.provision.cluster import DISCOVERY_PORT

WINDOW = 200.0
"""Seconds: a probe of each connection is within."""
ETHERNET, ETH_P_ALL, IPV4, TCP = 14, 3, 0x0800, 6


@dataclass(slots=True)
class Traffic:
    """Frames of the discovery server's port on the cluster's bridge, and their bytes on the wire."""

    frames: int = 0
    size: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, frame: bytes) -> None:
        kind = int.from_bytes(frame[12:14])
        if kind != IPV4 or frame[ETHERNET + 9] != TCP:
            return
        begin = ETHERNET + 4 * (frame[ETHERNET] & 0x0F)
        if DISCOVERY_PORT in struct.unpack(">HH", frame[begin : begin + 4]):
            with self._lock:
                self.frames += 1
                self.size += len(frame)

    def take(self) -> tuple[int, int]:
        with self._lock:
            taken = self.frames, self.size
            self.frames = self.size = 0
        return taken


@contextmanager
def listening(launcher: int) -> Generator[Traffic]:
    """Count what passes the bridge of the launcher's network namespace."""
    traffic, stopping = Traffic(), threading.Event()

    def open_socket() -> socket.socket:
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        other = os.open(f"/proc/{launcher}/ns/net", os.O_RDONLY)
        try:
            os.setns(other, os.CLONE_NEWNET)
            packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            packets.bind(("br0", 0))
            return packets
        finally:
            os.setns(own, os.CLONE_NEWNET)
            os.close(own)
            os.close(other)

    packets = open_socket()
    packets.settimeout(0.2)

    def read() -> None:
        while not stopping.is_set():
            try:
                traffic.count(packets.recv(65536))
            except TimeoutError:
                continue

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield traffic
    finally:
        stopping.set()
        thread.join()
        packets.close()


def test_discovery(tmp_path: Path) -> None:
    with run_nodes(tmp_path, controlplanes=2, workers=1) as measured:
        table = Table("Discovery, 3 nodes and their own server", ("frames", "bytes"))
        with listening(measured.cluster.info.launcher) as traffic:
            for address in measured.cluster.addresses:
                eventually(f"{address} has all", lambda address=address: _has_all(measured, address))
            time.sleep(2)
            frames, size = traffic.take()
            table.add("until all know each other, per node", f"{frames / 3:.0f}", f"{size / 3:.0f}")
            time.sleep(WINDOW)
            frames, size = traffic.take()
            minutes = WINDOW / 60 * len(measured.cluster.nodes)
            table.add("idle, per node and minute", f"{frames / minutes:.1f}", f"{size / minutes:.0f}")
        table.show()


def _has_all(measured: Measured, address: str) -> None:
    rows = measured.cluster.rows("-e", address, "-n", address, "get", "members")
    assert len(rows) == len(measured.cluster.nodes)
