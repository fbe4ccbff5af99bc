"""A container registry for tests: images made in memory, served over HTTP as a real one would, or worse."""

import gzip
import hashlib
import io
import json
import ssl
import tarfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, override

from tests.harness.serving import serving

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest_of(data: bytes) -> str:
    """The digest that content is addressed by."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def describe(data: bytes, kind: str) -> dict[str, Any]:
    """A descriptor of content."""
    return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}


def encode(document: object) -> bytes:
    """A document as JSON."""
    return json.dumps(document, sort_keys=True).encode()


def make_layer(files: Mapping[str, bytes]) -> bytes:
    """An uncompressed layer; a name that ends with a slash is a folder."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name.rstrip("/"))
            info.mode = 0o755
            info.size = len(data)
            if name.endswith("/"):
                info.type = tarfile.DIRTYPE
            tar.addfile(info, io.BytesIO(data))
    return stream.getvalue()


@dataclass(slots=True)
class Store:
    """What a registry has: blobs by digest, and what its tags mean."""

    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    kinds: dict[str, str] = field(default_factory=dict[str, str])
    tags: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def add(self, data: bytes, kind: str) -> dict[str, Any]:
        """Add content; its descriptor."""
        descriptor = describe(data, kind)
        self.blobs[descriptor["digest"]] = data
        self.kinds[descriptor["digest"]] = kind
        return descriptor

    def add_image(
        self,
        name: str,
        *layers: Mapping[str, bytes],
        compress: bool = True,
        command: Sequence[str] = (),
        annotations: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Add an image as ``repository:tag``, behind an index; the index' descriptor."""
        raw = [make_layer(layer) for layer in layers]
        document = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(command)},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in raw]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.add(encode(document), CONFIG),
            "layers": [
                self.add(gzip.compress(layer, mtime=0), f"{LAYER}+gzip")
                if compress
                else self.add(layer, LAYER)
                for layer in raw
            ],
            "annotations": {**(annotations or {})},
        }
        return self.tag(name, self.add(encode(manifest), MANIFEST))

    def tag(self, name: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Add an index of one manifest as ``repository:tag``."""
        entry = {**manifest, "platform": {"os": "linux", "architecture": "amd64"}}
        index = self.add(encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}), INDEX)
        repository, _, tag = name.rpartition(":")
        self.tags[repository, tag] = index["digest"]
        return index


def make_archive(store: Store, names: Mapping[str, str]) -> bytes:
    """An OCI archive of images, by full names and what the store calls them."""
    entries: list[dict[str, Any]] = []
    for name, place in names.items():
        repository, _, tag = place.rpartition(":")
        digest = store.tags[repository, tag]
        entry = describe(store.blobs[digest], INDEX)
        entries.append({**entry, "annotations": {"io.containerd.image.name": name}})
    files = {f"blobs/{digest.replace(':', '/')}": data for digest, data in store.blobs.items()}
    index = encode({"schemaVersion": 2, "manifests": entries})
    return make_layer({"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', **files, "index.json": index})


class Handler(BaseHTTPRequestHandler):
    """Answers requests for a store. Overridden methods misbehave."""

    protocol_version = "HTTP/1.1"
    store: Store
    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(f"{self.command} {self.path}")
        if not self.may_pass():
            return
        path = self.path.partition("?")[0]
        name, kind, digest = path.removeprefix("/v2/").rsplit("/", 2)
        if kind == "manifests":
            digest = self.store.tags.get((name, digest), digest)
        data = self.store.blobs.get(digest)
        if data is None:
            self.answer(404, b"{}", "application/json")
        else:
            self.send_content(kind, digest, data)

    def do_HEAD(self) -> None:
        self.do_GET()

    def may_pass(self) -> bool:
        """Whether a request is answered with content; if not, it has been answered."""
        return True

    def send_content(self, kind: str, digest: str, data: bytes) -> None:
        """Send a manifest or a blob."""
        del kind
        self.answer(200, data, self.store.kinds[digest])

    def answer(self, status: int, data: bytes, kind: str, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole reply."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry that listens. ``requests`` are those it has seen."""

    store: Store
    port: int
    requests: list[str]


@contextmanager
def running_registry(
    store: Store,
    behaviour: type[Handler] = Handler,
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    prepare: Callable[[type[Handler]], None] = lambda _: None,
) -> Generator[Registry]:
    """A registry for as long as the context is open."""
    requests: list[str] = []
    handler = type("BoundHandler", (behaviour,), {"store": store, "requests": requests})
    prepare(handler)
    server = ThreadingHTTPServer((host, 0), handler)
    server.daemon_threads = True
    server.block_on_close = False
    with serving(server, tls):
        yield Registry(store, server.server_address[1], requests)
