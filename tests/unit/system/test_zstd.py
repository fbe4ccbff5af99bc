"""Decompression of zstd, within limits."""

import pytest
from tests.unit.system.zstd import pack

from talos.system.zstd import ZstdError, unpack_zstd


def test_zstd_is_unpacked_within_limits() -> None:
    data = b"abc" * 200_000
    packed = pack(data)
    assert unpack_zstd(packed, limit=len(data)) == data
    assert unpack_zstd(packed + pack(b"more"), limit=len(data) + 4) == data + b"more"
    for damaged in (b"", b"nonsense", packed[:-5], packed[:4]):
        with pytest.raises(ZstdError):
            unpack_zstd(damaged, limit=len(data))
    with pytest.raises(ZstdError, match="more than"):
        unpack_zstd(packed, limit=len(data) - 1)
