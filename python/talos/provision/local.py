"""Local clusters as ``talosctl cluster`` and tests see them: create, destroy, show.

create_cluster(chosen, configs, options, progress) -> Created
destroy_cluster(name, directory, progress)
show_cluster / list_clusters / log_paths
"""

from dataclasses import dataclass
from pathlib import Path

from talos.config.talosconfig.model import TalosConfig
from talos.config.talosconfig.places import save
from talos.config.talosconfig.text import parse_talosconfig
from talos.provision import provider
from talos.provision.client_config import add_context, remove_context
from talos.provision.cluster import ClusterInfo
from talos.provision.configs import ConfigOptions, generate_configs
from talos.provision.plan import ClusterOptions, make_request
from talos.provision.progress import Progress
from talos.provision.store import ClusterFolder, write_private
from talos.provision.wait import wait_for_api

show_cluster = provider.show
list_clusters = provider.list_clusters
reboot_node = provider.reboot_node


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    """How a cluster is created. An empty ``talosconfig`` is the user's usual file; ``wait`` is in seconds."""

    directory: Path
    talosconfig: str = ""
    merge_talosconfig: bool = True
    wait: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A cluster that was created. ``context`` is its name in ``talosconfig``, empty when not merged."""

    info: ClusterInfo
    client: TalosConfig
    context: str
    talosconfig: Path


def create_cluster(
    chosen: ClusterOptions, configs: ConfigOptions, options: CreateOptions, progress: Progress
) -> Created:
    """Create a cluster and, unless ``wait`` is 0, wait until each node serves its API.

    A cluster whose nodes run but don't answer is left for inspection.
    """
    progress.begin("checking this machine")
    request = make_request(chosen)
    provider.check(request, options.directory)
    progress.begin("generating secrets and machine configs")
    generated = generate_configs(request, configs)
    info = provider.create(generated.request, options.directory, progress)
    folder = ClusterFolder(info.directory)
    write_private(folder.secrets, generated.secrets)
    save(generated.talosconfig, folder.talosconfig)
    context, path = "", folder.talosconfig
    if options.merge_talosconfig:
        context, path = add_context(generated.talosconfig, options.talosconfig)
    if options.wait > 0:
        progress.begin("waiting for the API")
        addresses = [node.address for node in info.nodes]
        wait_for_api(addresses, generated.talosconfig.current, options.wait)
    return Created(info=info, client=generated.talosconfig, context=context, talosconfig=path)


def destroy_cluster(name: str, directory: Path, progress: Progress, *, talosconfig: str = "") -> bool:
    """Remove a cluster with everything that belongs to it; may be repeated. False when there was none."""
    folder = ClusterFolder(directory.resolve() / name)
    client = read_client(folder)
    was_there = provider.destroy(name, directory, progress)
    if client is not None:
        for context in remove_context(client, talosconfig):
            progress.detail(f"context {context} removed from the talosconfig")
    return was_there


def read_client(folder: ClusterFolder) -> TalosConfig | None:
    """The cluster's own client file, if it has one."""
    try:
        return parse_talosconfig(folder.talosconfig.read_bytes(), source=str(folder.talosconfig))
    except FileNotFoundError:
        return None
