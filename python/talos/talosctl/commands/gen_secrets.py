"""``talosctl gen secrets``."""

from pathlib import Path

from talos.config.contract import parse_contract
from talos.config.read.loader import load
from talos.config.secrets.bundle import SecretsBundle
from talos.config.secrets.existing import bundle_from_config, bundle_from_kubernetes_pki
from talos.system.files import read_file
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags
from talos.talosctl.output import console
from talos.talosctl.output.files import write_file


def run_secrets(invocation: Invocation) -> int:
    """Write the secrets, fresh or from what a cluster has."""
    flags = invocation.flags
    text = _bundle(flags).dump()
    path = flags.text("output-file")
    if path == "-":
        console.write(text)
    else:
        write_file(Path(path), text, force=flags.is_set("force"))
    return 0


def _bundle(flags: Flags) -> SecretsBundle:
    contract = parse_contract(flags.text("talos-version"))
    if flags.is_given("from-controlplane-config"):
        path = flags.text("from-controlplane-config")
        return bundle_from_config(load(read_file(path), source=path))
    if flags.is_given("from-kubernetes-pki"):
        folder = Path(flags.text("from-kubernetes-pki"))
        return bundle_from_kubernetes_pki(folder, flags.text("kubernetes-bootstrap-token"), contract=contract)
    return SecretsBundle.generate(contract=contract)


COMMAND = Command(
    name="secrets",
    summary="Make the secrets of a cluster",
    flags=(
        Flag(name="from-controlplane-config", help="take them from this control plane configuration"),
        Flag(
            name="from-kubernetes-pki",
            short="p",
            help="take the authorities from this folder of a Kubernetes cluster",
        ),
        Flag(
            name="kubernetes-bootstrap-token",
            short="t",
            help="with --from-kubernetes-pki: the bootstrap token",
        ),
        Flag(name="output-file", short="o", default="secrets.yaml", help="the file to write, or -"),
        Flag(name="talos-version", help="the version of Talos they are for, by default the current one"),
    ),
    exclusive=(("from-controlplane-config", "from-kubernetes-pki"),),
    run=run_secrets,
)
