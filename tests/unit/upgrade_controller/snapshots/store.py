"""A store with S3's protocol in memory, which checks each signature by code of its own."""

import hashlib
import hmac
import re
import threading
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import override
from urllib.parse import parse_qsl, unquote

from talos.upgrade_controller.snapshots.sigv4 import AccessKey

KEY = AccessKey(id="AKIAIOSFODNN7EXAMPLE", secret="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
REGION, BUCKET = "eu-test-1", "backups"
MAX_SKEW = timedelta(minutes=15)
_FIELDS = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/s3/aws4_request,"
    r"SignedHeaders=(?P<names>[a-z0-9;-]+),Signature=(?P<signature>[0-9a-f]{64})"
)
type Reply = tuple[int, str, Mapping[str, str]]


def compute_signature(
    method: str, target: str, headers: Mapping[str, str], names: str, region: str, secret: str
) -> str:
    """The signature of a request as it came: ``target`` is that of its first line."""
    path, _, query = target.partition("?")
    pairs = sorted(pair if "=" in pair else f"{pair}=" for pair in query.split("&") if pair)
    lines = [method, path, "&".join(pairs)]
    lines += [f"{name}:{' '.join(headers[name].split())}" for name in names.split(";")]
    lines += ["", names, headers["x-amz-content-sha256"]]
    canonical = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    time = headers["x-amz-date"]
    scope = f"{time[:8]}/{region}/s3/aws4_request"

    def mac(key: bytes, text: str) -> bytes:
        return hmac.new(key, text.encode(), hashlib.sha256).digest()

    key = mac(mac(mac(mac(b"AWS4" + secret.encode(), time[:8]), region), "s3"), "aws4_request")
    return mac(key, f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{canonical}").hex()


class Store:
    """One bucket. ``intercept`` may answer a request, or return None."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.intercept: Callable[[str, str], Reply | None] = lambda _method, _target: None
        self.requests: list[str] = []
        self.largest = 0
        self.lock = threading.Lock()
        self.port = 0

    def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The reply to a request."""
        with self.lock:
            self.requests.append(f"{method} {target.partition('?')[0]}")
            self.largest = max(self.largest, len(body))
            if refused := self.intercept(method, target) or self._check(method, target, headers, body):
                return refused
            path, _, query = target.partition("?")
            _, bucket, *rest = unquote(path).split("/", 2)
            if bucket != BUCKET:
                return refuse(404, "NoSuchBucket")
            name = rest[0] if rest else ""
            return self._serve(method, name, dict(parse_qsl(query, keep_blank_values=True)), body)

    def _check(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply | None:
        found = _FIELDS.fullmatch(headers.get("authorization", ""))
        if not found:
            return refuse(403, "AccessDenied")
        if found["id"] != KEY.id:
            return refuse(403, "InvalidAccessKeyId")
        if found["region"] != REGION:
            return refuse(400, "AuthorizationHeaderMalformed")
        time = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs(datetime.now(UTC) - time) > MAX_SKEW:
            return refuse(403, "RequestTimeTooSkewed")
        if headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
            return refuse(400, "XAmzContentSHA256Mismatch")
        if body and headers.get("content-md5") != b64encode(hashlib.md5(body).digest()).decode():
            return refuse(400, "BadDigest")
        expected = compute_signature(method, target, headers, found["names"], REGION, KEY.secret)
        is_signed = {"host", "x-amz-date", "x-amz-content-sha256"} <= set(found["names"].split(";"))
        if found["signature"] != expected or not is_signed:
            return refuse(403, "SignatureDoesNotMatch")
        return None

    def _serve(self, method: str, name: str, query: Mapping[str, str], body: bytes) -> Reply:
        match method, sorted(query):
            case "GET", ["list-type", "prefix"]:
                names = [one for one in sorted(self.objects) if one.startswith(query["prefix"])]
                found = "".join(f"<Contents><Key>{one}</Key></Contents>" for one in names)
                return 200, f"<ListBucketResult>{found}</ListBucketResult>", {}
            case "POST", ["uploads"]:
                upload = f"upload/{len(self.requests)}+="
                self.uploads[upload] = {}
                return 200, f"<R><UploadId>{upload}</UploadId></R>", {}
            case "PUT", ["partNumber", "uploadId"]:
                self.uploads[query["uploadId"]][int(query["partNumber"])] = body
                return 200, "", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}
            case "POST", ["uploadId"]:
                parts = self.uploads.pop(query["uploadId"])
                named = re.findall(
                    r'<Part><PartNumber>(\d+)</PartNumber><ETag>"(\w+)"</ETag></Part>', body.decode()
                )
                kept = [(str(number), hashlib.md5(parts[number]).hexdigest()) for number in sorted(parts)]
                if named != kept or not kept:
                    return refuse(400, "InvalidPart")
                self.objects[name] = b"".join(parts[number] for number in sorted(parts))
                return 200, "<CompleteMultipartUploadResult/>", {}
            case "DELETE", ["uploadId"]:
                del self.uploads[query["uploadId"]]
                return 204, "", {}
            case "DELETE", []:
                del self.objects[name]
                return 204, "", {}
            case _:
                return refuse(400, "InvalidRequest")


def refuse(status: int, code: str) -> Reply:
    """An error as the protocol has it."""
    return status, f"<Error><Code>{code}</Code><Message>it is {code}</Message></Error>", {}


@contextmanager
def running_store(store: Store) -> Generator[str]:
    """The store's URL, on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text, more = store.handle(self.command, self.path, headers, body)
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - names of the library

        @override
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
