"""The page of all nodes, in a pod: until nodes can be read it has the reason and the remedy."""

import asyncio
from collections.abc import Callable
from html import escape
from http import HTTPStatus
from pathlib import Path

from talos.system.errors import UserError
from talos.system.logging import Log
from talos.talosctl.output.http import Reply, Request, start_server
from talos.talosctl.web.nodes import Nodes, run_page
from talos.talosctl.web.server import HEADERS, has_token, make_token, refuse_token
from talos.upgrade_controller.manifests import NAMESPACE

RETRY_INTERVAL = 10.0
"""Seconds between two tries; the page is loaded anew as often."""
NO_ACCESS = (
    "the nodes give this pod no talosconfig: allow os:reader and the namespace in KubeTalosAPIAccessConfig; "
    f"kubectl describe serviceaccounts.talos.dev --namespace {NAMESPACE} has the reason"
)


async def run_page_in_pod(
    nodes: Nodes, talosconfig: Path, host: str, port: int, show: Callable[[str], None], log: Log
) -> None:
    """Serve the page until cancelled; ``show`` gets its address, which stays the same. UserError, OSError."""
    token = make_token()
    if await _find_reason(nodes, talosconfig):
        show(f"http://{host}:{port}/{token}/")
        await _wait(nodes, talosconfig, host, port, token, log)
        show = lambda _: None  # noqa: E731 - the same address once more
    await run_page(nodes, host, port, show, is_local=False, token=token)


async def _wait(nodes: Nodes, talosconfig: Path, host: str, port: int, token: str, log: Log) -> None:
    """Show why there are no nodes, until there are."""
    reason = ""

    async def answer(request: Request) -> Reply:
        if not has_token(request, token):
            return refuse_token()
        return Reply(
            status=HTTPStatus.SERVICE_UNAVAILABLE,
            type="text/html; charset=utf-8",
            headers=HEADERS,
            body=_format(reason).encode(),
        )

    async with await start_server(answer, host, port):
        while reason := await _find_reason(nodes, talosconfig):
            log.once(reason, key="page", level="error")
            await asyncio.sleep(RETRY_INTERVAL)
    log.forget("page")


async def _find_reason(nodes: Nodes, talosconfig: Path) -> str:
    """Why no nodes are found, empty when some are."""
    try:
        await nodes.find()
    except UserError as error:
        has_access = await asyncio.to_thread(talosconfig.exists)
        return str(error) if has_access else NO_ACCESS
    return ""


def _format(reason: str) -> str:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="{RETRY_INTERVAL:.0f}"><title>Nodes</title>'
        f"<h1>No node can be read yet</h1><p>{escape(reason)}</p>\n"
    )
