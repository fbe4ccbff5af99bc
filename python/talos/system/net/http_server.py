"""An HTTP server with a thread for each connection, and bounds for what clients may take."""

import threading
from collections import Counter
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader
from socket import socket
from typing import override

MAX_HEAD = 16 * 1024
"""Bytes of a request's lines; Python's own limit is 6.5 MB."""


class BoundedServer(ThreadingHTTPServer):
    """Closes connections beyond ``max_connections``, or beyond ``max_per_client`` of one address, at once."""

    daemon_threads = True
    request_queue_size = 64
    max_connections = 256
    max_per_client = 256

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open = Counter[str]()
        self._lock = threading.Lock()
        super().__init__(address, handler)

    @override
    def process_request(
        self, request: socket | tuple[bytes, socket], client_address: tuple[str, int]
    ) -> None:
        client = client_address[0]
        with self._lock:
            has_room = self._open.total() < self.max_connections and self._open[client] < self.max_per_client
            self._open[client] += has_room
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    @override
    def process_request_thread(
        self, request: socket | tuple[bytes, socket], client_address: tuple[str, int]
    ) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open[client_address[0]] -= 1
                self._open += Counter()  # without those that have none


class BoundedHandler(BaseHTTPRequestHandler):
    """Ends a connection whose request has more than ``MAX_HEAD`` bytes of lines."""

    @override
    def setup(self) -> None:
        super().setup()
        self.rfile = self._reader = _BoundedReader(self.rfile.detach())

    @override
    def handle_one_request(self) -> None:
        self._reader.left = MAX_HEAD
        super().handle_one_request()


class _BoundedReader(BufferedReader):
    left = MAX_HEAD

    @override
    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(self.left if size is None or size < 0 else min(size, self.left))
        self.left -= len(line)
        if not self.left:
            raise LineTooLong("request")
        return line
