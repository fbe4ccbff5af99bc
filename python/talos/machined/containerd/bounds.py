"""Bounds of unpacking a layer, for what PID 1 pulls and for what the program that unpacks does for all."""

RESERVE = 64 * 1024 * 1024
"""Bytes of the disk that no image may take."""
UNPACK_TIMEOUT = 300.0  # seconds
MIN_UNPACK_RATE = 256 * 1024
"""A layer has to be unpacked within 300 s and a second for each so many bytes of it."""
