"""A cache of the images in a folder of OCI archives, which takes no network: for ISOs, and for tests."""

import argparse
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryEndpointConfig, RegistryMirrorConfig
from talos.images.registry.hosts import ANY, Sources
from talos.provision.mirror.archives import Manifest, read_images
from talos.provision.mirror.cache import CacheRequest, make_cache
from talos.provision.mirror.server import MirrorServer
from talos.system.errors import UserError


def cache_archives(
    folder: Path, path: Path, *, is_wanted: Callable[[Manifest], bool] = lambda _: True
) -> list[str]:
    """Make a cache in the flat layout of those images that are wanted; their names. UserError, OSError."""
    images = read_images(folder)
    names = sorted(f"{one.host}/{one.name}:{one.tag}" for one in images.manifests if is_wanted(one))
    with MirrorServer(("127.0.0.1", 0), images) as mirror:
        thread = threading.Thread(target=mirror.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        endpoint = RegistryEndpointConfig(endpoint_endpoint=f"http://127.0.0.1:{mirror.server_port}")
        found = RegistryMirrorConfig(mirror_endpoints=[endpoint], mirror_skip_fallback=True)
        sources = Sources(registries=RegistriesConfigSpec(registry_mirrors={ANY: found}))
        request = CacheRequest(
            images=tuple(names), path=path, is_flat=True, sources=lambda _: sources, signatures=False
        )
        try:
            trio.run(make_cache, request)
        finally:
            mirror.shutdown()
            thread.join()
    return names


def main(argv: Sequence[str] | None = None) -> int:
    """Make a cache of all images of a folder; the exit code."""
    parser = argparse.ArgumentParser(prog="archive-cache", description=__doc__)
    parser.add_argument("archives", type=Path, help="a folder of OCI archives")
    parser.add_argument("cache", type=Path, help="the folder to make")
    options = parser.parse_args(argv)
    try:
        names = cache_archives(options.archives, options.cache)
    except (UserError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.writelines(f"{name}\n" for name in names)
    return 0
