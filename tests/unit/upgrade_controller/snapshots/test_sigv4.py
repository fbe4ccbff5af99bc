"""Signatures of requests: the examples that AWS publishes, and files with keys."""

import hashlib
from datetime import UTC, datetime

import pytest
from tests.unit.upgrade_controller.snapshots.store import KEY, compute_signature

from talos.system.errors import UserError
from talos.upgrade_controller.snapshots.sigv4 import (
    Request,
    format_path,
    format_query,
    parse_access_key,
    sign,
)

HOST, REGION, NOW = "examplebucket.s3.amazonaws.com", "us-east-1", datetime(2013, 5, 24, tzinfo=UTC)
# https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html: method, path, query, headers,
# body, signature
PUBLISHED: list[tuple[str, str, dict[str, str], dict[str, str], str, str]] = [
    (
        *("GET", "/test.txt", {}, {"range": "bytes=0-9"}, ""),
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    (
        *("PUT", "/test$file.text", {}),
        {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
        "Welcome to Amazon S3.",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    (
        *("GET", "/", {"lifecycle": ""}, {}, ""),
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    ),
    (
        *("GET", "/", {"max-keys": "2", "prefix": "J"}, {}, ""),
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
]


@pytest.mark.parametrize(("method", "path", "query", "headers", "body", "signature"), PUBLISHED)
def test_published_signatures(
    method: str, path: str, query: dict[str, str], headers: dict[str, str], body: str, signature: str
) -> None:
    digest = hashlib.sha256(body.encode()).hexdigest()
    whole = {**headers, "host": HOST, "x-amz-date": "20130524T000000Z", "x-amz-content-sha256": digest}
    request = Request(method=method, path=path, query=query, headers=whole, digest=digest)
    names, scope = ";".join(sorted(whole)), f"{KEY.id}/20130524/{REGION}/s3/aws4_request"
    assert sign(request, KEY, region=REGION, now=NOW) == (
        f"AWS4-HMAC-SHA256 Credential={scope},SignedHeaders={names},Signature={signature}"
    )
    target = f"{format_path(path)}?{format_query(query)}"
    found = compute_signature(method, target, whole, names, REGION, KEY.secret)
    assert found == signature, "the tests' own store"


def test_every_byte_that_means_something_is_escaped() -> None:
    assert format_path("/b/a+b c~d_é/e") == "/b/a%2Bb%20c~d_%C3%A9/e"
    assert format_query({"b": "x/y+=", "a": ""}) == "a=&b=x%2Fy%2B%3D"


def test_a_key_of_a_file() -> None:
    text = b"[other]\naws_access_key_id = x\n[default]\naws_access_key_id = A\naws_secret_access_key=b%/+\n"
    key = parse_access_key(text, where="s3.credentials")
    assert (key.id, key.secret, key.token) == ("A", "b%/+", "")
    assert "b%/+" not in repr(key)
    assert parse_access_key(text + b"aws_session_token = t\n", where="s3.credentials").token == "t"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"secret without a section",
        b"[default]\n",
        b"[default]\naws_access_key_id = secret\n",
        b"[default]\naws_access_key_id =\naws_secret_access_key = secret\n",
        b"[default]\n# aws_access_key_id = a\naws_secret_access_key = secret\n",
        b"[default]\nsecret\n",
        b"[default]\n[other]\naws_access_key_id = a\naws_secret_access_key = secret\n",
        b"[default]\naws_access_key_id = a\naws_secret_access_key = s\xc3\xa9cret\n",
        b"\xff",
    ],
)
def test_files_without_a_key(text: bytes) -> None:
    with pytest.raises(UserError) as caught:
        parse_access_key(text, where="s3.credentials")
    assert str(caught.value).startswith("s3.credentials: has no key")
    assert "\n" not in str(caught.value)
    assert "cret" not in str(caught.value).replace("aws_secret_access_key", "")
