"""Checks of the main document's ``machine``."""

from collections.abc import Iterator

from talos.config.check.documents import check_udev_rules
from talos.config.check.note import Note
from talos.config.documents.v1alpha1.machine import MachineConfig
from talos.config.model import Config
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import parse_certificate
from talos.system.errors import UserError


def check_machine(config: Config) -> Iterator[Note]:
    """Type, token and authority of the machine."""
    main = config.main
    assert main is not None
    machine = main.machine
    if machine is None:
        yield Note("is missing", main, "machine", hint="the machine's type, token and ca")
        return
    if not machine.type:
        yield Note("is missing", main, "machine.type", hint="controlplane or worker")
    if not machine.token:
        yield Note("is missing", main, "machine.token", hint="all machines of a cluster have the same")
    yield from _check_authority(config, machine)
    if machine.udev is not None:
        yield from check_udev_rules(machine.udev.rules, Note("", main, "machine.udev.rules"))
    for index, accepted in enumerate(machine.accepted_cas or ()):
        yield from check_certificate(accepted.crt or b"", Note("", main, f"machine.acceptedCAs[{index}].crt"))


def _check_authority(config: Config, machine: MachineConfig) -> Iterator[Note]:
    path = "machine.ca"
    if machine.ca is None or not machine.ca.crt:
        yield Note("is missing", config.main, path, hint="the authority of the nodes' API")
    elif machine.ca.key:
        yield from check_authority(machine.ca.crt, machine.ca.key, Note("", config.main, path))
        if not config.machine_type.is_control_plane:
            hint = "leave the key empty: a worker must not issue certificates"
            yield Note("has the authority's private key", config.main, f"{path}.key", hint=hint)
    elif config.machine_type.is_control_plane:
        yield Note("is missing", config.main, f"{path}.key", hint="control plane nodes issue certificates")
    else:
        yield from check_certificate(machine.ca.crt, Note("", config.main, f"{path}.crt"))


def check_authority(crt: bytes, key: bytes, at: Note) -> Iterator[Note]:
    """Certificate and key must be an authority."""
    try:
        CertificateAuthority.from_pem(crt, key)
    except UserError as error:
        yield Note(error.message, at.document, at.path, hint=error.hint)


def check_certificate(crt: bytes, at: Note) -> Iterator[Note]:
    """It must be a certificate."""
    try:
        parse_certificate(crt)
    except UserError as error:
        yield Note(error.message, at.document, at.path, hint=error.hint)
