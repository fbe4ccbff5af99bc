"""A switch between the sockets of QEMU's ``stream`` netdevs: a frame goes where its address was seen.

QEMU's own hub repeats every frame everywhere. Its user network takes whatever it gets for a connection that
leaves: it would answer for one machine what another one sends to it, and refuse the connection.
"""

import contextlib
import selectors
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

LENGTH = 4
"""Bytes before each frame, with its length (net/stream.c of QEMU)."""
ADDRESS = 6
"""Bytes of an address; a frame begins with the destination's and the source's."""
CHUNK = 1 << 16
MAX_PENDING = 4 << 20
"""Bytes that a machine has not read, from which on its frames are dropped, as a switch does."""


class Port:
    """One machine, or the way out."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self._received, self._pending = bytearray(), bytearray()

    def receive(self) -> list[bytes]:
        """The frames that are complete by now; OSError when it is gone."""
        data = self.connection.recv(CHUNK)
        if not data:
            raise ConnectionResetError
        self._received += data
        frames: list[bytes] = []
        while len(self._received) >= LENGTH:
            end = LENGTH + int.from_bytes(self._received[:LENGTH])
            if len(self._received) < end:
                break
            frames.append(bytes(self._received[LENGTH:end]))
            del self._received[:end]
        return frames

    def send(self, frame: bytes) -> None:
        """Send a frame, or drop it."""
        if len(self._pending) < MAX_PENDING:
            self._pending += len(frame).to_bytes(LENGTH) + frame
            self.flush()

    def flush(self) -> None:
        """Send what is pending, as far as it is taken; what is gone is found when it is read."""
        with contextlib.suppress(OSError):
            del self._pending[: self.connection.send(self._pending)]

    @property
    def events(self) -> int:
        """What to wait for."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._pending else 0)


class Switch:
    """A switch that runs in a thread of its own."""

    def __init__(self, listening: Sequence[Path], outside: Path) -> None:
        """Listen for machines on these sockets, each of which may come and go; ``outside`` is there."""
        self._selector = selectors.DefaultSelector()
        self._known: dict[bytes, Port] = {}
        self._ports: list[Port] = []
        for path in listening:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))
            listener.listen()
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ)
        way_out = socket.socket(socket.AF_UNIX)
        way_out.connect(str(outside))
        self._outside = self._add(way_out)
        self._end, self._stop = socket.socketpair()
        self._selector.register(self._end, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _add(self, connection: socket.socket) -> Port:
        port = Port(connection)
        self._ports.append(port)
        self._selector.register(connection, port.events, port)
        return port

    def _remove(self, port: Port) -> None:
        self._ports.remove(port)
        self._known = {address: one for address, one in self._known.items() if one is not port}
        self._selector.unregister(port.connection)
        port.connection.close()

    def _run(self) -> None:
        while True:
            for key, events in self._selector.select():
                if key.fileobj is self._end:
                    return
                if key.data is None:
                    assert isinstance(key.fileobj, socket.socket)
                    self._add(key.fileobj.accept()[0])
                elif key.data in self._ports:
                    self._serve(key.data, events)
            for port in self._ports:
                self._selector.modify(port.connection, port.events, port)

    def _serve(self, port: Port, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            port.flush()
        if not events & selectors.EVENT_READ:
            return
        try:
            frames = port.receive()
        except OSError:
            self._remove(port)
            return
        for frame in frames:
            self._forward(port, frame)

    def _forward(self, source: Port, frame: bytes) -> None:
        destination = frame[:ADDRESS]
        self._known[frame[ADDRESS : 2 * ADDRESS]] = source
        if destination in self._known:
            targets = [self._known[destination]]
        elif destination[0] & 1:  # for all
            targets = self._ports
        else:
            # A machine that is off, or not seen yet; the way out was seen by its answer to ARP.
            targets = [port for port in self._ports if port is not self._outside]
        for target in targets:
            if target is not source:
                target.send(frame)

    def close(self) -> None:
        """Hang up."""
        self._stop.close()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()
