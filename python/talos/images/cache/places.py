"""Where a node has its cache of images, and where registryd serves it."""

from pathlib import Path

from talos.process.daemons import IMAGE_CACHE

VOLUME = "IMAGECACHE"
DISK = Path(IMAGE_CACHE, "disk")
"""The volume IMAGECACHE, whose top is a cache in the flat layout."""
ISO = Path(IMAGE_CACHE, "iso")
"""The medium that a machine was installed from."""
ISO_CACHE = ISO / "imagecache"
ROOTS = (DISK, ISO_CACHE)
"""The folders in the flat layout, that of the disk first."""
HOST, PORT = "127.0.0.1", 3172
ENDPOINT = f"http://{HOST}:{PORT}"
