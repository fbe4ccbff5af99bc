"""The page of all nodes, in a pod: until nodes can be read it has the reason and the remedy."""

import asyncio
from collections.abc import Callable
from html import escape
from http import HTTPStatus
from pathlib import Path

from talos.system.errors import UserError
from talos.system.logging import Log
from talos.talosctl.output.http import Reply, Request, start_server
from talos.talosctl.web.nodes import Nodes, make_fleet
from talos.talosctl.web.server import HEADERS, MAX_READERS, PageServer, has_token, make_token, refuse_token
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
    """Serve the page until cancelled; ``show`` gets its address. UserError, OSError."""
    token = make_token()
    page: PageServer | None = None
    reason = await _find_reason(nodes, talosconfig)

    async def answer(request: Request) -> Reply:
        if page is not None:
            return await page.answer(request)
        if not has_token(request, token):
            return refuse_token()
        return Reply(
            status=HTTPStatus.SERVICE_UNAVAILABLE,
            type="text/html; charset=utf-8",
            headers=HEADERS,
            body=_format(reason).encode(),
        )

    # One server before and after: a page that reloads itself is never refused.
    async with await start_server(answer, host, port, connections=MAX_READERS):
        show(f"http://{host}:{port}/{token}/")
        while reason:
            log.once(reason, key="page", level="error")
            await asyncio.sleep(RETRY_INTERVAL)
            reason = await _find_reason(nodes, talosconfig)
        log.forget("page")
        fleet = make_fleet(nodes)
        page = PageServer(fleet, nodes.follow, nodes.follow_log, is_local=False, token=token)
        await fleet.run()


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
