"""The extension of tests, QEMU's guest agent: a system that has it shows it, and its agent answers."""

from driver.client import at
from driver.machine import Machine

NAME = "qemu-guest-agent"
NO_INSTALL = "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\n$patch: delete\n"
"""A patch with which a machine runs from memory, and installs nothing by itself."""


def check_extension(node: Machine) -> None:
    """Assert that the system has the extension, in the API and in what it lists as its parts."""
    layers = node.get("extensions")
    assert [at(layer, "metadata.id") for layer in layers] == ["0"], layers
    (layer,) = layers
    assert at(layer, "spec.image") == f"000.{NAME}.sqsh"
    assert at(layer, "spec.metadata.name") == NAME
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
