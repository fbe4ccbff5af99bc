"""No secret is in a resource that a reader may see, whatever controllers make of a node's config."""

import base64
import importlib
import inspect
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path

import trio
import trio.testing
import yaml
from tests.harness.disclosure import find_disclosed, find_secrets

from talos.api.common.common_pb2 import NetIPPrefix
from talos.api.definitions.k8s_pb2 import StaticPodSpec
from talos.api.definitions.network_pb2 import HostnameStatusSpec, NodeAddressSpec, PlatformConfigSpec
from talos.api.definitions.time_pb2 import StatusSpec as TimeStatusSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.config.secrets.bundle import SecretsBundle
from talos.config.static_pods import API_SERVER
from talos.kubed import pods
from talos.kubed.controllers.extra_manifests import ExtraManifestController
from talos.kubed.controllers.static_pods import make_account_arguments
from talos.machined.node.resources import describe_machine
from talos.process.addresses import CONFIG_VERSION
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.controller import Reconciler
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.objects import to_struct
from talos.resource.yaml.spec import spec_to_yaml
from talos.system.files import KernelFiles
from talos.system.logging import Log

ROOT = Path(kinds.__file__).parents[1]
FOLDERS = ("machined", "clusterd", "kubed", "networkd", "timed")
PLANTED: Mapping[str, bytes] = {
    "password of a proxy": b"planted-proxy",
    "header of a manifest": b"planted-header",
    "Secret in a manifest": b"planted-inline",
    "password of a registry": b"planted-registry",
    "password of the command line": b"planted-cmdline",
    "config of the command line": b"planted-config",
}
EXTRA = """
apiVersion: v1alpha1
kind: KubeInlineManifestConfig
name: mine
manifest: |
    {apiVersion: v1, kind: Secret, metadata: {name: mine}, stringData: {a: planted-inline}}
---
apiVersion: v1alpha1
kind: KubeExternalManifestConfig
name: theirs
url: https://user:planted-header@127.0.0.1:1/
headers: {Authorization: Bearer planted-header}
---
apiVersion: v1alpha1
kind: EnvironmentConfig
variables: {https_proxy: "http://user:planted-proxy@proxy:3128"}
---
apiVersion: v1alpha1
kind: RegistryAuthConfig
name: registry.example
username: user
password: planted-registry
"""
CMDLINE = (
    "quiet talos.config=https://user:planted-cmdline@example/config "
    f"talos.config.inline={base64.b64encode(b'a: planted-config').decode()}"
)


def find_reconcilers() -> list[Reconciler]:
    """Those that need nothing but the State: they make resources of resources."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("controllers/**/*.py")):
            importlib.import_module(".".join(("talos", *path.relative_to(ROOT).with_suffix("").parts)))
    found = {one for one in _find_kinds(Reconciler) if one.__init__ is Reconciler.__init__}
    return [one() for one in sorted(found, key=lambda one: one.__name__) if hasattr(one, "name")]


def _find_kinds(base: type[Reconciler]) -> Iterable[type[Reconciler]]:
    for kind in base.__subclasses__():
        if ".controllers." in kind.__module__ and not inspect.isabstract(kind):
            yield kind
        yield from _find_kinds(kind)


async def make_node(config: str) -> MemoryState:
    """The State of a node with this config, once its controllers have nothing left to do."""
    state = MemoryState()
    address = NetIPPrefix(ip=ip_address("10.5.0.2").packed, prefix_length=24)
    await describe_machine(
        state, files=KernelFiles(), node_id="a", cmdline=CMDLINE, platform=PlatformConfigSpec()
    )
    for one in (
        ids.NODE_ADDRESS_CURRENT,
        ids.NODE_ADDRESS_ACCUMULATIVE,
        ids.NODE_ADDRESS_ACCUMULATIVE_NO_K8S,
    ):
        await put(state, *one, NodeAddressSpec(addresses=[address]), annotations={CONFIG_VERSION: "1"})
    await put(state, *ids.HOSTNAME_STATUS, HostnameStatusSpec(hostname="one"))
    await put(state, *ids.TIME_STATUS, TimeStatusSpec(synced=True))
    first, *others = yaml.safe_load_all(config)
    first["cluster"]["extraManifests"] = ["https://user:planted-header@127.0.0.1:1/main"]
    text = f"{yaml.safe_dump_all([first, *others])}\n---\n{EXTRA}".encode()
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text))
    async with trio.open_nursery() as nursery:
        controllers = [*find_reconcilers(), ExtraManifestController(Log())]
        nursery.start_soon(run_controllers, state, controllers)
        while not await state.list(kinds.MANIFEST) or not await state.list(kinds.KUBERNETES_SECRET):  # noqa: ASYNC110
            await trio.sleep(0.01)
        await trio.testing.wait_all_tasks_blocked(0.3)
        nursery.cancel_scope.cancel()
    root = (await state.get(*ids.KUBERNETES_ROOT_SECRET)).spec
    server = (await state.get(*ids.API_SERVER_CONFIG)).spec
    pod = pods.make_api_server(server, {}, make_account_arguments(root))
    await put(state, kinds.STATIC_POD, API_SERVER, StaticPodSpec(pod=to_struct(pod)))
    return state


async def test_readers_see_no_secret(control_plane: str, bundle: SecretsBundle) -> None:
    secrets = {**find_secrets(bundle), **PLANTED}
    state = await make_node(control_plane)
    shown, hidden = dict[str, set[str]](), set[str]()
    for kind in kinds.REGISTRY.values():
        for one in await state.list(kind):
            text = spec_to_yaml(kind, one.spec).encode()
            disclosed = find_disclosed(text, secrets) | find_disclosed(one.spec.SerializeToString(), secrets)
            if kind.sensitive:
                hidden |= disclosed
            elif disclosed:
                shown[f"{kind.type}/{one.id}"] = disclosed
    assert shown == {}
    # All of them are in the State, but for those of the other encryption and of the command line.
    assert hidden == secrets.keys() - {"aescbc", "password of the command line", "config of the command line"}
