"""Timestamps of RFC 3161: what OpenSSL accepts of one, and that its errors end with the call."""

import base64
import hashlib
import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from OpenSSL import crypto
from tests.harness.timestamps import TimestampAuthority

from talos.system.timestamp import Timestamp, TimestampError, verify_timestamp

FACTS: Any = json.loads((Path(__file__).parents[2] / "data/images/rekor2.json").read_text(encoding="utf-8"))
RESPONSE, SIGNATURE = (base64.b64decode(FACTS[key]) for key in ("timestamp", "signature"))
[AUTHORITY] = FACTS["trustedRoot"]["timestampAuthorities"]
SIGNER, ANCHOR = (base64.b64decode(one["rawBytes"]) for one in AUTHORITY["certChain"]["certificates"])
GOOD = Timestamp(
    time=datetime(2025, 7, 25, 19, 53, 4, tzinfo=UTC),
    algorithm="sha256",
    digest=hashlib.sha256(SIGNATURE).digest(),
    signer=SIGNER,
)


def test_a_timestamp_of_sigstores_own() -> None:
    assert verify_timestamp(RESPONSE, ANCHOR, [SIGNER]) == GOOD


@pytest.mark.parametrize(
    ("anchor", "others", "reason"),
    [
        (ANCHOR, [], "signer certificate not found"),
        (b"\x30\x00", [SIGNER], "it is damaged"),
        (ANCHOR, [SIGNER + b"\0"], "it is damaged"),
    ],
)
def test_certificates_that_do_not_fit(anchor: bytes, others: list[bytes], reason: str) -> None:
    with pytest.raises(TimestampError, match=reason):
        verify_timestamp(RESPONSE, anchor, others)


def test_no_change_of_a_bit_makes_another_timestamp() -> None:
    # Some parts are not signed: nothing is read from them.
    found: list[Timestamp] = []
    for place in range(len(RESPONSE)):
        data = bytearray(RESPONSE)
        data[place] ^= 1 << place % 8
        with suppress(TimestampError):
            found.append(verify_timestamp(bytes(data), ANCHOR, [SIGNER]))
    assert len(found) < 20
    assert all(one == GOOD for one in found)


def test_an_error_is_not_left_to_the_next_user_of_openssl() -> None:
    def fail() -> str:
        with pytest.raises(crypto.Error) as caught:
            crypto.load_certificate(crypto.FILETYPE_ASN1, b"x")
        return str(caught.value)

    before = fail()
    for response in (b"x", TimestampAuthority().stamp(SIGNATURE)):
        with pytest.raises(TimestampError):
            verify_timestamp(response, ANCHOR, [SIGNER])
        assert fail() == before
