"""Unpacking zstd, by the library that the image has anyway. Function names are those of ``zstd.h``."""

import ctypes
from collections.abc import Iterable, Iterator
from functools import cache

LIBRARY = "libzstd.so.1"
_STEP = 128 * 1024


class ZstdError(ValueError):
    """The data is no zstd frame, or damaged, or too large unpacked."""


class _InBuffer(ctypes.Structure):
    _fields_ = (("src", ctypes.c_char_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t))


class _OutBuffer(ctypes.Structure):
    _fields_ = (("dst", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t))


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(LIBRARY)
    library.ZSTD_createDStream.restype = ctypes.c_void_p
    library.ZSTD_freeDStream.argtypes = (ctypes.c_void_p,)
    library.ZSTD_decompressStream.argtypes = (
        ctypes.c_void_p,
        ctypes.POINTER(_OutBuffer),
        ctypes.POINTER(_InBuffer),
    )
    library.ZSTD_decompressStream.restype = ctypes.c_size_t
    library.ZSTD_isError.argtypes = (ctypes.c_size_t,)
    library.ZSTD_getErrorName.argtypes = (ctypes.c_size_t,)
    library.ZSTD_getErrorName.restype = ctypes.c_char_p
    return library


def unpack_zstd(data: bytes, *, limit: int) -> bytes:
    """The unpacked data, one frame or several, at most ``limit`` bytes.

    ZstdError: when it can't be unpacked.
    """
    unpacked = bytearray()
    for piece in unpack_zstd_stream([data]):
        unpacked += piece
        if len(unpacked) > limit:
            raise ZstdError(f"more than {limit} bytes unpacked")
    return bytes(unpacked)


def unpack_zstd_stream(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same in pieces of at most 128 KiB, without a limit."""
    library = _library()
    stream = library.ZSTD_createDStream()
    room = ctypes.create_string_buffer(_STEP)
    try:
        rest = 1
        for chunk in chunks:
            source = _InBuffer(chunk, len(chunk), 0)
            target = _OutBuffer(ctypes.addressof(room), _STEP, _STEP)
            # A full buffer may not have been all that there was.
            while source.pos < len(chunk) or (rest and target.pos == _STEP):
                target.pos = 0
                rest = library.ZSTD_decompressStream(stream, ctypes.byref(target), ctypes.byref(source))
                if library.ZSTD_isError(rest):
                    raise ZstdError(library.ZSTD_getErrorName(rest).decode().lower())
                yield ctypes.string_at(room, target.pos)
        if rest:
            raise ZstdError("the end is missing")
    finally:
        library.ZSTD_freeDStream(stream)
