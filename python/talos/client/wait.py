"""Waiting for a cluster to follow a change."""

import asyncio
from collections.abc import Awaitable, Callable

from talos.api.rpc import Code, RpcError
from talos.kubernetes.client import KubernetesError
from talos.system.errors import UserError

POLL_INTERVAL = 1.0  # seconds

type Check = Callable[[], Awaitable[str]]
"""What is still waited for, empty when nothing is."""


async def wait_until(
    check: Check,
    *,
    what: str,
    seconds: float,
    hint: str = "",
    report: Callable[[str], None] | None = None,
) -> None:
    """Repeat a check until nothing is waited for; an API that fails is, too, unless it denies the call.

    ``report`` gets each reason that differs from the one before. UserError with the last, after ``seconds``.
    """
    clock = asyncio.get_running_loop().time
    end, shown = clock() + seconds, ""
    while True:
        try:
            reason = await check()
        except KubernetesError as error:
            reason = f"the Kubernetes API: {error}"
        except RpcError as error:
            if error.code is Code.PERMISSION_DENIED:
                raise
            reason = error.reason
        if not reason:
            return
        if clock() > end:
            raise UserError(f"{reason}, after {seconds:g} s", where=what, hint=hint)
        if report is not None and reason != shown:
            report(reason)
            shown = reason
        await asyncio.sleep(POLL_INTERVAL)
