"""The extensions of tests: QEMU's guest agent, which answers, and one with settings of containerd."""

from driver.client import at
from driver.machine import Machine

NAME = "qemu-guest-agent"
NO_INSTALL = "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\n$patch: delete\n"
"""A patch with which a machine runs from memory, and installs nothing by itself."""


def check_extension(node: Machine) -> None:
    """Assert that the system has the extensions, in the API, in what it lists as its parts, and in force."""
    layers = node.get("extensions")
    images = {at(layer, "spec.metadata.name"): at(layer, "spec.image") for layer in layers}
    assert images == {NAME: f"000.{NAME}.sqsh", "hello": "001.hello.sqsh"}, layers
    assert ".runtimes.hello]" in node.talosctl("read", "/etc/cri/conf.d/cri.toml").stdout
    assert NAME in node.talosctl("read", "/etc/extensions.yaml").stdout
    packages = [at(item, "metadata.id") for item in node.get("sbom") if at(item, "spec.extension")]
    assert f"{NAME}/libglib2.0-0t64" in packages


def check_agent(node: Machine) -> None:
    """Assert that the agent answers what it may, and nothing else."""
    assert node.call_agent("guest-ping") == {}
    info = str(node.call_agent("guest-info"))
    assert "'version': '10." in info, info
    for command in ("guest-exec", "guest-file-open", "guest-shutdown"):
        assert f"'enabled': False, 'name': '{command}'" in info, info
    assert "10.0.2.15" in str(node.call_agent("guest-network-get-interfaces"))
    assert "Talos" in str(node.call_agent("guest-get-osinfo"))
