"""What tests of KubeSpan find out of machines: who they are to others, and whether they reach each other."""

from collections.abc import Sequence
from typing import Any

from driver.client import Client, Document, at
from driver.clock import CLOCK
from driver.machine import Machine

KINDS = ("kubespanidentities", "kubespanpeerspecs", "kubespanpeerstatuses", "kubespanendpoints")


def _identity(machine: Machine) -> Document:
    """The machine's keys and address in KubeSpan."""
    found = machine.get("kubespanidentities")
    assert len(found) == 1, found
    return found[0]


def read_public_key(machine: Machine) -> str:
    """The public key that others have of the machine."""
    return str(at(_identity(machine), "spec.publicKey"))


def address(machine: Machine) -> str:
    """The machine's address in KubeSpan."""
    return str(at(_identity(machine), "spec.address")).partition("/")[0]


def peers(machine: Machine) -> dict[str, Any]:
    """What a machine has of its peers, by their public keys."""
    return {str(at(one, "metadata.id")): one["spec"] for one in machine.get("kubespanpeerstatuses")}


def wait_until_up(machines: Sequence[Machine], keys: Sequence[str], seconds: float) -> None:
    """Wait until each machine has heard from each other one; ``keys`` in the same order."""

    def check(machine: Machine, others: set[str]) -> None:
        found = peers(machine)
        assert found.keys() == others, found
        assert all(peer["state"] == "up" for peer in found.values()), found

    for machine, own in zip(machines, keys, strict=True):
        others = {other for other in keys if other != own}
        machine.wait_until(
            "the peers are up", lambda machine=machine, others=others: check(machine, others), seconds
        )


def make_relayed_client(machine: Machine, target: str) -> Client:
    """A client that calls another machine over this one's API."""
    client = Client(machine.client.program, machine.client.port, machine.folder, nodes=target)
    client.talosconfig = machine.client.talosconfig
    return client


def wait_for_answers(machine: Machine, *targets: str, seconds: float = 120) -> None:
    """Wait until other machines answer through this one, with more than a packet holds."""

    def check(client: Client) -> None:
        assert client.run("read", "/proc/cpuinfo").stdout

    for target in targets:
        client = make_relayed_client(machine, target)
        machine.wait_until(f"{target} answers", lambda client=client: check(client), seconds)


def wait_while_answered(machine: Machine, clients: Sequence[Client], seconds: float) -> None:
    """Let a time pass, in which each call of every client has to be answered."""
    began = CLOCK.now()
    lost: list[str] = []

    def check() -> None:
        lost.extend(
            result.stderr for client in clients if (result := client.run("version", check=False)).code
        )
        elapsed = CLOCK.now() - began
        assert lost or elapsed >= seconds, f"{elapsed:.0f} of {seconds:.0f} s"

    machine.wait_until("the time has passed", check, 2 * seconds, pause=5)
    assert not lost, lost


def check_gone(machine: Machine) -> None:
    """Assert that nothing of KubeSpan is left."""
    assert "kubespan" not in {str(at(link, "metadata.id")) for link in machine.get("linkstatuses")}
    left = [item for kind in KINDS for item in machine.get(kind)]
    left += [one for one in machine.get("nftableschain") if "kubespan" in str(at(one, "metadata.id"))]
    assert not left, left
