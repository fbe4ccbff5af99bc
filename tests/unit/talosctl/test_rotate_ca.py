"""What ``talosctl rotate-ca`` does to a config, and what it refuses; the whole is tested on real nodes."""

import pytest
from tests.unit.talosctl.fake import Client

from talos.config.documents.certificate import PEMEncodedCertificate, PEMEncodedCertificateAndKey
from talos.config.documents.v1alpha1.machine import MachineConfig
from talos.pki.certificate import PemPair
from talos.talosctl.cli.exit import Exit
from talos.talosctl.client.rotation import accept_authority, refuse_authority, swap_authority

OLD, NEW = PemPair(b"old crt", b"old key"), PemPair(b"new crt", b"new key")
OTHER = PEMEncodedCertificate(crt=b"other crt")
BEFORE = MachineConfig(
    type="controlplane",
    ca=PEMEncodedCertificateAndKey(crt=OLD.crt, key=OLD.key),
    accepted_cas=(OTHER,),
)


def accepted(machine: MachineConfig) -> list[bytes | None]:
    return [ca.crt for ca in machine.accepted_cas or ()]


@pytest.mark.parametrize("with_key", [True, False])
def test_a_config_goes_through_three_steps_each_of_which_may_be_repeated(*, with_key: bool) -> None:
    machine = BEFORE
    for _ in range(2):
        machine = accept_authority(machine, NEW.crt)
    assert accepted(machine) == [b"other crt", b"new crt"]
    assert machine.ca == BEFORE.ca
    for _ in range(2):
        machine = swap_authority(machine, OLD.crt, NEW, with_key=with_key)
    assert accepted(machine) == [b"other crt", b"old crt"]
    assert machine.ca == PEMEncodedCertificateAndKey(crt=NEW.crt, key=NEW.key if with_key else b"")
    for _ in range(2):
        machine = refuse_authority(machine, OLD.crt)
    assert accepted(machine) == [b"other crt"]


def test_a_list_that_becomes_empty_disappears() -> None:
    machine = MachineConfig(type="worker", accepted_cas=(PEMEncodedCertificate(crt=b"old crt\n"),))
    assert refuse_authority(machine, OLD.crt).accepted_cas is None


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("--kubernetes=false", "--talos=false"), "nothing is to be rotated"),
        (("--kubernetes=false", "-n", "10.0.0.1,10.0.0.2"), "not supported with multiple nodes"),
    ],
)
def test_what_can_not_be_done_is_refused_before_anything_changes(
    talosctl: Client, argv: tuple[str, ...], text: str
) -> None:
    result = talosctl("rotate-ca", *argv)
    assert result.code == Exit.USAGE
    assert text in result.err
