"""A read-only registry of images in archives, for one cluster's nodes."""

import argparse
import ssl
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import override

from talos.images.cache.catalog import Catalog, Content
from talos.images.cache.server import RegistryServer
from talos.provision.mirror.archives import Images, read_images
from talos.serving.address import parse_address
from talos.system.errors import UserError


class MirrorServer(RegistryServer):
    """Serves the images of archives."""

    def __init__(
        self,
        address: tuple[str, int],
        images: Images,
        tls: ssl.SSLContext | None = None,
        folder: Path | None = None,
    ) -> None:
        """``folder`` is where they come from, if it may get others: they are read again when it changes."""
        super().__init__(address, ArchiveCatalog(images, folder), tls)


class ArchiveCatalog(Catalog):
    """The images of a folder's archives."""

    def __init__(self, images: Images, folder: Path | None = None) -> None:
        self._images = images
        self._folder = folder
        self._changed = folder.stat().st_mtime_ns if folder else 0
        self._reading = threading.Lock()

    @override
    def find_manifest(self, registry: str, repository: str, object: str) -> Content | None:
        self._refresh()
        images = self._images
        manifest = images.find(repository, object, registry)
        if manifest is None:
            return None
        blob = images.blobs[manifest.digest]
        return Content(
            path=blob.path,
            offset=blob.offset,
            size=blob.size,
            digest=manifest.digest,
            media_type=manifest.media_type,
        )

    @override
    def find_blob(self, digest: str) -> Content | None:
        blob = self._images.blobs.get(digest)
        return blob and Content(path=blob.path, offset=blob.offset, size=blob.size, digest=digest)

    def _refresh(self) -> None:
        """Have the images that are in the folder now; while one is broken, those from before."""
        if self._folder is None:
            return
        with self._reading:
            changed = self._folder.stat().st_mtime_ns
            if changed != self._changed:
                try:
                    self._images = read_images(self._folder)
                except UserError as error:
                    sys.stderr.write(f"the images stay as they were: {error}\n")
                else:
                    self._changed = changed


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until a signal; the exit code."""
    parser = argparse.ArgumentParser(prog="mirror", description=__doc__)
    parser.add_argument("--addr", required=True, metavar="ADDRESS:PORT")
    parser.add_argument("--images", required=True, type=Path, help="a folder of OCI archives")
    options = parser.parse_args(argv)
    try:
        address = parse_address(options.addr, "--addr", "10.5.0.1:3172")
        images = read_images(options.images)
        with MirrorServer(address, images, folder=options.images) as server:
            server.serve_forever()
    except (UserError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0
