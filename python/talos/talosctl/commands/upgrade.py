"""``talosctl upgrade``."""

from pathlib import Path

from talos.api.common.common_pb2 import ContainerdInstance, ContainerdNamespace, ContainerDriver
from talos.api.machine.machine_pb2 import RebootRequest, UpgradeRequest
from talos.config.contract import INSTALLER_IMAGE
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.node_upgrade import NodeUpgrade
from talos.talosctl.client.power import WAIT_FLAGS, make_drainer, run_power
from talos.talosctl.client.select import select_target
from talos.talosctl.client_version import client_version
from talos.talosctl.output import console

NAMESPACES = {
    "system": ContainerdInstance(driver=ContainerDriver.CONTAINERD, namespace=ContainerdNamespace.NS_SYSTEM),
    "cri": ContainerdInstance(driver=ContainerDriver.CRI, namespace=ContainerdNamespace.NS_CRI),
}
LEGACY_FLAGS = ("force", "legacy", "preserve", "stage")
"""Each needs the call of older nodes; all but one are fields of it."""
FLEET_FLAGS = ("parallel", "max-unavailable", "output")
BEFORE_REBOOT = (
    "it was not rebooted: its next reboot boots what is installed by now, rollback takes that back"
)
"""How an interrupt leaves a node."""
REBOOT_MODES = {"default": RebootRequest.DEFAULT, "powercycle": RebootRequest.POWERCYCLE}


def run_upgrade(invocation: Invocation) -> int:
    """Install an image into the other slot and boot it; of several nodes in an order."""
    flags = invocation.flags
    containerd, mode = _check(flags)
    archive = find_archive(flags.text("image"))
    old = make_old_request(flags, mode)
    if is_fleet(flags):
        # One node needs nothing of it.
        from talos.talosctl.client.fleet import run_fleet

        if archive:
            raise UserError(
                "is a file, which is sent to one node only", where="--image", hint="use a registry"
            )
        return run_fleet(invocation, containerd, REBOOT_MODES[mode], old)
    upgrade = NodeUpgrade(
        image=flags.text("image"),
        archive=archive,
        containerd=containerd,
        old=old,
        mode=REBOOT_MODES[mode],
        reboots=not flags.is_set("no-reboot"),
        seconds=flags.seconds("timeout"),
    )
    return run_power(
        invocation,
        upgrade.reboot,
        is_reboot=True,
        prepare=upgrade.install,
        finish=upgrade.wait_for_verdict,
        drainer=make_drainer(flags),
        before=BEFORE_REBOOT,
    )


def find_archive(image: str) -> Path | None:
    """The file that an image is, none for one in a registry; UserError for a file that is not there."""
    path = Path(image)
    if path.is_file():
        return path
    if image.startswith(("/", "./", "../", "~")) or path.suffix == ".tar":
        raise UserError(f"there is no file {image}", where="--image")
    return None


def make_old_request(flags: Flags, mode: str) -> UpgradeRequest | None:
    """The call of older nodes, None when no flag needs it."""
    if not any(flags.is_set(name) for name in LEGACY_FLAGS):
        return None
    legacy = {name: flags.is_set(name) for name in LEGACY_FLAGS if name != "legacy"}
    return UpgradeRequest(image=flags.text("image"), reboot_mode=mode.upper(), **legacy)


def is_fleet(flags: Flags) -> bool:
    """Whether several nodes are to be upgraded in an order, or one is to be shown as if it were several."""
    given = [f"--{name}" for name in FLEET_FLAGS if flags.is_given(name)]
    if flags.is_set("no-reboot") or not flags.is_set("wait"):
        if given:
            raise UserError("need a reboot that is waited for", where=", ".join(given))
        return False
    nodes = select_target(flags).nodes
    return bool(given) or len(nodes) > 1 or any(node.startswith("@") for node in nodes)


def _check(flags: Flags) -> tuple[ContainerdInstance, str]:
    """Where to keep the image, and how to reboot."""
    namespace, mode = flags.text("namespace"), flags.text("reboot-mode").lower()
    if namespace not in NAMESPACES:
        raise UserError(f'there is no namespace "{namespace}"', where="--namespace", hint="use system or cri")
    if mode not in REBOOT_MODES:
        hint = "use default or powercycle"
        raise UserError(f'"{mode}" is no way to reboot', where="--reboot-mode", hint=hint)
    if not flags.is_set("drain"):
        if flags.is_set("strict-drain"):
            raise UserError("is the opposite of --strict-drain", where="--drain=false", hint="leave out one")
        text = "the node itself moves its pods elsewhere, for up to five minutes"
        console.note(f"WARNING: --drain=false: no effect, {text}")
    return NAMESPACES[namespace], mode


COMMAND = Command(
    name="upgrade",
    summary="Install another version on the node",
    flags=(
        *CLIENT_FLAGS,
        *WAIT_FLAGS,
        Flag(
            name="drain",
            type=Type.BOOL,
            default="true",
            help="always: the node moves its pods elsewhere before it reboots, within five minutes",
        ),
        Flag(
            name="drain-timeout",
            type=Type.DURATION,
            default="5m0s",
            help="when given, drain the node from here first, for so long",
        ),
        Flag(
            name="strict-drain",
            type=Type.BOOL,
            default="false",
            help="don't reboot a node whose pods stay for longer than --drain-timeout, as budgets may demand",
        ),
        Flag(
            name="force",
            short="f",
            type=Type.BOOL,
            default="false",
            help="allow an older release, skipped minor versions, missing features and failing trial checks, "
            "and don't check etcd; by the call of older nodes, the only one that has it",
        ),
        Flag(
            name="image",
            short="i",
            default=f"{INSTALLER_IMAGE}:{client_version().tag}",
            help="the release: an image in a registry, or its archive on this machine",
        ),
        Flag(name="legacy", type=Type.BOOL, default="false", help="upgrade by the call of older nodes"),
        Flag(
            name="max-unavailable",
            default="",
            help="of several nodes: how many workers may be down at once, or a share such as 25%",
        ),
        Flag(name="namespace", default="system", help="where to keep the image: system or cri"),
        Flag(name="no-reboot", type=Type.BOOL, default="false", help="install only, do not boot it yet"),
        Flag(
            name="output",
            short="o",
            choices=("table", "json", "yaml"),
            default="table",
            help="of several nodes: how to show what became of each",
        ),
        Flag(
            name="parallel",
            type=Type.UINT16,
            default="1",
            help="of several nodes: how many workers at once; control plane nodes go one at a time",
        ),
        Flag(
            name="preserve",
            short="p",
            type=Type.BOOL,
            default="false",
            help="don't check etcd, by the call of older nodes; data is always kept",
        ),
        Flag(name="progress", default="auto", help="how to show the progress: auto or plain"),
        Flag(name="reboot-mode", short="m", default="default", help="default or powercycle"),
        Flag(
            name="stage",
            short="s",
            type=Type.BOOL,
            default="false",
            help="write the other slot before services stop, by the call of older nodes",
        ),
    ),
    run=run_upgrade,
)
