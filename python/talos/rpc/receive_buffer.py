"""What connections read into, all of a thread in turn, in place of a buffer for each of them."""

import threading

RECEIVE_SIZE = 256 * 1024
"""Bytes that are read at most in one system call."""


class ReceiveBuffer(threading.local):
    """A buffer for each thread: what is not processed before the next read is copied from there."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(RECEIVE_SIZE))
