"""Snapshots in a bucket of S3, or of a store that speaks its protocol: multipart uploads, signed requests.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations.html
"""

import hashlib
import re
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPException
from typing import override
from urllib.parse import urlsplit

from talos.system.errors import UserError
from talos.talosctl.output.age import Source
from talos.upgrade_controller.channel import NoRedirect
from talos.upgrade_controller.snapshots.destination import Destination, Upload
from talos.upgrade_controller.snapshots.sigv4 import (
    TIME,
    AccessKey,
    Request,
    format_path,
    format_query,
    sign,
)

PART = 8 << 20
"""Bytes of a part, which is in memory twice."""
MAX_PARTS = 10_000
MAX_REPLY = 2 << 20
"""Bytes: a thousand names have 500 KB."""
TIMEOUT = 60.0
"""Seconds without a byte."""
RETRY_DELAYS = (1.0, 4.0)
"""Seconds before a request is repeated that the store or the network has failed."""
MIN_ERROR, MIN_SERVER_ERROR = 300, 500
"""Codes of HTTP; a redirect is not followed."""
HINTS = {
    "AccessDenied": "allow s3:PutObject and s3:AbortMultipartUpload; unless keep is 0, s3:ListBucket and "
    "s3:DeleteObject, too",
    "AuthorizationHeaderMalformed": "compare the region with the bucket's",
    "InvalidAccessKeyId": "compare the credentials with those of the store",
    "NoSuchBucket": "make the bucket",
    "PermanentRedirect": "name the endpoint of the bucket's region",
    "RequestTimeTooSkewed": "set this machine's clock",
    "SignatureDoesNotMatch": "compare the credentials with those of the store",
}


def make_opener() -> urllib.request.OpenerDirector:
    """What sends requests; reading the CAs takes longer than a request."""
    tls = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    return urllib.request.build_opener(NoRedirect(), tls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket(Destination):
    """Keys that begin with ``prefix`` in one bucket. ``endpoint`` is the store's URL without a path."""

    endpoint: str
    region: str
    bucket: str
    prefix: str
    key: AccessKey
    where: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    opener: urllib.request.OpenerDirector = field(default_factory=make_opener)

    @override
    def begin(self, name: str) -> "BucketUpload":
        reply, _ = self.call("POST", name, {"uploads": ""})
        return BucketUpload(self, name, self._find("UploadId", reply))

    @override
    def find_names(self) -> Iterable[str]:
        reply, _ = self.call("GET", None, {"list-type": "2", "prefix": self.prefix})
        names = re.findall(r"<Key>([^<]*)</Key>", reply)
        return [name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)]

    @override
    def remove(self, name: str) -> None:
        self.call("DELETE", name)

    def call(
        self, method: str, name: str | None, query: Mapping[str, str] | None = None, body: bytes = b""
    ) -> tuple[str, str]:
        """One request for an object, or for the bucket: the reply's text and its ETag; UserError."""
        for delay in (*RETRY_DELAYS, None):
            try:
                status, reply, tag = self._call(method, name, query or {}, body)
            except (OSError, HTTPException, ValueError) as error:  # the first of which urllib's are
                if delay is None:
                    reason = getattr(error, "reason", "") or repr(error)
                    raise UserError(f"the store does not answer: {reason}", where=self.where) from None
            else:
                if status < MIN_ERROR:
                    return reply, tag
                if status < MIN_SERVER_ERROR or delay is None:
                    raise self._explain(status, reply)
            time.sleep(delay)
        raise AssertionError

    def _call(
        self, method: str, name: str | None, query: Mapping[str, str], body: bytes
    ) -> tuple[int, str, str]:
        path = f"/{self.bucket}" if name is None else f"/{self.bucket}/{self.prefix}{name}"
        now, digest = self.now(), hashlib.sha256(body).hexdigest()
        headers = {
            "host": urlsplit(self.endpoint).netloc,
            "x-amz-content-sha256": digest,
            "x-amz-date": now.strftime(TIME),
        }
        if body:  # buckets with a lock on their objects require it
            checksum = hashlib.md5(body, usedforsecurity=False).digest()
            headers["content-md5"] = b64encode(checksum).decode()
        if self.key.token:
            headers["x-amz-security-token"] = self.key.token
        request = Request(method=method, path=path, query=query, headers=headers, digest=digest)
        authorization = sign(request, self.key, region=self.region, now=now)
        url = f"{self.endpoint}{format_path(path)}?{format_query(query)}"
        http_request = urllib.request.Request(  # noqa: S310 - http and https only
            url,
            data=body if method in ("PUT", "POST") else None,
            headers={**headers, "authorization": authorization, "content-type": "application/octet-stream"},
            method=method,
        )
        try:
            with self.opener.open(http_request, timeout=TIMEOUT) as reply:
                return reply.status, _read(reply), reply.headers.get("ETag", "")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _read(error), ""

    def complete(self, name: str, upload: str, body: bytes) -> None:
        """End a multipart upload: a success may have an error in it."""
        reply, _ = self.call("POST", name, {"uploadId": upload}, body)
        if "<CompleteMultipartUploadResult" not in reply:
            raise self._explain(HTTPStatus.OK, reply)

    def _find(self, tag: str, reply: str) -> str:
        found = re.search(rf"<{tag}>([^<]+)</{tag}>", reply)
        if not found:
            hint = "is it a store that speaks S3's protocol?"
            raise UserError(f"the store's reply has no {tag}", where=self.where, hint=hint)
        return found[1]

    def _explain(self, status: int, reply: str) -> UserError:
        code, text = (
            found[1] if (found := re.search(rf"<{tag}>([^<]{{1,300}})</{tag}>", reply)) else ""
            for tag in ("Code", "Message")
        )
        reason = " ".join(f"the store answers {status} {code} {text}".split())
        shown = "".join(char if char.isprintable() else "?" for char in reason)
        return UserError(shown, where=self.where, hint=HINTS.get(code, ""))


class BucketUpload(Upload):
    """A multipart upload: what is not committed is no object."""

    def __init__(self, bucket: Bucket, name: str, id: str) -> None:
        self._bucket, self._name, self._id = bucket, name, id
        self._waiting, self._tags = bytearray(), list[str]()

    @override
    def write(self, data: bytes, /) -> None:
        self._waiting += data
        while len(self._waiting) >= PART:
            self._send(bytes(self._waiting[:PART]))
            del self._waiting[:PART]

    def _send(self, part: bytes) -> None:
        number = len(self._tags) + 1
        if number > MAX_PARTS:
            raise UserError(f"it has more than {MAX_PARTS} parts", where=self._bucket.where)
        query = {"partNumber": str(number), "uploadId": self._id}
        _, tag = self._bucket.call("PUT", self._name, query, part)
        if not re.fullmatch(r'"[\w.:+/=-]{1,200}"', tag, re.ASCII):
            raise UserError("the store's reply to a part has no ETag", where=self._bucket.where)
        self._tags.append(tag)

    @override
    def commit(self) -> None:
        if self._waiting:
            self._send(bytes(self._waiting))
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
            for number, tag in enumerate(self._tags, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
        self._bucket.complete(self._name, self._id, body.encode())

    @override
    def abort(self) -> None:
        self._bucket.call("DELETE", self._name, {"uploadId": self._id})


def _read(reply: Source) -> str:
    return reply.read(MAX_REPLY).decode(errors="replace")
