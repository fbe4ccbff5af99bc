"""Compression with the C library."""

import ctypes

from talos.system.zstd import LIBRARY


def pack(data: bytes) -> bytes:
    library = ctypes.CDLL(LIBRARY)
    room = ctypes.create_string_buffer(len(data) + 1024)
    library.ZSTD_compress.restype = ctypes.c_size_t
    size = library.ZSTD_compress(
        room, ctypes.c_size_t(len(room)), data, ctypes.c_size_t(len(data)), ctypes.c_int(3)
    )
    return room.raw[:size]
