"""``/proc/<pid>/net/{tcp,udp,udplite,raw}{,6}``: the sockets of a network namespace."""

import ipaddress
import re
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from talos.system.files import Files
from talos.system.proc.processes import list_pids

PROTOCOLS = ("tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6")
ESTABLISHED, SYN_RECV, LISTEN, NEW_SYN_RECV = 1, 3, 10, 12  # include/net/tcp_states.h


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """One socket; the names are those of the columns in the file."""

    protocol: str
    local_ip: str
    local_port: int
    remote_ip: str
    remote_port: int
    state: int
    tx_queue: int
    rx_queue: int
    timer: int
    timer_when: int
    retransmits: int
    uid: int
    timeout: int
    inode: int
    ref: int
    pointer: int

    @property
    def is_listening(self) -> bool:
        """Whether it waits for peers: a TCP listener, or a datagram socket without a peer."""
        if self.protocol.startswith("tcp"):
            return self.state == LISTEN
        return self.remote_port == 0 and ipaddress.ip_address(self.remote_ip).is_unspecified

    @property
    def is_connected(self) -> bool:
        """Whether it has a peer."""
        return not self.is_listening


def parse_sockets(text: str, protocol: str) -> list[Socket]:
    """The sockets in the text of one such file, whose first line is a title."""
    return [_parse_socket(line.split(), protocol) for line in text.splitlines()[1:] if line.strip()]


def _parse_socket(fields: list[str], protocol: str) -> Socket:
    local_ip, local_port = _parse_endpoint(fields[1])
    remote_ip, remote_port = _parse_endpoint(fields[2])
    tx_queue, _, rx_queue = fields[4].partition(":")
    timer, _, when = fields[5].partition(":")
    state = int(fields[3], 16)
    return Socket(
        protocol=protocol,
        local_ip=local_ip,
        local_port=local_port,
        remote_ip=remote_ip,
        remote_port=remote_port,
        # A half-open connection is a state of its own inside the kernel only.
        state=SYN_RECV if state == NEW_SYN_RECV else state,
        tx_queue=int(tx_queue, 16),
        rx_queue=int(rx_queue, 16),
        timer=int(timer, 16),
        timer_when=int(when, 16),
        retransmits=int(fields[6], 16),
        uid=int(fields[7]),
        timeout=int(fields[8]),
        inode=int(fields[9]),
        # TIME_WAIT and SYN_RECV lines of TCP end with these two, too.
        ref=int(fields[10]),
        pointer=int(fields[11], 16),
    )


def _parse_endpoint(word: str) -> tuple[str, int]:
    """An address in 32-bit words of the host's byte order, and a port."""
    address, _, port = word.partition(":")
    words = struct.unpack(f">{len(address) // 8}I", bytes.fromhex(address))
    order = "<" if sys.byteorder == "little" else ">"
    packed = struct.pack(f"{order}{len(words)}I", *words)
    return str(ipaddress.ip_address(packed)), int(port, 16)


def find_socket(text: str, protocol: str, local: tuple[str, int], remote: tuple[str, int]) -> Socket | None:
    """The socket between two endpoints in the text of such a file, of which no other line is parsed."""
    place = text.find(f": {_format_endpoint(local)} {_format_endpoint(remote)} ")
    if place < 0:
        return None
    begin, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
    return _parse_socket(text[begin : end if end >= 0 else len(text)].split(), protocol)


def _format_endpoint(endpoint: tuple[str, int]) -> str:
    """The inverse of :func:`_parse_endpoint`."""
    packed = ipaddress.ip_address(endpoint[0]).packed
    order = "<" if sys.byteorder == "little" else ">"
    words = struct.unpack(f"{order}{len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{endpoint[1]:04X}"


def read_sockets(files: Files, protocols: Iterable[str], folder: str) -> list[Socket]:
    """The sockets of the namespace whose ``net`` folder is given; protocols the kernel lacks have none."""
    found: list[Socket] = []
    for protocol in protocols:
        try:
            text = files.read(f"{folder}/{protocol}")
        except OSError:
            continue
        found.extend(parse_sockets(text, protocol))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process that holds a socket."""

    pid: int
    name: str


def read_socket_owners(files: Files) -> dict[int, Owner]:
    """Which process holds which socket, by inode; of several that share one, the oldest."""
    owners: dict[int, Owner] = {}
    for pid in list_pids(files):
        inodes = _read_socket_inodes(files, pid)
        if inodes:
            owner = Owner(pid=pid, name=_read_name(files, pid))
            for inode in inodes:
                owners.setdefault(inode, owner)
    return owners


def _read_socket_inodes(files: Files, pid: int) -> list[int]:
    found: list[int] = []
    try:
        names = files.list(f"/proc/{pid}/fd")
    except OSError:
        return found
    for name in names:
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", files.read_link(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
        if match:
            found.append(int(match[1]))
    return found


def _read_name(files: Files, pid: int) -> str:
    try:
        return files.read(f"/proc/{pid}/comm").strip()
    except OSError:
        return ""


def read_namespaces(files: Files) -> dict[int, int]:
    """One process of every network namespace: the namespace's inode to the lowest pid."""
    found: dict[int, int] = {}
    for pid in list_pids(files):
        try:
            match = re.fullmatch(r"net:\[(\d+)\]", files.read_link(f"/proc/{pid}/ns/net"))
        except OSError:
            continue
        if match:
            found.setdefault(int(match[1]), pid)
    return found
