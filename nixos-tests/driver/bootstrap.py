"""A machine's etcd, begun and found healthy by the machine's API."""

from driver.client import at
from driver.machine import Machine


def begin_etcd(machine: Machine) -> None:
    """Bootstrap, unless that was done by an attempt whose answer was lost."""
    result = machine.client.run("bootstrap", check=False)
    assert result.code == 0 or "AlreadyExists" in result.stderr, result.stderr


def check_etcd(machine: Machine) -> None:
    """Assert that etcd is healthy."""
    [service] = machine.get("services", "etcd") or [{}]
    assert at(service, "spec.healthy") is True, f"etcd of {machine.name} is not healthy: {service}"
