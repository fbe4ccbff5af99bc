"""What is unhealthy on a system on trial that was healthy before."""

from collections.abc import Sequence

from talos.config.active import read_config
from talos.config.effective.trial_checks import TrialCheck, is_trial_probe, list_trial_checks
from talos.config.problem import ConfigError
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime
from talos.upgrade.session import NETWORK
from talos.upgrade.state import TRIAL_CHECK
from talos.upgrade.trial_checks import find_failing


async def find_unmet(runtime: ControllerRuntime, checks: Sequence[str]) -> list[str]:
    """What should be healthy and is not, each with what is the matter."""
    unmet: list[str] = []
    services = {resource.id: resource.spec for resource in await runtime.list(kinds.SERVICE)}
    for name in checks:
        if name == NETWORK:
            status = await runtime.get_or_none(*ids.NETWORK_STATUS)
            if status is None or not (status.spec.address_ready and status.spec.connectivity_ready):
                unmet += await _find_failing_probes(runtime) or ["the network is not ready"]
        elif not is_service(name):
            continue  # the trial checks come at the end
        elif (spec := services.get(name)) is None or not spec.running:
            unmet.append(f"service {name} does not run")
        elif not spec.healthy:
            unmet.append(f"service {name} is not healthy")
    return unmet + await _find_unmet_trial_checks(runtime, checks)


def is_service(check: str) -> bool:
    """Whether a check is a service's id."""
    return check != NETWORK and not check.startswith(TRIAL_CHECK)


async def _find_unmet_trial_checks(runtime: ControllerRuntime, checks: Sequence[str]) -> list[str]:
    """Of those that held before and are still in the config, what does not hold."""
    chosen, problems = await read_trial_checks(runtime, checks)
    return problems + list((await find_failing(runtime, chosen)).values())


async def read_trial_checks(
    runtime: ControllerRuntime, checks: Sequence[str]
) -> tuple[list[TrialCheck], list[str]]:
    """Those that held before and are still in the config; and why they can't be read."""
    names = {check.removeprefix(TRIAL_CHECK) for check in checks if check.startswith(TRIAL_CHECK)}
    if not names:
        return [], []
    try:
        config = await read_config(runtime)
    except ConfigError as error:
        return [], [f"trial checks can't be read: {error}"]
    if config is None:
        return [], ["trial checks can't be read: there is no config"]
    return [check for check in list_trial_checks(config) if check.name in names], []


async def _find_failing_probes(runtime: ControllerRuntime) -> list[str]:
    """Why there is no connectivity, where the config's probes decide about that."""
    return [
        f"probe {resource.id} fails: {resource.spec.last_error}"
        for resource in await runtime.list(kinds.PROBE_STATUS)
        if not resource.spec.success and not is_trial_probe(resource.id)
    ]
