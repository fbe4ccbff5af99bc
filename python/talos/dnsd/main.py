"""dnsd: the host's caching DNS resolver, for the node's own programs and for its pods; probes of the API."""

from talos.dnsd.controllers.local_names import LocalNamesController
from talos.dnsd.controllers.resolve_cache import DNSResolveCacheController
from talos.dnsd.probes.service import ProbeService
from talos.dnsd.resolver import Resolver
from talos.process.host import mirrored_state, run_controller_daemon
from talos.process.run import Daemon, run
from talos.resource.controller.controller import Controller
from talos.system.logging import Log


def make_controllers(log: Log) -> list[Controller]:
    """Every controller of this daemon."""
    resolver = Resolver(log)
    return [DNSResolveCacheController(resolver, log), LocalNamesController(resolver)]


async def serve_names(daemon: Daemon) -> None:
    """Run the controllers against the node's State until the daemon stops."""
    controllers = make_controllers(daemon.log)
    async with mirrored_state(daemon, controllers) as state:
        services = [ProbeService().make_service()]
        await run_controller_daemon(daemon, state, controllers, services=services)


def main() -> None:
    """Entry of the daemon."""
    run(serve_names, name="dnsd")
