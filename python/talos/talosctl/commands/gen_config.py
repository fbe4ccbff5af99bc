"""``talosctl gen config``."""

from collections.abc import Mapping
from pathlib import Path

from talos.config.change.patch import apply_patches
from talos.config.contract import DNS_DOMAIN, INSTALLER_IMAGE, KUBERNETES_VERSION, parse_contract
from talos.config.generate.config import generate_config, generate_talosconfig, render
from talos.config.generate.options import GenerateOptions
from talos.config.model import MachineType
from talos.config.secrets.bundle import SecretsBundle
from talos.config.talosconfig.text import format_talosconfig
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.patches import parse_patches
from talos.talosctl.client_version import client_version
from talos.talosctl.kubernetes.versions import parse
from talos.talosctl.output import console
from talos.talosctl.output.files import write_file

TYPES = ("controlplane", "worker", "talosconfig")
STDOUT = "-"


def run_config(invocation: Invocation) -> int:
    """Write the configs of both kinds of node and the talosconfig."""
    flags = invocation.flags
    types = flags.texts("output-types")
    hint = f"use {', '.join(TYPES)}"
    if not types:
        raise UserError("at least one output type must be specified", where="--output-types", hint=hint)
    for name in types:
        if name not in TYPES:
            raise UserError(f'invalid output type: "{name}"', where="--output-types", hint=hint)
    options = make_options(invocation.args[0], invocation.args[1], flags)
    texts = {name: _generate(name, options, flags) for name in types}
    for name, path in _destinations(types, flags).items():
        if path is None:
            console.write(texts[name])
        else:
            write_file(path, texts[name], force=flags.is_set("force"))
            console.note(f"Created {path}")
    return 0


def make_options(name: str, endpoint: str, flags: Flags) -> GenerateOptions:
    """What the flags request."""
    contract, kubernetes = parse_contract(flags.text("talos-version")), flags.text("kubernetes-version")
    parse(kubernetes, "--kubernetes-version")
    if flags.text("version") != "v1alpha1":
        raise UserError(
            f'there is no version "{flags.text("version")}"', where="--version", hint="use v1alpha1"
        )
    console.note("generating PKI and tokens")
    path = flags.text("with-secrets")
    if path:
        secrets = SecretsBundle.parse(read_file(path).decode("utf-8", "replace"), where=path)
    else:
        secrets = SecretsBundle.generate(contract=contract)
    return GenerateOptions(
        cluster_name=name,
        endpoint=endpoint,
        secrets=secrets,
        kubernetes_version=kubernetes.removeprefix("v"),
        additional_sans=flags.texts("additional-sans"),
        dns_domain=flags.text("dns-domain"),
        install_disk=flags.text("install-disk"),
        install_image=flags.text("install-image"),
        registry_mirrors=flags.texts("registry-mirror"),
        with_kubespan=flags.is_set("with-kubespan"),
        with_cluster_discovery=flags.is_set("with-cluster-discovery"),
        contract=contract,
    )


def _generate(name: str, options: GenerateOptions, flags: Flags) -> str:
    if name == "talosconfig":
        return format_talosconfig(generate_talosconfig(options))
    is_worker = name == "worker"
    machine_type = MachineType.WORKER if is_worker else MachineType.CONTROL_PLANE
    config = generate_config(options, machine_type)
    text = render(config, docs=flags.is_set("with-docs"), examples=flags.is_set("with-examples"))
    own = "config-patch-worker" if is_worker else "config-patch-control-plane"
    patches = parse_patches((*flags.texts("config-patch"), *flags.texts(own)))
    return apply_patches(text, patches, source=f"{name}.yaml")


def _destinations(types: tuple[str, ...], flags: Flags) -> Mapping[str, Path | None]:
    """Where each goes; None is the output."""
    output = flags.text("output")
    if output == STDOUT or (len(types) == 1 and output):
        if len(types) > 1:
            raise UserError(
                "can't use multiple output types with stdout",
                where="--output",
                hint="name a folder, or one of --output-types",
            )
        return {next(iter(types)): None if output == STDOUT else Path(output)}
    names = {"talosconfig": "talosconfig"}
    folder = Path(output or flags.text("output-dir") or ".")
    return {name: folder / names.get(name, f"{name}.yaml") for name in types}


_PATCH = "a patch for {}, @file or a URL; may be repeated"
FLAGS = (
    Flag(name="additional-sans", type=Type.STRINGS, help="more names and addresses of the Kubernetes API"),
    Flag(name="config-patch", type=Type.STRING_ARRAY, help=_PATCH.format("all nodes")),
    Flag(
        name="config-patch-control-plane", type=Type.STRING_ARRAY, help=_PATCH.format("control plane nodes")
    ),
    Flag(name="config-patch-worker", type=Type.STRING_ARRAY, help=_PATCH.format("workers")),
    Flag(name="dns-domain", default=DNS_DOMAIN, help="the DNS domain inside of the cluster"),
    Flag(name="install-disk", default="/dev/sda", help="the disk to install to"),
    Flag(
        name="install-image", default=f"{INSTALLER_IMAGE}:{client_version().tag}", help="the image to install"
    ),
    Flag(name="kubernetes-version", default=KUBERNETES_VERSION, help="the version of Kubernetes"),
    Flag(name="output", short="o", help="the folder to write to; for one output type the file, or -"),
    Flag(name="output-dir", hidden=True, help="the folder to write to"),
    Flag(name="output-types", short="t", type=Type.STRINGS, default=",".join(TYPES), help="what to write"),
    Flag(name="registry-mirror", type=Type.STRINGS, help="mirrors as <registry host>=<mirror URL>"),
    Flag(name="talos-version", help="the version of Talos they are for, by default the current one"),
    Flag(name="version", default="v1alpha1", help="the version of the configuration's form"),
    Flag(name="with-cluster-discovery", type=Type.BOOL, default="true", help="let nodes find each other"),
    Flag(name="with-docs", type=Type.BOOL, default="true", help="explain the settings in comments"),
    Flag(name="with-examples", type=Type.BOOL, default="true", help="show settings not used in comments"),
    Flag(name="with-kubespan", type=Type.BOOL, default="false", help="connect the nodes by KubeSpan"),
    Flag(name="with-secrets", help="use the secrets of this file, see talosctl gen secrets"),
)

COMMAND = Command(
    name="config",
    usage="<cluster name> <cluster endpoint>",
    summary="Make the configurations of a cluster",
    details="Writes controlplane.yaml and worker.yaml for the nodes and a talosconfig for you. The endpoint "
    "is the URL under which the Kubernetes API will be reached.",
    example="talosctl gen config demo https://10.0.0.2:6443",
    flags=FLAGS,
    minimum=2,
    maximum=2,
    run=run_config,
)
