"""Buckets: parts that are signed, what is aborted, and what a store may answer."""

import socket
import threading
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.upgrade_controller.snapshots.store import (
    BUCKET,
    KEY,
    REGION,
    Reply,
    Store,
    refuse,
    running_store,
)

from talos.system.errors import UserError
from talos.upgrade_controller.snapshots import s3
from talos.upgrade_controller.snapshots.destination import make_name, remove_old
from talos.upgrade_controller.snapshots.s3 import Bucket

PART = 1000
NAME = make_name(datetime(2026, 11, 28, 12, tzinfo=UTC))


def make_reply(status: int, text: str, **headers: str) -> Reply:
    return status, text, headers


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(s3, "PART", PART)
    monkeypatch.setattr(s3, "RETRY_DELAYS", (0.0, 0.0))
    return Store()


@pytest.fixture
def bucket(store: Store) -> Generator[Bucket]:
    with running_store(store) as url:
        yield Bucket(
            endpoint=url, region=REGION, bucket=BUCKET, prefix="demo/", key=KEY, where="snapshots.s3: backups"
        )


def put(bucket: Bucket, data: bytes, name: str = NAME) -> None:
    upload = bucket.begin(name)
    for start in range(0, len(data), 700):
        upload.write(data[start : start + 700])
    upload.commit()


def refusal(bucket: Bucket) -> str:
    with pytest.raises(UserError) as caught:
        put(bucket, b"data")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("size", [1, PART - 1, PART, PART + 1, 10 * PART + 5])
def test_an_object_is_made_of_its_parts(store: Store, bucket: Bucket, size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    put(bucket, data)
    assert store.objects == {f"demo/{NAME}": data}
    assert (store.uploads, store.largest <= max(PART, 1200)) == ({}, True)


def test_what_is_aborted_is_no_object(store: Store, bucket: Bucket) -> None:
    upload = bucket.begin(NAME)
    upload.write(b"x" * 5 * PART)
    assert [len(parts) for parts in store.uploads.values()] == [5]
    upload.abort()
    assert (store.uploads, store.objects) == ({}, {})


def test_the_newest_stay_and_what_is_not_ours(store: Store, bucket: Bucket) -> None:
    names = [make_name(datetime(2026, 11, day, tzinfo=UTC)) for day in range(1, 8)]
    others = ["demo/notes", "demo/etcd-2026.snapshot.age", f"other/{names[0]}", "demo/x/" + names[0]]
    store.objects = dict.fromkeys([*others, *(f"demo/{name}" for name in names)], b"")
    remove_old(bucket, 0)
    assert len(store.objects) == 11
    remove_old(bucket, 3)
    assert sorted(store.objects) == sorted([*others, *(f"demo/{name}" for name in names[-3:])])


def test_requests_are_repeated_when_the_store_fails(store: Store, bucket: Bucket) -> None:
    failures = [503, 500]

    def fail(method: str, _target: str) -> Reply | None:
        return refuse(failures.pop(), "SlowDown") if failures and method == "PUT" else None

    store.intercept = fail
    put(bucket, b"x" * 3 * PART)
    assert len(store.objects[f"demo/{NAME}"]) == 3 * PART
    failures += [503] * 3
    assert refusal(bucket) == "snapshots.s3: backups: the store answers 503 SlowDown it is SlowDown"


def test_what_a_store_refuses_has_a_remedy(store: Store, bucket: Bucket) -> None:
    for other, reason, hint in (
        (replace(bucket, bucket="other"), "404 NoSuchBucket", "make the bucket"),
        (replace(bucket, region="mars-1"), "AuthorizationHeaderMalformed", "compare the region"),
        (replace(bucket, key=replace(KEY, id="other")), "InvalidAccessKeyId", "compare the credentials"),
        (replace(bucket, key=replace(KEY, secret="x")), "SignatureDoesNotMatch", "compare the credentials"),
        (
            replace(bucket, now=lambda: datetime.now(UTC) - timedelta(hours=1)),
            "RequestTimeTooSkewed",
            "set this machine's clock",
        ),
    ):
        text = refusal(other)
        assert text.startswith("snapshots.s3: backups: the store answers "), text
        assert (reason in text, hint in text) == (True, True), text
    assert len(store.requests) == 5, "none is repeated"


@pytest.mark.parametrize(
    ("method", "reply", "reason"),
    [
        ("POST", make_reply(200, ""), "the store's reply has no UploadId"),
        ("POST", make_reply(200, "<html>" * 100_000), "the store's reply has no UploadId"),
        ("PUT", make_reply(200, ""), "the store's reply to a part has no ETag"),
        ("PUT", make_reply(200, "", ETag='"<x>"'), "the store's reply to a part has no ETag"),
        (
            "POST",
            make_reply(301, "<Error><Code>PermanentRedirect</Code></Error>", location="http://x/"),
            "301",
        ),
        ("PUT", make_reply(403, "<Error><Code>\x1b[31mred</Code></Error>"), "?[31mred"),
        ("PUT", make_reply(418, "\xff\x00"), "the store answers 418"),
    ],
)
def test_replies_that_are_something_else(
    store: Store, bucket: Bucket, method: str, reply: Reply, reason: str
) -> None:
    store.intercept = lambda found, _target: reply if found == method else None
    assert reason in refusal(bucket)


def test_a_success_may_be_an_error(store: Store, bucket: Bucket) -> None:
    def fail(method: str, target: str) -> Reply | None:
        return (200, refuse(0, "InternalError")[1], {}) if method == "POST" and "uploadId" in target else None

    store.intercept = fail
    assert "the store answers 200 InternalError" in refusal(bucket)


def test_a_store_that_is_not_there(bucket: Bucket) -> None:
    assert "the store does not answer: " in refusal(replace(bucket, endpoint="http://127.0.0.1:1"))


@pytest.mark.parametrize("reply", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200])
def test_what_is_no_store(bucket: Bucket, reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(3):
                with server.accept()[0] as connection:
                    connection.recv(65536)
                    connection.sendall(reply)

        threading.Thread(target=serve, daemon=True).start()
        port = server.getsockname()[1]
        assert "the store does not answer: " in refusal(replace(bucket, endpoint=f"http://127.0.0.1:{port}"))


def test_a_token_is_sent_and_signed(store: Store, bucket: Bucket) -> None:
    put(replace(bucket, key=replace(KEY, token="session")), b"data")
    assert list(store.objects.values()) == [b"data"]
