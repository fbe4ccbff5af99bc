"""A switch: who gets which frame."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver.switch import LENGTH, Switch

ALL = b"\xff" * 6
ONE, TWO, OUT = (bytes([2, 0, 0, 0, 0, number]) for number in (1, 2, 3))


class End:
    """What QEMU has on its side."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        self._connection = connection
        self._file = connection.makefile("rb")

    def send(self, target: bytes, source: bytes, text: bytes) -> None:
        frame = target + source + text
        self._connection.sendall(len(frame).to_bytes(LENGTH) + frame)

    def receive(self) -> bytes:
        """The text of the next frame."""
        return self._file.read(int.from_bytes(self._file.read(LENGTH)))[12:]

    def close(self) -> None:
        self._file.close()
        self._connection.close()


def join(path: Path) -> End:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    return End(connection)


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[End]:
    """The user network, beside machines on the sockets ``one`` and ``two``."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "out"))
        listener.listen()
        switch = Switch([tmp_path / "one", tmp_path / "two"], tmp_path / "out")
        end = End(listener.accept()[0])
        yield end
        switch.close()
        end.close()


def test_a_frame_goes_where_its_address_was_seen(tmp_path: Path, outside: End) -> None:
    one, two = join(tmp_path / "one"), join(tmp_path / "two")
    two.send(ALL, TWO, b"who is one?")
    assert (one.receive(), outside.receive()) == (b"who is one?", b"who is one?")
    one.send(TWO, ONE, b"I am")
    one.send(ALL, ONE, b"who leads out?")
    assert (two.receive(), two.receive()) == (b"I am", b"who leads out?")
    assert outside.receive() == b"who leads out?", "it got what was between machines"
    outside.send(ONE, OUT, b"I do")
    one.receive()
    one.send(OUT, ONE, b"x" * 1500)
    assert outside.receive() == b"x" * 1500
    one.close()
    two.close()


def test_what_is_meant_for_a_machine_that_is_off_does_not_leave(tmp_path: Path, outside: End) -> None:
    one, two = join(tmp_path / "one"), join(tmp_path / "two")
    one.send(ALL, ONE, b"first")
    assert (two.receive(), outside.receive()) == (b"first", b"first")
    one.close()
    again = join(tmp_path / "one")
    two.send(ONE, TWO, b"are you there?")
    two.send(ALL, TWO, b"second")
    assert outside.receive() == b"second"
    while again.receive() != b"second":
        pass
    again.close()
    two.close()
