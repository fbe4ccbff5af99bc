"""``talosctl metrics``: numbers of nodes in Prometheus' text format, printed once or served."""

import asyncio

from talos.client.session import open_session
from talos.serving.address import parse_address
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.select import find_target
from talos.talosctl.metrics.collect import collect_node
from talos.talosctl.metrics.families import Sample, format_samples
from talos.talosctl.metrics.server import make_answer
from talos.talosctl.output import console, http


def run_metrics(invocation: Invocation) -> int:
    """Print the numbers of the nodes once, or serve them."""
    flags = invocation.flags
    if flags.text("listen"):
        return run_async(_serve(flags))
    console.write(run_async(collect(flags)))
    return 0


async def collect(flags: Flags) -> str:
    """The text of all nodes. The client configuration is read anew, as a Secret changes; UserError."""
    target = await find_target(flags)
    async with open_session(target) as session:
        found = await asyncio.gather(*(collect_node(session, node) for node in need_nodes(target)))
    samples: list[Sample] = [sample for samples in found for sample in samples]
    return format_samples(samples)


async def start_server(flags: Flags, host: str, port: int) -> asyncio.Server:
    """Answer ``GET /metrics``. The nodes are called then and only then, for one client after another."""
    turn = asyncio.Lock()

    async def scrape() -> str:
        try:
            async with turn:
                return await collect(flags)
        except UserError as error:
            console.note(f"error: {error}")
            raise

    return await http.start_server(make_answer(scrape), host, port)


async def _serve(flags: Flags) -> int:
    host, port = parse_address(flags.text("listen"), "--listen", "127.0.0.1:9190")
    host = host or "0.0.0.0"  # noqa: S104 - an empty host is every address
    try:
        server = await start_server(flags, host, port)
    except OSError as error:
        raise UserError(f"can't listen: {error.strerror}", where="--listen") from None
    shown = f"[{host}]" if ":" in host else host
    console.note(f"metrics at http://{shown}:{port}/metrics; Ctrl+C ends it")
    async with server:
        await server.serve_forever()
    return 0


COMMAND = Command(
    name="metrics",
    summary="Show or serve the nodes' metrics for Prometheus",
    details="Prints the metrics of the nodes in Prometheus' text format. With --listen serves them at "
    "/metrics: the nodes are called at each scrape, and groups of nodes are resolved anew. The role "
    "os:reader suffices.",
    example="talosctl -n @all metrics --listen 0.0.0.0:9190",
    flags=(*CLIENT_FLAGS, Flag(name="listen", help="serve the metrics at this address and port")),
    run=run_metrics,
)
