"""Kinds that clients of upstream list, and of which a node never has an instance."""

from collections.abc import Mapping

from talos.resource import kinds

_NO_CONTAINERS = "nodes run no containers besides Kubernetes' and the system's"

UNWRITTEN: Mapping[str, str] = {
    kind.type: reason
    for kind, reason in (
        (kinds.CONTAINER_IMAGE_STATUS, _NO_CONTAINERS),
        (kinds.CONTAINER_INSTANCE_SPEC, _NO_CONTAINERS),
        (kinds.CONTAINER_SPEC, _NO_CONTAINERS),
        (kinds.IMAGE_FACTORY_SCHEMATIC, "images are built by Nix, from no schematic of Image Factory"),
        (kinds.KERNEL_MODULE_SPEC, "the kernel loads no modules; `modules` has those that are built in"),
        (kinds.LINK_REFRESH, "networkd reads a link again by itself"),
        (kinds.LOADED_KERNEL_MODULE, "the kernel loads no modules; `modules` has those that are built in"),
        (kinds.MACHINE_RESET_SIGNAL, "the stage `resetting` of MachineStatus is that signal"),
        (kinds.REBOOT_REQUEST, "only calls of the API and installations reboot, by their own sequences"),
    )
}
"""By type: why. A unit test fails when a kind has neither a writer nor a reason, or both."""
