"""A blank machine boots over the network: firmware, iPXE, our kernel, maintenance mode, installed."""

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from driver.arguments import mac
from driver.node import Disk, Node
from driver.scenarios import install, wait_for_installed
from driver.world import World

ASSETS = ("netboot",)
FILES = ("boot.ipxe", "vmlinuz", "initramfs")
NODES = {"node": Node(boot="bios", netboot=True, disks={"system": Disk(size="8G")})}
SCRIPT = """#!ipxe
set arguments talos.config={config}?mac=${{mac}}&uuid=${{uuid}}
chain {next}
"""


def test(world: World) -> None:
    node = world["node"]
    cluster = world.cluster()
    web = world.web
    for name in FILES:
        web.serve_file(f"/netboot/{name}", world.assets.path("netboot") / name)
    script = SCRIPT.format(config=web.url("/config"), next=web.url("/netboot/boot.ipxe"))
    first = web.serve("/first.ipxe", script)

    world.section("from the network to an installed disk")
    node.start(node=replace(node.node, network=(f"bootfile={first}",)))
    install(node, cluster)
    urls = [urlsplit(request) for request in web.requests]
    assert [url.path for url in urls][:2] == ["/first.ipxe", "/netboot/boot.ipxe"], web.requests
    configs = [parse_qs(url.query) for url in urls if url.path == "/config"]
    assert configs, f"no request for a config: {web.requests}"
    assert configs[0]["mac"] == [mac(1)], configs

    world.section("from the disk")
    wait_for_installed(node)
    assert [urlsplit(request).path for request in web.requests].count("/netboot/boot.ipxe") == 1
